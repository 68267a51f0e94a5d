//! Task graphs of a session, which people call plans: asked for, drafted, judged, run. What is known of them, and what a
//! message wants of them. Pure.
//!
//! A run is a turn whose calls come from the graph and not from a model. Each of them goes the way of any other call:
//! examined, judged, asked about where the gate says so, written down before and after. See `step/tasks.rs`.

/// What a task gave, and what of it references bring.
mod ended;

pub use ended::{Ended, WHOLE_BYTES_MAX};

use crate::agent::event::{
    By, Call, CallId, DraftCost, Drafted, Event, Inbound, Judged, Outlook, Status, TaskCall, Whole,
};
use crate::agent::state::{Pending, Stage, State};
use crate::gate::{Decision, Facts};
use crate::plan::{self, Graph, Task, TaskEnd};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};

/// The call that stands for a whole run while the person is asked about it. No model can call it.
pub const RUN: &str = "run_plan";
/// Plans that a session remembers.
const GRAPHS_MAX: usize = 50;
/// Letters and digits, without those that look alike.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const ID_CHARS: usize = 6;

/// What a session knows of its plans, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Graphs {
    known: VecDeque<Known>,
    /// What the last turn was about that did not come to its end: it goes on where somebody says so.
    pub left: Option<Work>,
}

/// What a turn is about, where it is about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    pub graph: String,
    /// Its tasks run; else it is only drafted.
    pub runs: bool,
}

/// One plan.
#[derive(Debug, Clone)]
pub struct Known {
    pub id: String,
    pub objective: String,
    /// The model's call that asked for it, answered once its tasks are judged.
    pub for_call: Option<CallId>,
    pub made: Option<Made>,
    /// Why there is none.
    pub failed: Option<String>,
    /// What was looked up for the tasks that have not run.
    pub facts: Option<BTreeMap<String, Facts>>,
    pub outlooks: Option<BTreeMap<String, Outlook>>,
    pub approval: Approval,
    /// Its tasks run, or have run.
    pub ran: bool,
    pub called: BTreeMap<String, CallId>,
    pub ended: BTreeMap<String, Ended>,
    /// Whole outputs that references lead to, where the journal has a part of them.
    pub wholes: BTreeMap<String, Whole>,
    /// Lines of the journal are gone, so that nobody knows which of its tasks have run.
    pub lost: bool,
}

/// A graph as it was drafted.
#[derive(Debug, Clone)]
pub struct Made {
    pub graph: Graph,
    pub digest: String,
    pub tools: BTreeMap<String, String>,
}

/// The person's word on a whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    None,
    /// By the question of this code.
    Given(String),
    Refused,
}

impl Graphs {
    pub fn get(&self, id: &str) -> Option<&Known> {
        let is_it = |known: &&Known| known.id.eq_ignore_ascii_case(id);
        self.known.iter().find(is_it)
    }

    pub fn last(&self) -> Option<&Known> {
        self.known.back()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Known> {
        self.known.iter()
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.id == id)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Known> {
        self.known.iter_mut()
    }

    /// One more; the oldest goes where there are too many.
    pub fn add(&mut self, id: &str, objective: &str) {
        if self.known.len() >= GRAPHS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Known {
            id: id.to_owned(),
            objective: objective.to_owned(),
            for_call: None,
            made: None,
            failed: None,
            facts: None,
            outlooks: None,
            approval: Approval::None,
            ran: false,
            called: BTreeMap::new(),
            ended: BTreeMap::new(),
            wholes: BTreeMap::new(),
            lost: false,
        });
    }
}

impl Known {
    pub fn task(&self, id: &str) -> Option<&Task> {
        let made = self.made.as_ref()?;
        made.graph.tasks.iter().find(|task| task.id == id)
    }

    /// The task that a call is of.
    pub fn task_of(&self, call: &CallId) -> Option<&str> {
        let found = self.called.iter().find(|(_, called)| *called == call);
        found.map(|(task, _)| task.as_str())
    }

    /// What was looked up before may be something else by now.
    pub fn look_again(&mut self) {
        self.facts = None;
        self.outlooks = None;
        self.approval = Approval::None;
    }

    /// Nothing of it has been called, whatever was asked for.
    pub fn is_untouched(&self) -> bool {
        self.called.is_empty() && self.ended.is_empty()
    }

    /// Those that wait for a person's yes, as far as is known beforehand.
    pub fn asks(&self) -> bool {
        let asks = |outlook: &Outlook| matches!(&outlook.says, Judged::Known { verdict, .. } if verdict.decision == Decision::Ask);
        self.outlooks.iter().flat_map(BTreeMap::values).any(asks)
    }

