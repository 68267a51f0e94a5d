//! A conversation that nears the model's window gets shorter and loses nothing that counts: not the person's words, not
//! the plan, no effect in doubt, no pairing of calls and results; killed or not, the next request is the same.

use crate::fake_model::{FakeModel, Next, calls, error, says};
use crate::program::Program;
use crate::support;
use crate::support::{generated, journals, records, texts, words};
use journeyman::agent::apply::apply;
use journeyman::agent::conversation::Wire;
use journeyman::agent::event::{
    Answer, Call, CallId, CheckpointTaken, Event, FileChange, Inbound, Names, Outcome, Reading,
    Record, Status, Timestamp, TreeId, Usage,
};
use journeyman::agent::limits::{DEFAULTS, Limits};
use journeyman::agent::mask::Masks;
use journeyman::agent::money::{Price, Spend};
use journeyman::agent::state::State;
use journeyman::agent::step::{Decision, Effect, Look, Policy, Resume, step};
use journeyman::gate::{self, BUILT_IN, Facts, GatePolicy, GateSettings, PathFact, Place, Touch};
use journeyman::history::inspect;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::process::Stdio;
use std::sync::LazyLock;
use tokio::io::{AsyncBufReadExt, BufReader};

const REQUEST_FOR_NOTES: &str = "The messages above are about to be left out";

/// Every call has exactly one result, in order, right behind it; nothing stands first but the system prompt.
fn check_pairing(messages: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        assert_eq!(message["role"] == "system", at == 0, "{message}");
        if message["role"] == "tool" {
            assert!(!open.is_empty(), "a result without its call: {message}");
            assert_eq!(message["tool_call_id"], open.remove(0));
            continue;
        }
        assert!(open.is_empty(), "no result for {open:?} before {message}");
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        open.extend(calls.map(|call| call["id"].as_str().expect("an id")));
    }
    assert!(open.is_empty(), "no result for {open:?}");
}

fn asks_for_notes(request: &Value) -> bool {
    let messages = request["messages"].as_array().expect("messages");
    let last = messages.last().expect("a message")["content"].as_str();
    last.is_some_and(|text| text.starts_with(REQUEST_FOR_NOTES))
}

// --- pure: any history ---------------------------------------------------------------------------------------------

/// One round of a model, and what comes of it.
#[derive(Debug, Clone)]
struct Round {
    /// Of each call: how long its result is, and how it ends.
    outputs: Vec<(usize, usize)>,
    arguments: usize,
    steering: Option<usize>,
    plan: bool,
    overflow: bool,
}

fn round() -> impl Strategy<Value = Round> {
    let outputs = prop::collection::vec((0..3_000_usize, 0..8_usize), 0..4);
    let steering = prop::option::weighted(0.2, 1..300_usize);
    (
        outputs,
        0..1_500_usize,
        steering,
        any::<bool>(),
        prop::bool::weighted(0.06),
    )
        .prop_map(|(outputs, arguments, steering, plan, overflow)| Round {
            outputs,
            arguments,
            steering,
            plan,
            overflow,
        })
}

static POLICY: LazyLock<Policy> = LazyLock::new(policy);

fn policy() -> Policy {
    let settings = GateSettings {
        allowlist: Vec::new(),
        write_enabled: true,
        protected_branches: Vec::new(),
    };
    Policy {
        gate: GatePolicy::load(&[("built in", BUILT_IN)], settings).expect("the policy"),
        limits: Limits {
            rounds_max: 1_000,
            context_tokens: 4_000,
            ..toml::from_str(DEFAULTS).expect("the limits")
        },
        resume: Resume::Ask,
        model: "m".into(),
        masks: Masks::default(),
        price: None,
        aliases: Default::default(),
    }
}

struct History {
    state: State,
    records: Vec<Record>,
    last_request: Vec<Wire>,
    said: Vec<Inbound>,
    objective: String,
    doubts: Vec<String>,
    overflows: u32,
    digests: usize,
    references: usize,
    notes: Vec<usize>,
}

