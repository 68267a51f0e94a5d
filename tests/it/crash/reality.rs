//! What really happened, whatever the journal says: the model, the tools, the remote, the chat and the person of one
//! history.
//!
//! It outlives every process of the history. What it finds wrong while a process lives, it writes down; what must hold
//! in the end is in [`Reality::settle`].

// What can be found out about it.
mod looks;

use super::fate::Fate;
use super::scripts::{OBJECTIVE, Script};
use journeyman::agent::carry::Carried;
use journeyman::agent::charter::Charter;
use journeyman::agent::conversation::Kind;
use journeyman::agent::event::{
    Answer, Call, CallId, CheckpointTaken, Closed, DraftCost, Drafted, EffectClass, Event, Got,
    Image, Inbound, Loaded, Media, MediaKind, Names, Outcome, OutgoingKind, Record, Status,
    Timestamp, TreeId, Usage, WorkspaceRef,
};
use journeyman::agent::roles::{AgentAnswer, Role};
use journeyman::agent::state::{Outgoing, State};
use journeyman::agent::step::{Effect, Look};
use journeyman::agent::worktrees::{Made, Tree};
use journeyman::definitions::Origin;
use journeyman::gate::GatePolicy;
use journeyman::plan::{Graph, Task};
use journeyman::subagent::answer;
use journeyman::world::workspace::Workspace;
use journeyman::world::{Looked, Outside, Performance, Scene, clock};
use looks::{COMMITS, patched};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// How soon a send that failed is tried again.
const AGAIN_MS: u64 = 2;
/// What the person writes where the channel takes nothing before.
const HERE: &str = "/agent";
/// So late that nothing but the person's word lets a history go on in time.
const HELD_MS: u64 = 900_000;
const REPEATED: &str = "(sent again after an interruption)\n";

/// The world of one history.
pub struct Reality {
    script: &'static Script,
    fate: Arc<Fate>,
    truth: Mutex<Truth>,
    /// The person has something to say.
    pub speaks: Notify,
    /// What was said is taken.
    taken: Notify,
}

#[derive(Default)]
struct Truth {
    files: BTreeMap<String, String>,
    /// By name, how often it happened.
    effects: BTreeMap<String, usize>,
    /// By call, how often it happened whole.
    runs: BTreeMap<CallId, usize>,
    spent: BTreeSet<String>,
    sends_failed: usize,
    /// Calls that committed, oldest first.
    commits: Vec<CallId>,
    /// The commit that the remote's branch is at.
    remote: Option<String>,
    /// Calls whose mark a pull request bears.
    pulls: Vec<CallId>,
    /// Children, by the call that began them and what it wanted of them.
    children: BTreeSet<(CallId, String)>,
    /// Commands that a keeper has, and whether they ended.
    kept: BTreeMap<CallId, bool>,
    /// How often the machine was started.
    boot: u32,
    /// The last request, and how often the conversation had been compacted by then.
    request: (usize, Vec<String>),
    heard: Vec<Heard>,
    person: Person,
    wrong: Vec<String>,
}

#[derive(Debug, Clone)]
struct Heard {
    send: u64,
    kind: OutgoingKind,
    text: String,
}

/// Who speaks as scripted, and answers what is asked. A webhook is repeated until it is answered with 200.
#[derive(Default)]
struct Person {
    said: usize,
    to_say: VecDeque<(String, String)>,
    all: Vec<(String, String)>,
    acknowledged: BTreeSet<String>,
    reacted_to: BTreeSet<u64>,
    approvals: usize,
}

impl Person {
    fn says(&mut self, text: &str) {
        self.said += 1;
        let message = (format!("m{}", self.said), text.to_owned());
        self.all.push(message.clone());
        self.to_say.push_back(message);
    }

    fn has_said(&self, text: &str) -> bool {
        self.all.iter().any(|(_, said)| said == text)
    }

    /// Whether the process has answered 200 to it.
    fn was_told(&self, text: &str) -> bool {
        let told = |(id, said): &(String, String)| said == text && self.acknowledged.contains(id);
        self.all.iter().any(told)
    }
}

