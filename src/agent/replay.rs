//! Whether a line of a journal is what today's logic decides in the state before it.
//!
//! Facts and outcomes are taken as they were recorded; only decisions and intents are made again. Pure: it compares one
//! line, and reads nothing.

use crate::agent::event::{Event, Record};
use crate::agent::state::{Stage, State};
use crate::agent::step::{Decision, Effect, Look, Policy, Resume, step};
use crate::agent::{carry, limits, recovery, wording};
use serde_json::Value;
use std::mem::swap;

/// The rule that speaks where the write switch is off.
const WRITE_SWITCH: &str = "write-switch";

/// Today's settings, for both positions of the write switch: a journal says which one it was.
#[derive(Debug)]
pub struct Today {
    policy: Policy,
    /// The gate with the write switch the other way round.
    other_gate: crate::gate::GatePolicy,
}

/// How a recorded line compares with today's logic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// A fact or an outcome: nobody decided it here.
    Outside,
    /// Decided the same.
    Same,
    /// Decided the same with a setting as it was then, which today is another one.
    OtherSetting(&'static str),
    /// Decided the same, in other words.
    Reworded,
    /// Decided differently: what today's logic does there.
    Different(String),
}

impl Today {
    /// `policy` with the write switch on, and the gate with the switch off.
    pub fn new(policy: Policy, write_disabled: crate::gate::GatePolicy) -> Self {
        Self {
            policy,
            other_gate: write_disabled,
        }
    }

    /// Digest of today's policy, with the write switch as it is on now.
    pub fn gate_digests(&self) -> [&str; 2] {
        [self.policy.gate.digest(), self.other_gate.digest()]
    }

    /// Compares a line with what is decided in the state before it. `before` is the line before.
    pub fn compare(&mut self, state: &State, before: &Event, record: &Record) -> Match {
        let event = &record.event;
        if let Some(found) = outside(state, event) {
            return found;
        }
        // An alarm that rings before a message is taken leaves no time to decide.
        let rang = matches!(
            before,
            Event::SendDue { .. }
                | Event::TogetherDue
                | Event::ApprovalExpired { .. }
                | Event::ServerAnswered { by: None, .. }
                | Event::Reminded
                | Event::LimitReached { .. }
        );
        if rang && matches!(event, Event::MessageReceived { .. }) {
            return Match::Outside;
        }
        // A look is answered after the messages that came meanwhile.
        if matches!(before, Event::MessageReceived { .. }) && answers_look(event) {
            return Match::Outside;
        }
        self.turn_switch(state, event);
        match judge(state, &self.policy, event) {
            Match::Different(_) if self.was_looking(state, before, event) => Match::Same,
            Match::Different(now) => self.with_settings_of_then(state, event, now),
            found => found,
        }
    }

    /// Whether it answers a look that was decided before messages came which were taken while it was looked.
    fn was_looking(&self, state: &State, before: &Event, event: &Event) -> bool {
        if !matches!(before, Event::MessageReceived { .. }) {
            return false;
        }
        let mut then = state.clone();
        while then.unread.pop_back().is_some() {
            if let Decision::Look(look) = step(&then, &self.policy)
                && looked(&look, event) == Match::Same
            {
                return true;
            }
        }
        false
    }

    /// The write switch as the verdict on this call says that it was.
    fn turn_switch(&mut self, state: &State, event: &Event) {
        let recorded = match event {
            Event::GateDecided { verdict, .. } => Some(verdict),
            _ => state
                .calls()
                .iter()
                .find_map(|pending| match &pending.stage {
                    Stage::Judged(_, verdict) => Some(verdict),
                    _ => None,
                }),
        };
        let off = recorded.is_some_and(|verdict| {
            verdict
                .reasons
                .iter()
                .any(|reason| reason.rule == WRITE_SWITCH)
        });
        if off == self.policy.gate.write_enabled() {
            swap(&mut self.policy.gate, &mut self.other_gate);
        }
    }

