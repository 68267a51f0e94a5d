//! The one function that starts a process: [`Processes::start`].
//!
//! Every process gets a cleared environment with a safe list, its own session and process group, no terminal, the
//! workspace's [`Sandbox`], and a keeper that writes its [`Spool`] and leaves none of its processes alive when it ends,
//! is told to, or its time is up. It decides nothing: what runs was approved before.

/// What is left to do when a command has ended.
mod aftermath;
/// Commands of an earlier server, and of the background.
mod attend;
/// What is kept of a stream.
mod capture;
/// Variables.
mod environment;
/// git, as the tools call it.
mod git;
/// Output while a command runs.
mod live;
/// Temporary folders.
mod private;
/// That the sandbox holds.
mod proof;
/// A command from its start to its end.
mod running;
/// A process that is spoken with.
mod talking;

pub use aftermath::{put_back, settle_left};
pub use attend::{end, ended};
pub use capture::Capture;
pub use environment::safe_environment;
pub use git::GIT_TIMEOUT;
pub use live::{Live, whole_lines};
pub use private::sweep;
pub use running::exit_of;
pub use talking::Talk;

use crate::agent::event::CallId;
use crate::world::clock;
use crate::world::confine::{Needs, Reach, Sandbox, Temp};
use crate::world::git_guard::{self, GitGuard};
use crate::world::keeper::Keep;
use crate::world::outputs::Outputs;
use crate::world::spool::layout::Room;
use crate::world::spool::{About, Spool};
use aftermath::Aftermath;
use nix::sys::memfd::{MFdFlags, memfd_create};
use running::{Begun, Kept, refused};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// What to start. No shell is involved unless `program` is one.
#[derive(Debug, Clone)]
pub struct Launch {
    pub program: String,
    pub args: Vec<String>,
    pub cwd: PathBuf,
    /// Added to the safe list.
    pub env: Vec<(String, String)>,
    pub timeout: Duration,
    /// What the process reads from standard input; nothing means `/dev/null`.
    pub stdin: Option<Vec<u8>>,
    pub needs: Needs,
    /// Whether hooks and configuration of the workspace's repository are put back afterwards.
    pub guard_git: bool,
    pub life: Life,
}

/// What becomes of a process whose server dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// Whoever waits for it gone, it is ended; after a kill of the server, by its time limit.
    Bound,
    /// As `Bound`, and after a kill of the server at once: what it says is for nobody then.
    Heard,
    /// It goes on. Another server finds its spool by the call; the text is for lists.
    Lasting(String),
    /// As `Heard`, and what it reads and prints is ours: see [`Processes::converse`].
    Talking,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    Cancelled,
    /// It never ran; the text says why (`not found: cargo`).
    NotStarted(String),
    /// Its keeper is gone without a word: nobody knows how far it came.
    Lost,
}

/// Everything known about a process that ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Capture,
    pub stderr: Capture,
    pub duration_ms: u64,
    /// Nothing was seen of it for too long, and it was ended for that.
    pub silent: bool,
    /// What the confinement has to say about it, for the model and the person.
    pub remark: Option<String>,
}

/// Starts processes for one call, and stops them when the call is cancelled.
#[derive(Clone)]
pub struct Processes {
    environment: Arc<Vec<(String, String)>>,
    sandbox: Arc<Sandbox>,
    /// What may be written.
    workspace: PathBuf,
    /// Folders of the program's own that may be written too.
    own: Vec<PathBuf>,
    /// Folders besides the workspace that may be read.
    read: Vec<PathBuf>,
    /// Whether the workspace may be read only.
    only_reads: bool,
    /// Kept of each stream of a command that does not outlive the server.
    room: Room,
    cancel: CancellationToken,
    /// Where spools are; without, nothing outlives the server.
    outputs: Option<Outputs>,
    live: Option<Live>,
    /// One that prints nothing for so long is ended.
    silence: Option<Duration>,
}