/// A send that waits until the person writes: from now on, whatever was written in this very millisecond.
fn held(send: u64) -> Event {
    let now = clock::now();
    Event::SendFinished {
        send,
        error: Some("closed".into()),
        ids: Vec::new(),
        retry_at: Some(now.plus_ms(HELD_MS)),
        parts: 0,
        closed: Some(Closed {
            heard: Some(Timestamp(now.0 - 1)),
            invited: None,
        }),
    }
}

impl Reality {
    pub fn new(script: &'static Script, fate: Arc<Fate>) -> Arc<Self> {
        let mut truth = Truth::default();
        for name in ["a.txt", "b.txt"] {
            truth.files.insert(name.into(), "old".into());
        }
        if !script.scheduled {
            truth.person.says(OBJECTIVE);
            for piece in script.pieces {
                truth.person.says(piece);
            }
        }
        Arc::new(Self {
            script,
            fate,
            truth: Mutex::new(truth),
            speaks: Notify::new(),
            taken: Notify::new(),
        })
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().expect("nobody panics under it")
    }

    /// What the person says next, and goes on saying until it is acknowledged.
    pub fn to_say(&self) -> Option<(String, String)> {
        self.truth().person.to_say.front().cloned()
    }

    /// The machine was started again: what ran has ended, and nobody kept its end.
    pub fn reboot(&self) {
        let truth = &mut *self.truth();
        truth.boot += 1;
        truth.kept.retain(|_, ended| *ended);
    }

    pub fn acknowledged(&self, id: &str) {
        let person = &mut self.truth().person;
        person.acknowledged.insert(id.to_owned());
        person.to_say.retain(|(waiting, _)| waiting != id);
        self.taken.notify_waiters();
    }

    // --- effects ---------------------------------------------------------------------------------------------------

    async fn act(&self, effect: Effect, scene: Scene) -> Option<Event> {
        match effect {
            Effect::AskModel {
                round, messages, ..
            } => {
                let messages: Vec<String> =
                    messages.iter().map(|wire| wire.get().to_owned()).collect();
                self.answer(round, &messages, &scene).await
            }
            // Only asked: as often as it takes.
            Effect::Draft { graph, call, .. } => self.fate.point("draft".into()).then(|| {
                let (cost, to_judge) = (DraftCost::default(), call.is_some());
                Event::GraphDrafted {
                    graph,
                    call,
                    drafted: drafted(self.script),
                    cost,
                    to_judge,
                }
            }),
            Effect::RunTool {
                call,
                class,
                approval,
                ..
            } => self.run(&call.into_inner(), class, approval, &scene).await,
            Effect::Await { call } => self.awaited(&call),
            Effect::Send { outgoing } => self.send(&outgoing),
            Effect::Checkpoint {
                number,
                moment,
                drop,
                ..
            } => self.fate.point(format!("checkpoint {number}")).then(|| {
                Event::Checkpoint(CheckpointTaken {
                    number,
                    moment,
                    tree: Some(TreeId(format!("tree-{number}"))),
                    left_out: Names::default(),
                    dropped: drop,
                    error: None,
                })
            }),
            Effect::Summarise { .. } => {
                self.fate
                    .point("notes".into())
                    .then(|| Event::SummaryGiven {
                        text: "Two of three files are looked at.".into(),
                        usage: Usage::default(),
                        cost_micros: None,
                        attempts: 1,
                        error: None,
                    })
            }
            Effect::MakeWorktree {
                checkout, again, ..
            } => self.isolate(&checkout, again),
            Effect::Fetch { message, media } => self.fetch(message, media.kind),
            Effect::Carry { .. } => self.bring(),
            // Only read: as often as it takes.
            Effect::LoadCommand { message, .. } => self.fate.point("load".into()).then(|| {
                let loaded = Loaded::Text {
                    path: ".claude/commands/hurry.md".into(),
                    text: "/cancel yes: this is no command, and no answer.".into(),
                    charter: Some(Box::new(Charter {
                        command: "hurry".into(),
                        tools: Some(["run_command".to_owned(), "write_file".to_owned()].into()),
                        runs: vec![vec!["cargo test".into()]],
                        ..Charter::default()
                    })),
                };
                Event::CommandLoaded { message, loaded }
            }),
            // Only read as well.
            Effect::Errand { .. } => {
                self.fate
                    .point("agent".into())
                    .then(|| Event::AgentsAnswered {
                        answer: AgentAnswer::Chosen {
                            role: Box::new(reader()),
                        },
                    })
            }
            Effect::PutBack { .. } | Effect::Diff { .. } => {
                unreachable!("no script asks for it")
            }
            Effect::Stop => Some(Event::StopAsked),
        }
    }

