//! `manage_process`: the session's processes in the background. What is known of them stands in their spools, so those of
//! a server that died are found like any other.

use super::streams::{OUTPUT_CHARS_MAX, show};
use super::{Action, Reach, RunFuture, Tool, schema_of, text};
use crate::agent::event::{Call, CallId, EffectClass, Outcome};
use crate::gate::Approved;
use crate::world::clock;
use crate::world::process::{self, Exit, exit_of, whole_lines};
use crate::world::spool::{Cause, Found, Position, STREAMS, Spool, Stream};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

const LOG_LINES_DEFAULT: u64 = 50;
const LOG_CHARS_MAX: usize = 12_000;
const TITLE_CHARS_MAX: usize = 100;

pub const TOOL: Tool = Tool {
    name: "manage_process",
    about: include_str!("../../prompts/tools/manage_process.md"),
    // Ended twice is ended. Not pure: where a poll left off is written down.
    class: EffectClass::Idempotent,
    schema: schema_of::<Args>,
    // The session's own processes, whose start was approved.
    touches: |_| Ok(Vec::new()),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Verb,
    // All but list need it; a call without it is told so.
    process_id: Option<String>,
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u64>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verb {
    List,
    Poll,
    Log,
    Kill,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let managed = match call.typed::<Args>() {
            Ok(approved) => manage(&id, approved.get(), &reach).await,
            Err(error) => Err(error),
        };
        managed.map_or_else(Outcome::failed, Outcome::done)
    })
}

async fn manage(call: &CallId, args: &Args, reach: &Reach) -> Result<String, String> {
    let all = reach.outputs.background();
    if let Verb::List = args.action {
        return Ok(list(&all));
    }
    let Some(wanted) = &args.process_id else {
        return Err("process_id is missing; list shows which there are".into());
    };
    let found = all.iter().find(|(id, _)| id.0 == *wanted);
    let Some((_, spool)) = found else {
        return Err(format!(
            "There is no process {wanted:?} in the background of this session. {}",
            list(&all)
        ));
    };
    match args.action {
        Verb::List | Verb::Poll => poll(call, spool),
        Verb::Log => Ok(log(spool, args.limit.unwrap_or(LOG_LINES_DEFAULT))),
        Verb::Kill => {
            process::end(spool).await;
            Ok(status(spool))
        }
    }
}

fn list(all: &[(CallId, Spool)]) -> String {
    if all.is_empty() {
        return "Nothing runs in the background.".into();
    }
    let line = |(id, spool): &(CallId, Spool)| {
        let title = text::line(spool.about().title.trim(), TITLE_CHARS_MAX);
        format!("{id} {}: {}", status(spool), title.replace('\n', " "))
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// In a line: whether it runs, and how it ended.
fn status(spool: &Spool) -> String {
    let told = match spool.look() {
        Found::Running => {
            let seconds = (clock::now().0 - spool.about().started_at).max(0) / 1000;
            format!("running for {seconds} s")
        }
        Found::NotStarted => "was not started".into(),
        Found::Lost => "is gone; how it ended is not known".into(),
        Found::Ended(ended) => {
            let how = match (ended.cause, exit_of(ended.raw)) {
                (Cause::TimedOut, _) => "stopped at its time limit".into(),
                (Cause::Told, _) => "killed".into(),
                (Cause::NotExecuted, _) => "was not started".into(),
                (Cause::Itself, Exit::Code(code)) => format!("ended with exit code {code}"),
                (Cause::Itself, Exit::Signal(signal)) => format!("ended by signal {signal}"),
                (Cause::Itself, _) => "ended".into(),
            };
            format!("{how} after {} ms", ended.duration_ms)
        }
    };
    match spool.remark() {
        Some(remark) => format!("{told}. {remark}"),
        None => told,
    }
}

/// What was printed since the last poll.
fn poll(call: &CallId, spool: &Spool) -> Result<String, String> {
    let told = status(spool);
    let runs = spool.look() == Found::Running;
    let (from, now) = (spool.polls_from(call), spool.position());
    let mut to: Position = from;
    let fresh = STREAMS.map(|stream| {
        let i = stream as usize;
        let (fresh, end) = since(spool, stream, from[i], now[i], runs);
        to[i] = end;
        fresh
    });
    spool
        .polled(call, from, to)
        .map_err(|error| format!("the position could not be written down: {error}"))?;
    let [stdout, stderr] = fresh;
    match stdout.is_empty() && stderr.is_empty() {
        true => Ok(format!("{told}\nNothing new was printed.")),
        false => Ok(format!(
            "{told}{}",
            show(&stdout, &stderr, OUTPUT_CHARS_MAX)
        )),
    }
}

/// Whole lines only while it runs, so that no secret is handed out in halves; and where the next poll begins.
fn since(spool: &Spool, stream: Stream, from: u64, to: u64, runs: bool) -> (String, u64) {
    let capture = spool.between(stream, from, to);
    if !runs {
        return (capture.text(), to);
    }
    let omitted = match capture.omitted_bytes {
        0 => String::new(),
        bytes => format!("[{bytes} bytes omitted]\n"),
    };
    let mut bytes = [capture.head, capture.tail].concat();
    let lines = whole_lines(&mut bytes);
    (format!("{omitted}{lines}"), to - bytes.len() as u64)
}

fn log(spool: &Spool, lines: u64) -> String {
    let last = |stream| {
        let text = spool.capture(stream).text();
        let all: Vec<&str> = text.lines().collect();
        let skipped = all
            .len()
            .saturating_sub(usize::try_from(lines).unwrap_or(usize::MAX));
        let shown = all[skipped..].join("\n");
        match skipped {
            0 => shown,
            skipped => format!("[{} before]\n{shown}", text::count(skipped, "line")),
        }
    };
    let (stdout, stderr) = (last(Stream::Stdout), last(Stream::Stderr));
    match stdout.is_empty() && stderr.is_empty() {
        true => format!("{}\nNothing was printed.", status(spool)),
        false => format!("{}{}", status(spool), show(&stdout, &stderr, LOG_CHARS_MAX)),
    }
}