impl History {
    fn new(notes: Vec<usize>) -> Self {
        let opening = support::opening("ana");
        let first = line(1, Event::SessionStarted(Box::new(opening)));
        Self {
            state: State::begin(&first, &texts()).expect("an opening"),
            records: vec![first],
            last_request: Vec::new(),
            said: Vec::new(),
            objective: String::new(),
            doubts: Vec::new(),
            overflows: 0,
            digests: 0,
            references: 0,
            notes,
        }
    }

    fn record(&mut self, event: Event) {
        let compacts = matches!(event, Event::Compacted { .. });
        if let Event::Compacted {
            messages,
            results,
            tokens_before,
            tokens_after,
            ..
        } = &event
        {
            assert!(tokens_after < tokens_before, "{event:?}");
            self.digests += usize::from(*messages > 0);
            self.references += results.len();
            self.last_request.clear();
        }
        if let Event::MessageTaken {
            message,
            reading: Reading::Objective,
            ..
        } = &event
        {
            let said = self.said.iter().find(|said| said.id == *message);
            self.objective.clone_from(&said.expect("it was said").text);
        }
        let record = line(self.state.seq + 1, event);
        let text = serde_json::to_string(&record).expect("it serialises");
        let read: Record = serde_json::from_str(&text).expect("it reads back");
        assert_eq!(read, record);
        apply(&mut self.state, &record).expect("legal");
        self.records.push(record);
        if compacts {
            self.check_bytes();
        }
    }