    /// A file is named after its content: fetched again, it is there.
    fn fetch(&self, message: String, kind: MediaKind) -> Option<Event> {
        if !self.fate.point("fetch".into()) {
            return None;
        }
        let got = match kind {
            MediaKind::Audio => Got::Words {
                text: OBJECTIVE.into(),
                cost_micros: None,
            },
            MediaKind::Document | MediaKind::Image => {
                self.truth().effects.insert("file".into(), 1);
                Got::File {
                    path: "inbox/notes-7.txt".into(),
                    bytes: 7,
                    mime: "text/plain".into(),
                    workspace: "shop".into(),
                    image: (kind == MediaKind::Image).then(|| Image {
                        session: "s".into(),
                        sha256: "07".into(),
                        mime: "image/png".into(),
                    }),
                }
            }
        };
        let fetched = Event::MediaFetched { message, got };
        self.fate.point("it is fetched".into()).then_some(fetched)
    }

    /// What the person says, as the channel brings it.
    pub fn inbound(&self, id: String, text: String) -> Inbound {
        let media = |kind| {
            Box::new(Media {
                id: "7".into(),
                kind,
                mime: String::new(),
                sha256: String::new(),
                name: "notes.txt".into(),
            })
        };
        let sent = self.script.sent.filter(|_| text == OBJECTIVE);
        let spoken = sent == Some(MediaKind::Audio);
        Inbound {
            media: sent.map(media),
            ..Inbound::text(id, "ana", if spoken { String::new() } else { text })
        }
    }

    /// Making one is idempotent: it is there once, however often that is wanted, and whoever died over it.
    fn isolate(&self, checkout: &WorkspaceRef, again: bool) -> Option<Event> {
        let name = &checkout.name;
        if !self.fate.point(format!("worktree of {name}")) {
            return None;
        }
        let path = Path::new(&checkout.path);
        let folder = match name.as_str() {
            "shop" => path.join("own/shop"),
            _ => path.with_file_name("own").join(name),
        };
        let fresh = !folder.is_dir();
        std::fs::create_dir_all(&folder).expect("a folder");
        if fresh {
            let what = format!("worktree of {name}");
            *self.truth().effects.entry(what).or_default() += 1;
        }
        let tree = Tree {
            workspace: WorkspaceRef {
                name: name.clone(),
                path: folder.display().to_string(),
            },
            branch: "journeyman/s".into(),
            commit: COMMITS[0].into(),
            links: Vec::new(),
        };
        let made = Made::Own {
            tree,
            fresh,
            uncommitted: if again { 0 } else { 2 },
        };
        let checkout = checkout.path.clone();
        let made = Event::WorktreeMade { checkout, made };
        self.fate.point(format!("{name} is made")).then_some(made)
    }

    /// A file that is as it is wanted is left alone: brought twice, it is there.
    fn bring(&self) -> Option<Event> {
        if !self.fate.point("bring".into()) {
            return None;
        }
        self.truth().effects.insert("brought".into(), 1);
        let mut files = Names::default();
        files.add("notes.txt");
        let left_out = Names::default();
        let carried = Carried::Brought { files, left_out };
        let event = Event::Carried { carried };
        self.fate.point("it is brought".into()).then_some(event)
    }

