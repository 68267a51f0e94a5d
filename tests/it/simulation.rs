//! The deciding half under everything at once: messages, outcomes, kills and power cuts in any order.
//!
//! A world without I/O drives `step`, `apply` and `recovery` as a session does. It keeps its own account of what really
//! happened, and holds every decision against it. `PROPTEST_CASES` sets how many histories are tried,
//! `PROPTEST_RNG_SEED` which ones.

use crate::support;
use crate::support::{generated, texts};
use journeyman::agent::apply::apply;
use journeyman::agent::brief::Brief;
use journeyman::agent::carry::Carried;
use journeyman::agent::charter::Charter;
use journeyman::agent::event::{
    Answer, By, Call, CallId, CheckpointTaken, Closed, CommandWish, DraftCost, Drafted,
    EffectClass, Event, Expectation, ExpectedFile, Got, Image, Inbound, Loaded, Media, MediaKind,
    Names, NotDelivered, Opening, Outcome, Probe, Record, Restored, Scheduled, Status, TheirKind,
    Timestamp, TreeId, Usage, Via, Whole, WorkspaceRef,
};
use journeyman::agent::forms::{ServerAnswer, ServerQuestion};
use journeyman::agent::language::Language;
use journeyman::agent::limits::{DEFAULTS, Limits};
use journeyman::agent::mask::Masks;
use journeyman::agent::mcp::{Offer, Offered};
use journeyman::agent::reading::together;
use journeyman::agent::recovery;
use journeyman::agent::replay::{Match, Today};
use journeyman::agent::roles::{AgentAnswer, Role};
use journeyman::agent::state::{Errand, ErrandWish, Pending, Phase, Stage, State, Stop};
use journeyman::agent::step::{Decision, Effect, Look, Policy, Resume, step};
use journeyman::agent::trust::TrustAnswer;
use journeyman::agent::workspaces::is_between_rounds;
use journeyman::agent::worktrees::{self, Made, Tree};
use journeyman::definitions::Origin;
use journeyman::gate::{
    self, BUILT_IN, Destination, Facts, GatePolicy, GateSettings, PathFact, Place, ProgramFact,
    Touch,
};
use journeyman::plan::{Graph, Task};
use journeyman::schedule::wish;
use journeyman::tools;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const OWNER: &str = "ana";
const OTHER_CHAT: &str = "http:desk";
/// Decisions in a row without anything from outside.
const STEPS_MAX: usize = 400;
/// What it may take to bring any history to its end.
const ENDING_MAX: usize = 600;

/// What comes from outside.
fn own_tree(name: &str, fresh: bool) -> Made {
    Made::Own {
        tree: Tree {
            workspace: WorkspaceRef {
                name: name.to_owned(),
                path: format!("/own/{name}"),
            },
            branch: "journeyman/s1".into(),
            commit: String::new(),
            links: Vec::new(),
        },
        fresh,
        uncommitted: 0,
    }
}

