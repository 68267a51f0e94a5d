//! Every limit of a turn, by name and unit, and when one is reached. The numbers live in `config/limits.toml`.

use crate::agent::children;
use crate::agent::event::{Event, Timestamp};
use crate::agent::money;
use crate::agent::state::{Phase, State, Stop, Turn};
use crate::agent::step::Policy;
use crate::definitions::{Bounds, TextBounds};
use crate::outline;
use crate::plan;
use crate::schedule::wish::Terms;
use serde::{Deserialize, Serialize};

/// The limit in time, as the journal names it.
const TIME: &str = "limit_time";

/// The limits file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Model calls a turn.
    pub rounds_max: u32,
    /// Tool calls a round; what is above gets an error that says so.
    pub calls_max: usize,
    /// Wall time of a turn in seconds; waiting for a person does not count.
    pub turn_seconds_max: u64,
    /// Input and output tokens a turn.
    pub tokens_max: u64,
    /// What a turn may cost, in US cents; 0 sets no limit. So for the two below.
    pub turn_cents_max: u64,
    /// What a session may cost, all its turns.
    pub session_cents_max: u64,
    /// What all sessions of the data folder may cost in a month (UTC).
    pub month_cents_max: u64,
    /// Tokens that fit into the window of a model that `config/models.toml` does not know, the answer included.
    pub context_tokens: u64,
    /// Of what the system prompt and the tools leave of the window, in percent: from here on something is left out.
    pub compact_from_percent: u64,
    /// What is aimed at then, in percent of the same.
    pub compact_to_percent: u64,
    /// The newest messages, which stay as they are, in percent of the same.
    pub compact_keep_percent: u64,
    /// How long a question stays open, in minutes.
    pub approval_minutes: u64,
    /// Requests to the model for one round, the first one included.
    pub model_attempts_max: u32,
    /// Silence on a model's connection, in seconds, before it counts as lost.
    pub model_silence_seconds: u64,
    /// Longest wait that a `Retry-After` may ask for, in seconds.
    pub model_retry_after_seconds_max: u64,
    /// Tries to send one message, minutes apart, before it is given up.
    pub send_attempts_max: u32,
    /// How long a message that would start a turn waits for another one, in milliseconds; 0 waits for none.
    pub together_ms: u64,
    /// Messages of one chat that start or steer work within `messages_minutes`; 0 sets no limit.
    pub messages_max: usize,
    pub messages_minutes: u64,
    /// Messages that a long text may become before it goes as a document.
    pub message_parts_max: usize,
    /// A webhook's body, in bytes.
    pub body_bytes_max: usize,
    /// Connections to the server; further ones wait. It must be more than 0, as must be the five below.
    pub http_connections_max: usize,
    /// Requests that are not answered yet; further ones are told that we are busy.
    pub http_requests_max: usize,
    /// Bodies of all requests at once, in bytes.
    pub http_bodies_bytes_max: usize,
    /// Until a request's head is there, in seconds; a connection may be idle as long.
    pub http_head_seconds_max: u64,
    /// Until its body is.
    pub http_body_seconds_max: u64,
    /// For which a reader may take nothing of what it asked for, in seconds.
    pub http_stall_seconds_max: u64,
    /// On shutdown, seconds until requests are left behind.
    pub http_end_seconds_max: u64,
    /// A file or a sound that a person sends, in bytes.
    pub media_bytes_max: u64,
    /// A picture that a model is shown, in bytes.
    pub image_bytes_max: u64,
    /// Pictures that one conversation holds for the model.
    pub images_max: usize,
    /// On shutdown, seconds until running effects are left behind.
    pub drain_seconds: u64,
    /// Schedules of one person that are active or paused.
    pub cron_jobs_max: u32,
    /// How late a slot may be made up for, in minutes, where the schedule says nothing else.
    pub cron_late_minutes: u32,
    /// Slots that `all` makes up for at once.
    pub cron_catch_up_max: usize,
    /// Failures in a row that pause a schedule.
    pub cron_failures_max: u32,
    /// Processes and threads that may be started while a command runs, besides those of the user that run already.
    pub command_processes_max: u64,
    /// Files that one process of a command may hold open.
    pub command_open_files_max: u64,
    /// A file that a command writes, in bytes.
    pub command_file_bytes_max: u64,
    /// Address space of one process of a command, in bytes.
    pub command_memory_bytes_max: u64,
    /// A file that a checkpoint holds, in bytes; larger ones are left out, and that is said.
    pub checkpoint_file_bytes_max: u64,
    /// Checkpoints that a session keeps; older ones go, except the first.
    pub checkpoints_max: usize,
    /// Days after its last checkpoint that those of an ended session are kept.
    pub checkpoint_days_max: u32,
    /// What `DATA_DIR/checkpoints` may hold, in bytes; where it is more, those of the oldest ended sessions go.
    pub checkpoints_bytes_max: u64,
    /// Sessions whose own worktrees are kept; those beyond go, oldest first, where they hold nothing that is not elsewhere.
    pub worktrees_max: usize,
    /// Days without a turn after which a worktree goes, under the same condition.
    pub worktree_days_max: u64,
    /// MCP servers of one workspace.
    pub mcp_servers_max: usize,
    /// How long a turn waits for servers to say what they offer.
    pub mcp_offer_seconds: u64,
    /// Until a server that does not answer counts as failed.
    pub mcp_connect_seconds: u64,
    /// One call.
    pub mcp_call_seconds: u64,
    /// Unused for so long, a server is ended.
    pub mcp_idle_seconds: u64,
    /// Longest wait before a server that failed is tried again.
    pub mcp_backoff_seconds_max: u64,
    /// Tools of servers that a turn offers.
    pub mcp_tools_max: usize,
    /// Description and schema of one of them.
    pub mcp_tool_bytes_max: usize,
    /// Of all of them.
    pub mcp_offer_bytes_max: usize,
    /// One message of a server.
    pub mcp_message_bytes_max: usize,
    /// Characters of a result that the model reads.
    pub mcp_result_chars_max: usize,
    /// Helpers of one round that work side by side; further ones wait.
    pub helpers_max: usize,
    /// Nothing of a helper seen for so long, in seconds, it is ended; a person may take any time to answer it.
    pub helper_silence_seconds: u64,
    /// How long another agent may take for an answer, in seconds.
    pub ask_seconds_max: u64,
    /// How long it may print nothing, in seconds; then it is ended.
    pub ask_silence_seconds: u64,
    /// What is kept of an answer at its beginning, and as much at its end, in bytes.
    pub answer_bytes_max: u64,
    /// A file that a parser reads for an outline, in bytes; longer ones are read by their lines.
    pub outline_bytes_max: usize,
    /// Milliseconds that it may take.
    pub outline_ms_max: u64,
    /// Definitions of one folder: commands, skills, agents and instructions together.
    pub definitions_max: usize,
    /// One definition, in bytes; a larger one is left out.
    pub definition_bytes_max: u64,
    /// Folders below a place of definitions.
    pub definition_folders_max: usize,
    /// Characters of a written command's text that a chat's model reads.
    pub written_chars_max: usize,
    /// Files that one text includes.
    pub written_files_max: usize,
    /// One of them, in bytes.
    pub written_file_bytes_max: u64,
    /// Commands that run in one text.
    pub written_commands_max: usize,
    /// Characters of what one of them prints.
    pub written_output_chars_max: usize,
    /// Tasks of one plan.
    pub plan_tasks_max: usize,
    /// Answers of the model for the same question while a plan is drafted.
    pub plan_attempts_max: u32,
    /// Tasks of a plan that run at the same time.
    pub plan_parallel_max: usize,
    /// The schema of a command that a task may name, in bytes.
    pub plan_schema_bytes_max: usize,
    /// Levels of it.
    pub plan_schema_depth_max: usize,
    /// Schemas in it, with every `$ref` written out.
    pub plan_subschemas_max: usize,
}

