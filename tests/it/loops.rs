//! A model that goes round in circles is told once, and stopped before it wastes more; one that works is left alone.
//!
//! Traces are data (`tests/vectors/loops*.tsv`), run through `step` and `apply` as a session does it, with the journal
//! read back from its text before every call.

use crate::support;
use crate::support::{Rig, calls, run_command, says, texts};
use journeyman::agent::apply::apply;
use journeyman::agent::event::{
    Answer, By, Call, CallId, CheckpointTaken, EndReason, Event, FileChange, Inbound, Names,
    Outcome, Record, Status, Timestamp, TreeId, Via,
};
use journeyman::agent::limits::{DEFAULTS, Limits};
use journeyman::agent::mask::Masks;
use journeyman::agent::state::State;
use journeyman::agent::step::{Decision, Effect, Look, Policy, Resume, step};
use journeyman::gate::{
    self, BUILT_IN, Facts, GatePolicy, GateSettings, PathFact, Place, ProgramFact, Touch,
};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const OWNER: &str = "ana";
const STEPS_MAX: usize = 10_000;

/// One call of a trace, and what comes of it.
#[derive(Debug, Clone)]
struct Move {
    tool: String,
    argument: String,
    status: Status,
    result: String,
    /// The state that the workspace is in afterwards.
    tree: Option<String>,
    /// Whether our own tool changed it, so that its diff is known.
    edit: bool,
    /// The person says this first.
    said: Option<String>,
}

/// Where the model was told, and which call did not run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    warned: Vec<usize>,
    stopped: Option<usize>,
}

/// How a trace is played.
#[derive(Debug, Clone, Copy)]
struct Play {
    calls_a_round: usize,
    /// Whether the workspace's state can be told.
    trees: bool,
}

fn policy() -> Policy {
    let names = |text: &str| text.split(' ').map(str::to_owned).collect();
    let settings = GateSettings {
        allowlist: names("echo ls cat git grep"),
        write_enabled: true,
        protected_branches: names("main"),
    };
    Policy {
        gate: GatePolicy::load(&[("built in", BUILT_IN)], settings).expect("the built-in policy"),
        limits: Limits {
            rounds_max: 1_000,
            calls_max: 100,
            ..toml::from_str(DEFAULTS).expect("the limits")
        },
        resume: Resume::Ask,
        model: "m".into(),
        price: None,
        aliases: Default::default(),
        masks: Masks::default(),
    }
}

struct Player<'a> {
    policy: &'a Policy,
    moves: &'a [Move],
    play: Play,
    journal: Vec<Record>,
    state: State,
    next: usize,
    tree: String,
    looks: usize,
    running: Vec<Call>,
}

fn line(seq: u64, event: Event) -> Record {
    Record {
        seq,
        at: Timestamp(i64::try_from(seq).expect("a short journal")),
        event,
        prev: String::new(),
        hash: seq.to_string(),
    }
}

impl<'a> Player<'a> {
    fn new(policy: &'a Policy, moves: &'a [Move], play: Play) -> Self {
        let opening = support::opening(OWNER);
        let first = line(1, Event::SessionStarted(Box::new(opening)));
        let state = State::begin(&first, &texts()).expect("an opening");
        Self {
            policy,
            moves,
            play,
            journal: vec![first],
            state,
            next: 0,
            tree: "start".into(),
            looks: 0,
            running: Vec::new(),
        }
    }

    fn record(&mut self, event: Event) {
        let record = line(self.state.seq + 1, event);
        if let Err(error) = apply(&mut self.state, &record) {
            panic!("{error} by {:?}", record.event);
        }
        self.journal.push(record);
    }

    /// Another process: nothing but the journal's text is left.
    fn fold(&mut self) {
        let mut state = State::begin(&self.journal[0], &texts()).expect("an opening");
        for record in &self.journal[1..] {
            let text = serde_json::to_string(record).expect("it serialises");
            let read: Record = serde_json::from_str(&text).expect("it reads back");
            apply(&mut state, &read).expect("the journal reads back");
        }
        self.state = state;
    }

    fn say(&mut self, text: &str) {
        let id = format!("m{}", self.state.seq);
        let message = Inbound::text(id, OWNER, text);
        self.record(Event::MessageReceived { message });
    }

    fn run(&mut self) -> Seen {
        self.say("do it");
        self.go()
    }