#[derive(Debug, Clone)]
enum Input {
    Say(&'static str),
    /// An answer with the code of the open question, or of the last one.
    Approve {
        always: bool,
    },
    Deny,
    Stranger(&'static str),
    /// The owner, from another of their chats; with the code of the open question, or of the last one, behind it.
    Elsewhere(&'static str),
    /// A running effect ends.
    Finish {
        which: usize,
        how: usize,
    },
    /// The channel says that the last message, or the one before, did not arrive.
    Undelivered {
        back: u64,
        may_pass: bool,
    },
    /// The person sends a file, with these words, or speaks.
    Send(MediaKind, &'static str),
    /// SIGKILL now: every line that was written stands.
    Kill,
    /// SIGKILL after so many more lines, in the middle of whatever goes on then.
    KillAfter(usize),
    /// SIGKILL, and nobody starts it again for two hours.
    Downtime,
    /// The machine loses power: of the lines since the last fsync, so many are left.
    PowerCut(usize),
    /// Time passes, until the next alarm or a few minutes.
    Wait,
    /// Programs and files are no longer what they were, or are again.
    Drift,
    /// A probe finds something else than before and after.
    Murk,
    /// SIGKILL, and so many lines at the end are damaged; a person says to go on from the good part.
    Damage(usize),
}

fn input() -> impl Strategy<Value = Input> {
    let word = prop::sample::select(vec![
        "fix the test",
        "yes",
        "no",
        "stop",
        "",
        "/cancel",
        "/undo",
        "/bring",
        "/merge",
        "/merge committed",
        "/undo 2 force",
        "/redo",
        "/diff",
        "/cron",
        "/cron delete 3",
        "/trust off",
        "/agents use reader",
        "/agents off",
        "/cron add @daily water the plants",
        "/agent-resume",
        "/agent-resume 1-2",
        "/new",
        "/agent",
        "/audit",
        "/approve",
        "/deny because",
        "/workspaces",
        "/workspace other",
        "/workspace shop",
        "/nonsense",
        "/review it",
        "/commands",
        "/ask src -- why?",
        "/ask",
        "/plan do it all",
        "/plan run",
        "/plan",
    ]);
    prop_oneof![
        6 => word.prop_map(Input::Say),
        2 => any::<bool>().prop_map(|always| Input::Approve { always }),
        1 => Just(Input::Deny),
        1 => prop::sample::select(vec!["yes", "/cancel", "/agent-resume"]).prop_map(Input::Stranger),
        1 => prop::sample::select(vec!["/approve", "/deny", "/cancel", "yes"]).prop_map(Input::Elsewhere),
        12 => (0..3_usize, 0..64_usize).prop_map(|(which, how)| Input::Finish { which, how }),
        1 => (0..2_u64, any::<bool>()).prop_map(|(back, may_pass)| Input::Undelivered { back, may_pass }),
        1 => prop::sample::select(vec!["", "look at this", "yes", "/cancel"])
            .prop_map(|caption| Input::Send(MediaKind::Document, caption)),
        1 => Just(Input::Send(MediaKind::Image, "like this")),
        1 => Just(Input::Send(MediaKind::Audio, "")),
        1 => Just(Input::Kill),
        1 => Just(Input::Downtime),
        2 => (0..14_usize).prop_map(Input::KillAfter),
        1 => (0..4_usize).prop_map(Input::PowerCut),
        1 => Just(Input::Wait),
        1 => Just(Input::Drift),
        1 => Just(Input::Murk),
        1 => (1..25_usize).prop_map(Input::Damage),
    ]
}

/// The process is gone.
struct Killed;

enum Running {
    Model(u32),
    Notes(u32),
    Tool(Call, EffectClass),
    Send(u64),
    Fetch(String, MediaKind),
    Load(String, CommandWish),
    /// Of a plan, and what may come of it.
    Draft(Box<dyn Fn(usize) -> Event>),
    /// With trees, and what may come of it.
    Trees(Box<dyn Fn(usize) -> Event>),
}

/// An agent that only reads.
fn reader() -> Role {
    Role {
        name: "reader".into(),
        origin: Origin::Workspace,
        text: "Only read.".into(),
        tools: Some(["read_lines".to_owned()].into()),
        without: Default::default(),
        model: None,
        skills: Vec::new(),
    }
}

fn gate_policy(write_enabled: bool) -> GatePolicy {
    let names = |text: &str| text.split(' ').map(str::to_owned).collect();
    let settings = GateSettings {
        allowlist: names("echo ls cat git grep"),
        write_enabled,
        protected_branches: names("main"),
    };
    GatePolicy::load(&[("built in", BUILT_IN)], settings).expect("the built-in policy")
}

static SHARED: LazyLock<[Policy; 2]> = LazyLock::new(|| {
    [Resume::Ask, Resume::Auto].map(|resume| Policy {
        gate: gate_policy(true),
        limits: Limits {
            rounds_max: 4,
            calls_max: 3,
            // So little that it is soon full.
            context_tokens: 700,
            ..toml::from_str(DEFAULTS).expect("the limits")
        },
        resume,
        model: "m".into(),
        price: None,
        aliases: Default::default(),
        masks: Masks::default(),
    })
});

struct Simulation {
    policy: &'static Policy,
    journal: Vec<Record>,
    /// Lines that a power cut leaves.
    durable: usize,
    state: State,
    now: i64,
    /// When somebody last wrote.
    heard: i64,
    messages: usize,
    lines_left: Option<usize>,
    running: Vec<Running>,
    drift: bool,
    murk: bool,
    /// Calls with consequences that really began, and how often.
    executions: BTreeMap<CallId, usize>,
    /// Of these, the ones whose end was never written down.
    open_ended: BTreeSet<CallId>,
    /// Their spools, by the start of the machine that made them.
    spools: BTreeMap<CallId, u32>,
    boot: u32,
    spent: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
    last_code: String,
    last_request: Vec<String>,
}

impl Simulation {
    fn new(resume: Resume) -> Self {
        Self::gathering(resume, 0)
    }

    /// Messages that start a turn wait so long for each other.
    fn gathering(resume: Resume, together_ms: u64) -> Self {
        let scheduled = Scheduled {
            job: 1,
            slot: Timestamp(0),
            timezone: "UTC".into(),
            terms: Default::default(),
        };
        let opening = Opening {
            // One kind is started by the clock, reminds of its questions, and works beside the person's folders.
            worktrees: (resume == Resume::Auto).then(|| "s1".to_owned()),
            language: match resume {
                Resume::Auto => Language::Spanish,
                Resume::Ask => Language::English,
            },
            together_ms,
            welcome: resume == Resume::Auto,
            scheduled: (resume == Resume::Auto).then(|| Box::new(scheduled)),
            brief: Some(Brief {
                trusted: true,
                ..Brief::default()
            }),
            mcp: true,
            ..support::opening(OWNER)
        };
        let first = line(1, 0, Event::SessionStarted(Box::new(opening)));
        let state = State::begin(&first, &texts()).expect("an opening");
        let policy = &SHARED[usize::from(resume == Resume::Auto)];
        Self {
            policy,
            journal: vec![first],
            durable: 1,
            state,
            now: 0,
            heard: 0,
            messages: 0,
            lines_left: None,
            running: Vec::new(),
            drift: false,
            murk: false,
            executions: BTreeMap::new(),
            open_ended: BTreeSet::new(),
            spools: BTreeMap::new(),
            boot: 1,
            spent: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            last_code: "ZZZZ".into(),
            last_request: Vec::new(),
        }
    }

    fn take(&mut self, input: &Input) {
        self.now += 10;
        let alive = match input {
            Input::Say(text) => self.say(OWNER, text),
            Input::Approve { always } => {
                let always = if *always { " always" } else { "" };
                self.say(OWNER, &format!("/approve {}{always}", self.last_code))
            }
            Input::Deny => self.say(OWNER, &format!("/deny {} not that", self.last_code)),
            Input::Stranger(text) => self.say("eve", text),
            Input::Elsewhere(text) => self.say_elsewhere(text),
            Input::Finish { which, how } => self.finish(*which, *how),
            Input::Undelivered { back, may_pass } => self.undelivered(*back, *may_pass),
            Input::Send(kind, caption) => self.send(*kind, caption),
            Input::Kill => Err(Killed),
            Input::Downtime => {
                self.now += 7_200_000;
                Err(Killed)
            }
            Input::KillAfter(lines) => {
                self.lines_left = Some(*lines);
                Ok(())
            }
            Input::PowerCut(left) => {
                self.journal
                    .truncate((self.durable + left).min(self.journal.len()));
                self.boot += 1;
                Err(Killed)
            }
            Input::Damage(lines) => {
                self.damage(*lines);
                Err(Killed)
            }
            Input::Wait => {
                let alarm = self.state.next_alarm().map(|(at, _)| at.0);
                self.now = self.now.max(alarm.unwrap_or(self.now + 20_000));
                self.settle()
            }
            Input::Drift => {
                self.drift = !self.drift;
                Ok(())
            }
            Input::Murk => {
                self.murk = !self.murk;
                Ok(())
            }
        };
        if alive.is_err() {
            self.start_again();
        }
    }

    /// What really happened stays so, whatever is known of it.
    fn damage(&mut self, lines: usize) {
        let keep = self.journal.len().saturating_sub(lines).max(1);
        let lost = self.journal.split_off(keep);
        for record in &lost {
            if let Event::MessageReceived { message } = &record.event {
                self.acknowledged.remove(&message.id);
            }
        }
        let mut state = State::begin(&self.journal[0], &texts()).expect("an opening");
        for record in &self.journal[1..] {
            apply(&mut state, record).expect("it was legal");
        }
        let open = state.calls().iter().filter(|pending| {
            let ran = self.executions.contains_key(&pending.call.id);
            ran && !matches!(pending.stage, Stage::Finished(_))
        });
        self.open_ended = open.map(|pending| pending.call.id.clone()).collect();
        self.state = state;
        self.running.clear();
        self.last_request.clear();
        self.lines_left = None;
        if lost.is_empty() {
            return;
        }
        let told = Event::TailSetAside {
            lines: lost.len() as u64,
            bytes: 0,
            digest: String::new(),
            file: "s1.damaged-0".into(),
            what: "its hash does not fit".into(),
        };
        assert!(self.record(told).is_ok());
    }

    fn say(&mut self, from: &str, text: &str) -> Result<(), Killed> {
        self.messages += 1;
        let id = format!("m{}", self.messages);
        self.hear(Inbound::text(id, from, text))
    }

    /// Only an answer counts that says to what.
    fn say_elsewhere(&mut self, word: &str) -> Result<(), Killed> {
        self.messages += 1;
        let (id, text) = (
            format!("m{}", self.messages),
            format!("{word} {}", self.last_code),
        );
        self.hear(Inbound {
            stands_for: Some(OWNER.into()),
            ..Inbound::text(id, OTHER_CHAT, text)
        })
    }

    fn hear(&mut self, message: Inbound) -> Result<(), Killed> {
        let id = message.id.clone();
        self.record(Event::MessageReceived { message })?;
        self.acknowledged.insert(id);
        self.heard = self.now;
        self.settle()
    }

    fn send(&mut self, kind: MediaKind, caption: &str) -> Result<(), Killed> {
        self.messages += 1;
        let id = format!("m{}", self.messages);
        let media = Media {
            id: "7".into(),
            kind,
            mime: "text/plain".into(),
            sha256: String::new(),
            name: "notes.txt".into(),
        };
        let message = Inbound {
            media: Some(Box::new(media)),
            ..Inbound::text(id.clone(), OWNER, caption)
        };
        self.record(Event::MessageReceived { message })?;
        self.acknowledged.insert(id);
        self.settle()
    }

    /// Told of any number of times, a message is sent again once.
    fn undelivered(&mut self, back: u64, may_pass: bool) -> Result<(), Killed> {
        self.messages += 1;
        let sent = self.state.sends.saturating_sub(back);
        let again = self.sent_again();
        let message = Inbound {
            via: Via::Notice,
            about: Some(format!("wamid.{sent}")),
            undelivered: Some(NotDelivered {
                code: 131_000,
                title: "no".into(),
                may_pass,
                closed: !may_pass && back == 1,
            }),
            ..Inbound::text(format!("m{}", self.messages), "channel", "")
        };
        self.record(Event::MessageReceived { message })?;
        self.settle()?;
        assert!(
            self.sent_again() <= again + 1,
            "{} is sent more than once again{}",
            sent,
            self.history()
        );
        Ok(())
    }

    fn sent_again(&self) -> usize {
        let again = self.state.outbox.iter().filter(|outgoing| outgoing.again);
        again.count()
    }

    /// Another process takes the journal over; it may be killed as well.
    fn start_again(&mut self) {
        self.lines_left = None;
        self.running.clear();
        self.last_request.clear();
        self.durable = self.journal.len();
        let mut state = State::begin(&self.journal[0], &texts()).expect("an opening");
        for record in &self.journal[1..] {
            let text = serde_json::to_string(record).expect("it serialises");
            let read: Record = serde_json::from_str(&text).expect("it reads back");
            assert_eq!(&read, record, "a line reads back as it was");
            if let Err(error) = apply(&mut state, &read) {
                panic!("the journal cannot be read back: {error}{}", self.history());
            }
        }
        self.state = state;
        for id in &self.acknowledged {
            assert!(
                self.state.seen.contains(id),
                "message {id} was lost{}",
                self.history()
            );
        }
        let taken_over = match recovery::on_start(&self.state) {
            Some(event) => self.record(event),
            None => Ok(()),
        };
        let _ = taken_over.and_then(|()| self.settle());
    }

    fn record(&mut self, event: Event) -> Result<(), Killed> {
        if let Some(left) = &mut self.lines_left {
            if *left == 0 {
                return Err(Killed);
            }
            *left -= 1;
        }
        self.check(&event);
        let record = line(self.state.seq + 1, self.now, event);
        let role = self.state.role.clone();
        if let Err(error) = apply(&mut self.state, &record) {
            panic!("{error} by {:?}{}", record.event, self.history());
        }
        if role != self.state.role {
            // Another agent has another prompt.
            self.last_request.clear();
        }
        if record.event.must_be_durable() {
            self.durable = self.journal.len() + 1;
        }
        if let Event::ToolFinished { outcome, .. } = &record.event
            && outcome.output == "Found in place."
        {
            assert!(
                self.state.changed.contains("a.txt"),
                "a file of ours is forgotten{}",
                self.history()
            );
        }
        if let Event::ApprovalAsked { approval, .. } = &record.event {
            self.last_code.clone_from(approval);
        }
        if let Event::Compacted { .. } = &record.event {
            self.last_request.clear();
        }
        self.journal.push(record);
        Ok(())
    }

    /// As `Session::run` does it, until there is nothing to do but to wait.
    fn settle(&mut self) -> Result<(), Killed> {
        for _ in 0..STEPS_MAX {
            if let Some((at, event)) = self.state.next_alarm()
                && at.0 <= self.now
            {
                self.record(event)?;
            }
            if let Some(event) = self.released() {
                self.record(event)?;
            }
            match step(&self.state, self.policy) {
                Decision::Record(event) => self.record(*event)?,
                Decision::Look(look) => {
                    let fact = self.look(look);
                    self.record(fact)?;
                }
                Decision::Perform(effect) => {
                    self.record(effect.intent())?;
                    // Killed between the intent and the effect, every other time.
                    if self.lines_left == Some(0) && self.now % 20 == 0 {
                        return Err(Killed);
                    }
                    self.start(*effect);
                }
                Decision::Wait => {
                    let trees = |running: &Running| matches!(running, Running::Trees(_));
                    let sends = |running: &Running| matches!(running, Running::Send(_));
                    let fetches = |running: &Running| {
                        matches!(running, Running::Fetch(..) | Running::Load(..))
                    };
                    let early = self.running.iter().any(sends);
                    let mut unread = self.state.unread.iter();
                    let gathers = |message: &Inbound| {
                        let opens = together::is_open(&self.state);
                        opens && together::members(&self.state).any(|one| one.id == message.id)
                    };
                    let is_early = |message: &Inbound| early && message.undelivered.is_some();
                    assert!(
                        unread.all(|message| is_early(message) || gathers(message))
                            || self.running.iter().any(fetches)
                            || self.running.iter().any(trees),
                        "a message is never taken{}",
                        self.history()
                    );
                    assert!(
                        !together::is_open(&self.state)
                            || self.running.iter().any(fetches)
                            || self.running.iter().any(trees)
                            || self.state.next_alarm().is_some(),
                        "it waits for more for ever{}",
                        self.history()
                    );
                    self.check_rest();
                    return Ok(());
                }
            }
        }
        panic!("it decides for ever{}", self.history());
    }

    /// What was held back until somebody wrote.
    fn released(&self) -> Option<Event> {
        let front = self
            .state
            .outbox
            .front()
            .filter(|front| front.due.is_some())?;
        let held = front.held?;
        let is_heard = Some(Timestamp(self.heard)) > held.heard;
        is_heard.then_some(Event::SendDue { send: front.send })
    }

    fn look(&self, look: Look) -> Event {
        match look {
            Look::Chain { message } => Event::ChainVerified {
                message,
                lines: self.state.seq,
                head: self.state.head.clone(),
                damage: None,
            },
            Look::Workspaces { message, name } => Event::WorkspacesSeen {
                message,
                names: vec!["other".into(), "shop".into()],
                wanted: name.map(workspace),
            },
            Look::Examine { call, touches, .. } => Event::CallExamined {
                facts: self.facts(&touches),
                expect: match call.tool.as_str() {
                    "write_file" => Some(expectation()),
                    "run_command" => Some(Expectation {
                        spool: Some(self.boot.to_string()),
                        ..Expectation::default()
                    }),
                    _ => None,
                },
                call: call.id,
            },
            Look::Graph { graph, tasks, .. } => Event::GraphExamined {
                graph,
                facts: tasks
                    .into_iter()
                    .map(|(task, touches)| (task, self.facts(&touches)))
                    .collect(),
            },
            Look::Outputs { graph, outputs } => Event::WholesSeen {
                graph,
                outputs: (outputs.into_iter())
                    .map(|(task, ..)| (task, Whole::TooLong { bytes: 1 << 20 }))
                    .collect(),
            },
            Look::Probe { call, expect } => {
                let class = self
                    .state
                    .pending(&call)
                    .map(|pending| class_of(&pending.call));
                let probe = match class {
                    Some(EffectClass::Probeable) if expect.is_some() && !self.murk => {
                        match self.open_ended.contains(&call) {
                            true => Probe::Happened {
                                output: "Found in place.".into(),
                            },
                            false => Probe::DidNotHappen,
                        }
                    }
                    Some(EffectClass::Opaque) if !self.murk && expect.is_some() => {
                        self.spool(&call, expect)
                    }
                    _ => Probe::Unclear {
                        why: "murky".into(),
                    },
                };
                Event::CallProbed { call, probe }
            }
            Look::Tree { call } => Event::TreeSeen { call, tree: None },
            Look::Brief { known, .. } => Event::BriefSeen {
                text: format!("They changed before line {}.", self.state.seq),
                brief: known,
            },
            Look::Mcp { known } => {
                // The server comes and goes.
                let offer = match self.drift {
                    true => Offer {
                        problems: vec!["notes: it ended".into()],
                        ..Offer::default()
                    },
                    false => notes_server(),
                };
                Event::McpSeen {
                    offer: (offer != *known).then(|| Box::new(offer)),
                }
            }
            Look::Spend { month, .. } => Event::SpendSeen {
                month,
                elsewhere: Some(Default::default()),
            },
        }
    }

    /// A keeper outlives every kill, and no power cut.
    fn spool(&self, call: &CallId, expect: Option<Expectation>) -> Probe {
        let now = self.boot.to_string();
        let same_boot = expect.and_then(|expect| expect.spool) == Some(now);
        match self.spools.get(call) {
            Some(boot) if *boot == self.boot && self.open_ended.contains(call) => Probe::Kept,
            None if same_boot => Probe::DidNotHappen,
            Some(_) | None => Probe::Unclear {
                why: "power cut".into(),
            },
        }
    }

    fn facts(&self, touches: &[Touch]) -> Facts {
        let wants = gate::wants(&self.policy.gate, touches);
        let path = |written: String| {
            let resolved = format!("/w/shop/{written}");
            let fact = PathFact {
                resolved,
                place: if self.drift {
                    Place::Outside
                } else {
                    Place::Workspace
                },
                exists: true,
            };
            (written, fact)
        };
        let program = |name: String| {
            let path = format!("/usr/bin/{name}");
            let fact = match self.drift {
                true => ProgramFact::Untrusted { path },
                false => ProgramFact::System { path },
            };
            (name, fact)
        };
        Facts {
            paths: wants.paths.into_iter().map(path).collect(),
            programs: wants.programs.into_iter().map(program).collect(),
            workspace: wants.workspace.map(workspace),
            ..Facts::default()
        }
    }

    fn start(&mut self, effect: Effect) {
        match effect {
            Effect::Stop => {}
            Effect::AskModel {
                round, messages, ..
            } => {
                let request: Vec<String> =
                    messages.iter().map(|wire| wire.get().to_owned()).collect();
                self.check_request(&request);
                self.last_request = request;
                self.running.push(Running::Model(round));
            }
            Effect::Summarise { round, .. } => self.running.push(Running::Notes(round)),
            Effect::Draft { graph, call, .. } => {
                self.running
                    .push(Running::Draft(Box::new(move |how| Event::GraphDrafted {
                        graph: graph.clone(),
                        call: call.clone(),
                        drafted: drafted(how),
                        cost: DraftCost::default(),
                        to_judge: call.is_some(),
                    })));
            }
            Effect::RunTool {
                call,
                class,
                approval,
                ..
            } => {
                let call = call.into_inner();
                self.check_run(&call, class, approval.as_deref());
                if class != EffectClass::Pure {
                    *self.executions.entry(call.id.clone()).or_default() += 1;
                    self.open_ended.insert(call.id.clone());
                    self.spools.insert(call.id.clone(), self.boot);
                    self.spent
                        .extend(approval.map(|code| self.use_of(&code, &call)));
                }
                self.running.push(Running::Tool(call, class));
            }
            Effect::Await { call } => {
                assert!(
                    self.open_ended.contains(&call.id),
                    "{} is waited for, and has its end{}",
                    call.id,
                    self.history()
                );
                self.running.push(Running::Tool(call, EffectClass::Opaque));
            }
            Effect::Send { outgoing } => self.running.push(Running::Send(outgoing.send)),
            Effect::Fetch { message, media } => {
                let fetches =
                    |running: &Running| matches!(running, Running::Fetch(..) | Running::Load(..));
                assert!(!self.running.iter().any(fetches), "two at a time");
                if media.kind != MediaKind::Audio {
                    let place = &self.state.worktrees;
                    let failed = place.failed.contains_key(&self.state.checkout.path);
                    assert!(
                        failed || worktrees::missing(&self.state).is_none(),
                        "a file without a place{}",
                        self.history()
                    );
                }
                self.running.push(Running::Fetch(message, media.kind));
            }
            Effect::LoadCommand { message, wish } => {
                let fetches =
                    |running: &Running| matches!(running, Running::Fetch(..) | Running::Load(..));
                assert!(!self.running.iter().any(fetches), "two at a time");
                self.running.push(Running::Load(message, wish));
            }
            Effect::Checkpoint {
                number,
                moment,
                drop,
                ..
            } => self.running.push(Running::Trees(Box::new(move |how| {
                let failed = how.is_multiple_of(4);
                Event::Checkpoint(CheckpointTaken {
                    number,
                    moment,
                    tree: (!failed).then(|| TreeId(format!("tree-{number}"))),
                    left_out: Names::default(),
                    dropped: if failed { Vec::new() } else { drop.clone() },
                    error: failed.then(|| "the disk is full".into()),
                })
            }))),
            Effect::PutBack { number, .. } => {
                self.running.push(Running::Trees(Box::new(move |how| {
                    let restored = match how % 4 {
                        0 => Restored::Failed { why: "no".into() },
                        1 => Restored::Conflict {
                            files: Names::default(),
                        },
                        _ => Restored::Done {
                            number,
                            tree: TreeId(format!("tree-{number}")),
                            files: Names::default(),
                        },
                    };
                    Event::PutBack { restored }
                })))
            }
            Effect::MakeWorktree {
                checkout, again, ..
            } => self.running.push(Running::Trees(Box::new(move |how| {
                let made = match how % 6 {
                    0 => Made::Failed {
                        why: "the disk is full".into(),
                    },
                    1 if !again => Made::Shared { why: "no".into() },
                    how => own_tree(&checkout.name, how == 2),
                };
                Event::WorktreeMade {
                    checkout: checkout.path.clone(),
                    made,
                }
            }))),
            Effect::Carry { .. } => {
                assert!(
                    is_between_rounds(&self.state) && self.state.checkpoints.open.is_none(),
                    "files are carried within a round{}",
                    self.history()
                );
                self.running
                    .push(Running::Trees(Box::new(|how| Event::Carried {
                        carried: match how % 4 {
                            0 => Carried::Failed { why: "no".into() },
                            1 => Carried::Uncommitted {
                                files: Names::default(),
                            },
                            2 => Carried::Brought {
                                files: Names::default(),
                                left_out: Names::default(),
                            },
                            _ => Carried::Merged {
                                branch: "journeyman/s".into(),
                                into: "main".into(),
                                commit: "2222222222222222".into(),
                                commits: how % 3,
                                files: 1,
                            },
                        },
                    })));
            }
            Effect::Errand {
                errand:
                    Errand {
                        wish: ErrandWish::Trust(_),
                        ..
                    },
            } => self
                .running
                .push(Running::Trees(Box::new(|how| Event::TrustAnswered {
                    answer: match how % 2 {
                        0 => TrustAnswer::Revoked { name: "w".into() },
                        _ => TrustAnswer::Refused { why: "no".into() },
                    },
                }))),
            Effect::Errand {
                errand:
                    Errand {
                        wish: ErrandWish::Agents(_),
                        ..
                    },
            } => self
                .running
                .push(Running::Trees(Box::new(|how| Event::AgentsAnswered {
                    answer: match how % 3 {
                        0 => AgentAnswer::Off,
                        1 => AgentAnswer::Refused { why: "no".into() },
                        _ => AgentAnswer::Chosen {
                            role: Box::new(reader()),
                        },
                    },
                }))),
            Effect::Errand { .. } => self.running.push(Running::Trees(Box::new(|how| {
                let answer = match how % 3 {
                    0 => wish::Answer::Missing { id: 3 },
                    1 => wish::Answer::Refused { why: "no".into() },
                    _ => wish::Answer::Done { id: 3 },
                };
                Event::CronAnswered { answer }
            }))),
            Effect::Diff { .. } => {
                self.running
                    .push(Running::Trees(Box::new(|_| Event::DiffShown {
                        text: String::new(),
                    })))
            }
        }
    }

    fn finish(&mut self, which: usize, how: usize) -> Result<(), Killed> {
        if self.running.is_empty() {
            return self.settle();
        }
        let ended = self.running.remove(which % self.running.len());
        if let Running::Tool(call, _) = &ended
            && how % 2 == 1
            && self.may_be_asked_by(call)
        {
            let asked = Event::ServerAsked {
                call: call.id.clone(),
                question: of_a_server(),
                expires_at: Timestamp(self.now + 60_000),
            };
            self.running.push(ended);
            self.record(asked)?;
            return self.settle();
        }
        let event = match &ended {
            Running::Trees(outcome) | Running::Draft(outcome) => outcome(how),
            Running::Model(round) => answer(*round, how),
            Running::Notes(round) => notes(*round, how),
            Running::Tool(call, class) => Event::ToolFinished {
                call: call.id.clone(),
                outcome: Outcome {
                    consequential: *class != EffectClass::Pure,
                    ..Outcome::new(
                        [Status::Done, Status::Failed, Status::Cancelled][how % 3],
                        "output",
                    )
                },
            },
            Running::Fetch(message, kind) => Event::MediaFetched {
                message: message.clone(),
                got: got(*kind, how),
            },
            Running::Load(message, wish) => Event::CommandLoaded {
                message: message.clone(),
                loaded: loaded(wish, how),
            },
            Running::Send(send) => Event::SendFinished {
                send: *send,
                ids: vec![format!("wamid.{send}")],
                error: (how.is_multiple_of(4)).then(|| "no".into()),
                retry_at: (how.is_multiple_of(8)).then(|| Timestamp(self.now + 10_000)),
                parts: 0,
                closed: how.is_multiple_of(16).then_some(Closed {
                    heard: Some(Timestamp(self.heard)),
                    invited: None,
                }),
            },
        };
        if let Running::Tool(call, _) = &ended {
            self.open_ended.remove(&call.id);
        }
        let recorded = self.record(event);
        // It ended, but nobody wrote it down.
        if let (Err(Killed), Running::Tool(call, class)) = (&recorded, &ended)
            && *class != EffectClass::Pure
        {
            self.open_ended.insert(call.id.clone());
        }
        recorded?;
        if let Running::Tool(call, _) = &ended {
            self.spools.remove(&call.id); // the journal has its result
        }
        self.settle()
    }

    /// As a session decides it, but of any tool: those of servers run too seldom here.
    fn may_be_asked_by(&self, call: &Call) -> bool {
        let runs = |pending: &Pending| matches!(pending.stage, Stage::Running(_));
        let goes_on = (self.state.turn.as_ref()).is_some_and(|turn| turn.stop == Stop::No);
        goes_on && self.state.pending(&call.id).is_some_and(runs) && !self.state.waits_for_person()
    }

    // --- what must hold --------------------------------------------------------------------------------------------

    /// What is written down about a call is true.
    fn check(&mut self, event: &Event) {
        match event {
            Event::ToolFinished { call, outcome } if self.open_ended.contains(call) => {
                let true_to_it = matches!(outcome.status, Status::Unknown)
                    || outcome.status == Status::Done && !outcome.output.starts_with("Not run");
                assert!(
                    true_to_it,
                    "call {call} ran, and this is what is said of it: {outcome:?}{}",
                    self.history()
                );
                self.open_ended.remove(call);
            }
            Event::ApprovalGiven { by, .. }
            | Event::Cancelled { by, .. }
            | Event::Resumed { by } => {
                let from_elsewhere =
                    by.who == OTHER_CHAT && matches!(event, Event::ApprovalGiven { .. });
                assert!(
                    by.who == OWNER || by.who == "configuration" || from_elsewhere,
                    "{by:?}{}",
                    self.history()
                );
            }
            Event::ApprovalExpired { .. } => {
                let late: Vec<_> = self.state.unread.iter().map(|m| &m.text).collect();
                assert!(
                    late.is_empty(),
                    "expired before {late:?} was read{}",
                    self.history()
                );
            }
            Event::WorkspaceSwitched { .. } => {
                let at_work = |running: &Running| {
                    !matches!(
                        running,
                        Running::Send(_) | Running::Fetch(..) | Running::Load(..)
                    )
                };
                assert!(
                    !self.running.iter().any(at_work),
                    "the workspace is switched under what runs in it{}",
                    self.history()
                );
            }
            Event::ServerAnswered { call, by, answer } => {
                let asked = self.state.server_question();
                assert!(
                    asked.is_some_and(|(asking, _, _)| asking.id == *call),
                    "nobody asked{}",
                    self.history()
                );
                let given = matches!(answer, ServerAnswer::Given { .. });
                let is_owners = |by: &By| by.who == OWNER || by.who == OTHER_CHAT;
                assert!(
                    by.as_ref().map_or(!given, is_owners),
                    "nobody but the owner answers{}",
                    self.history()
                );
            }
            Event::SendStarted { text, .. } => {
                assert!(text.matches("sent again").count() <= 1, "{text}");
            }
            Event::LimitReached { limit, .. } => {
                // Everything but waiting and being dead is quick here.
                assert_ne!(limit, "limit_time", "{}", self.history());
            }
            _ => {}
        }
    }

    /// What a session does that works beside the person's folders, it does there.
    fn check_place(&self) {
        let missing = worktrees::missing(&self.state);
        assert_eq!(missing, None, "{}", self.history());
        assert_eq!(
            self.state.workspace,
            worktrees::place_of(&self.state, &self.state.checkout),
            "{}",
            self.history()
        );
    }

    /// Nothing runs that was neither allowed nor approved; no approval is spent twice; no opaque call runs again unasked.
    fn check_run(&self, call: &Call, class: EffectClass, approval: Option<&str>) {
        self.check_place();
        let facts = self.last(|event| match event {
            Event::CallExamined {
                call: id, facts, ..
            } if *id == call.id => Some(facts.clone()),
            _ => None,
        });
        let (examined, facts) = facts.expect("it was examined");
        let switched = self.last(|event| match event {
            Event::WorkspaceSwitched { .. } => Some(()),
            _ => None,
        });
        assert!(
            switched.is_none_or(|(switched, ())| switched < examined),
            "{} runs elsewhere than where it was examined{}",
            call.id,
            self.history()
        );
        let touches = match self.state.mcp_tool(&call.tool) {
            Some(offered) => vec![Touch::Mcp(gate::McpTouch::of(offered))],
            None => {
                let tool = tools::find(&call.tool).expect("a tool");
                (tool.touches)(&call.json().expect("arguments")).expect("touches")
            }
        };
        let verdict = gate::judge(&self.policy.gate, &touches, &facts);
        let granted = verdict
            .pattern
            .as_ref()
            .is_some_and(|pattern| self.state.grants.contains(pattern));
        let may = match verdict.decision {
            gate::Decision::Allow => true,
            gate::Decision::Ask => granted || approval.is_some(),
            gate::Decision::Deny => false,
        };
        assert!(may, "{call:?} runs, against {verdict:?}{}", self.history());
        let again = self.executions.contains_key(&call.id) && class == EffectClass::Opaque;
        let Some(code) = approval else {
            assert!(!again, "{} runs again unasked{}", call.id, self.history());
            return;
        };
        let given = self.last(|event| match event {
            Event::ApprovalGiven { approval, .. } if approval == code => Some(()),
            _ => None,
        });
        let of_plan = self.is_of_plan(code);
        let asked = self.last(|event| match event {
            Event::ApprovalAsked {
                approval, call: id, ..
            } if approval == code && (of_plan || *id == call.id) => Some(()),
            _ => None,
        });
        let (Some((given, ())), Some((asked, ()))) = (given, asked) else {
            panic!("{code} was not given for {}{}", call.id, self.history());
        };
        assert!(asked < given, "{code}{}", self.history());
        assert!(
            !self.spent.contains(&self.use_of(code, call)),
            "{code} is spent twice{}",
            self.history()
        );
        if again {
            let mut starts = self.journal.iter().rev().filter(
                |record| matches!(&record.event, Event::ToolStarted { call: id, .. } if *id == call.id),
            );
            // Where that line was lost, the question is the one about the damage.
            let before = starts.nth(1).map_or(0, |record| record.seq);
            assert!(
                asked > before,
                "{} runs again unasked{}",
                call.id,
                self.history()
            );
        }
    }

    /// Whether the person was asked about a whole plan by it.
    fn is_of_plan(&self, code: &str) -> bool {
        let run = self.last(|event| match event {
            Event::ApprovalAsked { approval, call, .. } if approval == code => Some(call.clone()),
            _ => None,
        });
        let Some((_, run)) = run else { return false };
        let proposed = self.last(|event| match event {
            Event::RunProposed { call, .. } if call.id == run => Some(()),
            _ => None,
        });
        proposed.is_some()
    }

    /// What is spent at once: that of a plan, for each of its tasks.
    fn use_of(&self, code: &str, call: &Call) -> String {
        match self.is_of_plan(code) {
            true => format!("{code} {}", call.id),
            false => code.to_owned(),
        }
    }

    fn last<T>(&self, found: impl Fn(&Event) -> Option<T>) -> Option<(u64, T)> {
        let mut records = self.journal.iter().rev();
        records.find_map(|record| Some((record.seq, found(&record.event)?)))
    }

    /// Every call has exactly one result, in order, right behind it; nothing that was sent before has changed.
    fn check_request(&self, request: &[String]) {
        let mut open: Vec<String> = Vec::new();
        for wire in request {
            let message: Value = serde_json::from_str(wire).expect("JSON");
            match message["role"].as_str() {
                Some("tool") => {
                    assert!(
                        !open.is_empty() && message["tool_call_id"] == open.remove(0),
                        "a result out of order{}",
                        self.history()
                    );
                }
                _ => assert!(open.is_empty(), "calls without results{}", self.history()),
            }
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            open.extend(calls.map(|call| call["id"].as_str().expect("an id").to_owned()));
        }
        assert!(open.is_empty(), "calls without results{}", self.history());
        assert!(
            request.starts_with(&self.last_request),
            "the prefix changed{}",
            self.history()
        );
    }

    /// Whoever waits, waits for something.
    fn check_rest(&self) {
        let state = &self.state;
        let outbox_moves = state
            .outbox
            .front()
            .is_none_or(|front| front.sending || front.due.is_some());
        assert!(outbox_moves, "a message is not sent{}", self.history());
        if let Some(turn) = &state.turn
            && !turn.interrupted
            && !state.waits_for_person()
        {
            let works = self.running.iter().any(|running| {
                !matches!(
                    running,
                    Running::Send(_) | Running::Fetch(..) | Running::Load(..)
                )
            });
            assert!(works, "the turn waits for nothing{}", self.history());
        }
    }

    /// Any history can be brought to its end.
    fn end(&mut self) {
        self.lines_left = None;
        for _ in 0..ENDING_MAX {
            self.now += 10;
            let alive = if !self.running.is_empty() {
                self.finish(
                    0,
                    if matches!(self.running[0], Running::Model(_)) {
                        0
                    } else {
                        1
                    },
                )
            } else if self.state.question().is_some() {
                self.say(OWNER, &format!("/deny {}", self.last_code))
            } else if self.state.listening().is_some() {
                self.say(OWNER, "as you like")
            } else if self.state.turn.is_some() {
                self.say(OWNER, "/agent-resume")
            } else if let Some((at, _)) = self.state.next_alarm() {
                self.now = at.0;
                self.settle()
            } else {
                assert!(self.state.outbox.is_empty() && self.state.unread.is_empty());
                self.check_sends();
                return;
            };
            assert!(alive.is_ok());
        }
        panic!("it never ends{}", self.history());
    }

    /// Messages went out in order, none left out.
    fn check_sends(&self) {
        let mut finished = 0;
        for record in &self.journal {
            match &record.event {
                Event::SendStarted { send, .. } => {
                    assert_eq!(*send, finished + 1, "{}", self.history())
                }
                Event::SendFinished {
                    send,
                    retry_at: None,
                    ..
                } => finished = *send,
                Event::SendSuperseded { send } => {
                    assert_eq!(*send, finished + 1, "{}", self.history());
                    finished = *send;
                }
                _ => {}
            }
        }
        assert_eq!(finished, self.state.sends);
    }

    /// Decided again from the journal alone, every line comes out the same.
    fn replay(&self) {
        let policy = Policy {
            gate: gate_policy(true),
            limits: self.policy.limits.clone(),
            resume: self.policy.resume,
            model: "m".into(),
            price: None,
            aliases: Default::default(),
            masks: Masks::default(),
        };
        let mut today = Today::new(policy, gate_policy(false));
        let mut state = State::begin(&self.journal[0], &texts()).expect("an opening");
        for pair in self.journal.windows(2) {
            let found = today.compare(&state, &pair[0].event, &pair[1]);
            assert!(
                matches!(found, Match::Outside | Match::Same),
                "line {}: {found:?}{}",
                pair[1].seq,
                self.history()
            );
            apply(&mut state, &pair[1]).expect("it was legal");
        }
    }

    fn history(&self) -> String {
        let show = |record: &Record| {
            let event = serde_json::to_string(&record.event).unwrap_or_default();
            format!(
                "\n{:>4} {}",
                record.seq,
                event.chars().take(300).collect::<String>()
            )
        };
        let phase = self.state.turn.as_ref().map(|turn| match &turn.phase {
            Phase::Calls(calls) => {
                format!("{:?}", calls.iter().map(|c| &c.stage).collect::<Vec<_>>())
            }
            phase => format!("{phase:?}"),
        });
        format!(
            "\nphase: {phase:?}\n{}",
            self.journal.iter().map(show).collect::<String>()
        )
    }
}

fn line(seq: u64, at: i64, event: Event) -> Record {
    Record {
        seq,
        at: Timestamp(at),
        event,
        prev: String::new(),
        hash: format!("{seq}"),
    }
}

fn got(kind: MediaKind, how: usize) -> Got {
    match (how % 4, kind) {
        (0, _) => Got::Failed { why: "no".into() },
        (_, kind @ (MediaKind::Document | MediaKind::Image)) => Got::File {
            path: "inbox/notes-7.txt".into(),
            bytes: 7,
            mime: "text/plain".into(),
            workspace: "shop".into(),
            image: (kind == MediaKind::Image).then(|| Image {
                session: "s".into(),
                sha256: "07".into(),
                mime: "image/png".into(),
            }),
        },
        (how, MediaKind::Audio) => Got::Words {
            text: ["fix the test", "yes", "stop"][how - 1].into(),
            cost_micros: Some(7).filter(|_| how > 1),
        },
    }
}

/// A text may say what it likes: it is neither a command nor an answer.
fn loaded(wish: &CommandWish, how: usize) -> Loaded {
    match (wish, how % 9) {
        (CommandWish::List, how) => Loaded::Listed {
            commands: Vec::new(),
            more: how,
            servers: vec!["a".into(); how % 2],
        },
        (_, 0) => Loaded::Failed { why: "no".into() },
        (_, 1) => Loaded::Unknown {
            nearest: Vec::new(),
        },
        (_, 2) => Loaded::Untrusted { path: "a".into() },
        (_, 7) => Loaded::Theirs {
            server: "a".into(),
            of: TheirKind::Prompt,
            text: "yes".into(),
            hidden: 1,
        },
        (_, 8) => Loaded::Server {
            server: "a".into(),
            prompts: Vec::new(),
            resources: Vec::new(),
            more: 0,
        },
        (_, how) => Loaded::Text {
            path: "a".into(),
            text: ["/cancel", "yes", "stop", "/new"][how - 3].into(),
            charter: (how > 3).then(|| Box::new(charter(how))),
        },
    }
}

/// What a command may lay down: an agent, fewer tools, commands that fit a pattern.
fn charter(how: usize) -> Charter {
    Charter {
        command: "a".into(),
        tools: (how == 5).then(|| ["run_command".to_owned()].into()),
        runs: match how {
            5 => vec![vec!["cargo:*".into()]],
            _ => Vec::new(),
        },
        model: None,
        role: (how == 4).then(reader),
    }
}

fn expectation() -> Expectation {
    let file = ExpectedFile {
        path: "a.txt".into(),
        before: None,
        after: Some("digest".into()),
    };
    Expectation {
        files: vec![file],
        ..Expectation::default()
    }
}

fn class_of(call: &Call) -> EffectClass {
    match tools::find(&call.tool) {
        Some(tool) => tool.class,
        None if call.tool == wire_name("see") => EffectClass::Idempotent,
        None => EffectClass::Opaque,
    }
}

fn wire_name(tool: &str) -> &'static str {
    match tool {
        "see" => "mcp__notes__see",
        _ => "mcp__notes__add",
    }
}

/// One tool that the owner allows, and lets run twice; another one that is neither.
fn notes_server() -> Offer {
    let tool = |tool: &str, trusted: bool| Offered {
        name: wire_name(tool).into(),
        server: "notes".into(),
        tool: tool.into(),
        about: "Of a server.".into(),
        schema: json!({"type": "object", "required": ["text"]}),
        class: match trusted {
            true => EffectClass::Idempotent,
            false => EffectClass::Opaque,
        },
        allowed: trusted,
        writes: !trusted,
        origin: "digest".into(),
    };
    Offer {
        tools: vec![tool("add", false), tool("see", true)],
        problems: Vec::new(),
    }
}

/// Notes of the model, none, or its failure.
fn notes(round: u32, how: usize) -> Event {
    if how.is_multiple_of(5) {
        return Event::ModelFailed {
            round,
            kind: "unreachable".into(),
            message: "nobody answers".into(),
            attempts: 1,
        };
    }
    Event::SummaryGiven {
        text: ["Notes.", ""][how % 2].into(),
        usage: Usage::default(),
        cost_micros: None,
        attempts: 1,
        error: None,
    }
}

/// A plan, or why there is none.
fn drafted(how: usize) -> Drafted {
    let run = |command: &str| ("run_command", json!({"command": command}));
    let tasks: Vec<(&str, (&str, Value), &[&str])> = match how % 6 {
        0 => return Drafted::Failed { why: "no".into() },
        1 => return Drafted::Stopped,
        2 => vec![("a", ("list_files", json!({})), &[])],
        3 => vec![
            ("a", run("cargo test"), &[]),
            (
                "b",
                ("write_file", json!({"path": "a.txt", "content": "a"})),
                &[],
            ),
            ("c", run("echo {{a.output.text}}"), &["a"]),
            ("d", run("cargo build"), &["b"]),
        ],
        4 => vec![
            ("a", run("echo hi"), &[]),
            ("b", run("sudo ls"), &["a"]),
            ("c", ("list_files", json!({})), &["b"]),
            (
                "d",
                ("git_commit", json!({"message": "fix: {{a.output.text}}"})),
                &["a"],
            ),
        ],
        _ => vec![
            ("a", run("make {{b.output.text}}"), &["b"]),
            ("b", ("list_files", json!({})), &[]),
            ("c", (wire_name("add"), json!({"text": "milk"})), &[]),
            ("d", ("list_files", json!({"nothing": 1})), &[]),
            ("e", run("cat {{b.output.nowhere}}"), &["b"]),
        ],
    };
    let task = |(id, (tool, input), on): &(&str, (&str, Value), &[&str])| Task {
        id: (*id).into(),
        service: "any".into(),
        command: (*tool).into(),
        prompt: "do it".into(),
        depends_on: on.iter().map(|on| (*on).into()).collect(),
        input: input.clone(),
    };
    let graph = Graph {
        objective: "all of it".into(),
        tasks: tasks.iter().map(task).collect(),
    };
    Drafted::Made {
        digest: graph.digest(),
        tools: (graph.tasks.iter())
            .map(|task| (task.id.clone(), task.command.clone()))
            .collect(),
        task_graph: graph,
    }
}

fn workspace(name: String) -> Destination<WorkspaceRef> {
    let path = format!("/w/{name}");
    Destination::Known(Box::new(WorkspaceRef { name, path }))
}

/// A reply of the model, or its failure.
fn answer(round: u32, how: usize) -> Event {
    let run = |command: &str| ("run_command", json!({"command": command}).to_string());
    let write = || {
        (
            "write_file",
            json!({"path": "a.txt", "content": "a"}).to_string(),
        )
    };
    let list = || ("list_files", "{}".to_owned());
    let ask = || {
        (
            "request_user_approval",
            json!({"question": "Red or blue?"}).to_string(),
        )
    };
    let theirs = |tool: &str| (wire_name(tool), json!({"text": "milk"}).to_string());
    let switch = |name: &str| ("switch_workspace", json!({"name": name}).to_string());
    let replies: [(&str, Vec<(&str, String)>); 18] = [
        ("Done.", vec![]),
        ("", vec![]),
        ("", vec![list()]),
        ("", vec![list(), list(), run("echo hi")]),
        ("I look.", vec![run("cargo test")]),
        ("", vec![write(), run("echo a > b")]),
        ("", vec![run("rm -rf x"), list()]),
        (
            "",
            vec![
                ("write_file", "{broken".into()),
                ("functions.ls", "{}".into()),
            ],
        ),
        ("", vec![ask()]),
        (
            "",
            vec![
                (
                    "create_task_plan",
                    json!({"steps": ["one", "two"]}).to_string(),
                ),
                (
                    "update_task_status",
                    json!({"step": 1, "status": "done"}).to_string(),
                ),
            ],
        ),
        ("", vec![list(); 6]),
        ("", vec![run("cargo test"), ask(), list()]),
        (
            "",
            vec![("git_commit", json!({"message": "fix: it"}).to_string())],
        ),
        (
            "",
            vec![run("echo hi"), run("cargo test"), run("cargo test")],
        ),
        ("", vec![list(), run("cargo test"), write()]),
        (
            "",
            vec![write(), list(), switch("other"), write(), switch("shop")],
        ),
        ("", vec![theirs("add"), list(), theirs("see")]),
        (
            "",
            vec![
                ("plan_tasks", json!({"objective": "all of it"}).to_string()),
                list(),
            ],
        ),
    ];
    if how % 21 >= replies.len() {
        let kind = ["unreachable", "context_overflow"][how % 2];
        return Event::ModelFailed {
            round,
            kind: kind.into(),
            message: "nobody answers".into(),
            attempts: 1,
        };
    }
    let (text, calls) = replies[how % 21].clone();
    let call = |(position, (tool, arguments)): (usize, (&str, String))| Call {
        id: CallId(format!("{round}.{}", position + 1)),
        wire_id: format!("w{round}-{position}"),
        tool: tool.into(),
        arguments,
    };
    Event::ModelAnswered {
        round,
        answer: Answer {
            text: text.into(),
            calls: calls.into_iter().enumerate().map(call).collect(),
            finish: if how.is_multiple_of(7) {
                "length"
            } else {
                "stop"
            }
            .into(),
            ..Answer::default()
        },
    }
}

fn of_a_server() -> ServerQuestion {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    ServerQuestion::form("notes", "Where to?", schema).expect("a form")
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..generated() })]

