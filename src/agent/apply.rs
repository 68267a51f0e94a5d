//! The only place where the state changes: `apply(state, record)`.
//!
//! An event that is illegal in a state is an error, never ignored (invariant 2): it means that the journal and this
//! program disagree about what happened, and nothing may go on from there.

/// Questions about sources.
mod asking;
/// How the calls of a round go.
mod calls;
/// Between the person's folder and the worktree.
mod carry;
/// Trees of the workspace.
mod checkpoints;
/// How the conversation gets shorter.
mod compaction;
/// Wishes about schedules.
mod cron;
/// Damage: of this journal, of another one.
mod damage;
/// Wishes that a person has outside of the workspace.
mod errands;
/// What MCP servers ask.
mod forms;
/// Plans.
mod graphs;
/// Commands that are written in files.
mod loading;
/// Tools of MCP servers.
mod mcp;
/// What is not text.
mod media;
/// What a person's words change.
mod messages;
/// What is on its way to the chat.
mod outbox;
/// The agent that it acts as.
mod roles;
/// Trust, and what the workspace's own files say.
mod trust;
/// Where the session works.
mod workspaces;
/// Beside the person's folder.
mod worktrees;

use crate::agent::checkpoints::Wish;
use crate::agent::event::{
    Along, Answer, Call, CallId, EndReason, Event, Outcome, OutgoingKind, Record, Usage,
};
use crate::agent::graphs::RUN;
use crate::agent::loops::Sight;
use crate::agent::money::{Elsewhere, Spend};
use crate::agent::reading::together;
use crate::agent::recovery;
use crate::agent::state::{ErrandWish, Pending, Phase, Question, Stage, State, Stop, Turn};
use crate::agent::wording;
use calls::{await_kept, finish, pending, probed, see_tree, warn};
use compaction::{ask_summary, compact, give_summary, too_long};
use damage::{Lost, lose_tail, tell_chain};
use messages::{approve, cancel, expire, pass_on_steering, refuse, resume, take_message};
use outbox::{Attempt, ask, finish_send, notice, say, supersede};
use thiserror::Error;

/// An event that cannot have happened in this state.
#[derive(Debug, Error)]
#[error("illegal event: {what}")]
pub struct Illegal {
    pub what: String,
}

fn illegal<T>(what: impl Into<String>) -> Result<T, Illegal> {
    Err(Illegal { what: what.into() })
}

/// Takes the next line of the journal into the state.
///
/// # Errors
/// [`Illegal`] where the event cannot follow what is already known.
pub fn apply(state: &mut State, record: &Record) -> Result<(), Illegal> {
    if record.seq != state.seq + 1 {
        return illegal(format!("line {} after line {}", record.seq, state.seq));
    }
    pass_time(state, record);
    happen(state, &record.event).map_err(|error| Illegal {
        what: format!("line {}: {}", record.seq, error.what),
    })?;
    state.seq = record.seq;
    state.head.clone_from(&record.hash);
    Ok(())
}

/// Time without work is not the turn's: somebody else was waited for, or no process was there.
fn pass_time(state: &mut State, record: &Record) {
    let idle = state.waits_for_person()
        || state.helper_waits()
        || matches!(
            record.event,
            Event::Interrupted { .. } | Event::TailSetAside { .. }
        );
    let gap = record.at.since(state.now);
    state.now = state.now.max(record.at);
    if let Some(turn) = &mut state.turn
        && (idle || turn.interrupted)
    {
        turn.waited_ms += gap;
    }
}

