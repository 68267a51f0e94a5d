//! The one function that starts a process: [`Processes::run`].
//!
//! Every process gets a cleared environment with a safe list, its own session and process group, no terminal, the
//! workspace's [`Sandbox`], and a keeper that leaves none of its processes alive when it ends, is cancelled, or its time
//! is up. It decides nothing: what runs was approved before.

use crate::agent::event::CallId;
use crate::world::confine::{Needs, PRIVATE_FOLDER, Sandbox, Temp};
use crate::world::git_guard::GitGuard;
use crate::world::keeper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Kept of each stream: this much from its start and this much from its end (behaviour, section 3: 50 KB).
const CAPTURE_END_BYTES: usize = 25_000;
/// From TERM to KILL, when a command is stopped.
const KILL_GRACE: Duration = Duration::from_millis(500);
/// From KILL to giving up on a process that is stuck in the kernel.
const KILL_WAIT: Duration = Duration::from_secs(6);
/// How long output is awaited after the process itself has ended, while a child of its own still holds the pipe.
const PIPE_GRACE: Duration = Duration::from_millis(200);
const GIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Subcommands of git that are for nothing without the network.
const GIT_REMOTE: &[&str] = &["clone", "fetch", "ls-remote", "pull", "push"];
const PUSH_TIMEOUT: Duration = Duration::from_secs(300);
/// What of git could start a program or ask for something: hooks, pager, monitor, external diff, signing.
const NEUTRAL: &[&str] = &[
    "--no-pager",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "diff.external=",
    "-c",
    "core.pager=cat",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "tag.gpgSign=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "color.ui=false",
    "-c",
    "gc.auto=0",
];
/// No redirect is followed, which may lead to another host, and nothing but what a push needs is spoken.
const NEUTRAL_ABROAD: &[&str] = &[
    "-c",
    "http.followRedirects=false",
    "-c",
    "protocol.allow=never",
    "-c",
    "protocol.https.allow=always",
    "-c",
    "protocol.http.allow=always",
    "-c",
    "protocol.ssh.allow=always",
];
/// When a temporary folder is taken for abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// What the self-test's limit is.
const PROOF_TIMEOUT: Duration = Duration::from_secs(10);

/// Variables that processes inherit; no token and no key is among them.
const SAFE_ENVIRONMENT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOCACHE",
    "GOMODCACHE",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

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
}

/// Everything known about a process that ended.
#[derive(Debug, Clone)]
pub struct Finished {
    pub exit: Exit,
    pub stdout: Capture,
    pub stderr: Capture,
    pub duration_ms: u64,
    /// What the confinement has to say about it, for the model and the person.
    pub remark: Option<String>,
}

/// Bounded output: head and tail kept, the middle counted.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    pub omitted_bytes: u64,
}