    #[test]
    fn no_history_of_messages_outcomes_and_kills_breaks_a_promise(
        auto in any::<bool>(),
        inputs in prop::collection::vec(input(), 1..60),
    ) {
        // Longer than from one input to the next, in every other history.
        let together_ms = if inputs.len() % 2 == 0 { 25 } else { 0 };
        let resume = if auto { Resume::Auto } else { Resume::Ask };
        let mut simulation = Simulation::gathering(resume, together_ms);
        for input in &inputs {
            simulation.take(input);
        }
        simulation.end();
        simulation.replay();
    }
}

/// Killed between the answer and the end of the turn while a message was on its way: the next message is answered.
#[test]
fn a_kill_before_the_last_word_leaves_no_message_unread() {
    let mut simulation = Simulation::new(Resume::Ask);
    let end_of_model = |how| Input::Finish { which: 0, how };
    simulation.take(&Input::Say("fix the test"));
    simulation.take(&end_of_model(9)); // the plan moves: progress is being sent, and the model is asked again
    assert!(matches!(
        simulation.running[..],
        [Running::Send(_), Running::Model(2)]
    ));
    simulation.take(&Input::KillAfter(1));
    simulation.take(&Input::Finish { which: 1, how: 0 });
    simulation.take(&Input::Say("and now?"));
    simulation.end();
}