    /// What was compacted follows from the journal: folded again, it is the same to the byte.
    fn check_bytes(&self) {
        let mut again = State::begin(&self.records[0], &texts()).expect("an opening");
        for record in &self.records[1..] {
            apply(&mut again, record).expect("legal");
        }
        let bytes = |state: &State| {
            let wires = state.conversation.messages().iter();
            wires.map(|wire| wire.get().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(bytes(&again), bytes(&self.state));
        let sum: usize = bytes(&self.state).iter().map(String::len).sum();
        assert_eq!(self.state.conversation.bytes(), sum);
        assert_eq!(
            again.conversation.tokens(),
            self.state.conversation.tokens()
        );
    }

    fn say(&mut self, text: String) {
        let id = format!("m{}", self.records.len());
        let message = Inbound::text(id, "ana", text);
        self.said.push(message.clone());
        self.record(Event::MessageReceived { message });
    }

    /// Decides until the model is asked for an answer, or nothing is left to do.
    fn settle(&mut self, round: &Round) -> Option<u32> {
        for _ in 0..500 {
            match step(&self.state, &POLICY) {
                Decision::Record(event) => self.record(*event),
                Decision::Wait => return None,
                Decision::Look(Look::Examine { call, touches, .. }) => {
                    let facts = facts(&touches);
                    self.record(Event::CallExamined {
                        call: call.id,
                        facts,
                        expect: None,
                    });
                }
                Decision::Look(Look::Tree { call }) => {
                    self.record(Event::TreeSeen { call, tree: None });
                }
                Decision::Look(look) => panic!("nothing is in doubt: {look:?}"),
                Decision::Perform(effect) => {
                    self.record(effect.intent());
                    match *effect {
                        Effect::AskModel {
                            round, messages, ..
                        } => {
                            self.check_request(&messages);
                            self.last_request = messages.to_vec();
                            return Some(round);
                        }
                        Effect::Summarise { messages, .. } => self.summarise(&messages),
                        Effect::RunTool { call, .. } => self.run(call.get().clone(), round),
                        Effect::Await { .. } => panic!("nothing is in doubt here"),
                        Effect::Send { outgoing } => self.record(Event::SendFinished {
                            send: outgoing.send,
                            error: None,
                            ids: Vec::new(),
                            retry_at: None,
                            parts: 0,
                            closed: None,
                        }),
                        Effect::Checkpoint { number, moment, .. } => {
                            self.record(Event::Checkpoint(CheckpointTaken {
                                number,
                                moment,
                                tree: Some(TreeId(format!("tree-{number}"))),
                                left_out: Names::default(),
                                dropped: Vec::new(),
                                error: None,
                            }));
                        }
                        Effect::PutBack { .. }
                        | Effect::Diff { .. }
                        | Effect::MakeWorktree { .. }
                        | Effect::Carry { .. }
                        | Effect::Draft { .. }
                        | Effect::LoadCommand { .. }
                        | Effect::Errand { .. } => {
                            unreachable!("nobody asks for it")
                        }
                        Effect::Fetch { .. } => panic!("nothing is sent"),
                        Effect::Stop => panic!("nobody said stop"),
                    }
                }
            }
        }
        panic!("it decides for ever");
    }

    fn summarise(&mut self, request: &[Wire]) {
        let messages = parsed(request);
        check_pairing(&messages);
        let last = messages.last().expect("a message");
        assert!(
            last["content"]
                .as_str()
                .expect("text")
                .starts_with(REQUEST_FOR_NOTES)
        );
        if self.state.conversation.window().is_none() && !self.last_request.is_empty() {
            let before = &request[..request.len() - 1];
            let shared = before.len().min(self.last_request.len());
            for (now, then) in before[..shared].iter().zip(&self.last_request) {
                assert_eq!(now.get(), then.get(), "a prefix of what was sent");
            }
        }
        let length = self.notes.pop().unwrap_or(700);
        self.record(Event::SummaryGiven {
            text: "n".repeat(length),
            usage: Usage::default(),
            cost_micros: None,
            attempts: 1,
            error: (length == 0).then(|| "refused".into()),
        });
    }

    fn run(&mut self, call: Call, round: &Round) {
        let position: usize = call
            .id
            .0
            .rsplit_once('.')
            .expect("an id")
            .1
            .parse()
            .expect("a number");
        let (length, how) = round.outputs[position - 1];
        let status = match how {
            0 => Status::Unknown,
            1 => Status::Failed,
            _ => Status::Done,
        };
        let output = match status {
            Status::Unknown => {
                let text = format!("doubt {} ends here", call.id);
                self.doubts.push(text.clone());
                text
            }
            _ => "x\"\n".repeat(length / 3),
        };
        let mut outcome = Outcome::new(status, output);
        if how == 2 {
            outcome.changes.push(FileChange {
                path: format!("src/{}.rs", call.id),
                added: 1,
                removed: 0,
                diff: String::new(),
            });
        }
        self.record(Event::ToolFinished {
            call: call.id,
            outcome,
        });
    }

    fn answer(&mut self, number: u32, round: &Round) {
        if let Some(length) = round.steering {
            self.say(format!("steer {number} {}", "s".repeat(length)));
        }
        let call = |(at, _): (usize, &(usize, usize))| Call {
            id: CallId(format!("{number}.{}", at + 1)),
            wire_id: format!("w{number}-{at}"),
            tool: "read_lines".into(),
            arguments:
                json!({"path": "a".repeat(round.arguments + 1), "start": number, "end": number + 1})
                    .to_string(),
        };
        let mut asked: Vec<Call> = round.outputs.iter().enumerate().map(call).collect();
        if round.plan {
            asked.push(Call {
                id: CallId(format!("{number}.{}", asked.len() + 1)),
                wire_id: format!("w{number}-p"),
                tool: "create_task_plan".into(),
                arguments:
                    json!({"steps": [format!("first of {number}"), format!("second of {number}")]})
                        .to_string(),
            });
        }
        self.record(Event::ModelAnswered {
            round: number,
            answer: Answer {
                text: format!("answer {number}"),
                calls: asked,
                usage: Usage {
                    input_tokens: self.state.conversation.bytes() as u64 / 4 + 50,
                    ..Usage::default()
                },
                finish: "stop".into(),
                ..Answer::default()
            },
        });
    }

    /// What always survives, in the request that the model gets.
    fn check_request(&self, request: &[Wire]) {
        let messages = parsed(request);
        check_pairing(&messages);
        let is_prefix = self
            .last_request
            .iter()
            .zip(request)
            .all(|(before, now)| before.get() == now.get());
        assert!(is_prefix && self.last_request.len() <= request.len());
        let contents: String = messages
            .iter()
            .filter_map(|message| message["content"].as_str())
            .collect::<Vec<_>>()
            .join("\n");
        let holds = |text: &str| contents.contains(text);
        assert!(holds(&self.objective), "{contents}");
        assert!(holds(&self.said.last().expect("a message").text));
        for doubt in self.doubts.iter().rev().take(20) {
            assert!(holds(doubt), "{doubt} is forgotten: {contents}");
        }
        for step in &self.state.plan.steps {
            assert!(holds(&step.text), "{} is forgotten: {contents}", step.text);
        }
        if self.digests > 0 && self.state.changed.len() <= 100 {
            let digest = messages[1]["content"].as_str().expect("text");
            let is_older = |file: &&String| {
                let call = file.trim_start_matches("src/").trim_end_matches(".rs");
                let name = format!("w{}", call.split('.').next().unwrap_or_default());
                !request
                    .iter()
                    .any(|wire| wire.get().contains(&format!("\"{name}-")))
            };
            for file in self.state.changed.iter().filter(is_older) {
                assert!(digest.contains(file), "{file} is forgotten: {digest}");
            }
        }
    }

    fn play(&mut self, turns: &[Vec<Round>]) {
        for (number, rounds) in turns.iter().enumerate() {
            self.say(format!("objective {number} of the person"));
            let last = Round {
                outputs: Vec::new(),
                arguments: 0,
                steering: None,
                plan: false,
                overflow: false,
            };
            let mut before = &last;
            for round in rounds.iter().chain([&last]) {
                let Some(mut asked) = self.settle(before) else {
                    break;
                };
                if round.overflow {
                    self.overflows += 1;
                    self.record(Event::ModelFailed {
                        round: asked,
                        kind: "context_overflow".into(),
                        message: "too long".into(),
                        attempts: 1,
                    });
                    match self.settle(before) {
                        Some(again) => asked = again,
                        None => break, // nothing could be left out: the turn failed, resumable
                    }
                }
                self.answer(asked, round);
                before = round;
            }
            while self.settle(before).is_some() {
                let number = self.state.rounds;
                self.answer(number, &last); // steering came with the last answer
                before = &last;
            }
            assert!(self.state.turn.is_none(), "{:?}", self.state.turn);
        }
    }
}

fn parsed(request: &[Wire]) -> Vec<Value> {
    request
        .iter()
        .map(|wire| serde_json::from_str(wire.get()).expect("JSON"))
        .collect()
}

fn line(seq: u64, event: Event) -> Record {
    Record {
        seq,
        at: Timestamp(0),
        event,
        prev: String::new(),
        hash: format!("{seq}"),
    }
}

fn facts(touches: &[Touch]) -> Facts {
    let wants = gate::wants(&POLICY.gate, touches);
    let fact = |written: String| {
        let fact = PathFact {
            resolved: format!("/w/shop/{written}"),
            place: Place::Workspace,
            exists: true,
        };
        (written, fact)
    };
    Facts {
        paths: wants.paths.into_iter().map(fact).collect(),
        ..Facts::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..generated() })]