/// Starts processes for one call, and stops them when the call is cancelled.
#[derive(Debug, Clone)]
pub struct Processes {
    environment: Arc<Vec<(String, String)>>,
    sandbox: Arc<Sandbox>,
    /// What may be written.
    workspace: PathBuf,
    /// Folders of the program's own that may be written too.
    own: Vec<PathBuf>,
    /// Kept of each end of a stream.
    end_bytes: usize,
    cancel: CancellationToken,
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
            end_bytes: CAPTURE_END_BYTES,
            cancel,
        }
    }

    /// The same for work of the program's own, not of a model: it may also write `folder`, and its output is kept up to
    /// `end_bytes` at each end.
    pub fn with_own(&self, folder: &Path, end_bytes: usize) -> Self {
        Self {
            own: vec![folder.canonicalize().unwrap_or_else(|_| folder.into())],
            end_bytes,
            ..self.clone()
        }
    }

    /// Runs a process to its end, its time limit or the call's cancellation. Never fails: what went wrong is in `exit`.
    ///
    /// Whatever the command leaves behind is killed with it.
    pub async fn run(&self, _call: &CallId, launch: Launch) -> Finished {
        let started = Instant::now();
        if let Some(why) = self.distrust().await {
            return refused(why, started);
        }
        self.guarded(launch, started).await
    }

    /// What stands against starting anything here: found out once, before the first command.
    ///
    /// The text says what to set.
    pub async fn distrust(&self) -> Option<String> {
        if let Some(why) = self.sandbox.refusal() {
            return Some(why);
        }
        let proven = self.sandbox.proven.get_or_init(|| self.prove()).await;
        let why = proven.as_ref().err()?.clone();
        self.sandbox.distrust(why)
    }

    /// The self-test: a confined process writes where it may, and fails to write where it may not.
    async fn prove(&self) -> Result<(), String> {
        tokio::task::spawn_blocking(|| sweep(&std::env::temp_dir()));
        if !self.sandbox.has_landlock() {
            return Ok(());
        }
        let failed = |error: io::Error| format!("the self-test could not be made: {error}");
        let folder = private_folder().map_err(failed)?;
        let root = folder.path().canonicalize().map_err(failed)?;
        let (inside, outside) = (root.join("inside"), root.join("outside"));
        std::fs::create_dir(&inside).map_err(failed)?;
        std::fs::create_dir(&outside).map_err(failed)?;
        let script = "(echo x > ../outside/written) 2> /dev/null; echo x > written";
        let launch = Launch {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: inside.clone(),
            env: Vec::new(),
            timeout: PROOF_TIMEOUT,
            stdin: None,
            needs: Needs::default(),
            guard_git: false,
        };
        let test = Self {
            workspace: inside.clone(),
            cancel: CancellationToken::new(),
            ..self.clone()
        };
        let finished = test.guarded(launch, Instant::now()).await;
        match (
            outside.join("written").exists(),
            inside.join("written").exists(),
        ) {
            (false, true) => Ok(()),
            (true, _) => Err("a forbidden write was not refused".into()),
            (false, false) => Err(format!(
                "an allowed write failed ({:?}: {})",
                finished.exit,
                finished.stderr.text().trim()
            )),
        }
    }

    async fn guarded(&self, launch: Launch, started: Instant) -> Finished {
        let guard = match launch.guard_git && !self.sandbox.is_off() {
            true => GitGuard::take(&self.workspace),
            false => Ok(None),
        };
        let temp = self.sandbox.temp(&self.workspace);
        let (guard, temp) = match (guard, temp) {
            (Ok(guard), Ok(temp)) => (guard, temp),
            (Err(why), _) => {
                return refused(format!("git's settings cannot be guarded: {why}"), started);
            }
            (_, Err(error)) => {
                return refused(
                    format!("no private folder for temporary files: {error}"),
                    started,
                );
            }
        };
        let mut finished = self.start(launch, &temp, started).await;
        if let Some(guard) = guard {
            finished.remark = remark(guard.put_back());
        }
        // What a build left there can be much.
        let _ = tokio::task::spawn_blocking(move || drop(temp)).await;
        finished
    }

    /// The one function that starts a process.
    async fn start(&self, launch: Launch, temp: &Temp, started: Instant) -> Finished {
        let enclosure = match self.sandbox.enclose(
            &self.workspace,
            temp.shared(),
            &self.own,
            launch.needs,
            launch.timeout,
        ) {
            Ok(enclosure) => enclosure,
            Err(why) => return refused(why, started),
        };
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.args)
            .current_dir(&launch.cwd)
            .env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs(self.sandbox.variables(temp.path()));
        command.envs(launch.env.iter().map(|(name, value)| (name, value)));
        command.stdin(if launch.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: between fork and exec only system calls are made, on memory that is there already.
        unsafe { command.pre_exec(move || enclosure.enter()) };
        let mut kept = match command.spawn() {
            Ok(child) => Kept(child),
            Err(error) => return not_started(&launch, &error, started),
        };
        drop(command); // and with it the ruleset, which the command has taken with it
        let input = kept.0.stdin.take().zip(launch.stdin);
        let writer = async move {
            if let Some((mut pipe, bytes)) = input {
                // A process that does not read its input is no failure of ours.
                let _ = pipe.write_all(&bytes).await;
            }
        };
        let stdout = Reader::start(kept.0.stdout.take(), self.end_bytes);
        let stderr = Reader::start(kept.0.stderr.take(), self.end_bytes);
        let exit = {
            let ended = async { tokio::join!(kept.0.wait(), writer).0 };
            tokio::select! {
                status = ended => Some(exit_of(status)),
                () = tokio::time::sleep(launch.timeout) => None,
                () = self.cancel.cancelled() => Some(Exit::Cancelled),
            }
        };
        let exit = exit.unwrap_or(Exit::TimedOut);
        if matches!(exit, Exit::TimedOut | Exit::Cancelled) {
            kept.signal(keeper::END);
            let _ = tokio::time::timeout(KILL_GRACE, kept.0.wait()).await;
            kept.signal(keeper::KILL_ALL);
            let _ = tokio::time::timeout(KILL_WAIT, kept.0.wait()).await;
        }
        let (stdout, stderr) = tokio::join!(stdout.end(), stderr.end());
        Finished {
            exit,
            stdout,
            stderr,
            duration_ms: elapsed_ms(started),
            remark: None,
        }
    }

    /// Runs git with everything neutralised that could start a program or ask for something: hooks, pager, monitor,
    /// external diff, editor, prompts, signing.
    pub async fn git(
        &self,
        call: &CallId,
        cwd: &Path,
        args: &[&str],
        stdin: Option<Vec<u8>>,
    ) -> Finished {
        self.git_with(call, cwd, args, stdin, &[]).await
    }

    /// The same with variables of its own.
    pub async fn git_with(
        &self,
        call: &CallId,
        cwd: &Path,
        args: &[&str],
        stdin: Option<Vec<u8>>,
        variables: &[(String, String)],
    ) -> Finished {
        let remote = args.first().is_some_and(|name| GIT_REMOTE.contains(name));
        let env = [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_EDITOR", "true"),
            ("GIT_ASKPASS", "true"),
        ];
        let launch = Launch {
            program: "git".into(),
            args: NEUTRAL
                .iter()
                .chain(args)
                .map(|arg| (*arg).to_owned())
                .collect(),
            cwd: cwd.to_owned(),
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .chain(variables.iter().cloned())
                .collect(),
            timeout: GIT_TIMEOUT,
            stdin,
            needs: Needs {
                network: remote,
                credentials: remote,
            },
            guard_git: false,
        };
        self.run(call, launch).await
    }

    /// git with a remote, in a bare repository of ours that is its only writable folder besides the workspace.
    ///
    /// `own_credentials`: whether it may read the person's keys and tokens.
    pub async fn git_in(&self, room: &Temp, args: &[&str], own_credentials: bool) -> Finished {
        let started = Instant::now();
        if let Some(why) = self.distrust().await {
            return refused(why, started);
        }
        let args = NEUTRAL.iter().chain(NEUTRAL_ABROAD).chain(args);
        let env = [
            ("GIT_DIR", room.path().to_string_lossy().into_owned()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GIT_EDITOR", "true".into()),
            // What git says is read.
            ("LC_ALL", "C".into()),
        ];
        let launch = Launch {
            program: "git".into(),
            args: args.map(|arg| (*arg).to_owned()).collect(),
            cwd: room.path().to_owned(),
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            timeout: PUSH_TIMEOUT,
            stdin: None,
            needs: Needs {
                network: true,
                credentials: own_credentials,
            },
            guard_git: false,
        };
        self.start(launch, room, started).await
    }
}

