//! `journeyman serve` as it runs for months: killed, stopped, started again, with people writing meanwhile.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::outlive::{keeper, running};
use crate::program::{Program, finish};
use crate::support::{PATIENCE, is_welcome, journals, records, words};
use journeyman::agent::event::{Event, Status};
use journeyman::doors::whatsapp::signature::{SIGNATURE_HEADER, sign};
use journeyman::doors::whatsapp::standin::{self, Sent, Standin, text_webhook};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const SECRET: &str = "app-secret";
const ANA: &str = "5491112345678";

/// The real server as a process of its own; WhatsApp is the stand-in, the model a recording over HTTP.
pub struct Served {
    pub program: Program,
    pub graph: Standin,
    http: reqwest::Client,
    server: Option<(Child, String)>,
    /// More variables for it.
    pub environment: Vec<(String, String)>,
    /// What it says on standard error.
    pub log: Arc<Mutex<String>>,
}

impl Served {
    async fn start(model: &FakeModel) -> Self {
        let mut served = Self::new(model).await;
        served.begin().await;
        served
    }

    pub async fn new(model: &FakeModel) -> Self {
        Self {
            program: Program::new(&model.base_url),
            graph: standin::start("token").await.expect("a stand-in"),
            http: reqwest::Client::new(),
            server: None,
            environment: Vec::new(),
            log: Arc::default(),
        }
    }

    /// Starts the server, and waits until it says where it listens.
    pub async fn begin(&mut self) {
        let command = self.program.command(&["serve"]);
        self.begin_as(command).await;
    }