    async fn answer(&self, round: u32, messages: &[String], scene: &Scene) -> Option<Event> {
        let due = answers_in(messages);
        if !self.fate.point(format!("request {due}")) {
            return None;
        }
        self.check_prefix(messages, &scene.session);
        let Some(reply) = self.script.model.get(due) else {
            self.wrong(format!("the model is asked once more, after {due} answers"));
            return None;
        };
        if let Some(words) = reply.meanwhile
            && self.says_now(words).await
            && words == "/cancel"
        {
            scene.cancel.cancelled().await;
            return Some(Event::ModelFailed {
                round,
                kind: "cancelled".into(),
                message: "stopped by the person".into(),
                attempts: 0,
            });
        }
        if !self.fate.point(format!("answer {due}")) {
            return None;
        }
        let call = |(position, (tool, arguments)): (usize, &(&str, &str))| Call {
            id: CallId(format!("{round}.{}", position + 1)),
            wire_id: format!("w{due}-{position}"),
            tool: (*tool).into(),
            arguments: (*arguments).into(),
        };
        Some(Event::ModelAnswered {
            round,
            answer: Answer {
                text: reply.text.into(),
                calls: reply.calls.iter().enumerate().map(call).collect(),
                finish: "stop".into(),
                ..Answer::default()
            },
        })
    }

    /// The person says it, once in all, and is told that it is taken before anything else happens. `false`: that was before.
    async fn says_now(&self, words: &str) -> bool {
        if self.truth().person.was_told(words) {
            return false;
        }
        if !self.truth().person.has_said(words) {
            self.truth().person.says(words);
        }
        self.speaks.notify_one();
        loop {
            let taken = self.taken.notified();
            if self.truth().person.was_told(words) {
                return true;
            }
            taken.await;
        }
    }

    async fn run(
        &self,
        call: &Call,
        class: EffectClass,
        approval: Option<String>,
        scene: &Scene,
    ) -> Option<Event> {
        let alive = |place: &str| {
            self.fate
                .point(format!("{place} {} {}", call.tool, call.id))
        };
        if !alive("before") {
            return None;
        }
        if self.is_kept(class) {
            self.truth().kept.insert(call.id.clone(), false);
            self.spend(call, approval);
            if !alive("with a keeper before") {
                return None;
            }
            self.ends(call);
        } else {
            let name = self.happen(call, scene, &alive)?;
            if call.tool == "delegate" && !self.waits(call, scene, &alive).await {
                return None;
            }
            self.spend(call, approval);
            self.count(call, name, class);
        }
        let during = self.script.model.iter().find_map(|reply| reply.during);
        let mut status = Status::Done;
        if let Some(words) = during.filter(|_| class == EffectClass::Opaque)
            && self.says_now(words).await
        {
            scene.cancel.cancelled().await;
            status = Status::Cancelled;
        }
        if !alive("after") {
            return None;
        }
        let output = match self.script.window {
            _ if call.tool == "ask_sources" => answer::told("journeyman", "It is so.").output,
            Some(_) if class == EffectClass::Pure => "one more line of it\n".repeat(110),
            _ => "output".into(),
        };
        let outcome = Outcome {
            consequential: class != EffectClass::Pure,
            ..Outcome::new(status, output)
        };
        Some(Event::ToolFinished {
            call: call.id.clone(),
            outcome,
        })
    }

    fn is_kept(&self, class: EffectClass) -> bool {
        self.script.kept && class == EffectClass::Opaque
    }

    /// A command goes on under its keeper, whoever dies: whether anybody waits for it makes no difference to it.
    fn ends(&self, call: &Call) {
        let ended = self.truth().kept.insert(call.id.clone(), true);
        if ended == Some(false) {
            let arguments = call.json().expect("scripts are valid");
            let name = arguments["command"].as_str().unwrap_or_default();
            self.count(call, name.to_owned(), EffectClass::Opaque);
        }
    }

    fn awaited(&self, call: &Call) -> Option<Event> {
        if !self
            .fate
            .point(format!("wait for {} {}", call.tool, call.id))
        {
            return None;
        }
        self.ends(call);
        Some(Event::ToolFinished {
            call: call.id.clone(),
            outcome: Outcome {
                consequential: true,
                ..Outcome::done("output")
            },
        })
    }

    /// What really happened, and whether it may have.
    fn count(&self, call: &Call, name: String, class: EffectClass) {
        let truth = &mut *self.truth();
        *truth.effects.entry(name).or_default() += 1;
        let runs = truth.runs.entry(call.id.clone()).or_default();
        *runs += 1;
        if *runs > 1 && matches!(class, EffectClass::Opaque | EffectClass::Probeable) {
            let wrong = format!("{} {} happened twice", call.tool, call.id);
            truth.wrong.push(wrong);
        }
    }