    #[test]
    fn whatever_is_left_out_the_words_the_plan_the_doubts_and_the_pairs_stay(
        turns in prop::collection::vec(prop::collection::vec(round(), 1..14), 1..4),
        notes in prop::collection::vec(prop_oneof![Just(0_usize), 1..3_000_usize], 0..4),
    ) {
        History::new(notes).play(&turns);
    }
}

#[test]
fn a_long_history_is_shortened_by_references_and_by_notes() {
    let reads = Round {
        outputs: vec![(3_000, 3), (2_900, 3)],
        arguments: 10,
        steering: None,
        plan: false,
        overflow: false,
    };
    let writes = Round {
        outputs: vec![(60, 2)],
        arguments: 1_400,
        ..reads.clone()
    };
    let mut history = History::new(vec![0]);
    history.play(&[vec![reads; 6], vec![writes; 20]]);
    assert!(history.references >= 2, "{}", history.references);
    assert!(history.digests >= 2, "{}", history.digests);
    let digest = parsed(history.state.conversation.messages())[1]["content"].to_string();
    assert!(digest.contains("objective 1 of the person"), "{digest}");
}

/// What the server refuses as too long leads to a request for notes, and that costs as much as any other.
#[test]
fn nothing_is_asked_for_notes_once_a_limit_in_money_is_reached() {
    let none = Round {
        outputs: Vec::new(),
        arguments: 0,
        steering: None,
        plan: false,
        overflow: false,
    };
    let mut history = History::new(Vec::new());
    history.say("an objective of the person".into());
    let round = history.settle(&none).expect("the model is asked");
    history.record(Event::ModelFailed {
        round,
        kind: "context_overflow".into(),
        message: "too long".into(),
        attempts: 1,
    });
    let mut policy = policy();
    policy.limits.month_cents_max = 1;
    policy.price = Some(Price {
        input: 1,
        cached_input: 1,
        output: 1,
    });
    let Decision::Look(Look::Spend { month, .. }) = step(&history.state, &policy) else {
        panic!("it looks at what the month has cost first");
    };
    let spent = Spend {
        micros: 10_000,
        ..Spend::default()
    };
    history.record(Event::SpendSeen {
        month,
        elsewhere: Some(spent),
    });
    let Decision::Record(event) = step(&history.state, &policy) else {
        panic!("the limit is reached");
    };
    assert!(
        matches!(&*event, Event::LimitReached { limit, .. } if limit == "limit_money_month"),
        "{event:?}"
    );
}

