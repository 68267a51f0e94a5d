//! The command line: one file a subcommand, documented exit codes.

/// A question about sources.
mod ask;
/// Settings in, a hub with its world out.
pub mod assemble;
/// `audit verify`.
mod audit;
/// `policy backtest`.
mod backtest;
/// A conversation in this terminal.
mod chat;
/// What commands become.
mod commands;
/// `cron`: schedules.
mod cron;
/// Definitions of a workspace.
mod defs;
/// The whole thing, in a minute, without keys.
mod demo;
/// What is configured, reachable, missing.
mod doctor;
/// Journals, by id.
mod find;
/// A session from another one's past.
mod fork;
/// The settings, asked for and tried.
mod init;
/// What the command line takes, for shells and for `man`.
mod manual;
/// MCP servers.
pub mod mcp;
/// What stands in a file.
mod outline;
/// Numbers that are let in by a code.
mod pair;
/// Plans.
mod plan;
/// `policy check`, `policy explain`.
mod policy;
/// A journal against today's logic.
mod replay;
/// A session, taken up where it stopped.
mod resume;
/// One objective, headless.
mod run;
/// The server.
mod serve;
/// `sessions`, `show`, `index rebuild`.
mod sessions;
/// Ctrl-C and SIGTERM.
mod signals;
/// What can be asked about.
mod sources;
/// Trust in a workspace.
mod trust;
/// What a session changed, shown and put back.
mod undo;

use crate::agent::event::EndReason;
use crate::config::{ConfigError, Settings};
use clap::{CommandFactory, Parser, Subcommand};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use thiserror::Error;

/// A coding agent that you drive by text message. It asks before anything risky, shows what it changed, and is never
/// wrong about what happened.
#[derive(Debug, Parser)]
#[command(name = "journeyman", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 waits for an approval, 4 a limit was reached, 130 interrupted."
)]
struct Arguments {
    /// Folder with .env and config/. Default: JOURNEYMAN_HOME, else the checkout when run in it, else the XDG folder
    #[arg(long, global = true, value_name = "DIR")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show everything at work in a minute: no keys needed, the model is a recording
    Demo(demo::Demo),
    /// Ask for what is needed, try each answer, and write .env
    Init(init::Init),
    /// Serve chats: WhatsApp webhooks in, answers out
    Serve,
    /// Talk to the agent in this terminal
    Chat(chat::Chat),
    /// Work on one objective and exit
    Run(run::Run),
    /// Go on with a session where it stopped
    Resume(resume::Resume),
    /// List the sessions
    Sessions(sessions::Sessions),
    /// Show what happened in a session
    Show(sessions::Show),
    /// Show what a session changed
    Diff(undo::Diff),
    /// Put the workspace back to before a session's last rounds that changed files
    Undo(undo::Undo),
    /// Take the last undo back
    Redo(undo::Redo),
    /// Decide again what is in a journal, and show the first decision that comes out differently today
    Replay(replay::Replay),
    /// Start a new session from an old one's past
    Fork(fork::Fork),
    /// Check journals against their hash chains
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Ask the gate about a command, without running it
    #[command(subcommand)]
    Policy(policy::Policy),
    /// Show what stands in a file: classes, functions, headings, keys, with their lines
    Outline(outline::Outline),
    /// Commands, skills, agents and instructions that are found here
    #[command(subcommand)]
    Defs(defs::Defs),
    /// Commands that this project or you wrote down
    #[command(subcommand)]
    Commands(commands::Commands),
    /// Ask an agent in a clean room about sources: repositories, folders, files
    Ask(ask::Ask),
    /// Plans: what would happen, before anything does
    #[command(subcommand)]
    Plan(plan::Plan),
    /// What can be asked about
    #[command(subcommand)]
    Sources(sources::Command),
    /// Prompts on a schedule
    #[command(subcommand)]
    Cron(cron::Cron),
    /// Print a one-time code that lets a phone number in
    Pair(pair::Pair),
    /// Trust a workspace: its instruction files are read, and its git hooks run
    Trust(trust::Trust),
    /// MCP servers: those that are used here, and this program as one
    #[command(subcommand)]
    Mcp(mcp::Mcp),
    /// Tables that are derived from the journals
    #[command(subcommand)]
    Index(sessions::Index),
    /// Say what is configured, what is reachable, what is missing, and how to fix it
    Doctor(doctor::Doctor),
    /// Print a script that lets a shell complete what is typed here
    Completions(manual::Completions),
    /// Print the manual page
    Man(manual::Man),
}

impl Command {
    /// Prints and is done: it works with nobody and writes to nothing but stdout.
    fn only_reports(&self) -> bool {
        match self {
            Command::Sessions(_)
            | Command::Show(_)
            | Command::Replay(_)
            | Command::Audit(_)
            | Command::Policy(_)
            | Command::Outline(_)
            | Command::Defs(_)
            | Command::Commands(_)
            | Command::Cron(_)
            | Command::Doctor(_)
            | Command::Completions(_)
            | Command::Man(_) => true,
            Command::Demo(_)
            | Command::Init(_)
            | Command::Serve
            | Command::Chat(_)
            | Command::Run(_)
            | Command::Resume(_)
            | Command::Fork(_)
            | Command::Pair(_)
            | Command::Trust(_)
            | Command::Diff(_)
            | Command::Undo(_)
            | Command::Redo(_)
            | Command::Ask(_)
            | Command::Plan(_)
            | Command::Sources(_)
            | Command::Mcp(_)
            | Command::Index(_) => false,
        }
    }
}