fn happen(state: &mut State, event: &Event) -> Result<(), Illegal> {
    match event {
        Event::SessionStarted(_) => illegal("a session starts once"),
        Event::MessageReceived { message } => {
            if !state.seen.insert(message.id.clone()) {
                return illegal(format!("message {} came before", message.id));
            }
            state.said.by_person(message);
            // The channel takes no message of ours before the person's is known.
            let is_first = state.seen.len() == 1 && message.undelivered.is_none();
            if state.opening.welcome && is_first {
                let text = wording::welcome(&state.texts, &state.opening.workspace);
                say(state, OutgoingKind::Notice, text);
            }
            state.came.insert(message.id.clone(), state.now);
            state.unread.push_back(message.clone());
            Ok(())
        }
        Event::MessageTaken {
            message,
            reading,
            reply,
            quote,
            attached,
            image,
            with,
        } => {
            let first = Along {
                message: message.clone(),
                quote: quote.clone(),
                attached: attached.clone(),
                image: image.clone(),
            };
            take_message(state, &first, with, reading, reply.as_deref())
        }
        Event::ApprovalGiven {
            approval,
            by,
            always,
        } => approve(state, approval, by, always.as_ref()),
        Event::ApprovalRefused {
            approval,
            by,
            reason,
        } => refuse(state, approval, by, reason.as_deref()),
        Event::ApprovalExpired { approval } => expire(state, approval),
        Event::Reminded => cron::remind(state),
        Event::Cancelled { by, with } => cancel(state, by, with),
        Event::UndoAsked { by, way, force } => {
            let (way, force, from) = (*way, *force, None);
            checkpoints::wish(state, by, Wish::Back { way, force, from })
        }
        Event::DiffAsked { by } => checkpoints::wish(state, by, Wish::Diff),
        Event::CheckpointStarted { .. } | Event::PutBackStarted { .. } | Event::DiffStarted => {
            checkpoints::start(state)
        }
        Event::Checkpoint(taken) => checkpoints::taken(state, taken),
        Event::PutBack { restored } => checkpoints::put_back(state, restored),
        Event::DiffShown { text } => checkpoints::shown(state, text),
        Event::CronAsked { by, wish } => errands::ask(state, by, ErrandWish::Cron(wish.clone())),
        Event::TrustAsked { by, wish } => errands::ask(state, by, ErrandWish::Trust(wish.clone())),
        Event::AgentsAsked { by, wish } => {
            errands::ask(state, by, ErrandWish::Agents(wish.clone()))
        }
        Event::CarryAsked {
            by,
            carry,
            checkout,
        } => carry::ask(state, by, *carry, checkout),
        Event::CarryStarted { message, .. } => carry::start(state, message),
        Event::Carried { carried } => carry::done(state, carried),
        Event::CommandStarted { message, .. } => loading::start(state, message),
        Event::CommandLoaded { message, loaded } => loading::loaded(state, message, loaded),
        Event::CronStarted { message, .. }
        | Event::TrustStarted { message, .. }
        | Event::AgentsStarted { message, .. } => errands::start(state, message),
        Event::MediaStarted { message } => media::start(state, message),
        Event::MediaFetched { message, got } => media::fetched(state, message, got),
        Event::WorktreeStarted { checkout, .. } => worktrees::start(state, checkout),
        Event::WorktreeMade { checkout, made } => worktrees::made(state, checkout, made),
        Event::CronAnswered { answer } => cron::answer(state, answer),
        Event::TrustAnswered { answer } => trust::answer(state, answer),
        Event::AgentsAnswered { answer } => roles::answer(state, answer),
        Event::SourcesAsked {
            by,
            sources,
            question,
        } => asking::ask(state, by, sources, question),
        Event::SourcesCalled { call } => asking::call(state, call),
        Event::GraphAsked {
            by,
            graph,
            objective,
        } => graphs::ask(state, by, graph, objective),
        Event::GraphRunAsked { by, graph } => graphs::ask_run(state, by, graph),
        Event::DraftStarted { graph, call, .. } => graphs::start_draft(state, graph, call.as_ref()),
        Event::GraphDrafted {
            graph,
            call,
            drafted,
            cost,
            to_judge,
        } => {
            graphs::spend_drafting(state, cost)?;
            match call {
                Some(call) => graphs::drafted_for_call(state, graph, call, drafted, *to_judge),
                None => graphs::drafted_for_person(state, graph, drafted),
            }
        }
        Event::GraphExamined { graph, facts } => graphs::examined(state, graph, facts),
        Event::GraphJudged {
            graph, outlooks, ..
        } => graphs::judged(state, graph, outlooks),
        Event::WholesSeen { graph, outputs } => graphs::see_wholes(state, graph, outputs),
        Event::RunProposed { graph, call } => graphs::propose_run(state, graph, call),
        Event::TasksCalled { graph, tasks } => graphs::call_tasks(state, graph, tasks),
        Event::BriefSeen { brief, text } => trust::see(state, brief, text),
        Event::McpSeen { offer } => mcp::see(state, offer.as_deref()),
        Event::Resumed { by } => resume(state, by),
        Event::CallExamined {
            call,
            facts,
            expect,
        } => {
            let pending = pending(state, call)?;
            let Stage::Proposed = pending.stage else {
                return illegal(format!("call {call} was examined already"));
            };
            pending.stage = Stage::Examined(facts.clone());
            if !pending.half_done {
                pending.expect = expect.clone();
            }
            Ok(())
        }
        Event::GateDecided { call, verdict, .. } => {
            let pending = pending(state, call)?;
            let Stage::Examined(facts) = &pending.stage else {
                return illegal(format!("call {call} is judged before it is examined"));
            };
            pending.stage = Stage::Judged(facts.clone(), verdict.clone());
            Ok(())
        }
        Event::ApprovalAsked {
            approval,
            call,
            digest,
            question,
            expires_at,
            pattern,
        } => {
            let pending = pending(state, call)?;
            let in_doubt = matches!(pending.stage, Stage::InDoubt(..));
            let is_run = pending.call.tool == RUN && matches!(pending.stage, Stage::Proposed);
            if !in_doubt && !is_run && !matches!(pending.stage, Stage::Judged(..)) {
                return illegal(format!("call {call} is asked about before it is judged"));
            }
            pending.stage = Stage::Waiting(Question {
                approval: approval.clone(),
                digest: digest.clone(),
                expires_at: *expires_at,
                pattern: pattern.clone(),
                asked_in: Vec::new(),
                in_doubt,
            });
            ask(state, question.clone(), approval, pattern.is_some());
            cron::remind_later(state, Some(*expires_at));
            Ok(())
        }
        Event::QuestionAsked { call, question } => {
            let pending = pending(state, call)?;
            let Stage::Proposed = pending.stage else {
                return illegal(format!("call {call} asks twice"));
            };
            pending.stage = Stage::Listening;
            say(state, OutgoingKind::Question, question.clone());
            cron::remind_later(state, None);
            Ok(())
        }
        Event::ModelAsked { round, .. } => ask_model(state, *round),
        Event::ModelAnswered { round, answer } => answer_model(state, *round, answer),
        Event::ModelFailed { kind, message, .. } => fail_model(state, kind, message),
        Event::SummaryAsked { messages, .. } => ask_summary(state, *messages),
        Event::SummaryGiven {
            text,
            usage,
            cost_micros,
            ..
        } => give_summary(state, text, *usage, *cost_micros),
        Event::Compacted {
            messages,
            digest,
            results,
            ..
        } => compact(state, *messages, digest, results),
        Event::ToolStarted { call, approval, .. } => {
            let now = state.now;
            let pending = pending(state, call)?;
            let Stage::Judged(facts, _) = &pending.stage else {
                return illegal(format!("call {call} starts without a verdict"));
            };
            if *approval
                != pending
                    .ticket
                    .as_ref()
                    .map(|ticket| ticket.approval.clone())
            {
                return illegal(format!(
                    "call {call} starts with an approval that is not its own"
                ));
            }
            pending.stage = Stage::Running(facts.clone());
            pending.began = Some(now);
            pending.helper_waits = false;
            pending.asked = None;
            Ok(())
        }
        Event::ServerAsked {
            call,
            question,
            expires_at,
        } => forms::ask(state, call, question, *expires_at),
        Event::ServerAnswered { call, by, answer } => {
            forms::answer(state, call, by.as_ref(), answer)
        }
        Event::HelperWaits { call, waits } => calls::helper_waits(state, call, *waits),
        Event::ToolAwaited { call } => await_kept(state, call),
        Event::CallProbed { call, probe } => probed(state, call, probe),
        Event::TailSetAside {
            lines, bytes, file, ..
        } => {
            let (lines, bytes) = (*lines, *bytes);
            lose_tail(state, Lost { lines, bytes, file });
            Ok(())
        }
        Event::JournalDamaged {
            session,
            line,
            what,
        } => {
            let line = line.to_string();
            let values = [
                ("session", session.as_str()),
                ("line", &line),
                ("what", what),
            ];
            notice(state, "journal_damaged", &values);
            state.damaged = Some(session.clone());
            Ok(())
        }
        Event::ChainVerified {
            message,
            lines,
            head,
            damage,
        } => tell_chain(state, message, *lines, head, damage.as_deref()),
        Event::WorkspacesSeen {
            message,
            names,
            wanted,
        } => workspaces::seen(state, message, names, wanted.as_ref()),
        Event::WorkspaceSwitched {
            call,
            workspace,
            output,
        } => workspaces::switch(state, call.as_ref(), workspace, output),
        Event::ToolFinished { call, outcome } => finish(state, call, outcome),
        Event::PlanChanged { call, plan, output } => {
            state.plan = plan.clone();
            finish(state, call, &Outcome::done(output.clone()))
        }
        Event::SendStarted { send, .. } => {
            let Some(front) = state
                .outbox
                .front_mut()
                .filter(|front| front.send == *send && !front.sending)
            else {
                return illegal(format!("send {send} starts out of order"));
            };
            front.sending = true;
            if front.fleeting {
                state.progress_at = Some(state.now);
            }
            Ok(())
        }
        Event::SendSuperseded { send } => supersede(state, *send),
        Event::SendFinished {
            send,
            error,
            retry_at,
            ids,
            parts,
            closed,
            ..
        } => {
            let attempt = Attempt {
                failed: error.is_some(),
                retry_at: *retry_at,
                ids,
                parts: *parts,
                closed: closed.as_ref(),
            };
            finish_send(state, *send, &attempt)
        }
        Event::TogetherDue => match together::members(state).next() {
            Some(_) => Ok(()),
            None => illegal("nothing waits for more messages"),
        },
        Event::SendDue { send } => match state.outbox.front_mut() {
            Some(front) if front.send == *send && front.due.is_some() => {
                front.due = None;
                Ok(())
            }
            _ => illegal(format!("send {send} waits for nothing")),
        },
        Event::StopAsked => {
            turn(state)?.stop = Stop::Asked;
            Ok(())
        }
        Event::LimitReached { text, .. } => reach_limit(state, text),
        Event::TreeSeen { call, tree } => see_tree(state, call, tree.clone()),
        Event::LoopWarned { call, text } => warn(state, call, text),
        Event::SpendSeen { month, elsewhere } => {
            state.elsewhere = Some(Elsewhere {
                month: month.clone(),
                spend: *elsewhere,
                seq: state.seq + 1,
            });
            Ok(())
        }
        Event::Interrupted {
            calls,
            asking,
            sending,
        } => interrupt(state, calls, *asking, *sending),
        Event::TurnEnded { reason, text } => end_turn(state, *reason, text),
    }
}