    /// What the journal says of a setting counts more than what it is today.
    fn with_settings_of_then(&mut self, state: &State, event: &Event, now: String) -> Match {
        let (limits, resume) = (self.policy.limits.clone(), self.policy.resume);
        let name = match event {
            Event::LimitReached { .. } | Event::ModelAsked { .. } => {
                return limit_of_then(state, &self.policy, event, now);
            }
            Event::ApprovalAsked { expires_at, .. } => {
                self.policy.limits.approval_minutes = expires_at.since(state.now) / 60_000;
                "approval_minutes"
            }
            Event::ToolFinished { call, outcome } => {
                let position = state.calls().iter().position(|p| p.call.id == *call);
                let then = (0..=position.unwrap_or(0))
                    .find(|max| wording::too_many_calls(*max) == outcome.output);
                self.policy.limits.calls_max = then.unwrap_or(usize::MAX);
                "calls_max"
            }
            Event::Resumed { .. } => {
                self.policy.resume = Resume::Auto;
                "resume"
            }
            // It is probed before it is known whether the turn goes on by itself.
            Event::CallProbed { .. } if state.turn.as_ref().is_some_and(|t| t.interrupted) => {
                self.policy.resume = Resume::Auto;
                "resume"
            }
            _ => {
                self.policy.limits.calls_max = usize::MAX;
                self.policy.resume = Resume::Ask;
                "calls_max or resume"
            }
        };
        let again = judge(state, &self.policy, event);
        (self.policy.limits, self.policy.resume) = (limits, resume);
        match again {
            Match::Outside | Match::Same | Match::Reworded => Match::OtherSetting(name),
            _ => Match::Different(now),
        }
    }
}

/// Limits are looked at where the model would be asked: one is as good as the other there, by the limits of then.
fn limit_of_then(state: &State, policy: &Policy, event: &Event, now: String) -> Match {
    let here = match step(state, policy) {
        Decision::Record(decided) => matches!(*decided, Event::LimitReached { .. }),
        Decision::Perform(effect) => matches!(*effect, Effect::AskModel { .. }),
        Decision::Look(_) | Decision::Wait => false,
    };
    let next = match event {
        Event::ModelAsked {
            round, messages, ..
        } => *round == state.rounds + 1 && *messages == state.conversation.messages().len(),
        _ => true,
    };
    match here && next {
        true => Match::OtherSetting("the limits of a turn, or the model"),
        false => Match::Different(now),
    }
}

fn answers_look(event: &Event) -> bool {
    matches!(
        event,
        Event::CallExamined { .. }
            | Event::CallProbed { .. }
            | Event::GraphExamined { .. }
            | Event::WholesSeen { .. }
            | Event::TreeSeen { .. }
            | Event::SpendSeen { .. }
            | Event::ChainVerified { .. }
            | Event::BriefSeen { .. }
            | Event::McpSeen { .. }
    )
}

/// What nobody decides: facts, outcomes, and what follows from a clock or a dead process.
fn outside(state: &State, event: &Event) -> Option<Match> {
    let expected = |expected: Option<Event>| match expected {
        Some(expected) if expected == *event => Match::Outside,
        Some(expected) => Match::Different(name(&expected)),
        None => Match::Different("nothing of the kind".into()),
    };
    Some(match event {
        Event::ModelAnswered { .. }
        | Event::ModelFailed { .. }
        | Event::SummaryGiven { .. }
        | Event::Checkpoint(_)
        | Event::PutBack { .. }
        | Event::DiffShown { .. }
        | Event::CronAnswered { .. }
        | Event::TrustAnswered { .. }
        | Event::AgentsAnswered { .. }
        | Event::WorktreeMade { .. }
        | Event::MediaFetched { .. }
        | Event::CommandLoaded { .. }
        | Event::GraphDrafted { .. }
        | Event::SendFinished { .. }
        | Event::SessionStarted(_)
        | Event::TailSetAside { .. }
        | Event::JournalDamaged { .. } => Match::Outside,
        Event::Carried { .. } => return carry::is_under_way(state).then_some(Match::Outside),
        Event::Interrupted { .. } => expected(recovery::on_start(state)),
        // The person wrote, here or in another session.
        Event::SendDue { send } if is_held(state, *send) => Match::Outside,
        Event::SendDue { .. }
        | Event::TogetherDue
        | Event::ApprovalExpired { .. }
        | Event::ServerAnswered { by: None, .. }
        | Event::Reminded => expected(state.next_alarm().map(|(_, alarm)| alarm)),
        Event::LimitReached { limit, .. } if limits::is_by_clock(state, limit) => Match::Outside,
        // What a call says while it runs.
        Event::ToolFinished { call, .. }
        | Event::HelperWaits { call, .. }
        | Event::ServerAsked { call, .. } => {
            let running = |stage: &Stage| matches!(stage, Stage::Running(_));
            let found = state.pending(call).map(|pending| &pending.stage);
            return found.is_some_and(running).then_some(Match::Outside);
        }
        _ => return None,
    })
}

fn is_held(state: &State, send: u64) -> bool {
    let front = state.outbox.front();
    front.is_some_and(|front| front.send == send && front.held.is_some() && front.due.is_some())
}