    /// As `Session::run` does it, until there is nothing left to do.
    fn go(&mut self) -> Seen {
        for _ in 0..STEPS_MAX {
            match step(&self.state, self.policy) {
                Decision::Record(event) => self.record(*event),
                Decision::Look(look) => {
                    let event = self.look(look);
                    self.record(event);
                }
                Decision::Perform(effect) => {
                    self.record(effect.intent());
                    match *effect {
                        Effect::AskModel { round, .. } => self.answer(round),
                        Effect::RunTool { call, .. } => self.running.push(call.into_inner()),
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
                        Effect::Stop => {}
                        Effect::Fetch { .. } => unreachable!("nothing is sent"),
                        Effect::Summarise { .. } => unreachable!("no trace outgrows a window"),
                    }
                }
                Decision::Wait => match self.running.pop() {
                    Some(call) => self.finish(&call),
                    None if self.state.question().is_some() => self.approve(),
                    None => return self.seen(),
                },
            }
        }
        panic!("it goes on for ever");
    }

    /// As `--yes` does it: nobody looks on.
    fn approve(&mut self) {
        let (_, question) = self.state.question().expect("a question");
        let approval = question.approval.clone();
        let by = By {
            who: OWNER.into(),
            via: Via::Flag,
            message: None,
        };
        self.record(Event::ApprovalGiven {
            approval,
            by,
            always: None,
        });
    }

    fn look(&mut self, look: Look) -> Event {
        match look {
            Look::Examine { call, touches, .. } => Event::CallExamined {
                facts: self.facts(&touches),
                expect: None,
                call: call.id,
            },
            Look::Probe { .. } => panic!("nothing is in doubt here"),
            Look::Brief { .. } => panic!("the workspace has no files of its own"),
            Look::Mcp { .. } => panic!("there are no MCP servers"),
            Look::Graph { .. } | Look::Outputs { .. } => panic!("there are no plans"),
            Look::Spend { .. } => panic!("nobody asks what it cost"),
            Look::Workspaces { .. } | Look::Chain { .. } => panic!("nobody asks for the chain"),
            Look::Tree { call } => {
                self.looks += 1;
                Event::TreeSeen {
                    call,
                    tree: self.play.trees.then(|| self.tree.clone()),
                }
            }
        }
    }

    fn facts(&self, touches: &[Touch]) -> Facts {
        let wants = gate::wants(&self.policy.gate, touches);
        let path = |written: String| {
            let fact = PathFact {
                resolved: format!("/w/shop/{written}"),
                place: Place::Workspace,
                exists: true,
            };
            (written, fact)
        };
        let program = |name: String| {
            let path = format!("/usr/bin/{name}");
            (name, ProgramFact::System { path })
        };
        Facts {
            paths: wants.paths.into_iter().map(path).collect(),
            programs: wants.programs.into_iter().map(program).collect(),
            ..Facts::default()
        }
    }

    /// The next calls of the trace; after the last one, the end.
    fn answer(&mut self, round: u32) {
        self.fold();
        let rest = &self.moves[self.next..];
        // What the person says comes between two rounds.
        let until = rest.iter().skip(1).position(|m| m.said.is_some());
        let until = until.map_or(rest.len(), |at| at + 1);
        let now = &rest[..until.min(self.play.calls_a_round)];
        if let Some(text) = now.first().and_then(|m| m.said.clone()) {
            self.say(&text);
            let Decision::Record(taken) = step(&self.state, self.policy) else {
                panic!("the message is taken");
            };
            self.record(*taken);
        }
        let call = |(position, m): (usize, &Move)| Call {
            id: CallId(format!("{round}.{}", position + 1)),
            wire_id: format!("w{}", self.next + position + 1),
            tool: m.tool.clone(),
            arguments: arguments(m),
        };
        let calls: Vec<Call> = now.iter().enumerate().map(call).collect();
        self.next += now.len();
        let text = if calls.is_empty() { "Done." } else { "" };
        let answer = Answer {
            text: text.into(),
            calls,
            finish: "stop".into(),
            ..Answer::default()
        };
        self.record(Event::ModelAnswered { round, answer });
    }