impl Limits {
    /// What finding definitions may cost.
    pub fn definitions(&self) -> Bounds {
        Bounds {
            count_max: self.definitions_max,
            bytes_max: self.definition_bytes_max,
            depth_max: self.definition_folders_max,
            texts: TextBounds {
                chars_max: self.written_chars_max,
                files_max: self.written_files_max,
                file_bytes_max: self.written_file_bytes_max,
                commands_max: self.written_commands_max,
                output_chars_max: self.written_output_chars_max,
            },
        }
    }

    /// What a plan may cost.
    pub fn plans(&self) -> plan::Bounds {
        plan::Bounds {
            tasks_max: self.plan_tasks_max,
            attempts_max: self.plan_attempts_max,
            schema_bytes_max: self.plan_schema_bytes_max,
            schema_depth_max: self.plan_schema_depth_max,
            subschemas_max: self.plan_subschemas_max,
        }
    }

    /// With what the server would let nobody in.
    pub fn flaw(&self) -> Option<String> {
        let counts = [
            ("http_connections_max", self.http_connections_max),
            ("http_requests_max", self.http_requests_max),
        ];
        let seconds = [
            ("http_head_seconds_max", self.http_head_seconds_max),
            ("http_body_seconds_max", self.http_body_seconds_max),
            ("http_stall_seconds_max", self.http_stall_seconds_max),
        ];
        let none = |(name, value): &(&'static str, u64)| (*value == 0).then_some(*name);
        let counts = counts.map(|(name, value)| (name, value as u64));
        let name = counts.iter().chain(&seconds).find_map(none);
        if let Some(name) = name {
            return Some(format!("{name} is 0; accepted: 1 or more"));
        }
        (self.http_bodies_bytes_max < self.body_bytes_max).then(|| {
            let body = self.body_bytes_max;
            format!("http_bodies_bytes_max is less than one body, body_bytes_max = {body}")
        })
    }

    /// What one outline may cost.
    pub fn outline(&self) -> outline::Limits {
        outline::Limits {
            bytes_max: self.outline_bytes_max,
            ms_max: self.outline_ms_max,
        }
    }
}

/// The numbers that are compiled in.
pub const DEFAULTS: &str = include_str!("../../config/limits.toml");

/// What holds without a limits file.
pub fn built_in() -> Limits {
    toml::from_str(DEFAULTS).expect("BUG: the compiled-in limits parse, a test says so")
}

/// What the schedule says about the runs of its sessions.
fn terms(state: &State) -> Terms {
    let scheduled = state.opening.scheduled.as_ref();
    scheduled
        .map(|scheduled| scheduled.terms)
        .unwrap_or_default()
}

/// Rounds of a turn: a schedule can make them fewer.
pub fn rounds_max(state: &State, policy: &Policy) -> u32 {
    let all = children::limits(state, &policy.limits).rounds_max;
    terms(state).rounds.map_or(all, |rounds| rounds.min(all))
}

fn seconds_max(state: &State, limits: &Limits) -> u64 {
    let all = children::limits(state, limits).turn_seconds_max;
    let own = terms(state).minutes;
    own.map_or(all, |minutes| (u64::from(minutes) * 60).min(all))
}

/// US cents of a turn that its schedule sets.
pub fn cents_of_job(state: &State) -> Option<u64> {
    terms(state).cents.map(u64::from)
}

/// Whether any limit is set in money.
pub fn in_money(limits: &Limits) -> bool {
    limits.turn_cents_max > 0 || limits.session_cents_max > 0 || limits.month_cents_max > 0
}

/// The name and the text of the limit that the turn has reached.
pub fn reached(state: &State, policy: &Policy, turn: &Turn) -> Option<(&'static str, String)> {
    let limits = &children::limits(state, &policy.limits);
    let say = |name: &'static str, max: u64, used: u64| {
        let text = state.texts.say(
            name,
            &[("max", &max.to_string()), ("used", &used.to_string())],
        );
        Some((name, text))
    };
    let rounds_max = rounds_max(state, policy);
    if turn.round >= rounds_max {
        return say("limit_rounds", rounds_max.into(), turn.round.into());
    }
    let tokens = turn.spend.usage.total();
    if tokens >= limits.tokens_max {
        return say("limit_tokens", limits.tokens_max, tokens);
    }
    if state.now >= out_of_time(state, limits, turn) {
        return Some((TIME, time_is_up(state, limits)));
    }
    money::reached(state, policy, turn.spend)
}