    /// What an approval of the whole run is bound to: the graph, and what the gate judged of each task, for whom and where.
    pub fn run_digest(&self, state: &State) -> String {
        let judged = |(task, outlook): (&String, &Outlook)| match &outlook.says {
            Judged::Known { digest, .. } => Some((task.clone(), digest.clone())),
            Judged::Later | Judged::Unfit { .. } => None,
        };
        let judged: BTreeMap<String, String> =
            self.outlooks.iter().flatten().filter_map(judged).collect();
        let digest = self.made.as_ref().map(|made| &made.digest);
        let bound = json!([digest, judged, state.workspace.path, state.opening.owner]);
        hex::encode(Sha256::digest(bound.to_string()))
    }

    /// How each task stands that has ended, the calls of the round included.
    pub fn ends(&self, state: &State) -> BTreeMap<String, Ended> {
        let mut ends = self.ended.clone();
        for pending in state.calls() {
            if let (Some(task), Some(ended)) = (self.task_of(&pending.call.id), end_of(pending)) {
                ends.insert(task.to_owned(), ended);
            }
        }
        ends
    }

    /// Whether a task's call has begun and has not ended. One that waits for its turn, or for a yes, has not.
    pub fn is_under_way(&self, state: &State, task: &str) -> bool {
        let call = self.called.get(task);
        let pending = call.and_then(|call| state.pending(call));
        pending.is_some_and(|pending| match &pending.stage {
            Stage::Running(_) | Stage::InDoubt(..) => true,
            Stage::Proposed
            | Stage::Examined(_)
            | Stage::Judged(..)
            | Stage::Waiting(_)
            | Stage::Listening
            | Stage::Heard(_)
            | Stage::Finished(_) => false,
        })
    }

    /// The tasks that can be called next, with their references resolved, and those that never will.
    pub fn next(&self, ends: &BTreeMap<String, Ended>) -> Next {
        let Some(made) = &self.made else {
            return Next::default();
        };
        let how = |(task, ended): (&String, &Ended)| {
            let end = match ended.status {
                Status::Done => TaskEnd::Done,
                Status::Failed | Status::Denied | Status::Cancelled | Status::Unknown => {
                    TaskEnd::Failed
                }
            };
            (task.clone(), end)
        };
        let found = plan::ready(&made.graph, &ends.iter().map(how).collect());
        let is_new = |task: &String| !self.called.contains_key(task);
        Next {
            ready: found.start.into_iter().filter(is_new).collect(),
            aborted: found.aborted,
        }
    }

    /// Those that a task refers to, where the whole of what they gave is to be looked up first.
    pub fn cut_before<'a>(
        &self,
        task: &Task,
        ends: &'a BTreeMap<String, Ended>,
    ) -> impl Iterator<Item = (String, &'a Ended)> {
        let to = plan::references(&task.input).into_iter();
        to.filter_map(|reference| {
            let ended = ends.get(&reference.task).filter(|ended| ended.is_cut())?;
            let is_known = self.wholes.contains_key(&reference.task);
            (!is_known).then_some((reference.task, ended))
        })
    }

    /// What the call of a task is made with.
    ///
    /// # Errors
    /// Why it cannot be called.
    pub fn arguments(&self, task: &Task, ends: &BTreeMap<String, Ended>) -> Result<Value, String> {
        let (mut outputs, mut bytes) = (BTreeMap::new(), 0);
        for reference in plan::references(&task.input) {
            let Some(ended) = ends.get(&reference.task) else {
                continue; // told as what it is: nothing is there
            };
            let value = ended.value(self.wholes.get(&reference.task));
            let value = value.map_err(|why| format!("{reference}: {why}"))?;
            outputs.insert(reference.task.clone(), value);
            bytes += ended::bytes_of(&reference, &outputs)?;
            if bytes > WHOLE_BYTES_MAX {
                return Err(format!(
                    "{reference}: what the references of one task bring is too long: {WHOLE_BYTES_MAX} bytes are possible. Let them bring less"
                ));
            }
        }
        plan::resolve(&task.input, &outputs).map_err(|error| error.to_string())
    }
}

/// What there is to do next in a run.
#[derive(Debug, Default)]
pub struct Next {
    pub ready: Vec<String>,
    pub aborted: Vec<String>,
}

/// How the call of a task ended. One that a stop kept from starting has not: it can be called again.
pub fn end_of(pending: &Pending) -> Option<Ended> {
    let Stage::Finished(outcome) = &pending.stage else {
        return None;
    };
    let started = pending.began.is_some() || pending.may_have_run;
    (started || outcome.status != Status::Cancelled).then(|| Ended::of(&pending.call.id, outcome))
}

/// The plan whose tasks run in this turn.
pub fn running(state: &State) -> Option<&Known> {
    let work = state.turn.as_ref()?.work.as_ref()?;
    state.graphs.get(&work.graph).filter(|_| work.runs)
}