impl Processes {
    pub fn new(
        environment: Arc<Vec<(String, String)>>,
        sandbox: Arc<Sandbox>,
        workspace: &Path,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            environment,
            sandbox,
            workspace: workspace
                .canonicalize()
                .unwrap_or_else(|_| workspace.into()),
            own: Vec::new(),
            read: Vec::new(),
            only_reads: false,
            room: Room::USUAL,
            cancel,
            outputs: None,
            live: None,
            silence: None,
        }
    }

    /// The same for work of the program's own, not of a model: it may also write `folder`, its output is kept up to
    /// `end_bytes` at each end, nobody watches it, and nothing of it outlives the server.
    pub fn with_own(&self, folder: &Path, end_bytes: u64) -> Self {
        Self {
            own: vec![folder.canonicalize().unwrap_or_else(|_| folder.into())],
            room: Room::of(end_bytes),
            outputs: None,
            live: None,
            ..self.clone()
        }
    }

    /// Processes of another folder, for work of the program's own.
    pub fn at(&self, workspace: &Path) -> Self {
        let fresh = Self::new(
            self.environment.clone(),
            self.sandbox.clone(),
            workspace,
            self.cancel.clone(),
        );
        Self {
            live: self.live.clone(),
            ..fresh
        }
    }

    /// With folders besides the workspace that may be read.
    pub fn reading(self, folders: &[PathBuf]) -> Self {
        let read = folders.to_vec();
        Self { read, ..self }
    }

    /// The same for what only looks: it writes nothing but temporary files.
    pub fn only_reading(&self) -> Self {
        Self {
            only_reads: true,
            outputs: None,
            live: None,
            ..self.clone()
        }
    }

    /// Once the call that these are for is cancelled.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// With files and folders besides the workspace that may be written.
    pub fn writing(mut self, places: Vec<PathBuf>) -> Self {
        self.own.extend(places);
        self
    }

    /// Ends what prints nothing for so long.
    pub fn ending_after_silence(self, silence: Duration) -> Self {
        Self {
            silence: Some(silence),
            ..self
        }
    }

    /// With a place for spools: what is [`Life::Lasting`] may outlive this server.
    pub fn spooling(self, outputs: Outputs) -> Self {
        Self {
            outputs: Some(outputs),
            ..self
        }
    }

    /// With somebody who watches the output.
    pub fn shown(self, live: Live) -> Self {
        Self {
            live: Some(live),
            ..self
        }
    }

    /// Runs a process to its end, its time limit or the call's cancellation. Never fails: what went wrong is in `exit`.
    ///
    /// Whatever the command leaves behind is killed with it.
    pub async fn run(&self, call: &CallId, launch: Launch) -> Finished {
        let started = Instant::now();
        if let Some(why) = self.distrust().await {
            return refused(why, started);
        }
        self.run_anyway(call, launch).await
    }

    /// Starts a process that nobody waits for; its spool says what becomes of it.
    ///
    /// # Errors
    /// Why it did not start.
    pub async fn background(&self, call: &CallId, launch: Launch) -> Result<(), String> {
        if let Some(why) = self.distrust().await {
            return Err(why);
        }
        let begun = self.begin(call, launch, true)?;
        tokio::spawn(async move {
            let spool = begun.spool.try_clone();
            let finished = begun.finish(&CancellationToken::new(), None).await;
            if let (Ok(spool), Some(remark)) = (spool, finished.remark) {
                tracing::warn!(remark, "a background process ended");
                let _ = spool.set_remark(&remark); // it stands in the log, too
            }
        });
        Ok(())
    }

    /// Starts a process that reads what we write and writes what we read, until this is dropped.
    ///
    /// # Errors
    /// Why it did not start.
    pub async fn converse(&self, call: &CallId, launch: Launch) -> Result<Talk, String> {
        if let Some(why) = self.distrust().await {
            return Err(why);
        }
        Talk::of(self.begin(call, launch, false)?)
    }

    /// Takes down what makes git run programs here, to be put back after something that a talking process did.
    ///
    /// # Errors
    /// Where it cannot be guarded.
    pub fn guard_git(&self) -> Result<Option<Arc<GitGuard>>, String> {
        match self.sandbox.is_off() {
            true => Ok(None),
            false => git_guard::shared(&self.workspace, self.sandbox.has_landlock())
                .map_err(|why| format!("git's settings cannot be guarded: {why}")),
        }
    }

    /// The same in a temporary folder that is there already.
    async fn run_in(&self, temp: Temp, call: &CallId, launch: Launch) -> Finished {
        let started = Instant::now();
        if let Some(why) = self.distrust().await {
            return refused(why, started);
        }
        match self.begin_with(Aftermath::new(temp, None), call, launch, false) {
            Ok(begun) => begun.finish(&self.cancel, self.live.as_ref()).await,
            Err(why) => refused(why, started),
        }
    }

    /// Runs a process that has this terminal: the person types to it, and ends it. Only its confinement is as usual; it has
    /// neither a keeper nor a time limit.
    ///
    /// # Errors
    /// Why it did not start.
    pub async fn in_terminal(&self, launch: &Launch) -> Result<ExitStatus, String> {
        if let Some(why) = self.distrust().await {
            return Err(why);
        }
        let no_folder = |error| format!("no private folder for temporary files: {error}");
        let temp = self.sandbox.temp(&self.workspace).map_err(no_folder)?;
        let mut child = self.start(launch, &temp, None)?;
        loop {
            tokio::select! {
                ended = child.wait() => return ended.map_err(|error| format!("{}: {error}", launch.program)),
                // It is for the one who has the terminal.
                _ = tokio::signal::ctrl_c() => {}
            }
        }
    }

    async fn run_anyway(&self, call: &CallId, launch: Launch) -> Finished {
        let started = Instant::now();
        match self.begin(call, launch, false) {
            Ok(begun) => begun.finish(&self.cancel, self.live.as_ref()).await,
            Err(why) => refused(why, started),
        }
    }

    fn begin(&self, call: &CallId, launch: Launch, background: bool) -> Result<Begun, String> {
        // What talks stays for long: the person may change git's settings meanwhile. What it does is guarded call by call.
        let guard = match launch.guard_git && launch.life != Life::Talking {
            true => self.guard_git()?,
            false => None,
        };
        let temp = self
            .sandbox
            .temp(&self.workspace)
            .map_err(|error| format!("no private folder for temporary files: {error}"))?;
        self.begin_with(Aftermath::new(temp, guard), call, launch, background)
    }

    fn begin_with(
        &self,
        mut aftermath: Aftermath,
        call: &CallId,
        launch: Launch,
        background: bool,
    ) -> Result<Begun, String> {
        let no_spool = |error| format!("its output cannot be kept: {error}");
        let (spool, reader) = match (&launch.life, &self.outputs) {
            (Life::Lasting(title), Some(outputs)) => {
                let about = About {
                    background,
                    started_at: clock::now().0,
                    limit_s: launch.timeout.as_secs(),
                    title: title.clone(),
                };
                let spool = outputs.new_spool(call, &about).map_err(no_spool)?;
                aftermath
                    .outlive(outputs.aftermath(call))
                    .map_err(no_spool)?;
                (spool, outputs.spool(call).map_err(no_spool)?)
            }
            _ => {
                let spool = Spool::unnamed(self.room).map_err(no_spool)?;
                let reader = spool.try_clone().map_err(no_spool)?;
                (spool, reader)
            }
        };
        let child = match self.start(&launch, aftermath.temp(), Some(spool)) {
            Ok(child) => child,
            Err(why) => {
                aftermath.discard();
                return Err(why);
            }
        };
        Ok(Begun {
            kept: Kept {
                child,
                is_bound: !aftermath.outlives(),
            },
            spool: reader,
            aftermath,
            started: Instant::now(),
            limit: launch.timeout,
            silence: self.silence,
        })
    }

    /// The one function that starts a process. `spool` goes to its keeper; without, it has this terminal, and no keeper.
    fn start(&self, launch: &Launch, temp: &Temp, spool: Option<Spool>) -> Result<Child, String> {
        let talks = launch.life == Life::Talking;
        let reach = Reach {
            workspace: &self.workspace,
            temp: temp.shared(),
            own: &self.own,
            read: &self.read,
            is_ours: !launch.guard_git,
            only_reads: self.only_reads,
        };
        let enclosure = self.sandbox.enclose(&reach, launch.needs, launch.timeout)?;
        let keep = spool.map(|spool| Keep {
            room: spool.room(),
            spool: spool.into(),
            server: std::process::id(),
            goes_with_server: talks || launch.life == Life::Heard,
            talks,
        });
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.args)
            .current_dir(&launch.cwd)
            .env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(self.sandbox.variables(temp.path()));
        command.envs(launch.env.iter().map(|(name, value)| (name, value)));
        if keep.is_some() {
            command.stdin(match &launch.stdin {
                _ if talks => Stdio::piped(),
                Some(bytes) => given(bytes).map_err(|error| format!("its input: {error}"))?,
                None => Stdio::null(),
            });
            // The keeper's pipes take their place, but for one that talks to us.
            let stdout = if talks { Stdio::piped() } else { Stdio::null() };
            command.stdout(stdout).stderr(Stdio::null());
        }
        // SAFETY: between fork and exec only system calls are made, on memory that is there already.
        unsafe { command.pre_exec(move || enclosure.enter(keep.as_ref())) };
        // With `command` the ruleset goes, which the process has taken with it, and the spool, whose lock the keeper has.
        command.spawn().map_err(|error| not_started(launch, &error))
    }
}

/// A whole input, that the process finds even if this server is killed right after its start.
fn given(bytes: &[u8]) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create(c"stdin", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

fn not_started(launch: &Launch, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if launch.cwd.is_dir() => format!("not found: {}", launch.program),
        io::ErrorKind::NotFound => format!("the folder {} does not exist", launch.cwd.display()),
        io::ErrorKind::PermissionDenied => format!(
            "not executable, or outside of what the sandbox lets commands read (sandbox_read in config/settings.toml): {}",
            launch.program
        ),
        _ => format!("{}: {error}", launch.program),
    }
}

impl From<Spool> for OwnedFd {
    fn from(spool: Spool) -> Self {
        spool.into_file().into()
    }
}