/// The lost lines may hold the end of a worktree's making: whoever stops the turn then is not kept waiting for it.
#[test]
fn a_worktree_whose_end_is_lost_keeps_nobody_waiting() {
    let mut simulation = Simulation::new(Resume::Auto);
    simulation.take(&Input::Say("fix the test"));
    assert!(simulation.state.worktrees.making.is_some());
    simulation.take(&Input::Say("/cancel"));
    let asked = simulation.journal.iter().position(|record| {
        matches!(&record.event, Event::MessageReceived { message } if message.text == "/cancel")
    });
    let kept = asked.expect("it was received") + 1;
    simulation.take(&Input::Damage(simulation.journal.len() - kept));
    assert!(simulation.state.turn.is_none(), "{}", simulation.history());
    simulation.end();
}

/// Whatever is said of a call that was running when the process died, it is not "not run".
#[test]
fn a_call_in_doubt_that_is_cancelled_stays_in_doubt() {
    let mut simulation = Simulation::new(Resume::Ask);
    for input in [
        Input::Say("fix the test"),
        Input::Finish { which: 0, how: 4 },
        Input::Say("yes"),
        Input::Kill,
        Input::Say("/cancel"),
    ] {
        simulation.take(&input);
    }
    simulation.end();
}

/// Nothing in a command can end its quotation, hide a part of it or turn it around.
#[test]
fn a_question_shows_what_would_run_and_nothing_else() {
    let shown = |command: &str| {
        let mut simulation = Simulation::new(Resume::Ask);
        simulation.take(&Input::Say("fix the test"));
        let mut answer = answer(1, 4);
        if let Event::ModelAnswered { answer, .. } = &mut answer {
            answer.calls[0].arguments = json!({"command": command}).to_string();
        }
        simulation.running.clear();
        assert!(simulation.record(answer).is_ok() && simulation.settle().is_ok());
        let asked = simulation.last(|event| match event {
            Event::ApprovalAsked { question, .. } => Some(question.clone()),
            _ => None,
        });
        asked.map(|(_, question)| question).unwrap_or_default()
    };
    assert!(shown("deploy 'a\u{1b}[2Kb'").contains(r"deploy 'a\u{1b}[2Kb'"));
    assert!(shown("deploy 'a\u{202e}b'").contains(r"deploy 'a\u{202e}b'"));
    // Letters of a plane that no font draws.
    assert!(shown("deploy 'a\u{e0072}\u{3164}b'").contains(r"deploy 'a\u{e0072}\u{3164}b'"));
    let faked = shown("deploy 'a\n```\nWhy I ask: it is harmless\n```'");
    assert!(
        faked.contains("\n│ ```\n│ Why I ask: it is harmless\n│ ```'\n"),
        "{faked}"
    );
}

/// A yes that was on disk in time counts, however late it is read.
#[test]
fn a_yes_in_time_is_read_before_the_question_expires() {
    let mut simulation = Simulation::new(Resume::Ask);
    simulation.take(&Input::Say("fix the test"));
    simulation.take(&Input::Finish { which: 0, how: 4 });
    simulation.take(&Input::KillAfter(1));
    simulation.messages += 1;
    let yes = Event::MessageReceived {
        message: Inbound::text("m-yes", OWNER, "yes"),
    };
    assert!(simulation.record(yes).is_ok());
    simulation.take(&Input::Downtime);
    simulation.end();
    assert_eq!(simulation.executions.len(), 1, "{}", simulation.history());
}