fn turn(state: &mut State) -> Result<&mut Turn, Illegal> {
    state.turn.as_mut().ok_or_else(|| Illegal {
        what: "no turn is active".into(),
    })
}

fn ask_model(state: &mut State, round: u32) -> Result<(), Illegal> {
    if round != state.rounds + 1 {
        return illegal(format!(
            "round {round} does not follow round {}",
            state.rounds
        ));
    }
    let turn = turn(state)?;
    let Phase::Ready = turn.phase else {
        return illegal("the model is asked out of turn");
    };
    turn.phase = Phase::Asking;
    turn.round += 1;
    state.rounds = round;
    Ok(())
}

fn answer_model(state: &mut State, round: u32, answer: &Answer) -> Result<(), Illegal> {
    if round != state.rounds {
        return illegal(format!(
            "an answer to round {round} in round {}",
            state.rounds
        ));
    }
    let turn = turn(state)?;
    let Phase::Asking = turn.phase else {
        return illegal("an answer that nobody asked for");
    };
    turn.overflows = 0;
    spend(state, answer.usage, answer.cost_micros)?;
    state.conversation.measured(answer.usage.input_tokens);
    if answer.calls.is_empty() && answer.text.trim().is_empty() {
        let text = state.texts.say("empty_answer", &[]);
        self::turn(state)?.phase = Phase::Failed(text);
        return Ok(());
    }
    state.conversation.assistant(answer);
    let phase = if !answer.calls.is_empty() {
        Phase::Calls(answer.calls.iter().map(fresh).collect())
    } else if state.steering.is_empty() {
        Phase::Answered(final_text(state, answer))
    } else {
        // The person said something meanwhile: this was not the end.
        say(state, OutgoingKind::Progress, answer.text.clone());
        pass_on_steering(state);
        Phase::Ready
    };
    self::turn(state)?.phase = phase;
    Ok(())
}

