//! The bounds on connections, requests and bodies, and that nothing of what people write gets into the log.

use crate::fake_model::{FakeModel, says};
use crate::serve::Served;
use crate::support::PATIENCE;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use futures_util::stream;
use journeyman::agent::limits::built_in;
use journeyman::doors::front::{Terms, serve};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_millis(300);

/// Echoes what is posted; `/endless` never ends.
async fn begin(adjust: impl FnOnce(&mut Terms)) -> (SocketAddr, CancellationToken) {
    let mut terms = Terms::from(&built_in());
    terms.body_bytes_max = 100_000;
    (terms.head, terms.body, terms.stall) = (SOON, SOON, SOON);
    adjust(&mut terms);
    let endless = || async {
        let chunk =
            || async { Some((Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 65_536])), ())) };
        Body::from_stream(stream::unfold((), move |()| chunk()))
    };
    let echo = |body: Bytes| async { body };
    let router = Router::new()
        .route("/echo", post(echo))
        .route("/endless", get(endless));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let shutdown = CancellationToken::new();
    tokio::spawn(serve(listener, router, terms, shutdown.clone()));
    (address, shutdown)
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("a connection")
}

/// What comes until the server closes the connection.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text));
    let _ = read.await.expect("the server closes it in time");
    String::from_utf8_lossy(&text).into_owned()
}

async fn says_hello(address: SocketAddr) -> String {
    let mut stream = connect(address).await;
    let request =
        "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
    stream.write_all(request.as_bytes()).await.expect("written");
    until_closed(&mut stream).await
}