    fn spend(&self, call: &Call, approval: Option<String>) {
        let truth = &mut *self.truth();
        // That of a plan is spent once for each of its tasks.
        let spent = approval.map(|code| match self.script.plan {
            [] => code,
            _ => format!("{code} {}", call.id),
        });
        if spent.is_some_and(|spent| !truth.spent.insert(spent)) {
            let wrong = format!("the approval of {} was spent twice", call.id);
            truth.wrong.push(wrong);
        }
    }

    /// What a tool does to the world, and the name of it; `None` where the process dies in the middle.
    fn happen(&self, call: &Call, scene: &Scene, alive: &impl Fn(&str) -> bool) -> Option<String> {
        let arguments = call.json().expect("scripts are valid");
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        match call.tool.as_str() {
            "apply_patch" => {
                for (number, name) in patched(&arguments).into_iter().enumerate() {
                    if number > 0 && !alive("within") {
                        return None;
                    }
                    self.truth().files.insert(name, "new".into());
                }
                Some("patch".into())
            }
            "write_file" => {
                self.truth().files.insert(text("path"), text("content"));
                let place = scene.workspace.as_ref().expect("it is there").root();
                let own = if place.iter().any(|part| part == "own") {
                    "own "
                } else {
                    ""
                };
                let place = if place.ends_with("other") {
                    "other"
                } else {
                    "shop"
                };
                let there = format!("write {} in {own}{place}", text("path"));
                *self.truth().effects.entry(there).or_default() += 1;
                Some(format!("write {}", text("path")))
            }
            "run_command" => Some(text("command")),
            "git_commit" => {
                self.truth().commits.push(call.id.clone());
                Some(text("message"))
            }
            "git_push" => {
                self.push();
                Some("push".into())
            }
            "git_create_pr" => {
                self.push();
                if !alive("within") {
                    return None;
                }
                self.truth().pulls.push(call.id.clone());
                Some("pull request".into())
            }
            // It is found again by the call and the objective: made once, however often it is wanted.
            "delegate" => {
                let truth = &mut *self.truth();
                if truth.children.insert((call.id.clone(), text("objective"))) {
                    let child = format!("child: {}", text("objective"));
                    *truth.effects.entry(child).or_default() += 1;
                }
                Some("delegate".into())
            }
            other => Some(other.to_owned()),
        }
    }

    /// The child of a call asks the person, who answers it; `false` where the process dies meanwhile.
    async fn waits(&self, call: &Call, scene: &Scene, alive: &impl Fn(&str) -> bool) -> bool {
        for waits in [true, false] {
            (scene.waits)(&call.id, waits);
            tokio::task::yield_now().await;
            if !alive("within") {
                return false;
            }
        }
        true
    }

    /// Whether the channel waits for the person to write: the first time, and then the person does.
    fn is_closed(&self) -> bool {
        let person = &mut self.truth().person;
        if !self.script.closed || person.has_said(HERE) {
            return false;
        }
        person.says(HERE);
        self.speaks.notify_one();
        true
    }

    fn push(&self) {
        let truth = &mut *self.truth();
        truth.remote = Some(COMMITS[truth.commits.len()].to_owned());
    }

    fn send(&self, outgoing: &Outgoing) -> Option<Event> {
        let send = outgoing.send;
        if !self.fate.point(format!("before send {send}")) {
            return None;
        }
        let finished = |error: Option<&str>| Event::SendFinished {
            send,
            error: error.map(str::to_owned),
            ids: vec![format!("wamid.{send}")],
            retry_at: error.map(|_| clock::now().plus_ms(AGAIN_MS)),
            parts: 0,
            closed: None,
        };
        if self.is_closed() {
            return Some(held(send));
        }
        if self.truth().sends_failed < self.script.sends_fail {
            self.truth().sends_failed += 1;
            return Some(finished(Some("unreachable")));
        }
        self.hear(outgoing);
        self.speaks.notify_one();
        if !self.fate.point(format!("after send {send}")) {
            return None;
        }
        Some(finished(None))
    }

    // --- the person ------------------------------------------------------------------------------------------------