/// A call that nothing was done about yet.
fn fresh(call: &Call) -> Pending {
    Pending {
        call: call.clone(),
        stage: Stage::Proposed,
        ticket: None,
        expect: None,
        began: None,
        helper_waits: false,
        asked: None,
        half_done: false,
        may_have_run: false,
        sight: Sight::Unseen,
        warning: None,
    }
}

/// What an answer of the model cost, on every account.
fn spend(state: &mut State, usage: Usage, cost_micros: Option<u64>) -> Result<(), Illegal> {
    turn(state)?.spend.answered(usage, cost_micros);
    spend_outside_turns(state, usage, cost_micros);
    Ok(())
}

/// What no turn's limit counts.
fn spend_outside_turns(state: &mut State, usage: Usage, cost_micros: Option<u64>) {
    state.spend.answered(usage, cost_micros);
    let now = state.now.month();
    let month = state.month.take().filter(|(month, _)| *month == now);
    let (name, mut spend) = month.unwrap_or((now, Spend::default()));
    spend.answered(usage, cost_micros);
    state.month = Some((name, spend));
}

/// Between rounds the turn just ends; within one, what runs is stopped first, as for a `/cancel`.
fn reach_limit(state: &mut State, text: &str) -> Result<(), Illegal> {
    let turn = turn(state)?;
    match turn.phase {
        Phase::Asking | Phase::Drafting | Phase::Summarising(_) | Phase::Calls(_) => {
            turn.halted = Some(text.to_owned());
            turn.stop = Stop::Wanted;
        }
        Phase::Ready
        | Phase::Answered(_)
        | Phase::Failed(_)
        | Phase::TooLong(_)
        | Phase::Summarised(..)
        | Phase::Limited(_) => {
            turn.phase = Phase::Limited(text.to_owned());
        }
    }
    Ok(())
}