/// What today's logic does in this state, against what was recorded.
fn judge(state: &State, policy: &Policy, event: &Event) -> Match {
    let decided = match step(state, policy) {
        Decision::Record(decided) => *decided,
        Decision::Perform(effect) => effect.intent(),
        // They are taken while it is looked, too.
        Decision::Look(_) if matches!(event, Event::MessageReceived { .. }) => {
            return Match::Outside;
        }
        Decision::Look(look) => return looked(&look, event),
        // Messages are taken where there is nothing to do but to wait.
        Decision::Wait => {
            return match event {
                Event::MessageReceived { .. } => Match::Outside,
                _ => Match::Different("nothing: it waits".into()),
            };
        }
    };
    match (&decided, event) {
        (decided, event) if decided == event => Match::Same,
        (decided, event) if essence(decided) == essence(event) => Match::Reworded,
        (decided, _) => Match::Different(describe(decided)),
    }
}

/// The answer to a look is a fact; that it was looked, and at what, was decided.
fn looked(look: &Look, event: &Event) -> Match {
    let same = match (look, event) {
        (Look::Examine { call, .. }, Event::CallExamined { call: id, .. }) => call.id == *id,
        (Look::Graph { graph, .. }, Event::GraphExamined { graph: id, .. }) => graph == id,
        (Look::Outputs { graph, .. }, Event::WholesSeen { graph: id, .. }) => graph == id,
        (Look::Probe { call, .. }, Event::CallProbed { call: id, .. }) => call == id,
        // Where the workspace could not be opened.
        (Look::Examine { call, .. }, Event::ToolFinished { call: id, .. }) => call.id == *id,
        (Look::Chain { message }, Event::ChainVerified { message: id, .. }) => message == id,
        (Look::Workspaces { message, .. }, Event::WorkspacesSeen { message: id, .. }) => {
            message == id
        }
        (Look::Tree { call }, Event::TreeSeen { call: id, .. }) => call == id,
        (Look::Brief { .. }, Event::BriefSeen { .. }) => true,
        (Look::Mcp { .. }, Event::McpSeen { .. }) => true,
        (Look::Spend { month, .. }, Event::SpendSeen { month: then, .. }) => month == then,
        _ => false,
    };
    match (same, look) {
        (true, _) => Match::Same,
        (false, Look::Examine { call, .. }) => {
            Match::Different(format!("examine call {}", call.id))
        }
        (false, Look::Probe { call, .. }) => Match::Different(format!("probe call {call}")),
        (false, Look::Graph { graph, .. }) => Match::Different(format!("examine plan {graph}")),
        (false, Look::Workspaces { .. }) => Match::Different("look up the workspaces".into()),
        (false, Look::Chain { .. }) => Match::Different("verify the chain".into()),
        (false, Look::Brief { .. }) => Match::Different("look at the workspace's own files".into()),
        (false, Look::Mcp { .. }) => Match::Different("look at what MCP servers offer".into()),
        (false, Look::Tree { call }) => {
            Match::Different(format!("look at the workspace before call {call}"))
        }
        (false, Look::Outputs { graph, .. }) => {
            Match::Different(format!("read what tasks of plan {graph} gave"))
        }
        (false, Look::Spend { .. }) => Match::Different("look up the month's spend".into()),
    }
}

/// The decision without its words: texts change with the program's version and its language.
fn essence(event: &Event) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    for words in [
        "reply",
        "quote",
        "attached",
        "question",
        "text",
        "output",
        "policy_digest",
        "model",
    ] {
        if let Some(fields) = value.as_object_mut() {
            fields.remove(words);
        }
    }
    let with = value.get_mut("with").and_then(Value::as_array_mut);
    for along in with.into_iter().flatten() {
        *along = along["message"].take();
    }
    if let Some(outcome) = value.get_mut("outcome").and_then(Value::as_object_mut) {
        outcome.remove("output");
    }
    if let Event::GateDecided { verdict, .. } = event {
        let rules: Vec<_> = verdict.reasons.iter().map(|reason| &reason.rule).collect();
        value["verdict"] = serde_json::json!([verdict.decision, rules]);
    }
    value
}

fn name(event: &Event) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    value["event"].as_str().unwrap_or_default().to_owned()
}

/// The event's name, and what tells it from others of the name.
fn describe(event: &Event) -> String {
    let value = essence(event);
    let fields = value.as_object().into_iter().flatten();
    let details: Vec<String> = fields
        .filter(|(field, _)| *field != "event")
        .map(|(field, value)| format!("{field} {value}"))
        .collect();
    format!("{} {}", name(event), details.join(", "))
        .trim_end()
        .to_owned()
}

/// What was recorded, as [`Match::Different`] says what would be.
pub fn recorded(event: &Event) -> String {
    describe(event)
}