// --- the real program ----------------------------------------------------------------------------------------------

const FILES: usize = 12;
const OBJECTIVE: &str = "write \"twelve\" files,\nand count them";

/// Writes one file a round and reads a long one, whatever it still knows of the rounds before.
fn works(request: &Value) -> Next {
    if asks_for_notes(request) {
        return says("NOTES: the files are written one after the other.");
    }
    let text = request["messages"].to_string();
    let written = (1..=FILES)
        .rev()
        .find(|n| text.contains(&format!("out{n}.txt")));
    match written.unwrap_or(0) {
        FILES => says("Twelve files."),
        n => {
            let name = format!("out{}.txt", n + 1);
            let content = format!("{name}\n{}", "content ".repeat(120));
            Next::Says(
                String::new(),
                vec![
                    (
                        "write_file".into(),
                        json!({"path": name, "content": content}),
                    ),
                    (
                        "read_lines".into(),
                        json!({"path": "long.txt", "start": 1, "end": 28 + n}),
                    ),
                ],
            )
        }
    }
}

fn small_window(program: &Program) {
    program.config("limits.toml", "rounds_max = 60\ncontext_tokens = 6000\n");
    let long: String = (1..=40)
        .map(|n| format!("line {n} of the long file\n"))
        .collect();
    fs::write(program.workspace().join("long.txt"), long).expect("written");
}

fn count(records: &[Record], wanted: impl Fn(&Event) -> bool) -> usize {
    let mut events = records.iter().map(|record| &record.event);
    events.by_ref().filter(|event| wanted(event)).count()
}

