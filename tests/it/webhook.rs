//! The front door: what a webhook may say, and that nothing of a bad one is lost or believed.

use crate::support::{PATIENCE, is_welcome, make_repository, words};
use journeyman::agent::language::Language;
use journeyman::agent::state::State;
use journeyman::cli::assemble::{self, Assembly, assemble, project_workspace};
use journeyman::config::{Settings, WhatsApp};
use journeyman::doors::server;
use journeyman::doors::whatsapp::signature::{SIGNATURE_HEADER, sign};
use journeyman::doors::whatsapp::standin::{
    self, Sent, SentKind, Standin, button_webhook, text_webhook,
};
use journeyman::world::clock;
use journeyman::world::model::Model;
use journeyman::world::model::scripted::Scripted;
use journeyman::world::store::pairing::Code;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::net::TcpListener;

const SECRET: &str = "app-secret";
pub const ANA: &str = "5491112345678";

/// A real server on loopback with a stand-in for Graph.
pub struct Front {
    url: String,
    http: reqwest::Client,
    pub graph: Standin,
    pub assembly: Assembly,
    _folder: TempDir,
}

impl Front {
    pub async fn new(replies: Value) -> Self {
        Self::with(replies, |_| {}).await
    }

    pub async fn with(replies: Value, adjust: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let graph = standin::start("token").await.expect("a stand-in");
        let whatsapp = WhatsApp {
            access_token: "token".into(),
            phone_number_id: "100".into(),
            verify_token: "verify-me".into(),
            app_secret: SECRET.into(),
            api_url: graph.base_url.clone(),
            allowed: vec![ANA.into()],
        };
        let mut settings = Settings::demo(folder.path(), whatsapp);
        adjust(&mut settings);
        make_repository(&folder.path().join("projects/shop"));
        // Settings that name a model's address mean it.
        let at = settings
            .model
            .as_ref()
            .is_some_and(|model| !model.base_url.is_empty());
        let model = match at {
            true => assemble::model(&settings).expect("a model"),
            false => Model::Scripted(
                Scripted::parse(&json!({"replies": replies}).to_string()).expect("a recording"),
            ),
        };
        let assembly = assemble(
            &settings,
            model,
            project_workspace(&settings).expect("a workspace"),
        )
        .expect("a hub");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!(
            "http://{}/webhook",
            listener.local_addr().expect("an address")
        );
        let router = server::router(assembly.hub.clone(), settings.whatsapp.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            url,
            http: reqwest::Client::new(),
            graph,
            assembly,
            _folder: folder,
        }
    }

    async fn post(&self, body: Vec<u8>, signature: Option<String>) -> (u16, String) {
        let mut request = self.http.post(&self.url).body(body);
        if let Some(signature) = signature {
            request = request.header(SIGNATURE_HEADER, signature);
        }
        let response = request.send().await.expect("the server answers");
        (
            response.status().as_u16(),
            response.text().await.expect("a text"),
        )
    }

    pub async fn signed(&self, body: Vec<u8>) -> u16 {
        let signature = sign(SECRET, &body);
        self.post(body, Some(signature)).await.0
    }

    pub async fn says(&self, id: &str, text: &str) -> u16 {
        self.signed(text_webhook("100", ANA, id, text)).await
    }

    /// The next message to the person, read marks and the welcome aside.
    pub async fn hears(&mut self) -> Sent {
        loop {
            let sent = self.hears_all().await;
            if !is_welcome(&sent.text) {
                return sent;
            }
        }
    }