/// `journeyman show ID | head`: when the reader goes away, a report ends as any tool does, without a complaint.
fn end_with_the_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler is installed, only the default action; it runs before any thread is started.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

/// How a program can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    WrongUse,
    Waiting,
    Limit,
    Interrupted,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::WrongUse => 2,
            Exit::Waiting => 3,
            Exit::Limit => 4,
            Exit::Interrupted => 130,
        }
    }

    fn of(reason: EndReason) -> Self {
        match reason {
            EndReason::Done => Exit::Done,
            EndReason::Failed => Exit::Failed,
            EndReason::Limit => Exit::Limit,
            EndReason::Cancelled => Exit::Interrupted,
        }
    }
}

/// What a person reads on stderr before the program ends with a code.
#[derive(Debug, Error)]
pub enum CliError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Wrong use: exit code 2.
    #[error("{0}")]
    Use(String),
    /// The outside did not do what was needed: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    fn exit(&self) -> Exit {
        match self {
            CliError::Config(_) | CliError::Use(_) => Exit::WrongUse,
            CliError::Failed(_) => Exit::Failed,
        }
    }
}

/// Reads the command line, runs the subcommand, returns its exit code.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.command.only_reports() {
        end_with_the_reader();
    }
    let load = || Settings::load(arguments.config.as_deref());
    let ended = match arguments.command {
        // These need no settings, so wrong ones do not matter.
        Command::Demo(demo) => demo.run(),
        Command::Init(init) => init.run(arguments.config.as_deref()),
        Command::Outline(outline) => outline.run(),
        Command::Completions(completions) => completions.run(Arguments::command()),
        Command::Man(man) => man.run(Arguments::command()),
        Command::Cron(cron::Cron::Next(next)) => {
            end_with_the_reader();
            next.run(load)
        }
        command => load()
            .map_err(CliError::from)
            .and_then(|settings| run(command, settings)),
    };
    let exit = ended.unwrap_or_else(|error| {
        eprintln!("journeyman: {error}");
        error.exit()
    });
    ExitCode::from(exit.code())
}

fn run(command: Command, settings: Settings) -> Result<Exit, CliError> {
    match command {
        Command::Demo(demo) => demo.run(),
        Command::Init(init) => init.run(Some(&settings.home)),
        Command::Serve => serve::run(settings),
        Command::Chat(chat) => chat.run(settings),
        Command::Run(run) => run.run(settings),
        Command::Resume(resume) => resume.run(settings),
        Command::Sessions(sessions) => sessions.run(&settings),
        Command::Show(show) => show.run(&settings),
        Command::Diff(diff) => diff.run(&settings),
        Command::Undo(undo) => undo.run(&settings),
        Command::Redo(redo) => redo.run(&settings),
        Command::Replay(replay) => replay.run(&settings),
        Command::Fork(fork) => fork.run(&settings),
        Command::Audit(audit) => audit.run(&settings),
        Command::Policy(policy) => policy.run(&settings),
        Command::Outline(outline) => outline.run(),
        Command::Defs(defs) => defs.run(&settings),
        Command::Commands(commands) => commands.run(&settings),
        Command::Ask(ask) => ask.run(settings),
        Command::Plan(plan) => plan.run(&settings),
        Command::Sources(sources) => sources.run(&settings),
        Command::Cron(cron) => cron.run(settings),
        Command::Pair(pair) => pair.run(&settings),
        Command::Trust(trust) => trust.run(&settings),
        Command::Mcp(mcp) => mcp.run(settings),
        Command::Index(index) => index.run(settings),
        Command::Doctor(doctor) => doctor.run(&settings),
        Command::Completions(completions) => completions.run(Arguments::command()),
        Command::Man(man) => man.run(Arguments::command()),
    }
}

/// Runs `work` for one session, on this thread alone: a second one would only be woken for what the first one waits for.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    finish(tokio::runtime::Builder::new_current_thread(), work)
}

/// The same for many sessions: while one writes to a slow disk, others go on.
fn block_on_for_many<T>(work: impl Future<Output = T>) -> Result<T, CliError> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2);
    finish(runtime, work)
}

/// Runs `work` to its end, and lets nothing of it linger.
fn finish<T>(
    mut runtime: tokio::runtime::Builder,
    work: impl Future<Output = T>,
) -> Result<T, CliError> {
    let runtime = runtime
        .enable_all()
        .build()
        .map_err(|error| CliError::Failed(format!("start the runtime: {error}")))?;
    let result = runtime.block_on(work);
    // A thread that still reads the terminal must not keep the program alive.
    runtime.shutdown_background();
    Ok(result)
}

/// Logs go to stderr; `RUST_LOG` says how much (default: warnings and, for servers, what they do).
fn log_to_stderr(default: &str) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    // A second call in one process (tests) changes nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
}