fn fail_model(state: &mut State, kind: &str, message: &str) -> Result<(), Illegal> {
    let turn = turn(state)?;
    let phase = match (&turn.phase, turn.stop) {
        (Phase::Asking | Phase::Summarising(_), Stop::Wanted | Stop::Asked) => Phase::Ready,
        (Phase::Asking, Stop::No) if kind == "context_overflow" => too_long(state, message)?,
        (Phase::Asking | Phase::Summarising(_), Stop::No) => Phase::Failed(message.to_owned()),
        _ => return illegal("the model failed without being asked"),
    };
    self::turn(state)?.phase = phase;
    Ok(())
}

fn final_text(state: &State, answer: &Answer) -> String {
    if answer.finish == "length" {
        return format!("{}\n\n{}", answer.text, state.texts.say("cut_answer", &[]));
    }
    answer.text.clone()
}

fn interrupt(
    state: &mut State,
    calls: &[CallId],
    asking: bool,
    sending: bool,
) -> Result<(), Illegal> {
    let halts = recovery::halts(state);
    checkpoints::interrupt(state);
    errands::interrupt(state);
    carry::interrupt(state);
    state.fetching = None;
    state.worktrees.begin_anew();
    for id in calls {
        let pending = pending(state, id)?;
        let Stage::Running(facts) = &pending.stage else {
            return illegal(format!("call {id} was not running"));
        };
        pending.stage = Stage::InDoubt(facts.clone(), None);
        pending.asked = None; // whoever asked is gone
        pending.may_have_run = true;
    }
    if sending {
        let mark = state.texts.say("repeated", &[]);
        let Some(front) = state.outbox.front_mut() else {
            return illegal("nothing was being sent");
        };
        front.repeat(&mark);
    }
    let Some(turn) = &mut state.turn else {
        return Ok(());
    };
    if turn.stop == Stop::Asked {
        // What was told is gone with its process; what goes on without one must be told again.
        turn.stop = Stop::Wanted;
    }
    let round = turn.round.to_string();
    if asking {
        // Whatever the model was asked for, it is asked again; a round counts once.
        let is_round = matches!(turn.phase, Phase::Asking);
        turn.round -= u32::from(is_round);
        turn.phase = Phase::Ready;
    }
    if halts {
        turn.interrupted = true;
        state.interruptions += 1;
        notice(state, "interrupted", &[("round", &round)]);
    }
    Ok(())
}

fn end_turn(state: &mut State, reason: EndReason, text: &str) -> Result<(), Illegal> {
    let turn = turn(state)?;
    let (began, work) = (turn.message.take(), turn.work.take());
    let asks = turn.asks.take();
    state.last_turn = turn.spend;
    state.turn = None;
    state.last_end = Some(reason);
    let sends = state.sends;
    say(state, OutgoingKind::Final, text.to_owned());
    if let Some(last) = state.outbox.back_mut().filter(|last| last.send > sends) {
        last.answers = began;
    }
    graphs::end_turn(state, work, reason);
    asking::end_turn(state, asks, reason);
    pass_on_steering(state);
    Ok(())
}