/// The plan that was made for a call and is not judged yet, or not told of.
pub fn made_for<'a>(state: &'a State, call: &CallId) -> Option<&'a Known> {
    let is_it = |known: &&Known| known.for_call.as_ref() == Some(call);
    state.graphs.iter().find(is_it)
}

/// Whether the call stands for a whole run.
pub fn is_run(state: &State, call: &Call) -> bool {
    call.tool == RUN && running(state).is_some()
}

/// Whether the approval that a call has is that of the whole run.
pub fn is_of_run(state: &State, approval: &str) -> bool {
    let given = running(state).map(|known| &known.approval);
    given.is_some_and(|given| *given == Approval::Given(approval.to_owned()))
}

/// The call of a task, where it was called.
pub fn call_of(known: &Known, task: &str, called: &TaskCall) -> Option<Call> {
    let TaskCall::Called { call, arguments } = called else {
        return None;
    };
    let made = known.made.as_ref()?;
    Some(Call {
        id: call.clone(),
        wire_id: String::new(),
        tool: made.tools.get(task)?.clone(),
        arguments: arguments.clone(),
    })
}

/// What a message wants of plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish<'a> {
    Show(&'a str),
    Run(&'a str),
    Make(&'a str),
}

/// `run` and `show` are verbs alone and before the name of a plan, and words of an objective everywhere else.
pub fn read<'a>(state: &State, said: &'a str) -> Wish<'a> {
    let (verb, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let rest = rest.trim();
    let names = rest.is_empty() || state.graphs.get(rest).is_some() || looks_like_id(rest);
    match verb.to_ascii_lowercase().as_str() {
        "" => Wish::Show(""),
        "show" if names => Wish::Show(rest),
        "run" if names => Wish::Run(rest),
        _ => Wish::Make(said),
    }
}

fn looks_like_id(word: &str) -> bool {
    word.len() == ID_CHARS && word.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// A name for a new plan. Derived, so that a replay gives the same; no other one has it.
pub fn fresh_id(state: &State, about: &str) -> String {
    let seed = format!("{} {} {about}", state.opening.session, state.seq);
    let bytes = Sha256::digest(seed);
    let letters = bytes.iter().take(ID_CHARS);
    letters
        .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]))
        .collect()
}

/// What answers a message at once.
pub enum Answer<'a> {
    Shown(&'a Known),
    /// The name of a text, and which plan was named.
    Text(&'static str, &'a str),
}

/// What a message becomes that wants something of plans, or what answers it.
pub fn ask<'a>(
    state: &'a State,
    message: &Inbound,
    by: By,
    wish: &Wish<'a>,
) -> Result<Event, Answer<'a>> {
    let known = |id| match find(state, id) {
        Some(known) => Ok(known),
        None if id.is_empty() => Err(Answer::Text("graph_none", id)),
        None => Err(Answer::Text("graph_unknown", id)),
    };
    match *wish {
        Wish::Show(id) => Err(Answer::Shown(known(id)?)),
        Wish::Make(_) if state.turn.is_some() => Err(Answer::Text("graph_busy", "")),
        Wish::Make(objective) => Ok(Event::GraphAsked {
            by,
            graph: fresh_id(state, &message.id),
            objective: objective.to_owned(),
        }),
        Wish::Run(id) => {
            let known = known(id)?;
            if known.made.is_none() || known.is_over() {
                return Err(Answer::Shown(known));
            }
            if known.lost {
                return Err(Answer::Text("graph_lost", &known.id));
            }
            match state.turn {
                Some(_) => Err(Answer::Text("graph_busy", &known.id)),
                None => Ok(Event::GraphRunAsked {
                    by,
                    graph: known.id.clone(),
                }),
            }
        }
    }
}

/// The plan of this name, or the last one where none is named.
pub fn find<'a>(state: &'a State, id: &str) -> Option<&'a Known> {
    match id {
        "" => state.graphs.last(),
        id => state.graphs.get(id),
    }
}

impl Known {
    /// Each of its tasks has ended, or never will run.
    pub fn is_over(&self) -> bool {
        let Some(made) = &self.made else {
            return false;
        };
        let aborted = self.next(&self.ended).aborted;
        let over = |task: &Task| self.ended.contains_key(&task.id) || aborted.contains(&task.id);
        made.graph.tasks.iter().all(over)
    }
}

/// What is written down where the drafting itself broke.
pub fn broken(graph: String, call: Option<CallId>, why: &str) -> Event {
    Event::GraphDrafted {
        graph,
        call,
        drafted: Drafted::Failed {
            why: why.to_owned(),
        },
        cost: DraftCost::default(),
        to_judge: false,
    }
}