    fn finish(&mut self, call: &Call) {
        let number: usize = call.wire_id[1..].parse().expect("a number");
        let m = &self.moves[number - 1];
        if let Some(tree) = &m.tree {
            self.tree.clone_from(tree);
        }
        let mut outcome = Outcome::new(m.status, m.result.clone());
        if m.edit {
            outcome.changes = vec![FileChange {
                path: m.argument.clone(),
                added: 1,
                removed: 1,
                diff: format!("to {}", self.tree),
            }];
        }
        let watched = self
            .state
            .pending(&call.id)
            .is_some_and(|p| p.warning.is_some());
        outcome.tree = (watched && self.play.trees).then(|| self.tree.clone());
        self.record(Event::ToolFinished {
            call: call.id.clone(),
            outcome,
        });
    }

    fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        for wire in self.state.conversation.messages() {
            let message: Value = serde_json::from_str(wire.get()).expect("JSON");
            if message["role"] != "tool" {
                continue;
            }
            let number = message["tool_call_id"]
                .as_str()
                .and_then(|id| id[1..].parse().ok());
            let number = number.expect("a number");
            let text = message["content"].as_str().expect("a text");
            assert!(text.matches("[Warning:").count() <= 1, "{text}");
            if text.contains("[Warning:") {
                seen.warned.push(number);
            }
            if text.starts_with("Not run: the turn reached a limit") {
                seen.stopped.get_or_insert(number);
            }
        }
        let stopped = self.state.last_end == Some(EndReason::Limit);
        let reached = self.journal.iter().any(
            |record| matches!(&record.event, Event::LimitReached { limit, .. } if limit == "loop"),
        );
        assert!(!stopped || reached && seen.stopped.is_some());
        seen
    }
}

fn arguments(m: &Move) -> String {
    let argument = &m.argument;
    match m.tool.as_str() {
        "run_command" => json!({"command": argument}),
        "read_lines" => {
            let (path, range) = argument.split_once(' ').unwrap_or((argument, "1 9"));
            let (start, end) = range.split_once(' ').expect("two lines");
            let line = |text: &str| text.parse::<u32>().expect("a line");
            json!({"path": path, "start": line(start), "end": line(end)})
        }
        "search" => json!({"pattern": argument}),
        "apply_patch" => json!({"edits": [{"path": argument, "search": "a", "replace": "b"}]}),
        "write_file" => json!({"path": argument, "content": "a"}),
        "git_commit" => json!({"message": argument}),
        "list_files" | "git_status" | "git_diff" => json!({}),
        _ => json!({"it": argument}),
    }
    .to_string()
}

/// `tool argument => result`, with `!` after the tool where the workspace is in a new state afterwards, `@NAME` where it
/// is in that one, `FAIL` before the result of a call that fails, and `TEXT || ` before it all where the person speaks.
fn read_move(text: &str, number: usize) -> Move {
    let (said, text) = match text.split_once(" || ") {
        Some((said, text)) => (Some(said.trim().to_owned()), text),
        None => (None, text),
    };
    let (call, result) = text.split_once("=>").unwrap_or((text, ""));
    let (head, argument) = call.trim().split_once(' ').unwrap_or((call.trim(), ""));
    let (tool, tree) = match (head.strip_suffix('!'), head.split_once('@')) {
        (Some(tool), _) => (tool, Some(format!("new {number}"))),
        (None, Some((tool, state))) => (tool, Some(state.to_owned())),
        (None, None) => (head, None),
    };
    let failed = result.trim().strip_prefix("FAIL");
    Move {
        tool: tool.to_owned(),
        argument: argument.trim().to_owned(),
        status: if failed.is_some() {
            Status::Failed
        } else {
            Status::Done
        },
        result: failed.unwrap_or(result).trim().to_owned(),
        edit: tree.is_some() && ["apply_patch", "write_file"].contains(&tool),
        tree,
        said,
    }
}

