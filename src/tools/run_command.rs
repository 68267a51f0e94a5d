//! `run_command`: one command line, exactly as it was approved.
//!
//! The text in the arguments is never run: what runs is the argv (no shell) or the shell text that the gate approved.

use super::streams::{OUTPUT_CHARS_MAX, is_cut, show};
use super::{Action, Reach, RunFuture, Tool, args, schema_of};
use crate::agent::event::{Call, CallId, EffectClass, Expectation, Outcome, Printed, Status};
use crate::gate::{Approved, Authority, Runnable, Touch};
use crate::world::confine::Needs;
use crate::world::process::{Exit, Finished, Launch, Life};
use crate::world::spool::{Found, Spool, boot_id};
use crate::world::trust::HookRule;
use crate::world::workspace::digest_of;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT_DEFAULT_S: u64 = 30;
const TIMEOUT_MAX_S: u64 = 300;
const BACKGROUND_MAX_S: u64 = 30 * 60;
/// Processes in the background, of one session, that run at the same time.
const BACKGROUND_PROCESSES_MAX: usize = 5;

/// Subcommands of git that are there to change its configuration.
const SETTLING: &[&str] = &[
    "config",
    "init",
    "lfs",
    "maintenance",
    "remote",
    "sparse-checkout",
    "submodule",
];

pub const TOOL: Tool = Tool {
    name: "run_command",
    about: include_str!("../../prompts/tools/run_command.md"),
    class: EffectClass::Opaque,
    schema: schema_of::<Args>,
    touches: |json| Ok(vec![Touch::Command(args::<Args>(json)?.command)]),
    action: Action::World {
        run,
        expect: Some(|_, _| {
            Some(Expectation {
                spool: Some(boot_id().to_owned()),
                ..Expectation::default()
            })
        }),
    },
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[schemars(length(min = 1))]
    command: String,
    /// Seconds, 30 by default
    #[schemars(range(min = 1, max = 300))]
    timeout: Option<u64>,
    /// Gives a process_id at once
    background: Option<bool>,
}

impl Args {
    fn is_background(&self) -> bool {
        self.background == Some(true)
    }

    fn limit(&self) -> Duration {
        let unsaid = match self.is_background() {
            true => BACKGROUND_MAX_S,
            false => TIMEOUT_DEFAULT_S,
        };
        let said = self.timeout.map(|seconds| seconds.clamp(1, TIMEOUT_MAX_S));
        Duration::from_secs(said.unwrap_or(unsaid))
    }
}

fn run(call: Approved<Call>, reach: Arc<Reach>) -> RunFuture {
    Box::pin(async move {
        let id = call.get().id.clone();
        let prepared = call.typed::<Args>().and_then(|approved| {
            let launch = launch(&approved, &reach)?;
            Ok((approved.get().is_background(), launch))
        });
        let mut outcome = match prepared {
            Ok((false, launch)) => told(launch.timeout, reach.processes.run(&id, launch).await),
            Ok((true, launch)) => in_background(&id, launch, &reach).await,
            Err(error) => Outcome::failed(error),
        };
        outcome.consequential = true;
        outcome
    })
}

async fn in_background(id: &CallId, launch: Launch, reach: &Reach) -> Outcome {
    let all = reach.outputs.background();
    let running = |(_, spool): &&(CallId, _)| Spool::look(spool) == Found::Running;
    if all.iter().filter(running).count() >= BACKGROUND_PROCESSES_MAX {
        return Outcome::failed(format!(
            "Not run: {BACKGROUND_PROCESSES_MAX} processes run in the background already. End one with manage_process (list, kill) first."
        ));
    }
    let limit = launch.timeout;
    match reach.processes.background(id, launch).await {
        Ok(()) => runs_in_background(id, limit),
        Err(why) => {
            reach.outputs.remove(id);
            Outcome::failed(format!("It did not start: {why}."))
        }
    }
}

fn runs_in_background(id: &CallId, limit: Duration) -> Outcome {
    Outcome::done(format!(
        "Runs in the background, for {} min at most. process_id: {id}",
        limit.as_secs().div_ceil(60)
    ))
}

