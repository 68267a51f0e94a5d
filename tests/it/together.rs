//! Messages sent in quick succession start one turn: decided without a clock, and over the real server.

use crate::fake_model::{FakeModel, says};
use crate::serve::Served;
use crate::support::{OWNER, Rig, opening, texts};
use journeyman::agent::apply::apply;
use journeyman::agent::event::{
    Along, Event, Got, Inbound, Media, MediaKind, Opening, Reading, Record, Timestamp,
};
use journeyman::agent::state::State;
use journeyman::agent::step::{Decision, Policy, step};
use nix::sys::signal::Signal;
use std::sync::Arc;

/// A session whose messages wait 1.5 seconds for each other.
pub struct Chat {
    pub state: State,
    rig: Rig,
}

fn record(seq: u64, at_ms: i64, event: Event) -> Record {
    Record {
        seq,
        at: Timestamp(at_ms),
        event,
        prev: String::new(),
        hash: String::new(),
    }
}

impl Chat {
    pub fn new(together_ms: u64) -> Self {
        let opening = Opening {
            together_ms,
            ..opening(OWNER)
        };
        let first = record(1, 0, Event::SessionStarted(Box::new(opening)));
        Self {
            state: State::begin(&first, &texts()).expect("an opening"),
            rig: Rig::new(&[]),
        }
    }

    pub fn happens(&mut self, at_ms: i64, event: Event) {
        let record = record(self.state.seq + 1, at_ms, event);
        apply(&mut self.state, &record).expect("it is legal");
    }

    pub fn says(&mut self, at_ms: i64, id: &str, text: &str) {
        let message = Inbound::text(id, OWNER, text);
        self.happens(at_ms, Event::MessageReceived { message });
    }

    /// A voice message, whose fetching begins.
    pub fn speaks(&mut self, at_ms: i64, id: &str) {
        let media = Media {
            id: "7".into(),
            kind: MediaKind::Audio,
            mime: "audio/ogg".into(),
            sha256: String::new(),
            name: String::new(),
        };
        let message = Inbound {
            media: Some(Box::new(media)),
            ..Inbound::text(id, OWNER, "")
        };
        self.happens(at_ms, Event::MessageReceived { message });
        let fetch = step(&self.state, &self.policy());
        assert!(matches!(fetch, Decision::Perform(_)), "{fetch:?}");
        let message = id.to_owned();
        self.happens(at_ms, Event::MediaStarted { message });
    }

    fn is_heard(&mut self, at_ms: i64, id: &str, text: &str) {
        let message = id.to_owned();
        let text = text.into();
        let cost_micros = None;
        let got = Got::Words { text, cost_micros };
        self.happens(at_ms, Event::MediaFetched { message, got });
    }

    fn policy(&self) -> Arc<Policy> {
        let assembly = self.rig.assembly.as_ref().expect("it runs");
        assembly.hub.surface().policy.clone()
    }

    fn waits(&self) -> bool {
        matches!(step(&self.state, &self.policy()), Decision::Wait)
    }

    /// The clock goes on to when nothing more came; what is decided then happens.
    fn window_closes(&mut self) -> (i64, Event) {
        let (at, event) = self.state.next_alarm().expect("an alarm");
        assert_eq!(event, Event::TogetherDue);
        self.happens(at.0, event);
        (at.0, self.decides(at.0))
    }

    pub fn decides(&mut self, at_ms: i64) -> Event {
        let event = match step(&self.state, &self.policy()) {
            Decision::Record(event) => event,
            other => panic!("nothing is decided: {other:?}"),
        };
        self.happens(at_ms, (*event).clone());
        *event
    }

    /// What the model reads last.
    pub fn last(&self) -> String {
        let messages = self.state.conversation.messages();
        messages.last().expect("a message").get().to_owned()
    }
}