    /// The same with the welcome.
    async fn hears_all(&mut self) -> Sent {
        let heard = async {
            loop {
                let sent = self.graph.sent.recv().await.expect("the stand-in is there");
                let text = words(&sent.text).to_owned();
                let sent = Sent { text, ..sent };
                if !sent.is_courtesy() {
                    return sent;
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard)
            .await
            .expect("a message")
    }

    pub fn workspace(&self) -> PathBuf {
        self._folder.path().join("projects/shop")
    }

    fn journals(&self) -> usize {
        fs::read_dir(self._folder.path().join("data/agent_sessions"))
            .expect("the folder")
            .count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_message_is_answered_through_graph() {
    let mut front = Front::new(json!([{"text": "**Hello** from `here`"}])).await;
    assert_eq!(front.says("wamid.1", "hello").await, 200);
    let sent = front.hears().await;
    assert_eq!(
        (sent.to.as_str(), sent.text.as_str()),
        (ANA, "*Hello* from `here`")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_webhook_three_times_is_one_turn() {
    let mut front = Front::new(json!([{"text": "One."}, {"text": "Two!"}])).await;
    for _ in 0..3 {
        assert_eq!(front.says("wamid.1", "hello").await, 200);
    }
    assert_eq!(front.hears().await.text, "One.");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let more = std::iter::from_fn(|| front.graph.sent.try_recv().ok())
        .filter(|sent| sent.kind == SentKind::Text)
        .count();
    assert_eq!(more, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_its_button() {
    let command = json!({"tool": "run_command", "arguments": {"command": "frobnicate now"}});
    let mut front = Front::new(json!([{"calls": [command]}, {"text": "Done."}])).await;
    front.says("wamid.1", "frobnicate").await;
    let question = front.hears().await;
    assert!(
        question.text.contains("frobnicate now"),
        "{}",
        question.text
    );
    let titles: Vec<&str> = question
        .buttons
        .iter()
        .map(|(_, title)| title.as_str())
        .collect();
    assert_eq!(titles, ["Approve", "Always this session", "Deny"]);
    let (id, title) = question.buttons[2].clone();
    assert_eq!(
        front
            .signed(button_webhook(
                "100",
                ANA,
                "wamid.2",
                &question.id,
                (&id, &title)
            ))
            .await,
        200
    );
    assert!(front.hears().await.text.contains("Denied"));
    assert_eq!(front.hears().await.text, "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_number_is_welcomed_once_and_in_its_language() {
    let mut front = Front::new(json!([{"text": "Uno."}])).await;
    front.says("wamid.1", "hola, ¿qué hay acá?").await;
    let welcome = front.hears_all().await.text;
    assert!(welcome.contains("Soy Journeyman"), "{welcome}");
    assert!(
        welcome.contains("shop") && welcome.contains("/help"),
        "{welcome}"
    );
    assert_eq!(welcome.lines().count(), 3, "{welcome}");
    assert_eq!(front.hears_all().await.text, "Uno.");
    front.says("wamid.2", "/new").await;
    front.hears_all().await;
    front.says("wamid.3", "hello again").await;
    assert_eq!(front.hears_all().await.text, "Uno.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_lets_one_number_in_at_once_and_it_can_be_taken_out_again() {
    const BETO: &str = "5491187654321";
    const CARLA: &str = "14155550100";
    let mut front = Front::new(json!([{"text": "One."}, {"text": "Two."}])).await;
    let store = front.assembly.hub.surface().store.clone();
    let code = Code::of([3, 1, 4, 1, 5, 9, 2, 6]);
    let kept = store.offer_code(&code, [0; 16], clock::now());
    kept.expect("as `journeyman pair` does");
    let typed = code.shown().to_lowercase();
    let says =
        |from: &'static str, id: &'static str, text: &str| text_webhook("100", from, id, text);
    assert_eq!(front.signed(says(BETO, "wamid.1", "hello")).await, 200);
    // Brought twice, as a channel does.
    for _ in 0..2 {
        assert_eq!(front.signed(says(BETO, "wamid.2", &typed)).await, 200);
    }
    let welcome = front.hears_all().await;
    assert_eq!(welcome.to, BETO);
    assert!(welcome.text.contains("Soy Journeyman"), "{}", welcome.text);
    // Used up: whoever reads it over a shoulder is a stranger.
    assert_eq!(front.signed(says(CARLA, "wamid.3", &typed)).await, 200);
    assert_eq!(
        front.signed(says(BETO, "wamid.4", "what is this?")).await,
        200
    );
    let answer = front.hears_all().await;
    assert_eq!((answer.to.as_str(), answer.text.as_str()), (BETO, "One."));
    assert!(store.unpair(BETO).expect("taken out"));
    assert_eq!(front.signed(says(BETO, "wamid.5", "and this?")).await, 200);
    assert_eq!(front.says("wamid.6", "hello").await, 200);
    assert_eq!(front.hears().await.to, ANA);
    assert_eq!(
        front.journals(),
        3,
        "the code's session, and one for each who was answered"
    );
}

fn frobnicate() -> Value {
    let command = json!({"tool": "run_command", "arguments": {"command": "frobnicate now"}});
    json!([{"calls": [command]}, {"text": "Listo."}])
}

fn titles(question: &Sent) -> Vec<&str> {
    let titles = question.buttons.iter().map(|(_, title)| title.as_str());
    titles.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn speaks_the_language_of_the_first_message_and_stays_with_it() {
    let mut front = Front::new(frobnicate()).await;
    front.says("wamid.1", "corré frobnicate, por favor").await;
    let question = front.hears().await;
    assert!(
        question.text.contains("¿Puedo ejecutar esto?"),
        "{}",
        question.text
    );
    assert_eq!(
        titles(&question),
        ["Aprobar", "Siempre esta sesión", "Rechazar"]
    );
    front
        .says("wamid.2", "what is it that you are doing?")
        .await;
    assert!(front.hears().await.text.contains("sigue abierta"));
    front.says("wamid.3", "dale").await;
    assert!(front.hears().await.text.contains("Aprobado"));
    assert_eq!(front.hears().await.text, "Listo.");
    // A command says nothing about the language: the chat's last session does.
    front.says("wamid.4", "/new").await;
    front.hears().await;
    front.says("wamid.5", "/cancel").await;
    assert_eq!(front.hears().await.text, "No hay nada en marcha.");
}

#[tokio::test(flavor = "multi_thread")]
async fn speaks_what_the_settings_say_whatever_is_written() {
    let english = |settings: &mut Settings| settings.texts.wanted = Some(Language::English);
    let mut front = Front::with(frobnicate(), english).await;
    front.says("wamid.1", "corré frobnicate, por favor").await;
    let question = front.hears().await;
    assert!(
        question.text.contains("May I run this?"),
        "{}",
        question.text
    );
    assert_eq!(
        titles(&question),
        ["Approve", "Always this session", "Deny"]
    );
}

/// The body of a webhook with a reaction to, or a text that quotes, one of our messages.
pub fn about(id: &str, of: &str, content: Value) -> Vec<u8> {
    about_from(ANA, id, of, content)
}

pub fn about_from(from: &str, id: &str, of: &str, content: Value) -> Vec<u8> {
    let body = text_webhook("100", from, id, "x");
    let mut body: Value = serde_json::from_slice(&body).expect("JSON");
    let message = &mut body["entry"][0]["changes"][0]["value"]["messages"][0];
    match content["emoji"].as_str() {
        Some(emoji) => {
            message["type"] = json!("reaction");
            message["reaction"] = json!({"message_id": of, "emoji": emoji});
        }
        None => {
            message["text"] = content;
            message["context"] = json!({"id": of});
        }
    }
    body.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_a_reaction_or_a_quote_and_by_nothing_else() {
    let command = |n: u8| json!({"calls": [{"tool": "run_command", "arguments": {"command": format!("frobnicate{n} now")}}]});
    let mut front = Front::new(json!([command(1), command(2), {"text": "Done."}])).await;
    front.says("wamid.1", "frobnicate").await;
    let first = front.hears().await;
    let heart = about("wamid.2", &first.id, json!({"emoji": "❤️"}));
    assert_eq!(front.signed(heart).await, 200);
    let thumb = about("wamid.3", "wamid.other", json!({"emoji": "👍"}));
    assert_eq!(front.signed(thumb).await, 200);
    assert!(front.hears().await.text.contains("another question"));
    let thumb = about("wamid.4", &first.id, json!({"emoji": "👍🏽"}));
    assert_eq!(front.signed(thumb).await, 200);
    assert!(front.hears().await.text.contains("Approved"));
    let second = front.hears().await;
    assert!(second.text.contains("frobnicate2"), "{}", second.text);
    let old = about("wamid.5", &first.id, json!({"body": "yes"}));
    assert_eq!(front.signed(old).await, 200);
    assert!(front.hears().await.text.contains("another question"));
    let quoted = about("wamid.6", &second.id, json!({"body": "no"}));
    assert_eq!(front.signed(quoted).await, 200);
    assert!(front.hears().await.text.contains("Denied"));
    assert_eq!(front.hears().await.text, "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_three_questions_open_a_reaction_a_quote_and_a_button_answer_one_each() {
    let command = json!({"tool": "run_command", "arguments": {"command": "frobnicate now"}});
    let mut front = Front::new(json!([{"calls": [command]}, {"text": "Done."}])).await;
    let mut questions = Vec::new();
    for id in ["wamid.1", "wamid.2", "wamid.3"] {
        front.says(id, "/agent frobnicate").await;
        questions.push(front.hears().await);
    }
    front.says("wamid.4", "yes").await;
    let which = front.hears().await.text;
    assert!(which.contains("3 questions are open"), "{which}");
    assert_eq!(which.matches("frobnicate now").count(), 3, "{which}");
    let reaction = about("wamid.5", &questions[0].id, json!({"emoji": "👍"}));
    let quote = about("wamid.6", &questions[1].id, json!({"body": "no"}));
    let (id, title) = questions[2].buttons[2].clone();
    let button = button_webhook("100", ANA, "wamid.7", &questions[2].id, (&id, &title));
    for (answer, word, asked) in [
        (reaction, "Approved", 0),
        (quote, "Denied", 1),
        (button, "Denied", 2),
    ] {
        let code = questions[asked].buttons[2].0.replace("/deny ", "");
        assert!(which.contains(&code), "{which}");
        assert_eq!(front.signed(answer).await, 200);
        let told = front.hears().await.text;
        assert!(told.contains(word) && told.contains(&code), "{told}");
        assert_eq!(front.hears().await.text, "Done.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_or_missing_signature_is_401_and_nothing_happens() {
    let front = Front::new(json!([])).await;
    let body = text_webhook("100", ANA, "wamid.1", "hello");
    let wrong = sign("another secret", &body);
    for signature in [
        None,
        Some(wrong),
        Some("sha256=00".into()),
        Some("nonsense".into()),
    ] {
        assert_eq!(front.post(body.clone(), signature).await.0, 401);
    }
    let mut changed = body.clone();
    changed.push(b' ');
    assert_eq!(
        front.post(changed, Some(sign(SECRET, &body))).await.0,
        401,
        "one byte more"
    );
    assert_eq!(front.journals(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused() {
    let front = Front::new(json!([])).await;
    let body = text_webhook("100", ANA, "wamid.1", &"x".repeat(1_100_000));
    assert_eq!(front.signed(body).await, 413);
    assert_eq!(front.journals(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_or_no_notification_is_400() {
    let front = Front::new(json!([])).await;
    for body in [&b"{"[..], b"[]", b"\xff\xfe", b"{\"object\":\"page\"}", b""] {
        assert_eq!(front.signed(body.to_vec()).await, 400, "{body:?}");
    }
    assert_eq!(front.journals(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_are_nothing() {
    let mut front = Front::new(json!([{"text": "Hello."}])).await;
    let mut body: Value =
        serde_json::from_slice(&text_webhook("100", ANA, "wamid.1", "hello")).expect("JSON");
    body["surprise"] = json!({"deep": [1, 2]});
    body["entry"][0]["changes"][0]["value"]["messages"][0]["novelty"] = json!(true);
    assert_eq!(front.signed(body.to_string().into_bytes()).await, 200);
    assert_eq!(front.hears().await.text, "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_gets_nothing_and_costs_nothing() {
    let mut front = Front::new(json!([{"text": "Hello."}])).await;
    assert_eq!(
        front
            .signed(text_webhook("100", "34600000000", "wamid.1", "hello"))
            .await,
        200
    );
    assert_eq!(front.journals(), 0);
    front.says("wamid.2", "hello").await;
    assert_eq!(
        front.hears().await.to,
        ANA,
        "the first message that goes out is for Ana"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_message_gets_a_clear_answer() {
    let mut front = Front::new(json!([])).await;
    assert_eq!(front.says("wamid.1", "  ").await, 200);
    assert!(front.hears().await.text.contains("empty"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_message_reaches_the_model_whole() {
    let mut front = Front::new(json!([{"text": "Read."}])).await;
    let text = format!("{} the end", "word ".repeat(20_000));
    assert_eq!(front.says("wamid.1", &text).await, 200);
    assert_eq!(front.hears().await.text, "Read.");
    let hub = &front.assembly.hub;
    let session = hub.surface().store.sessions().expect("the table")[0]
        .id
        .clone();
    let state = hub.peek(&session).expect("the session");
    assert!(
        state.conversation.messages()[1]
            .get()
            .ends_with("the end\"}"),
        "nothing is cut"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn graph_failing_for_a_while_loses_no_answer() {
    let mut front = Front::new(json!([{"text": "Patience."}])).await;
    front.graph.control.fail_next(2, 503, None);
    front.says("wamid.1", "hello").await;
    assert_eq!(front.hears().await.text, "Patience.");
}

#[tokio::test(flavor = "multi_thread")]
async fn graph_failing_for_long_keeps_the_answer_to_send_it_later() {
    let front = Front::new(json!([{"text": "Patience."}])).await;
    front.graph.control.fail_next(1_000, 503, None);
    front.says("wamid.1", "hello").await;
    let hub = &front.assembly.hub;
    let kept = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            let session = hub.surface().store.sessions().expect("the table")[0]
                .id
                .clone();
            let state = hub.peek(&session).expect("the session");
            let fails = state
                .outbox
                .front()
                .is_some_and(|front| front.due.is_some());
            // The welcome is before it.
            if let Some(last) = state
                .outbox
                .back()
                .filter(|last| fails && !is_welcome(&last.text))
            {
                return last.text.clone();
            }
        }
    };
    let text = tokio::time::timeout(PATIENCE, kept)
        .await
        .expect("it is kept");
    assert_eq!(text, "Patience.");
}

/// The yes to the question before, sent twice, must not answer the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_yes_to_a_question_that_nobody_could_see_is_none() {
    let asks =
        json!({"calls": [{"tool": "run_command", "arguments": {"command": "touch proof.txt"}}]});
    let front = Front::new(json!([asks, {"text": "Done."}])).await;
    front.graph.control.fail_next(1_000, 503, None);
    front.says("wamid.1", "make it").await;
    let hub = &front.assembly.hub;
    let state = async |wanted: &dyn Fn(&State) -> bool| {
        let look = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                let sessions = hub.surface().store.sessions().expect("the table");
                let id = sessions.first().map(|session| session.id.clone());
                let seen = id.and_then(|id| hub.peek(&id).ok());
                if let Some(state) = seen.filter(|state| wanted(state)) {
                    return state;
                }
            }
        };
        tokio::time::timeout(PATIENCE, look)
            .await
            .expect("it comes")
    };
    let failed = |state: &State| state.outbox.front().is_some_and(|one| one.due.is_some());
    state(&|state| state.question().is_some() && failed(state)).await;
    front.says("wamid.2", "yes").await;
    let told = |state: &State| {
        state
            .outbox
            .iter()
            .any(|one| one.text.starts_with("That came before"))
    };
    let after = state(&told).await;
    assert!(after.question().is_some(), "it is still open");
    front.says("wamid.3", "/approve").await;
    state(&|state| state.question().is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn meta_verifies_the_webhook_with_the_token_only() {
    let front = Front::new(json!([])).await;
    let ask = |token: &str| {
        format!(
            "{}?hub.mode=subscribe&hub.verify_token={token}&hub.challenge=4711",
            front.url
        )
    };
    let right = front
        .http
        .get(ask("verify-me"))
        .send()
        .await
        .expect("an answer");
    assert_eq!(
        (
            right.status().as_u16(),
            right.text().await.expect("a text").as_str()
        ),
        (200, "4711")
    );
    assert_eq!(
        front
            .http
            .get(ask("guess"))
            .send()
            .await
            .expect("an answer")
            .status()
            .as_u16(),
        403
    );
    let health = front.url.replace("/webhook", "/healthz");
    assert_eq!(
        front
            .http
            .get(health)
            .send()
            .await
            .expect("an answer")
            .status()
            .as_u16(),
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_that_cannot_be_written_refuses_the_webhook_so_that_it_comes_again() {
    let front = Front::new(json!([{"text": "Hello."}])).await;
    let sessions = front._folder.path().join("data/agent_sessions");
    fs::remove_dir(&sessions).expect("empty");
    fs::write(&sessions, "in the way").expect("a file instead of the folder");
    assert_eq!(front.says("wamid.1", "hello").await, 503);
    fs::remove_file(&sessions).expect("removed");
    fs::create_dir(&sessions).expect("a folder again");
    assert_eq!(
        front.says("wamid.1", "hello").await,
        200,
        "sent again, it is taken"
    );
}