/// `warn at 3, stop before 5 runs`.
fn expected(text: &str) -> Seen {
    let number = |marker: &str| {
        let rest = text.split(marker).nth(1)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let seen = Seen {
        warned: number("warn at ").into_iter().collect(),
        stopped: number("stop before "),
    };
    assert!(
        seen != Seen::default() || text.starts_with("nothing"),
        "{text}"
    );
    seen
}

fn vectors(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(name);
    fs::read_to_string(path).expect("the vectors")
}

/// A letter as a call: by our own tool or by a command, which leaves no diff.
fn letter(text: &str, number: usize, by_command: bool) -> Move {
    let name: String = text.chars().take(1).collect();
    let changes = text.ends_with('!');
    let tool = match changes && !by_command {
        true => "apply_patch",
        false => "run_command",
    };
    let argument = match tool {
        "apply_patch" => name.clone(),
        _ => format!("echo {name}"),
    };
    Move {
        tool: tool.into(),
        argument,
        status: if name == "F" {
            Status::Failed
        } else {
            Status::Done
        },
        result: match text.ends_with('~') {
            true => format!("result {number}"),
            false => format!("Exit code: 0 | Duration: {number}ms\nthe same"),
        },
        tree: changes.then(|| format!("tree {number}")),
        edit: changes && !by_command,
        said: None,
    }
}

#[test]
fn every_vector_comes_out_as_it_says() {
    let policy = policy();
    let mut played = 0;
    for row in vectors("loops.tsv")
        .lines()
        .filter(|row| !row.starts_with('#'))
    {
        let (calls, wanted) = row.split_once('\t').expect("two columns");
        for (by_command, calls_a_round) in [(false, 1), (true, 1), (false, 3), (true, 2)] {
            let letters = calls.split(' ').enumerate();
            let moves: Vec<Move> = letters
                .map(|(i, text)| letter(text, i + 1, by_command))
                .collect();
            let play = Play {
                calls_a_round,
                trees: true,
            };
            let seen = Player::new(&policy, &moves, play).run();
            assert_eq!(seen, expected(wanted), "{row} ({by_command}, {play:?})");
            played += 1;
        }
    }
    assert_eq!(played, 15 * 4);
}

fn play_corpus(name: &str, plays: &[Play]) -> usize {
    let policy = policy();
    let corpus = vectors(name);
    let mut traces = 0;
    for block in corpus
        .split("\n\n")
        .filter(|block| !block.trim().is_empty())
    {
        let mut lines = block.lines().filter(|line| !line.starts_with('#'));
        let Some((name, wanted)) = lines.next().and_then(|head| head.split_once('\t')) else {
            continue;
        };
        let moves: Vec<Move> = lines
            .enumerate()
            .map(|(i, line)| read_move(line, i + 1))
            .collect();
        assert!(!moves.is_empty(), "{name}");
        for play in plays {
            let seen = Player::new(&policy, &moves, *play).run();
            let wanted = match wanted.split_once("; blind: ") {
                Some((_, wanted)) if !play.trees => wanted,
                Some((wanted, _)) => wanted,
                None => wanted,
            };
            assert_eq!(seen, expected(wanted), "{name} ({play:?})");
        }
        traces += 1;
    }
    traces
}

const ONE_BY_ONE: Play = Play {
    calls_a_round: 1,
    trees: true,
};

#[test]
fn honest_work_is_not_taken_for_a_loop() {
    let pairs = Play {
        calls_a_round: 2,
        trees: true,
    };
    let traces = play_corpus("loops_honest.tsv", &[ONE_BY_ONE, pairs]);
    assert!(traces >= 20, "{traces} traces");
}

#[test]
fn going_round_in_circles_is_told_once_and_then_stopped() {
    let blind = Play {
        calls_a_round: 1,
        trees: false,
    };
    let traces = play_corpus("loops_stuck.tsv", &[ONE_BY_ONE, blind]);
    assert!(traces >= 20, "{traces} traces");
}

#[test]
fn ordinary_rounds_never_ask_for_the_state_of_the_workspace() {
    let policy = policy();
    let text = [
        "run_command cargo test => 1 failed",
        "apply_patch! src/a.rs => Patched",
        "run_command cargo test => 1 failed",
        "apply_patch! src/c.rs => Patched",
        "run_command cargo test => 1 failed",
        "read_lines a 1 9 => one",
        "apply_patch! src/b.rs => Patched",
        "run_command cargo test => ok",
    ];
    let moves: Vec<Move> = text
        .iter()
        .enumerate()
        .map(|(i, text)| read_move(text, i))
        .collect();
    let mut player = Player::new(&policy, &moves, ONE_BY_ONE);
    assert_eq!(player.run(), Seen::default());
    assert_eq!(player.looks, 0);
}

#[test]
fn a_word_of_the_person_or_a_resume_starts_the_count_afresh() {
    let policy = policy();
    let same = |_| read_move("run_command echo a => a", 1);
    let moves: Vec<Move> = (0..5).map(same).collect();
    let mut player = Player::new(&policy, &moves, ONE_BY_ONE);
    assert_eq!(player.run().stopped, Some(5));
    let text = player
        .journal
        .iter()
        .find_map(|record| match &record.event {
            Event::TurnEnded { text, .. } => Some(text.clone()),
            _ => None,
        });
    let text = text.expect("the turn ended");
    assert!(
        text.contains("echo a") && text.contains("/agent-resume"),
        "{text}"
    );
    // The same four times more, after the person said to go on: told again, not stopped.
    let moves: Vec<Move> = (0..4).map(same).collect();
    player.moves = &moves;
    player.next = 0;
    player.say("/agent-resume");
    let told = |player: &Player<'_>| {
        let wires = player.state.conversation.messages().iter();
        wires
            .filter(|wire| wire.get().contains("[Warning:"))
            .count()
    };
    assert_eq!(told(&player), 1);
    player.go();
    assert_eq!(player.state.last_end, Some(EndReason::Done));
    assert_eq!(told(&player), 2);
}