fn with(event: &Event) -> Vec<&str> {
    let Event::MessageTaken { with, .. } = event else {
        panic!("no message is taken: {event:?}");
    };
    with.iter().map(|along| along.message.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_in_quick_succession_is_one_objective() {
    let mut chat = Chat::new(1_500);
    chat.says(1_000, "m1", "fix the login");
    chat.says(2_000, "m2", "the one on mobile");
    chat.says(3_400, "m3", "and add a test");
    assert!(chat.waits());
    let (at, taken) = chat.window_closes();
    assert_eq!(at, 4_900, "after the last one");
    assert_eq!(with(&taken), ["m2", "m3"]);
    let read = chat.last();
    let wanted = r"fix the login\nthe one on mobile\nand add a test";
    assert!(read.contains(wanted), "{read}");
    assert!(chat.state.unread.is_empty() && chat.state.came.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_on_writing_waits_five_seconds_at_most() {
    let mut chat = Chat::new(1_500);
    for i in 0..5 {
        chat.says(i * 1_200, &format!("m{i}"), "and this");
    }
    assert_eq!(chat.window_closes().0, 5_000);
    chat.says(5_100, "m9", "one more");
    let steering = chat.decides(5_100);
    assert!(
        matches!(
            steering,
            Event::MessageTaken {
                reading: Reading::Steering,
                ..
            }
        ),
        "{steering:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_nothing_and_a_stop_takes_back_what_waits() {
    for stop in ["/cancel", "Stop!"] {
        let mut chat = Chat::new(1_500);
        chat.says(0, "m1", "delete the tests");
        chat.says(10, "m2", "all of them");
        chat.says(20, "m3", "/agent");
        let status = chat.decides(20);
        assert_eq!(with(&status), [""; 0]);
        assert_eq!(chat.state.unread.len(), 2, "they wait");
        chat.says(30, "m4", stop);
        assert_eq!(with(&chat.decides(30)), ["m1", "m2"]);
        assert!(chat.state.turn.is_none() && chat.state.unread.is_empty());
        assert!(chat.state.next_alarm().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voice_message_on_its_way_belongs_to_the_others() {
    let mut chat = Chat::new(1_500);
    chat.says(0, "m1", "fix the login");
    chat.speaks(100, "m2");
    let (_, event) = chat.state.next_alarm().expect("an alarm");
    chat.happens(1_600, event);
    assert!(chat.waits(), "for what was said");
    chat.is_heard(9_000, "m2", "on mobile");
    assert_eq!(with(&chat.decides(9_000)), ["m2"]);
    assert!(chat.last().contains(r"fix the login\non mobile"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_takes_back_what_is_still_on_its_way() {
    for together_ms in [1_500, 0] {
        let mut chat = Chat::new(together_ms);
        chat.speaks(0, "m1");
        chat.says(100, "m2", "/cancel");
        chat.says(110, "m3", "something else");
        assert_eq!(with(&chat.decides(110)), ["m1"]);
        let is_told = chat
            .state
            .outbox
            .iter()
            .any(|told| told.text.contains("before anything began"));
        assert!(is_told, "{:?}", chat.state.outbox);
        // Heard later, it is nothing any more.
        chat.is_heard(5_000, "m1", "fix the login");
        let taken = chat.decides(5_000);
        assert!(with(&taken).is_empty());
        assert!(chat.last().contains("something else"));
        assert!(chat.state.fetching.is_none() && chat.state.got.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_of_a_turn_takes_back_what_is_still_on_its_way_and_what_waits_behind_it() {
    for stop in ["/cancel", "Stop!"] {
        let mut chat = Chat::new(0);
        chat.says(0, "m1", "fix the login");
        chat.decides(0);
        chat.speaks(100, "m2");
        chat.says(110, "m3", "and write a test");
        chat.says(120, "m4", stop);
        let stopped = chat.decides(120);
        let Event::Cancelled { with, .. } = &stopped else {
            panic!("{stopped:?}");
        };
        assert_eq!(*with, ["m2", "m3"]);
        assert!(chat.state.unread.is_empty(), "{:?}", chat.state.unread);
        let mut told = chat.state.outbox.iter();
        assert!(told.any(|told| told.text.contains("dropped, too")));
        // Heard later, it is nothing any more.
        chat.is_heard(5_000, "m2", "on mobile");
        assert!(chat.state.fetching.is_none() && chat.state.got.is_empty());
        chat.state.outbox.clear();
        let ended = chat.decides(5_000);
        assert!(matches!(ended, Event::TurnEnded { .. }), "{ended:?}");
        chat.state.outbox.clear();
        assert!(chat.waits(), "nothing else begins");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_before_new_starts_where_it_was_said() {
    let mut chat = Chat::new(1_500);
    chat.says(0, "m1", "fix the login");
    chat.speaks(100, "m2");
    chat.says(200, "m3", "/new");
    let new = chat.decides(200);
    assert!(with(&new).is_empty() && chat.state.closed, "{new:?}");
    assert_eq!(chat.state.unread.len(), 2, "nothing is lost");
    chat.is_heard(9_000, "m2", "on mobile");
    assert_eq!(with(&chat.decides(9_000)), ["m2"]);
    assert!(chat.last().contains(r"fix the login\non mobile"));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_waits_the_journal_is_as_it_always_was() {
    let mut chat = Chat::new(0);
    chat.says(0, "m1", "fix the login");
    chat.says(0, "m2", "the one on mobile");
    assert!(chat.state.next_alarm().is_none());
    let taken = chat.decides(0);
    let line = serde_json::to_string(&taken).expect("a line");
    assert!(!line.contains("with"), "{line}");
    let first = serde_json::to_string(&*chat.state.opening).expect("a line");
    assert!(!first.contains("together_ms"), "{first}");
    let along = Along {
        message: "m2".into(),
        ..Along::default()
    };
    let line = serde_json::to_string(&along).expect("it serialises");
    assert_eq!(line, r#"{"message":"m2"}"#);
}

// --- the real server ---------------------------------------------------------------------------------------------------

const WORDS: [&str; 3] = ["fix the login", "the one on mobile", "and add a test"];

/// With the window as it is built in.
async fn served(model: &FakeModel) -> Served {
    let mut served = Served::new(model).await;
    served.program.config("limits.toml", "");
    served.begin().await;
    served
}

fn asked_once_for_all(model: &FakeModel) {
    let requests = model.requests();
    assert_eq!(requests.len(), 1);
    let request = requests[0].to_string();
    assert!(WORDS.iter().all(|words| request.contains(words)));
}

#[tokio::test(flavor = "multi_thread")]
async fn three_webhooks_at_once_are_one_turn() {
    let model = FakeModel::recorded(vec![says("All done.")]).await;
    let mut served = served(&model).await;
    let answers = tokio::join!(
        served.says("wamid.1", WORDS[0]),
        served.says("wamid.2", WORDS[1]),
        served.says("wamid.3", WORDS[2]),
    );
    assert_eq!(answers, (200, 200, 200));
    assert_eq!(served.hears().await.text, "All done.");
    asked_once_for_all(&model);
    assert_eq!(
        served.happened(|event| matches!(event, Event::TurnEnded { .. })),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_more_survives_kill_9() {
    let model = FakeModel::recorded(vec![says("All done.")]).await;
    let mut served = served(&model).await;
    for (i, words) in WORDS.iter().enumerate() {
        assert_eq!(served.says(&format!("wamid.{i}"), words).await, 200);
    }
    served.signal(Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    assert_eq!(served.hears().await.text, "All done.");
    asked_once_for_all(&model);
}