/// The result of a command that an earlier process started: its keeper has it, or will have.
pub async fn await_kept(call: &Call, reach: &Reach) -> Outcome {
    let arguments = call.json().map_err(|error| error.to_string());
    let mut outcome = match arguments.and_then(|json| args::<Args>(&json)) {
        Ok(args) if args.is_background() => runs_in_background(&call.id, args.limit()),
        Ok(args) => match reach.processes.attend(&call.id).await {
            Ok(finished) => told(args.limit(), finished),
            Err(error) => Outcome::new(Status::Unknown, format!("{LOST} ({error})")),
        },
        Err(error) => Outcome::new(Status::Unknown, format!("{LOST} ({error})")),
    };
    outcome.consequential = true;
    outcome
}

const LOST: &str = "How it ended is not known: what kept it was killed with it. It may have done all, a part or \
                    nothing of its work: check before you go on.";

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
    let by_person = approved.by() == Authority::Person;
    // Its argv was shown: `git config` and `git remote add` may do what they are for. Others may run hooks.
    let is_argv = matches!(approved.runnable(), Some(Runnable::Argv(_)));
    let settles = is_argv
        && program == "git"
        && args
            .first()
            .is_some_and(|name| SETTLING.contains(&name.as_str()));
    Ok(Launch {
        needs: Needs {
            network: by_person,
            // A hook in the workspace could carry them away.
            credentials: false,
        },
        guard_git: !(by_person && settles),
        program,
        args,
        cwd: reach.workspace.root().into(),
        env: hooks(reach, approved.runnable()),
        timeout: approved.get().limit(),
        stdin: None,
        life: Life::Lasting(approved.get().command.clone()),
    })
}

/// Hooks run with a git of the model's only where they would with `git_commit`. Any other program does what its own files
/// say, hooks or not, and is left alone.
fn hooks(reach: &Reach, runnable: Option<&Runnable>) -> Vec<(String, String)> {
    let is_git = match runnable {
        Some(Runnable::Argv(argv)) => argv.first().is_some_and(|name| name.ends_with("git")),
        Some(Runnable::Shell(text)) => text.contains("git"),
        None => false,
    };
    if !is_git {
        return Vec::new();
    }
    let folder = match reach.trust.hooks(&reach.workspace) {
        HookRule::Run(hooks) => hooks.folder,
        HookRule::Off(None) => return Vec::new(),
        HookRule::Off(Some(_)) => "/dev/null".into(),
    };
    let value = folder.to_string_lossy().into_owned();
    [
        ("GIT_CONFIG_COUNT", "1".to_owned()),
        ("GIT_CONFIG_KEY_0", "core.hooksPath".to_owned()),
        ("GIT_CONFIG_VALUE_0", value),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
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
        Exit::Lost => (Status::Unknown, None, LOST.into()),
        Exit::NotStarted(why) => (Status::Failed, None, format!("It did not start: {why}.")),
    };
    let shown = code.map_or("none".to_owned(), |code| code.to_string());
    let mut output = format!("Exit code: {shown} | Duration: {}ms", finished.duration_ms);
    if !remark.is_empty() {
        output.push_str(&format!("\n{remark}"));
    }
    let (stdout, stderr) = (finished.stdout.text(), finished.stderr.text());
    output.push_str(&show(&stdout, &stderr, OUTPUT_CHARS_MAX));
    if let Some(remark) = finished.remark {
        output.push_str(&format!("\n{remark}"));
    } else if may_be_confinement(&finished.exit, &stderr) {
        output.push_str(CONFINED);
    }
    let cut = is_cut(&stdout, &stderr, OUTPUT_CHARS_MAX);
    let mut outcome = Outcome::new(status, output);
    outcome.whole = cut.then(|| format!("{stdout}{stderr}"));
    outcome.digest = outcome
        .whole
        .as_ref()
        .map(|whole| digest_of(whole.as_bytes()));
    outcome.printed = Some(Printed {
        bytes: if cut {
            stdout.len()
        } else {
            stdout.trim_end().len()
        },
        omitted_bytes: finished.stdout.omitted_bytes,
    });
    outcome.exit_code = code;
    outcome.duration_ms = finished.duration_ms;
    outcome
}