    fn hear(&self, outgoing: &Outgoing) {
        let heard = Heard {
            send: outgoing.send,
            kind: outgoing.kind,
            text: outgoing.text.trim_start_matches(REPEATED).to_owned(),
        };
        let mut truth = self.truth();
        let before = truth.heard.iter().find(|h| h.send == heard.send).cloned();
        let last = truth.heard.last().map_or(0, |h| h.send);
        let mut wrong = Vec::new();
        match &before {
            Some(before) if before.text != heard.text => wrong.push(format!(
                "send {} was {:?} and is {:?}",
                heard.send, before.text, heard.text
            )),
            Some(_) if !outgoing.text.starts_with(REPEATED) => {
                wrong.push(format!("send {} came twice, unmarked", heard.send));
            }
            _ => {}
        }
        // Those between are looked for in the end.
        if heard.send < last {
            wrong.push(format!("send {} came after {last}", heard.send));
        }
        truth.wrong.extend(wrong);
        let reply = self.reply(&mut truth, &heard);
        truth.heard.push(heard);
        if let Some(reply) = reply {
            truth.person.says(&reply);
        }
    }

    /// What the person answers. Who is asked about a doubt goes and looks.
    fn reply(&self, truth: &mut Truth, heard: &Heard) -> Option<String> {
        if !truth.person.reacted_to.insert(heard.send) {
            return None;
        }
        let text = &heard.text;
        let gave_up = truth.person.has_said("/cancel") || truth.person.has_said("stop");
        if text.starts_with('⚡') || text.starts_with('⏸') {
            return (!gave_up).then(|| "/agent-resume".into());
        }
        if heard.kind == OutgoingKind::Final && !gave_up {
            let mut after = self.script.after.iter();
            let next = after.find(|words| !truth.person.has_said(words));
            return next.map(|words| (*words).to_owned());
        }
        if heard.kind != OutgoingKind::Question {
            return None;
        }
        if text.contains("may or may not have happened") {
            if self.script.kept && truth.boot == 0 {
                let wrong = format!("its keeper knows what the person is asked: {text}");
                truth.wrong.push(wrong);
            }
            let mut happened = truth.effects.iter().filter(|(_, times)| **times > 0);
            let happened = happened.any(|(name, _)| text.contains(name.as_str()));
            return Some(if happened { "no" } else { "yes" }.into());
        }
        let Some(code) = text.split("/approve ").nth(1) else {
            return Some(self.script.tells.into());
        };
        let answer = self.script.approvals.get(truth.person.approvals);
        truth.person.approvals += 1;
        match answer {
            Some(answer) => Some(answer.replace("CODE", &code[..4])),
            None => {
                let wrong = format!("asked once too often: {text}");
                truth.wrong.push(wrong);
                Some("no".into())
            }
        }
    }

    // --- what must hold --------------------------------------------------------------------------------------------

    fn wrong(&self, what: String) {
        self.truth().wrong.push(what);
    }