/// The safe part of this process's own environment, plus the names that the configuration adds.
pub fn safe_environment(more: &[String]) -> Vec<(String, String)> {
    let names = SAFE_ENVIRONMENT
        .iter()
        .copied()
        .chain(more.iter().map(String::as_str));
    let mut environment: Vec<_> = names
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
        .collect();
    environment.push(("TERM".into(), "dumb".into()));
    environment
}

impl Capture {
    /// The text as far as it was kept, with a mark where bytes are missing. Invalid UTF-8 shows as `�`.
    pub fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        if self.tail.is_empty() && self.omitted_bytes == 0 {
            return head.into_owned();
        }
        let mark = match self.omitted_bytes {
            0 => String::new(),
            bytes => format!("\n[{bytes} bytes omitted]\n"),
        };
        format!("{head}{mark}{}", String::from_utf8_lossy(&self.tail))
    }

    fn push(&mut self, bytes: &[u8], end_bytes: usize) {
        let to_head = bytes.len().min(end_bytes - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        self.tail.extend_from_slice(&bytes[to_head..]);
        // Cut only now and then: at most twice the tail is held.
        if self.tail.len() > 2 * end_bytes {
            self.trim(end_bytes);
        }
    }

    fn trim(&mut self, end_bytes: usize) {
        let excess = self.tail.len().saturating_sub(end_bytes);
        self.tail.drain(..excess);
        self.omitted_bytes += excess as u64;
    }
}