/// Real tools in a real folder, with a repository and without: the command's result is the same each time, but the
/// workspace moves.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_changes_files_is_progress_although_it_says_the_same() {
    for in_repository in [true, false] {
        let work = run_command("echo x >> log.txt");
        let look = run_command("cat notes.txt");
        let mut replies = Vec::new();
        for _ in 0..6 {
            replies.extend([look.clone(), work.clone()]);
        }
        replies.push(says("Done."));
        let mut rig = Rig::new(&replies);
        if !in_repository {
            std::fs::remove_dir_all(rig.workspace().join(".git")).unwrap();
        }
        rig.say("go").await;
        for _ in 0..6 {
            rig.question().await;
            rig.try_say("yes", crate::support::OWNER, Via::Flag)
                .await
                .expect("it is taken");
        }
        assert_eq!(rig.answer().await, "Done.");
        let told = rig
            .state()
            .conversation
            .messages()
            .iter()
            .any(|wire| wire.get().contains("[Warning:"));
        assert!(!told, "{}", rig.transcript());
    }
}

/// The same with a command that leaves the workspace as it was.
#[tokio::test(flavor = "multi_thread")]
async fn commands_that_get_nowhere_end_the_turn_and_a_message_goes_on() {
    let mut replies = Vec::new();
    for _ in 0..4 {
        replies.extend([run_command("cat notes.txt"), run_command("ls")]);
    }
    replies.push(says("I do something else."));
    let mut rig = Rig::new(&replies);
    rig.say("go").await;
    let end = rig.answer().await;
    assert!(
        end.contains("run_command cat notes.txt → run_command ls"),
        "{end}"
    );
    let state = rig.state();
    assert_eq!(state.last_end, Some(EndReason::Limit));
    let told = state.conversation.messages().iter();
    assert_eq!(
        told.filter(|wire| wire.get().contains("[Warning:")).count(),
        1
    );
    let ran = rig
        .records()
        .iter()
        .filter(|record| matches!(record.event, Event::ToolStarted { .. }))
        .count();
    assert_eq!(ran, 7, "the eighth call does not run");
    rig.restart().await;
    rig.say("look at the log instead").await;
    assert_eq!(rig.answer().await, "I do something else.");
}

/// What is repeated within one round counts, but nobody is stopped before the warning could be read.
#[tokio::test(flavor = "multi_thread")]
async fn repeats_within_one_round_are_told_and_the_next_one_does_not_run() {
    let read = || {
        let range = json!({"path": "notes.txt", "start": 1, "end": 2});
        crate::support::call("read_lines", range)
    };
    let five: Vec<Value> = (0..5).map(|_| read()).collect();
    let mut rig = Rig::new(&[calls(&five), calls(&[read()]), says("never")]);
    rig.say("go").await;
    let end = rig.answer().await;
    assert!(end.contains("read_lines notes.txt"), "{end}");
    let ran = |record: &&Record| matches!(record.event, Event::ToolStarted { .. });
    assert_eq!(rig.records().iter().filter(ran).count(), 5);
    let state = rig.state();
    let told = state.conversation.messages().iter();
    assert_eq!(
        told.filter(|wire| wire.get().contains("[Warning:")).count(),
        1
    );
}