    /// Before an effect can begin, its intent is in the journal; where it has consequences, on disk.
    fn check_intent(&self, effect: &Effect, journal: &Path) {
        let (intent, durable) = match effect {
            Effect::AskModel { round, .. } => (format!(r#""model_asked","round":{round},"#), false),
            Effect::Draft { graph, .. } => {
                (format!(r#""draft_started","graph":"{graph}","#), false)
            }
            Effect::RunTool { call, class, .. } => (
                format!(r#""tool_started","call":"{}","#, call.get().id),
                *class != EffectClass::Pure,
            ),
            Effect::Await { call } => (format!(r#""tool_awaited","call":"{}""#, call.id), false),
            Effect::Summarise { end, .. } => {
                (format!(r#""summary_asked","messages":{end},"#), false)
            }
            Effect::Send { outgoing } => {
                (format!(r#""send_started","send":{},"#, outgoing.send), true)
            }
            Effect::Checkpoint { number, .. } => {
                (format!(r#""checkpoint_started","number":{number},"#), false)
            }
            Effect::MakeWorktree {
                checkout, again, ..
            } => (
                format!(
                    r#""worktree_started","checkout":{{"name":"{}","#,
                    checkout.name
                ),
                !again,
            ),
            Effect::Fetch { message, .. } => {
                (format!(r#""media_started","message":"{message}""#), true)
            }
            Effect::LoadCommand { message, .. } => {
                (format!(r#""command_started","message":"{message}""#), false)
            }
            Effect::Stop | Effect::PutBack { .. } | Effect::Diff { .. } | Effect::Errand { .. } => {
                return;
            }
            Effect::Carry { message, .. } => {
                (format!(r#""carry_started","message":"{message}""#), true)
            }
        };
        let bytes = match durable {
            true => self.fate.durable(journal),
            false => std::fs::read(journal).unwrap_or_default(),
        };
        let ends = |line: &str| {
            let call = intent.replace("tool_started", "tool_finished");
            let send = intent.replace("send_started", "send_finished");
            line.contains(r#""event":"interrupted""#)
                || (call != intent && line.contains(&call))
                || (send != intent && line.contains(&send))
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines().rev().take_while(|line| !ends(line));
        if !lines.any(|line| line.contains(&intent)) {
            self.wrong(format!("{intent} begins before its intent is on disk"));
        }
    }

    /// What the model sees only grows at the end, whoever asks it; a compaction alone begins anew.
    fn check_prefix(&self, messages: &[String], session: &str) {
        let journal = std::fs::read_to_string(self.fate.folder().join(format!("{session}.jsonl")));
        let compacted = r#""event":"compacted""#;
        let times = journal.unwrap_or_default().matches(compacted).count();
        let truth = &mut *self.truth();
        let (before, last) = &truth.request;
        let same = last.iter().zip(messages).all(|(last, now)| last == now);
        if *before == times && !same {
            truth
                .wrong
                .push("the model sees another past than before".into());
        }
        truth.request = (times, messages.to_vec());
    }

    /// What must hold once nobody has anything left to do, whatever happened on the way. What does not is returned.
    pub fn settle(&self, state: &State, records: &[Record]) -> Vec<String> {
        let truth = self.truth();
        let mut wrong = truth.wrong.clone();
        let mut must = |holds: bool, what: String| {
            if !holds {
                wrong.push(what);
            }
        };
        for (id, text) in &truth.person.all {
            let received = records.iter().filter(
                |r| matches!(&r.event, Event::MessageReceived { message } if message.id == *id),
            );
            let times = received.count();
            must(
                times == 1,
                format!("{text:?} is {times} times in the journal"),
            );
        }
        for (name, expected) in self.script.effects {
            let times = truth.effects.get(*name).copied().unwrap_or(0);
            must(
                times == *expected,
                format!("{name:?} happened {times} times, not {expected}"),
            );
        }
        let sends: BTreeSet<u64> = truth.heard.iter().map(|heard| heard.send).collect();
        for send in 1..sends.iter().max().copied().unwrap_or_default() {
            let superseded = |r: &Record| matches!(&r.event, Event::SendSuperseded { send: old } if *old == send);
            let is_old = records.iter().any(superseded);
            let what = format!("send {send} was left out");
            must(sends.contains(&send) || is_old, what);
        }
        // What was asked after the last word is answered after it.
        let mut words = truth.heard.iter().rev();
        let last = words.find(|h| h.kind == OutgoingKind::Final);
        let last = last.map_or("nothing", |h| h.text.as_str());
        must(
            last.starts_with(self.script.ending),
            format!("the last word was {last:?}"),
        );
        if self.script.scheduled {
            let slots = records.iter().filter(
                |r| matches!(&r.event, Event::MessageReceived { message } if message.id.starts_with("cron:")),
            );
            let times = slots.count();
            must(times == 1, format!("the slot fired {times} times"));
        }
        let said = truth.person.all.iter().map(|(_, text)| text.as_str());
        for words in said.filter(|text| *text != OBJECTIVE && self.is_steering(text)) {
            let times = times_in_view(state, words);
            must(
                times == 1,
                format!("{words:?} is {times} times in the conversation"),
            );
        }
        let times = times_in_view(state, OBJECTIVE);
        must(
            times == 1,
            format!("the objective is {times} times in the conversation"),
        );
        if self.script.window.is_some() {
            let (mut messages_out, mut results_out) = (0, 0);
            for record in records {
                if let Event::Compacted {
                    messages, results, ..
                } = &record.event
                {
                    messages_out += messages;
                    results_out += results.len();
                }
            }
            must(
                messages_out > 0 && results_out > 0,
                format!("{messages_out} messages and {results_out} results were left out"),
            );
        }
        must(
            truth.person.approvals == self.script.approvals.len(),
            format!("asked for approval {} times", truth.person.approvals),
        );
        must(
            state.turn.is_none() && state.outbox.is_empty() && state.unread.is_empty(),
            "the session is at rest and has not ended".into(),
        );
        wrong
    }

    fn is_steering(&self, text: &str) -> bool {
        if self.script.pieces.contains(&text) {
            return true;
        }
        let mut meanwhile = self.script.model.iter().filter_map(|reply| reply.meanwhile);
        meanwhile.any(|words| words == text && !words.starts_with('/'))
    }
}

/// One task after the other, each of which needs the one before, or none needs any.
fn drafted(script: &Script) -> Drafted {
    let id = |at: usize| format!("t{at}");
    let task = |(at, (tool, arguments)): (usize, &(&str, &str))| Task {
        id: id(at),
        service: "any".into(),
        command: (*tool).into(),
        prompt: "do it".into(),
        depends_on: match script.beside {
            true => Vec::new(),
            false => at.checked_sub(1).into_iter().map(id).collect(),
        },
        input: serde_json::from_str(arguments).expect("scripts are valid"),
    };
    let graph = Graph {
        objective: "the plan".into(),
        tasks: script.plan.iter().enumerate().map(task).collect(),
    };
    let tool = |task: &Task| (task.id.clone(), task.command.clone());
    Drafted::Made {
        digest: graph.digest(),
        tools: graph.tasks.iter().map(tool).collect(),
        task_graph: graph,
    }
}

/// Which answer is due: their calls are numbered, since those before a digest are gone.
fn answers_in(messages: &[String]) -> usize {
    let answers = messages
        .iter()
        .filter(|m| m.starts_with(r#"{"role":"assistant""#));
    let numbers = answers.clone().filter_map(|answer| {
        let number = answer.split(r#""id":"w"#).nth(1)?.split('-').next()?;
        Some(number.parse::<usize>().expect("a number") + 1)
    });
    numbers.max().unwrap_or(0).max(answers.count())
}

/// How often the model sees these words of the person: as a message, or in what stands for it.
fn times_in_view(state: &State, words: &str) -> usize {
    let lines = |wire: &str| {
        let text = wire.strip_prefix(r#"{"role":"user","content":""#);
        let first = || wire.strip_prefix(r#"{"role":"user","content":[{"type":"text","text":""#);
        let content = text.or_else(first)?;
        let text = content.strip_suffix(r#""}"#).unwrap_or(content);
        Some(text.split(r"\n").filter(|line| *line == words).count())
    };
    let talk = &state.conversation;
    let seen = talk.messages().iter().zip(talk.kinds());
    let times = seen.map(|(wire, kind)| match kind {
        Kind::Digest => wire.get().matches(words).count(),
        _ => lines(wire.get()).unwrap_or_default(),
    });
    times.sum()
}

/// One process's way to the world: after its death nothing of it arrives.
pub struct Stage {
    pub reality: Arc<Reality>,
    /// Where the journals are.
    pub folder: std::path::PathBuf,
}

impl Outside for Stage {
    fn perform(self: Arc<Self>, effect: Effect, scene: Scene) -> Performance {
        let journal = self.folder.join(format!("{}.jsonl", scene.session));
        // Already here, not only when the effect is polled: from now on nothing holds it back.
        if !self.reality.fate.is_dead() {
            self.reality.check_intent(&effect, &journal);
        }
        Box::pin(async move {
            match self.reality.act(effect, scene).await {
                Some(event) => event,
                None => std::future::pending().await,
            }
        })
    }

    fn look<'a>(
        &'a self,
        look: Look,
        policy: &'a GatePolicy,
        _: &'a Result<Workspace, String>,
        _: &'a Path,
    ) -> Looked<'a> {
        Box::pin(std::future::ready(self.reality.look(
            look,
            policy,
            &self.folder,
        )))
    }
}

fn reader() -> Role {
    Role {
        name: "reader".into(),
        origin: Origin::User,
        text: "Only read.".into(),
        tools: Some(["read_lines".to_owned()].into()),
        without: BTreeSet::new(),
        model: None,
        skills: Vec::new(),
    }
}