/// What holds at the end, whatever happened on the way.
fn check_end(program: &Program, model: &FakeModel) {
    for n in 1..=FILES {
        let text = fs::read_to_string(program.workspace().join(format!("out{n}.txt")));
        assert!(text.is_ok_and(|text| text.starts_with(&format!("out{n}.txt\n"))));
    }
    let requests = model.requests();
    for request in &requests {
        let messages = request["messages"].as_array().expect("messages");
        check_pairing(messages);
        let first = messages[1]["content"].as_str().expect("text");
        assert!(first.contains(OBJECTIVE), "{first}");
        assert_eq!(request["tools"], requests[0]["tools"]);
        assert_eq!(messages[0], requests[0]["messages"][0]);
    }
    let path = &journals(&program.data())[0];
    let (state, _) = inspect(path, &texts(), |_| {}).expect("the journal is intact");
    let folded = parsed(state.conversation.messages());
    let last = requests.last().expect("a request")["messages"].as_array();
    assert_eq!(
        folded[..folded.len() - 1],
        last.expect("messages")[..],
        "what was sent is what the journal says"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_outgrows_the_window_twice_ends_right() {
    let model = FakeModel::deciding(works).await;
    let program = Program::new(&model.base_url);
    small_window(&program);
    let run = program.run(&["run", OBJECTIVE, "--yes"]).await;
    assert_eq!(
        (run.code, words(run.out.trim())),
        (0, "Twelve files."),
        "{}",
        run.err
    );
    let records = records(&journals(&program.data())[0]);
    let digests = count(
        &records,
        |event| matches!(event, Event::Compacted { messages, .. } if *messages > 0),
    );
    assert!(digests >= 2, "{digests}");
    assert!(model.requests().iter().any(|request| {
        request["messages"][1]["content"]
            .as_str()
            .is_some_and(|text| text.contains("NOTES:"))
    }));
    let longest = model.bodies().iter().map(String::len).max();
    assert!(longest < Some(6000 * 4), "{longest:?}");
    check_end(&program, &model);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_was_loaded_stays_when_the_window_is_outgrown() {
    const RULE: &str = "Name resources with nouns, never verbs.";
    let load = || calls("load_skill", json!({"skillId": "rest-api"}));
    let model = FakeModel::deciding(move |request| {
        let text = request["messages"].to_string();
        match () {
            () if asks_for_notes(request) => works(request),
            () if !text.contains("rest-api\\\\\\\"") && !text.contains(RULE) => load(),
            // The last file is there: once more, which is for nothing.
            () if text.contains("is loaded already") => says("Twelve files."),
            () if text.contains(&format!("out{FILES}.txt")) => load(),
            () => works(request),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    small_window(&program);
    let skill = program.workspace().join(".claude/skills/rest-api");
    fs::create_dir_all(&skill).expect("a folder");
    let text = format!("---\nname: rest-api\ndescription: Our APIs\n---\n\n{RULE}\n");
    fs::write(skill.join("SKILL.md"), text).expect("written");
    assert_eq!(program.run(&["trust"]).await.code, 0);
    let run = program.run(&["run", OBJECTIVE, "--yes"]).await;
    let said = (run.code, words(run.out.trim()));
    assert_eq!(said, (0, "Twelve files."), "{}", run.err);
    let records = records(&journals(&program.data())[0]);
    let digests = count(
        &records,
        |event| matches!(event, Event::Compacted { messages, .. } if *messages > 0),
    );
    assert!(digests >= 1, "{digests}");
    let requests = model.requests();
    let has = |request: &Value| request["messages"].to_string().matches(RULE).count();
    assert_eq!(has(&requests[0]), 0);
    let counted: Vec<usize> = requests[1..].iter().map(has).collect();
    assert!(counted.iter().all(|count| *count == 1), "{counted:?}");
    // The call that loaded it is gone: what is left of it stands in the digest.
    let last = requests.last().expect("a request");
    let first = last["messages"][1]["content"].as_str().expect("text");
    assert!(first.contains("<skill name=\"rest-api\">"), "{first}");
    check_end(&program, &model);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_around_a_compaction_changes_nothing() {
    for at in ["summary_asked", "summary_given", "compacted"] {
        let model = FakeModel::deciding(works).await;
        let program = Program::new(&model.base_url);
        small_window(&program);
        let mut child = program
            .command(&["run", OBJECTIVE, "--yes", "--json"])
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        loop {
            let line = out.next_line().await.expect("a line").expect("no end yet");
            if line.contains(&format!("\"{at}\"")) {
                break;
            }
        }
        child.kill().await.expect("killed");
        let path = journals(&program.data())[0].clone();
        let id = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let run = program.run(&["resume", &id, "--yes"]).await;
        assert_eq!(run.code, 0, "{at}: {} {}", run.out, run.err);
        check_end(&program, &model);
        let verified = program.run(&["audit", "verify"]).await;
        assert_eq!(verified.code, 0, "{}", verified.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_refused_as_too_long_is_shortened_and_tried_again() {
    let refuses = |request: &Value| match request["messages"].to_string().len() > 9_000 {
        true => error(
            400,
            "This model's maximum context length is 2048 tokens",
            "context_length_exceeded",
        ),
        false => works(request),
    };
    let model = FakeModel::deciding(refuses).await;
    let program = Program::new(&model.base_url);
    small_window(&program);
    program.config("limits.toml", "rounds_max = 60\n"); // the window is thought to be large
    let run = program.run(&["run", OBJECTIVE, "--yes"]).await;
    assert_eq!(
        (run.code, words(run.out.trim())),
        (0, "Twelve files."),
        "{}",
        run.err
    );
    let records = records(&journals(&program.data())[0]);
    let refused = count(
        &records,
        |event| matches!(event, Event::ModelFailed { kind, .. } if kind == "context_overflow"),
    );
    assert!(
        (1..=3).contains(&refused),
        "{refused}: what was refused is remembered"
    );
    check_end(&program, &model);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_was_left_out_is_read_again_from_the_journal() {
    let decides = |request: &Value| {
        let text = request["messages"].to_string();
        let results = text.matches("tool_call_id").count();
        if asks_for_notes(request) {
            return says("");
        }
        if text.contains("L33: line 33") && text.contains("\"read_output\"") {
            return says("Seen again.");
        }
        match text.contains("left out to make room") {
            true => calls(
                "read_output",
                json!({"call": "1.1", "start": 33, "end": 33}),
            ),
            false => calls(
                "read_lines",
                json!({"path": "long.txt", "start": 1, "end":  40 - results}),
            ),
        }
    };
    let model = FakeModel::deciding(decides).await;
    let program = Program::new(&model.base_url);
    small_window(&program);
    let run = program.run(&["run", "look"]).await;
    assert_eq!(
        (run.code, words(run.out.trim())),
        (0, "Seen again."),
        "{}",
        run.err
    );
    let last = model.requests().pop().expect("a request");
    let shown = last["messages"]
        .as_array()
        .expect("messages")
        .last()
        .expect("a result")["content"]
        .to_string();
    assert!(shown.contains("line 33 of the long file"), "{shown}");
}

/// Invariant 9 over a long session: what a provider can take from its cache.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_rounds_repeat_their_prefix_byte_for_byte() {
    let look = |n| {
        let lines = json!({"path": "long.txt", "start": 1, "end": n % 40 + 1});
        calls("read_lines", lines)
    };
    let rounds = (0..49).map(look).chain([says("Read.")]).collect();
    let model = FakeModel::start(rounds, None).await;
    let program = Program::new(&model.base_url);
    small_window(&program);
    program.config("limits.toml", "rounds_max = 60\n");
    let run = program.run(&["run", "read it all"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let bodies = model.bodies();
    assert_eq!(bodies.len(), 50);
    let (mut repeated, mut before) = (0, 0);
    for pair in bodies.windows(2) {
        let both = pair[0].bytes().zip(pair[1].bytes());
        repeated += both.take_while(|(then, now)| then == now).count();
        before += pair[0].len();
    }
    let share = repeated as f64 * 100.0 / before as f64;
    println!(
        "{share:.3} % of the bytes of a request are a prefix of the next one; {} bytes in the last",
        bodies[49].len()
    );
    assert!(share >= 99.0, "{share} %");
}