/// When the turn's time is up while it works, and what is written down then: it may be a request or a command that hangs.
pub fn alarm(state: &State, policy: &Policy) -> Option<(Timestamp, Event)> {
    let turn = state.turn.as_ref().filter(|_| works(state))?;
    let reached = Event::LimitReached {
        limit: TIME.into(),
        text: time_is_up(state, &policy.limits),
    };
    Some((out_of_time(state, &policy.limits, turn), reached))
}

/// Whether a limit can have been reached in this state because a clock said so, not where the model was to be asked.
pub fn is_by_clock(state: &State, limit: &str) -> bool {
    limit == TIME && works(state)
}

fn works(state: &State) -> bool {
    state.turn.as_ref().is_some_and(|turn| {
        matches!(
            turn.phase,
            Phase::Asking | Phase::Drafting | Phase::Summarising(_) | Phase::Calls(_)
        ) && !turn.interrupted
            && turn.stop == Stop::No
            && !state.waits_for_person()
            && !state.helper_waits()
    })
}

/// Waiting for a person, or for a process to take the turn up, does not count.
fn out_of_time(state: &State, limits: &Limits, turn: &Turn) -> Timestamp {
    let worked_ms = seconds_max(state, limits).saturating_mul(1000);
    turn.started_at
        .plus_ms(worked_ms.saturating_add(turn.waited_ms))
}

fn time_is_up(state: &State, limits: &Limits) -> String {
    let seconds_max = seconds_max(state, limits);
    let is_child = state.opening.child.is_some();
    let max = match seconds_max {
        seconds if seconds >= 60 && seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    };
    match seconds_max < limits.turn_seconds_max && !is_child {
        true => state.texts.say("limit_time_job", &[("max", &max)]),
        false => state.texts.say("limit_time", &[("max", &max)]),
    }
}