    /// Starts it by a command of its own.
    pub async fn begin_as(&mut self, mut command: Command) {
        self.furnish(&mut command);
        let mut child = command.spawn().expect("the server starts");
        let mut log = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let listening = async {
            while let Some(line) = log.next_line().await.expect("a line") {
                if let Some((_, rest)) = line.split_once("address=") {
                    return rest
                        .split_whitespace()
                        .next()
                        .expect("an address")
                        .to_owned();
                }
            }
            panic!("the server ended before it listened");
        };
        let address = tokio::time::timeout(PATIENCE, listening)
            .await
            .expect("in time");
        let said = self.log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = log.next_line().await {
                *said.lock().expect("no panic") += &(line + "\n");
            }
        });
        self.server = Some((child, format!("http://{address}/webhook")));
    }

    /// Gives a command the variables that the server has.
    pub fn furnish(&self, command: &mut Command) {
        command
            .env("WHATSAPP_ACCESS_TOKEN", "token")
            .env("WHATSAPP_PHONE_NUMBER_ID", "100")
            .env("WHATSAPP_VERIFY_TOKEN", "verify-me")
            .env("WHATSAPP_APP_SECRET", SECRET)
            .env("WHATSAPP_API_URL", &self.graph.base_url)
            .env("ALLOWED_PHONE_NUMBERS", ANA)
            .env("PROJECTS_ROOT", self.program.projects())
            .env("BIND_ADDR", "127.0.0.1:0")
            .envs(self.environment.iter().cloned());
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("signalled");
    }

    pub fn pid(&self) -> i32 {
        let (child, _) = self.server.as_ref().expect("it runs");
        i32::try_from(child.id().expect("an id")).expect("a pid")
    }

    /// Whether it is gone already.
    pub fn has_ended(&mut self) -> bool {
        let (child, _) = self.server.as_mut().expect("it ran");
        child.try_wait().expect("a status").is_some()
    }

    pub async fn ended(&mut self) -> Option<i32> {
        let (mut child, _) = self.server.take().expect("it ran");
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        ended.expect("it ends in time").expect("a status").code()
    }

    pub async fn says(&self, id: &str, text: &str) -> u16 {
        self.tries_to_say(id, text).await.expect("an answer")
    }

    /// Returns once it answers: what an earlier process left is taken up by then.
    pub async fn answers(&self) {
        let (_, url) = self.server.as_ref().expect("it runs");
        let answer = self.http.get(url).send().await;
        assert_eq!(answer.expect("an answer").status(), 403);
    }

    /// The status, or `None` where there is no answer: a server that is killed gives none.
    pub async fn tries_to_say(&self, id: &str, text: &str) -> Option<u16> {
        self.tries_to_say_as(ANA, id, text).await
    }

    /// The address of another path.
    pub fn url(&self, path: &str) -> String {
        let (_, url) = self.server.as_ref().expect("it runs");
        url.replace("/webhook", path)
    }

    pub async fn tries_to_say_as(&self, from: &str, id: &str, text: &str) -> Option<u16> {
        self.posts(text_webhook("100", from, id, text)).await
    }

    /// Any webhook, signed.
    pub async fn signed(&self, body: Vec<u8>) -> u16 {
        self.posts(body).await.expect("an answer")
    }

    async fn posts(&self, body: Vec<u8>) -> Option<u16> {
        let (_, url) = self.server.as_ref().expect("it runs");
        let signature = sign(SECRET, &body);
        let request = self
            .http
            .post(url)
            .header(SIGNATURE_HEADER, signature)
            .body(body);
        Some(request.send().await.ok()?.status().as_u16())
    }

    /// The next message that is new: one that was on its way when the server was killed comes twice, and says so.
    pub async fn hears(&mut self) -> Sent {
        let heard = async {
            loop {
                let sent = self.graph.sent.recv().await.expect("the stand-in is there");
                let text = words(&sent.text).to_owned();
                let sent = Sent { text, ..sent };
                let again = sent.text.starts_with("(sent again");
                let aside = again || is_welcome(&sent.text) || sent.is_courtesy();
                if !aside {
                    return sent;
                }
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        heard.unwrap_or_else(|_| {
            let log = self.log.lock().expect("no panic").clone();
            let all = journals(&self.program.data());
            let all: Vec<_> = all.iter().map(fs::read_to_string).collect();
            panic!("no message came\n{log}\n{all:?}")
        })
    }

    /// The person writes something: WhatsApp takes messages within 24 hours after that.
    pub async fn greets(&mut self) {
        self.says("wamid.hello", "/cost").await;
        assert!(self.hears().await.text.contains("Session"));
    }

    pub fn happened(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        let all = journals(&self.program.data());
        let events = all.iter().flat_map(|path| records(path));
        events.filter(|record| wanted(&record.event)).count()
    }

    async fn until_started(&self) {
        while self.happened(|event| matches!(event, Event::ToolStarted { .. })) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn run(command: &str) -> Next {
    calls("run_command", json!({"command": command, "timeout": 60}))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_question_survives_kill_9_and_its_answer_works() {
    let model = FakeModel::recorded(vec![run("echo ran >> proof.txt"), says("It ran.")]).await;
    let mut served = Served::start(&model).await;
    assert_eq!(served.says("wamid.1", "prove it").await, 200);
    assert!(served.hears().await.text.contains("echo ran"));
    served.signal(Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    assert_eq!(
        served.says("wamid.1", "prove it").await,
        200,
        "the same webhook again is nothing new"
    );
    assert_eq!(served.says("wamid.2", "yes").await, 200);
    assert!(served.hears().await.text.contains("Approved"));
    assert_eq!(served.hears().await.text, "It ran.");
    let proof = fs::read_to_string(served.program.workspace().join("proof.txt"));
    assert_eq!(proof.expect("the proof"), "ran\n");
}

/// The promise about size, with schedules offered.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_of_a_served_chat_is_small() {
    let model = FakeModel::recorded(vec![says("Hello.")]).await;
    let mut served = Served::start(&model).await;
    assert_eq!(served.says("wamid.1", "hello").await, 200);
    assert_eq!(served.hears().await.text, "Hello.");
    let first = model.requests()[0].to_string();
    assert!(first.contains("create_cron"));
    assert!(first.len() < 8_000, "{} bytes", first.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_doubt_is_asked_about_and_not_run_again_by_itself() {
    let command = "echo ran >> proof.txt; sleep 1";
    let model = FakeModel::recorded(vec![run(command), says("I see.")]).await;
    let mut served = Served::start(&model).await;
    served.says("wamid.1", "prove it").await;
    served.hears().await;
    served.says("wamid.2", "yes").await;
    assert!(served.hears().await.text.contains("Approved"));
    served.until_started().await;
    let proof = served.program.workspace().join("proof.txt");
    while !proof.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    served.signal(Signal::SIGKILL);
    served.ended().await;
    kill(keeper(&served.program.data()), Signal::SIGKILL).expect("killed");
    served.begin().await;
    let told = served.hears().await.text;
    assert!(
        told.contains("interrupted") && told.contains("/agent-resume"),
        "{told}"
    );
    served.says("wamid.3", "/agent-resume").await;
    assert!(served.hears().await.text.contains("Going on"));
    let doubt = served.hears().await;
    assert!(
        doubt.text.contains("may or may not have happened"),
        "{}",
        doubt.text
    );
    assert!(doubt.text.contains("echo ran"), "{}", doubt.text);
    served.says("wamid.4", "no").await;
    assert!(served.hears().await.text.contains("Denied"));
    assert_eq!(served.hears().await.text, "I see.");
    assert_eq!(fs::read_to_string(proof).expect("the proof"), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_a_server_is_cancelled_before_anybody_went_on() {
    let command = "touch begun; sleep 72001.5";
    let model = FakeModel::recorded(vec![run(command), says("I see.")]).await;
    let mut served = Served::start(&model).await;
    served.says("wamid.1", "prove it").await;
    served.hears().await;
    served.says("wamid.2", "yes").await;
    served.hears().await;
    while !served.program.workspace().join("begun").exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // SIGTERM, and a second one that does not wait for it.
    served.signal(Signal::SIGTERM);
    tokio::time::sleep(Duration::from_millis(200)).await;
    served.signal(Signal::SIGTERM);
    assert_eq!(served.ended().await, Some(0));
    assert_eq!(running("72001.5"), 1, "it goes on with its keeper");
    served.begin().await;
    assert!(served.hears().await.text.contains("interrupted"));
    served.says("wamid.3", "/cancel").await;
    while !served.hears().await.text.contains("Stopped") {}
    assert_eq!(running("72001.5"), 0);
    let cancelled = |event: &Event| matches!(event, Event::ToolFinished { outcome, .. } if outcome.status == Status::Cancelled);
    assert_eq!(served.happened(cancelled), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_what_runs_end_and_exits_0() {
    let model =
        FakeModel::recorded(vec![run("sleep 1; echo ran >> proof.txt"), says("It ran.")]).await;
    let mut served = Served::start(&model).await;
    served.says("wamid.1", "prove it").await;
    served.hears().await;
    served.says("wamid.2", "yes").await;
    served.hears().await;
    served.until_started().await;
    served.signal(Signal::SIGTERM);
    assert_eq!(served.ended().await, Some(0));
    let finished = |event: &Event| matches!(event, Event::ToolFinished { outcome, .. } if outcome.exit_code == Some(0));
    assert_eq!(served.happened(finished), 1, "its result is in the journal");
    served.begin().await;
    assert!(served.hears().await.text.contains("interrupted"));
    served.says("wamid.3", "/agent-resume").await;
    assert!(served.hears().await.text.contains("Going on"));
    assert_eq!(served.hears().await.text, "It ran.");
    let proof = fs::read_to_string(served.program.workspace().join("proof.txt"));
    assert_eq!(proof.expect("the proof"), "ran\n", "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_journal_stops_no_server_and_its_chat_is_told_once() {
    let model = FakeModel::recorded(vec![says("One."), says("Two.")]).await;
    let mut served = Served::start(&model).await;
    served.says("wamid.1", "first").await;
    assert_eq!(served.hears().await.text, "One.");
    served.signal(Signal::SIGTERM);
    served.ended().await;
    let path = journals(&served.program.data())[0].clone();
    let text = fs::read_to_string(&path).expect("the journal");
    // Longer than it was: the server reads it again at its start.
    fs::write(&path, text.replace("One.", "No, never.")).expect("damaged");
    let damaged = fs::read(&path).expect("bytes");
    served.begin().await;
    let told = served.hears().await.text;
    assert!(
        told.contains("damaged") && told.contains("good-prefix"),
        "{told}"
    );
    served.signal(Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    assert_eq!(
        served.says("wamid.1", "first").await,
        200,
        "a message of the damaged journal is known"
    );
    assert_eq!(served.says("wamid.2", "second").await, 200);
    assert_eq!(
        served.hears().await.text,
        "One.",
        "a fresh session, and nothing is told twice"
    );
    assert_eq!(journals(&served.program.data()).len(), 2);
    let id = path
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert_eq!(fs::read(&path).expect("bytes"), damaged);
    served
        .says("wamid.3", &format!("/agent-resume {id} good-prefix"))
        .await;
    let told = served.hears().await.text;
    assert!(told.contains("set aside"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_run_that_kill_9_ends_is_interrupted_in_the_history_and_not_repeated() {
    let command = "echo ran >> proof.txt; sleep 2";
    let model = FakeModel::recorded(vec![run(command), says("It ran.")]).await;
    let mut served = Served::start(&model).await;
    served.greets().await;
    let cron = async |served: &Served, arguments: &[&str]| {
        let mut command = served.program.command(&[&["cron"], arguments].concat());
        served.furnish(&mut command);
        let run = finish(command).await;
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    cron(&served, &["add", "@yearly", "prove it", "--tz", "UTC"]).await;
    cron(&served, &["run", "1"]).await;
    assert_eq!(served.hears().await.text, "⏰ Schedule 1: prove it");
    assert!(served.hears().await.text.contains("echo ran"));
    served.says("wamid.1", "yes").await;
    assert!(served.hears().await.text.contains("Approved"));
    served.until_started().await;
    served.signal(Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    assert!(served.hears().await.text.contains("interrupted"));
    let interrupted = async {
        while !cron(&served, &["history", "1"])
            .await
            .contains("interrupted")
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, interrupted)
        .await
        .expect("the history says so");
    assert_eq!(journals(&served.program.data()).len(), 2);
    let received = |event: &Event| matches!(event, Event::MessageReceived { message } if message.text == "prove it");
    assert_eq!(served.happened(received), 1);
}

/// The hourglass is on the message while there is work, and gone when it has its answer: also after kill -9.
#[tokio::test(flavor = "multi_thread")]
async fn the_hourglass_on_a_message_goes_with_the_answer_of_whatever_process() {
    let model = FakeModel::recorded(vec![run("echo ran >> proof.txt"), says("It ran.")]).await;
    let mut served = Served::start(&model).await;
    served.says("wamid.1", "prove it").await;
    assert!(served.hears().await.text.contains("echo ran"));
    let reactions = |served: &Served| -> Vec<(String, String)> {
        let requests = served.graph.control.requests();
        let reactions = requests.iter().map(|request| &request.body["reaction"]);
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        reactions
            .filter(|reaction| reaction.is_object())
            .map(|reaction| (text(&reaction["message_id"]), text(&reaction["emoji"])))
            .collect()
    };
    let of = |emoji: &str| ("wamid.1".to_owned(), emoji.to_owned());
    while reactions(&served).is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(reactions(&served), [of("⏳")]);
    served.signal(Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    served.says("wamid.2", "yes").await;
    while !served.hears().await.text.ends_with("It ran.") {}
    while reactions(&served).len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(reactions(&served), [of("⏳"), of("")]);
}
