//! `run_command`: one command line, exactly as it was approved.
//!
//! The text in the arguments is never run: what runs is the argv (no shell) or the shell text that the gate approved.

use super::{Action, Reach, RunFuture, Tool, args, schema_of, text};
use crate::agent::event::{Call, EffectClass, Outcome, Status};
use crate::gate::{Approved, Authority, Runnable, Touch};
use crate::world::confine::Needs;
use crate::world::process::{Exit, Finished, Launch};
use crate::world::workspace::digest_of;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT_DEFAULT_S: u64 = 30;
const TIMEOUT_MAX_S: u64 = 300;
/// Of both streams together, head and tail kept.
const OUTPUT_CHARS_MAX: usize = 4_000;

pub const TOOL: Tool = Tool {
    name: "run_command",
    about: include_str!("../../prompts/tools/run_command.md"),
    class: EffectClass::Opaque,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Command(args::<Args>(json)?.command)]),
    action: Action::World { run, expect: None },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    command: String,
    /// Seconds, 30 by default
    #[schemars(range(min = 1, max = 300))]
    timeout: Option<u64>,
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let mut outcome = match call
            .typed::<Args>()
            .and_then(|approved| launch(&approved, &reach))
        {
            Ok(launch) => told(launch.timeout, reach.processes.run(&id, launch).await),
            Err(error) => Outcome::failed(error),
        };
        outcome.consequential = true;
        outcome
    })
}

fn launch(approved: &Approved<Args>, reach: &Reach) -> Result<Launch, String> {
    let (program, args) = match approved.runnable() {
        Some(Runnable::Shell(text)) => ("bash".to_owned(), vec!["-c".to_owned(), text.clone()]),
        Some(Runnable::Argv(argv)) => match argv.split_first() {
            Some((program, args)) => (program.clone(), args.to_vec()),
            None => return Err("the command is empty".into()),
        },
        None => {
            return Err("the call was approved without a command to run; it did not run".into());
        }
    };
    let seconds = approved
        .get()
        .timeout
        .unwrap_or(TIMEOUT_DEFAULT_S)
        .clamp(1, TIMEOUT_MAX_S);
    let timeout = Duration::from_secs(seconds);
    let by_person = approved.by() == Authority::Person;
    // Its argv was shown, and is all that runs: `git config` and `git remote add` may do what they are for.
    let is_git = program == "git" && matches!(approved.runnable(), Some(Runnable::Argv(_)));
    Ok(Launch {
        needs: Needs {
            network: by_person,
            // A hook in the workspace could carry them away.
            credentials: false,
        },
        guard_git: !(by_person && is_git),
        program,
        args,
        cwd: reach.workspace.root().into(),
        env: Vec::new(),
        timeout,
        stdin: None,
    })
}

/// A refusal by the sandbox looks like any other error of a program: the model should not try again in other words.
const CONFINED: &str = "\nNote: commands are confined. They write in the workspace and in $TMPDIR only, read no secrets and \
                        little of the home folder, and have no network unless the person approved them.";

fn may_be_confinement(exit: &Exit, stderr: &str) -> bool {
    let signs = [
        "Permission denied",
        "Operation not permitted",
        "EACCES",
        "EPERM",
        "PermissionError",
        "Could not resolve host",
        "Temporary failure in name resolution",
        "getaddrinfo",
    ];
    *exit != Exit::Code(0) && signs.iter().any(|sign| stderr.contains(sign))
}

/// What the model reads about a process that ended.
fn told(timeout: Duration, finished: Finished) -> Outcome {
    let limit = timeout.as_secs();
    let (status, code, remark) = match finished.exit.clone() {
        Exit::Code(0) => (Status::Done, Some(0), String::new()),
        Exit::Code(code) => (Status::Failed, Some(code), String::new()),
        // As shells count it.
        Exit::Signal(signal) => (
            Status::Failed,
            Some(128 + signal),
            format!("Killed by signal {signal}."),
        ),
        Exit::TimedOut => {
            let ask = if limit < TIMEOUT_MAX_S {
                format!("; timeout can be up to {TIMEOUT_MAX_S}")
            } else {
                String::new()
            };
            (
                Status::Failed,
                None,
                format!("Stopped after {limit} s with all its processes{ask}. Output until then:"),
            )
        }
        Exit::Cancelled => (
            Status::Cancelled,
            None,
            "Stopped before it ended, by the person or by a limit of the turn. Output until then:"
                .into(),
        ),
        Exit::NotStarted(why) => (Status::Failed, None, format!("It did not start: {why}.")),
    };
    let shown = code.map_or("none".to_owned(), |code| code.to_string());
    let mut output = format!("Exit code: {shown} | Duration: {}ms", finished.duration_ms);
    if !remark.is_empty() {
        output.push_str(&format!("\n{remark}"));
    }
    let (stdout, stderr) = (finished.stdout.text(), finished.stderr.text());
    let (for_stdout, for_stderr) = share(stdout.chars().count(), stderr.chars().count());
    for (name, stream, max) in [
        ("stdout", &stdout, for_stdout),
        ("stderr", &stderr, for_stderr),
    ] {
        if !stream.is_empty() {
            output.push_str(&format!(
                "\n{name}:\n{}",
                text::head_and_tail(stream.trim_end(), max)
            ));
        }
    }
    if let Some(remark) = finished.remark {
        output.push_str(&format!("\n{remark}"));
    } else if may_be_confinement(&finished.exit, &stderr) {
        output.push_str(CONFINED);
    }
    let cut = stdout.chars().count() + stderr.chars().count() > OUTPUT_CHARS_MAX;
    let mut outcome = Outcome::new(status, output);
    outcome.whole = cut.then(|| format!("{stdout}{stderr}"));
    outcome.digest = outcome
        .whole
        .as_ref()
        .map(|whole| digest_of(whole.as_bytes()));
    outcome.exit_code = code;
    outcome.duration_ms = finished.duration_ms;
    outcome
}

/// What the shorter stream leaves goes to the longer one.
fn share(stdout: usize, stderr: usize) -> (usize, usize) {
    let half = OUTPUT_CHARS_MAX / 2;
    let for_stdout = stdout.min(OUTPUT_CHARS_MAX - stderr.min(half));
    (for_stdout, OUTPUT_CHARS_MAX - for_stdout)
}