/// A byte, and a while, and a byte; until the server has enough.
async fn trickle(mut stream: TcpStream) -> String {
    let (mut read, mut write) = stream.split();
    let drip = async {
        while write.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut text = Vec::new();
    let answer = read.read_to_end(&mut text);
    let ended = async {
        tokio::select! { () = drip => {}, _ = answer => {} }
    };
    tokio::time::timeout(PATIENCE, ended)
        .await
        .expect("it is cut off");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_or_a_body_byte_by_byte_is_cut_off() {
    let (address, _) = begin(|_| {}).await;
    let silent = &mut connect(address).await;
    until_closed(silent).await;
    let mut head = connect(address).await;
    head.write_all(b"POST /echo HTTP/1.1\r\nx-slow: ")
        .await
        .expect("written");
    trickle(head).await;
    for length in ["content-length: 90000", "transfer-encoding: chunked"] {
        let mut body = connect(address).await;
        let request = format!("POST /echo HTTP/1.1\r\nhost: x\r\n{length}\r\n\r\n");
        body.write_all(request.as_bytes()).await.expect("written");
        let answer = match length.starts_with("content") {
            true => trickle(body).await,
            false => until_closed(&mut body).await,
        };
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer:?}");
    }
    assert!(says_hello(address).await.ends_with("hello"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_bound_is_refused_announced_or_not() {
    let (address, _) = begin(|_| {}).await;
    let mut announced = connect(address).await;
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 100001\r\n\r\n";
    announced.write_all(head.as_bytes()).await.expect("written");
    let answer = until_closed(&mut announced).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer:?}");
    let mut chunked = connect(address).await;
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    chunked.write_all(head.as_bytes()).await.expect("written");
    let chunk = format!("186a1\r\n{}", "x".repeat(100_001));
    let _ = chunked.write_all(chunk.as_bytes()).await;
    let answer = until_closed(&mut chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer:?}");
    let mut head = connect(address).await;
    let _ = head
        .write_all(format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(200_000)).as_bytes())
        .await;
    until_closed(&mut head).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_bound_the_answer_is_busy_at_once() {
    let slow = |terms: &mut Terms| {
        (terms.requests_max, terms.body) = (2, PATIENCE);
    };
    let (address, _) = begin(slow).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(address).await;
        let head = "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("written");
        // It is inside: its body is wanted.
        let mut wanted = [0; 25];
        stream.read_exact(&mut wanted).await.expect("an answer");
        assert_eq!(&wanted, b"HTTP/1.1 100 Continue\r\n\r\n");
        waiting.push(stream);
    }
    let refused = async {
        loop {
            let answer = says_hello(address).await;
            if answer.starts_with("HTTP/1.1 503") {
                return answer;
            }
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await.expect("busy");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    for mut stream in waiting {
        stream.write_all(b"hello").await.expect("written");
        assert!(
            until_closed(&mut stream).await.ends_with("hello"),
            "those inside are served"
        );
    }
    assert!(says_hello(address).await.ends_with("hello"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_share_a_bound_on_memory_and_give_it_back() {
    let (address, _) = begin(|terms| terms.bodies_bytes_max = 50 * 1024).await;
    let post = async |bytes: usize| {
        let mut stream = connect(address).await;
        let head = "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length:";
        let request = format!("{head} {bytes}\r\n\r\n{}", "x".repeat(bytes));
        let _ = stream.write_all(request.as_bytes()).await;
        until_closed(&mut stream).await
    };
    for _ in 0..3 {
        assert!(post(60_000).await.starts_with("HTTP/1.1 503"));
        assert!(post(40_000).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn further_connections_wait_until_one_ends() {
    let (address, _) = begin(|terms| terms.connections_max = 1).await;
    let _idle = connect(address).await; // ends when no head comes
    assert!(says_hello(address).await.ends_with("hello"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_and_does_not_read_is_cut_off() {
    let (address, shutdown) = begin(|_| {}).await;
    let mut stream = connect(address).await;
    let request = "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("written");
    // The kernels between us take some megabytes. When they are full, and the time is up, the rest is an end.
    tokio::time::sleep(SOON * 4).await;
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 20];
    let read = async {
        while let Ok(more @ 1..) = stream.read(&mut buffer).await {
            bytes += more;
        }
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the stream was ended");
    assert!(bytes > 65_536);
    shutdown.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_knows_no_number_and_no_text() {
    let model = FakeModel::start(Vec::new(), Some(says("the-answer-text"))).await;
    let mut served = Served::new(&model).await;
    served.environment = vec![
        ("RUST_LOG".into(), "info".into()),
        (
            "HTTP_CLIENTS".into(),
            "ci:secret-of-ci-0123456789abcdef".into(),
        ),
    ];
    served.begin().await;
    served.answers().await;
    assert_eq!(
        served.says("wamid.private-1", "the-objective-text").await,
        200
    );
    assert_eq!(served.hears().await.text, "the-answer-text");
    let stranger = served.tries_to_say_as("34600111222", "wamid.private-2", "the-stranger-text");
    assert_eq!(stranger.await, Some(200));
    let http = reqwest::Client::new();
    let url = served.url("/v1/messages");
    let ask = |token: &'static str| {
        let request = http.post(&url).bearer_auth(token);
        let request = request.header("content-type", "application/json");
        request.body("{\"text\":\"the-program-text\"}").send()
    };
    assert_eq!(
        ask("secret-of-ci-0123456789abcdef")
            .await
            .expect("an answer")
            .status(),
        202
    );
    assert_eq!(
        ask("a-wrong-secret").await.expect("an answer").status(),
        401
    );
    assert_eq!(
        served
            .says("wamid.private-3", "/cron add nonsense the-job-text")
            .await,
        200
    );
    served.hears().await;
    served.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(served.ended().await, Some(0));
    let log = served.log.lock().expect("no panic").clone();
    assert!(
        log.contains("ALLOWED_PHONE_NUMBERS") && log.contains("stopping"),
        "{log}"
    );
    for private in [
        "5491112345678",
        "34600111222",
        "-text",
        "secret-of",
        "a-wrong-secret",
        "wamid",
    ] {
        assert!(
            !log.contains(private),
            "{private} stands in the log:\n{log}"
        );
    }
}