/// A command's keeper; told to kill everything when this is dropped, so that an abandoned effect leaves nothing behind.
struct Kept(Child);

impl Kept {
    fn signal(&self, signal: Signal) {
        // Once it is reaped there is no id, and nothing left to signal.
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.signal(keeper::KILL_ALL);
    }
}

async fn capture(
    pipe: Option<impl AsyncRead + Unpin>,
    captured: Arc<Mutex<Capture>>,
    end_bytes: usize,
) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 * 1024];
    // An error on a pipe means that its other end is gone: what was read stands.
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        lock(&captured).push(&buffer[..read], end_bytes);
    }
}

fn lock(captured: &Mutex<Capture>) -> MutexGuard<'_, Capture> {
    // A panic while bytes were copied leaves bytes, which is all that is promised.
    captured.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream that is being read.
struct Reader {
    task: JoinHandle<()>,
    captured: Arc<Mutex<Capture>>,
    end_bytes: usize,
}

impl Reader {
    fn start(pipe: Option<impl AsyncRead + Unpin + Send + 'static>, end_bytes: usize) -> Self {
        let captured = Arc::new(Mutex::new(Capture::default()));
        let task = tokio::spawn(capture(pipe, captured.clone(), end_bytes));
        Self {
            task,
            captured,
            end_bytes,
        }
    }

    /// What there is; a process that left the group and still holds the pipe is not waited for.
    async fn end(mut self) -> Capture {
        if tokio::time::timeout(PIPE_GRACE, &mut self.task)
            .await
            .is_err()
        {
            self.task.abort();
        }
        let mut captured = std::mem::take(&mut *lock(&self.captured));
        captured.trim(self.end_bytes);
        captured
    }
}

fn exit_of(status: io::Result<ExitStatus>) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::NotStarted(format!("ended with an unknown status {status}")),
        },
        Err(error) => Exit::NotStarted(format!("its end could not be observed: {error}")),
    }
}

fn not_started(launch: &Launch, error: &io::Error, started: Instant) -> Finished {
    let why = match error.kind() {
        io::ErrorKind::NotFound if launch.cwd.is_dir() => format!("not found: {}", launch.program),
        io::ErrorKind::NotFound => format!("the folder {} does not exist", launch.cwd.display()),
        io::ErrorKind::PermissionDenied => format!(
            "not executable, or outside of what the sandbox lets commands read (sandbox_read in config/settings.toml): {}",
            launch.program
        ),
        _ => format!("{}: {error}", launch.program),
    };
    refused(why, started)
}

fn refused(why: String, started: Instant) -> Finished {
    Finished {
        exit: Exit::NotStarted(why),
        stdout: Capture::default(),
        stderr: Capture::default(),
        duration_ms: elapsed_ms(started),
        remark: None,
    }
}

/// Removes what a killed server could not. No command runs that long, so nobody uses it any more.
pub fn sweep(folder: &Path) {
    let ours = |meta: &Metadata| meta.is_dir() && meta.uid() == nix::unistd::geteuid().as_raw();
    let old = |meta: &Metadata| {
        let age = meta.modified().ok().and_then(|then| then.elapsed().ok());
        age.is_some_and(|age| age > ABANDONED_AFTER)
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let named = entry
            .file_name()
            .to_string_lossy()
            .starts_with(PRIVATE_FOLDER);
        // Not through a link: this is what is there, and in a sticky folder nobody else can replace it.
        let meta = entry.path().symlink_metadata();
        if named && meta.is_ok_and(|meta| ours(&meta) && old(&meta)) {
            // Next time, perhaps.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A fresh folder that nobody else can look into; removed when it is dropped.
fn private_folder() -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(PRIVATE_FOLDER)
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}

/// What became of git's settings.
fn remark(put_back: Result<Vec<String>, String>) -> Option<String> {
    match put_back {
        Ok(changed) if changed.is_empty() => None,
        Ok(changed) => Some(format!(
            "Put back as before, because they run programs outside of the sandbox: {}. Only git itself, approved by the person, may change them.",
            changed.join(", ")
        )),
        Err(why) => Some(format!(
            "Attention, tell the person before git is used here: {why}."
        )),
    }
}

fn elapsed_ms(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
