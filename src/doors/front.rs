//! The front of every HTTP route: connections, requests and bodies, each within limits.
//!
//! Who is slow is cut off, and beyond a bound the answer is "busy", at once: nothing queues up in memory. It knows no route.

use crate::agent::limits::Limits;
use crate::doors::http::problem::{AGAIN_SECONDS, Problem};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Of a connection: what is held of a request's head, and of an answer that is not sent yet.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Bodies are counted in units of this.
const UNIT_BYTES: usize = 1024;
/// Where no connection can be taken (no more files may be open): how soon again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What is let in.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Further ones wait in the kernel until one ends.
    pub connections_max: usize,
    /// Those that were read and are not answered yet; further ones are told that we are busy.
    pub requests_max: usize,
    /// Of one request.
    pub body_bytes_max: usize,
    /// Of all requests at once.
    pub bodies_bytes_max: usize,
    /// Until the head of a request is there; a connection may be idle as long.
    pub head: Duration,
    /// Until its body is.
    pub body: Duration,
    /// For which a reader may take nothing of what it asked for.
    pub stall: Duration,
    /// For which requests may go on when the server stops.
    pub end: Duration,
}

impl From<&Limits> for Terms {
    fn from(limits: &Limits) -> Self {
        Self {
            connections_max: limits.http_connections_max,
            requests_max: limits.http_requests_max,
            body_bytes_max: limits.body_bytes_max,
            bodies_bytes_max: limits.http_bodies_bytes_max,
            head: Duration::from_secs(limits.http_head_seconds_max),
            body: Duration::from_secs(limits.http_body_seconds_max),
            stall: Duration::from_secs(limits.http_stall_seconds_max),
            end: Duration::from_secs(limits.http_end_seconds_max),
        }
    }
}

/// Serves until `shutdown`, then lets requests end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    terms: Terms,
    shutdown: CancellationToken,
) {
    let router = within(router, terms);
    let connections = Arc::new(Semaphore::new(terms.connections_max));
    let served = TaskTracker::new();
    let mut accepting = pin!(async {
        loop {
            let place = connections.clone().acquire_owned().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = serve_one(stream, router.clone(), terms, shutdown.clone());
                    served.spawn(async move {
                        let _place = place;
                        connection.await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not taken");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    });
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = &mut accepting => {}
    }
    served.close();
    if tokio::time::timeout(terms.end, served.wait())
        .await
        .is_err()
    {
        tracing::warn!(connections = served.len(), "left open at the end");
    }
}

async fn serve_one(stream: TcpStream, router: Router, terms: Terms, shutdown: CancellationToken) {
    let _ = stream.set_nodelay(true); // slower without, nothing else
    let io = TokioIo::new(Impatient {
        stream,
        stall: terms.stall,
        until: None,
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(terms.head)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(io, TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// The routes, behind the bounds on requests and bodies.
pub fn within(router: Router, terms: Terms) -> Router {
    let units = terms.bodies_bytes_max / UNIT_BYTES;
    let gate = Gate {
        terms,
        requests: Arc::new(Semaphore::new(terms.requests_max)),
        bodies: Arc::new(Semaphore::new(units)),
    };
    router.layer(middleware::from_fn_with_state(gate, admit))
}

#[derive(Clone)]
struct Gate {
    terms: Terms,
    requests: Arc<Semaphore>,
    /// In units.
    bodies: Arc<Semaphore>,
}

async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let Ok(_place) = gate.requests.clone().try_acquire_owned() else {
        return last(busy());
    };
    let (parts, body) = request.into_parts();
    let length = announced(&parts.headers);
    let Kept {
        bytes,
        share: _share,
        ..
    } = match gate.read(body, length).await {
        Ok(kept) => kept,
        Err(problem) => return last(problem),
    };
    let request = Request::from_parts(parts, Body::from(bytes));
    let mut response = next.run(request).await;
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        let again = HeaderValue::from(AGAIN_SECONDS);
        response.headers_mut().entry(RETRY_AFTER).or_insert(again);
    }
    response
}

fn busy() -> Problem {
    Problem::busy("more is being done already than is good; send it again")
}

fn announced(headers: &HeaderMap) -> usize {
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    length.unwrap_or(0)
}

/// What follows on this connection may be the rest of a body that nobody reads.
fn last(problem: Problem) -> Response {
    let mut response = problem.into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

impl Gate {
    /// A whole body, and the share of memory that it takes: of what came, not of what was announced. Of one that is
    /// refused, the rest is read and thrown away within the bounds: who still sends would not see the answer.
    async fn read(&self, body: Body, announced: usize) -> Result<Kept, Problem> {
        let bytes_max = self.terms.body_bytes_max;
        if announced > 2 * bytes_max {
            return Err(Problem::too_large());
        }
        let mut parts = body.into_data_stream();
        let mut kept = match announced > bytes_max {
            true => Err(Problem::too_large()),
            false => Ok(Kept::default()),
        };
        let mut bytes = 0;
        let end = Instant::now() + self.terms.body;
        loop {
            let part = match tokio::time::timeout_at(end, parts.next()).await {
                Ok(Some(part)) => part,
                Ok(None) => return kept,
                Err(_) => return Err(kept.err().unwrap_or_else(Problem::too_slow)),
            };
            let part = part.map_err(|_| Problem::invalid("the body broke off; send it again"))?;
            bytes += part.len();
            if bytes > 2 * bytes_max {
                return Err(Problem::too_large());
            }
            kept = match kept {
                Ok(_) if bytes > bytes_max => Err(Problem::too_large()),
                Ok(kept) => kept.with(&part, &self.bodies),
                Err(problem) => Err(problem),
            };
        }
    }
}

/// What came of a body, and its share.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    units: usize,
    share: Option<OwnedSemaphorePermit>,
}

impl Kept {
    fn with(mut self, part: &[u8], bodies: &Arc<Semaphore>) -> Result<Self, Problem> {
        self.bytes.extend_from_slice(part);
        let more = self.bytes.len().div_ceil(UNIT_BYTES) - self.units;
        let share = u32::try_from(more).map_err(|_| Problem::too_large())?;
        let share = bodies.clone().try_acquire_many_owned(share);
        let share = share.map_err(|_| busy())?;
        self.units += more;
        match &mut self.share {
            Some(held) => held.merge(share),
            None => self.share = Some(share),
        }
        Ok(self)
    }
}

/// A connection that ends when its reader takes nothing for a while.
struct Impatient {
    stream: TcpStream,
    stall: Duration,
    /// Runs while something could not be written.
    until: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let end = Instant::now() + self.stall;
        let until = self
            .until
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        match until.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
