//! What a command may reach, and whether the kernel holds it to that.
//!
//! Landlock for files (write: the workspace and a private temporary folder; read: the system and toolchains, never the
//! rest of the home folder, never the program's own data), seccomp for the network and for ways around, limits on
//! resources. It prepares; [`super::keeper`] applies it between fork and exec, and nothing here is ever applied to this
//! program itself. What it does not do is said in `docs/safety.md`.

/// System calls.
mod filter;
/// Which folders those are.
mod places;
/// What one command leaves for the next.
mod prepared;
/// Files.
pub mod rules;

use crate::world::keeper::Enclosure;
use filter::Reachable;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::sysinfo::sysinfo;
use places::{DEVICES, Places, SHARED_MEMORY, real, real_or_same};
pub use prepared::{PRIVATE_FOLDER, Temp};
use rules::Plan;
use seccompiler::BpfProgram;
use serde::Deserialize;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::OnceCell;

/// How much confinement is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing starts where the kernel cannot confine it.
    Required,
    /// What the kernel has.
    BestEffort,
    Off,
}

/// The settings, as in `config/settings.toml`.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub mode: Mode,
    /// Folders that may be read besides the known ones; `~/` is the home folder.
    pub read: Vec<String>,
    /// Folders that may be written besides the workspace.
    pub write: Vec<String>,
    /// Whether commands may connect to sockets in the file system even where the kernel cannot tell which.
    pub unix_sockets: bool,
    pub limits: ProcessLimits,
}

/// Limits of every process that a command starts; 0 sets none.
#[derive(Debug, Clone, Copy)]
pub struct ProcessLimits {
    /// Of the user, besides those that run already.
    pub processes_max: u64,
    pub open_files_max: u64,
    pub file_bytes_max: u64,
    pub memory_bytes_max: u64,
}

/// What one command gets besides the workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    pub network: bool,
    /// Reading the keys and tokens with which git answers to a remote: for git itself only, with its hooks off.
    pub credentials: bool,
}

/// Where one command works, and what it may reach besides.
#[derive(Debug, Clone, Copy)]
pub struct Reach<'a> {
    pub workspace: &'a Path,
    /// [`Temp::shared`].
    pub temp: &'a Path,
    /// Folders of the program's own that this one command may write, in spite of all that is left out.
    pub own: &'a [PathBuf],
    /// Folders that it may read.
    pub read: &'a [PathBuf],
    /// It is git as we call it, or as the person approved it to settle something: in a linked worktree it may write all of the
    /// repository.
    pub is_ours: bool,
    /// It writes nothing but its temporary files.
    pub only_reads: bool,
}

/// The program's own files.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// Neither read nor written: data, `.env`.
    pub hidden: Vec<PathBuf>,
    /// Not written: settings and rules.
    pub settled: Vec<PathBuf>,
}

/// What holds for every command of this program.
#[derive(Debug)]
pub struct Sandbox {
    mode: Mode,
    landlock_abi: i32,
    unix_sockets: bool,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    denied: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    /// With which git answers to a remote.
    credentials: Vec<PathBuf>,
    limits: ProcessLimits,
    home: Option<PathBuf>,
    /// Without and with the network.
    filters: [OnceLock<Result<Arc<Vec<BpfProgram>>, String>>; 2],
    prepared: prepared::Prepared,
    /// The self-test, once, before the first command.
    pub(super) proven: OnceCell<Result<(), String>>,
}

impl Sandbox {
    /// Looks at the machine. Cheap: nothing is tried before the first command.
    pub fn new(wanted: &Wanted, own: &Own, environment: &[(String, String)]) -> Arc<Self> {
        let places = Places::of(environment);
        let named = |paths: &[String]| paths.iter().map(|path| places.at_home(path)).collect();
        let mut read = places.readable();
        read.extend::<Vec<PathBuf>>(named(&wanted.read));
        let mut denied = own.hidden.clone();
        denied.extend(places.secrets());
        let landlock_abi = match wanted.mode {
            Mode::Off => 0,
            Mode::Required | Mode::BestEffort => rules::kernel_abi(),
        };
        Arc::new(Self {
            mode: wanted.mode,
            landlock_abi,
            unix_sockets: wanted.unix_sockets,
            read: real(read),
            write: real(named(&wanted.write)),
            denied: denied.iter().map(|path| real_or_same(path)).collect(),
            read_only: own.settled.iter().map(|path| real_or_same(path)).collect(),
            limits: wanted.limits,
            credentials: real(places.credentials()),
            home: places.home,
            filters: Default::default(),
            prepared: Default::default(),
            proven: OnceCell::new(),
        })
    }

    /// What confines commands, in a few words: for `doctor`, the journal and the chat.
    pub fn state(&self) -> String {
        match (self.mode, self.landlock_abi) {
            (Mode::Off, _) => "off".into(),
            (Mode::Required, 0) => "none: the kernel has no Landlock, so no command starts".into(),
            (Mode::BestEffort, 0) => "seccomp only: the kernel has no Landlock".into(),
            (_, abi) => format!("landlock abi {abi}, seccomp"),
        }
    }

    pub fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// Whether files are confined.
    pub fn has_landlock(&self) -> bool {
        self.landlock_abi > 0
    }

    /// Why nothing may start on this machine, and what would change that.
    pub fn refusal(&self) -> Option<String> {
        (self.mode == Mode::Required && self.landlock_abi == 0).then(|| {
            format!("this kernel has no Landlock (Linux 5.13 and newer have it, unless `lsm=` leaves it out). {TO_CHANGE}")
        })
    }

    /// What the self-test's failure means: `None` where it goes on without.
    pub(super) fn distrust(&self, why: String) -> Option<String> {
        match self.mode {
            Mode::Required => Some(format!("the sandbox does not hold: {why}. {TO_CHANGE}")),
            Mode::BestEffort | Mode::Off => {
                tracing::warn!("the sandbox does not hold: {why}");
                None
            }
        }
    }

    /// A folder for the temporary files of one command.
    pub fn temp(&self, workspace: &Path) -> io::Result<Temp> {
        self.prepared.temp(workspace)
    }

    /// Prepares the confinement of one command.
    ///
    /// # Errors
    /// In words, where it cannot be made; the command must not start then.
    pub fn enclose(
        &self,
        reach: &Reach<'_>,
        needs: Needs,
        limit: Duration,
    ) -> Result<Enclosure, String> {
        let (ruleset, filters) = match self.mode {
            Mode::Off => (None, Arc::default()),
            Mode::Required | Mode::BestEffort => {
                (self.ruleset(reach, needs)?, self.filters(needs.network)?)
            }
        };
        Ok(Enclosure {
            ruleset,
            filters,
            rlimits: self.rlimits(),
            unprivileged: self.mode != Mode::Off,
            limit,
        })
    }

    fn ruleset(&self, reach: &Reach<'_>, needs: Needs) -> Result<Option<OwnedFd>, String> {
        if self.landlock_abi == 0 {
            return Ok(None);
        }
        let Reach {
            workspace, temp, ..
        } = *reach;
        let worktree = rules::worktree_folders(workspace);
        let common = worktree.as_ref().map(|(_, common)| common.as_path());
        let parts = match reach.is_ours {
            true => Vec::new(),
            false => common.map(rules::shared_parts).unwrap_or_default(),
        };
        let mut write: Vec<&Path> = vec![temp, Path::new(SHARED_MEMORY)];
        let mut read: Vec<&Path> = self.read.iter().map(PathBuf::as_path).collect();
        read.extend(reach.read.iter().map(PathBuf::as_path));
        if reach.only_reads {
            read.push(workspace);
            read.extend(
                worktree
                    .iter()
                    .flat_map(|(own, common)| [own.as_path(), common]),
            );
        } else {
            write.push(workspace);
            write.extend(self.write.iter().map(PathBuf::as_path));
        }
        if let Some((own, common)) = worktree.as_ref().filter(|_| !reach.only_reads) {
            write.push(own);
            match reach.is_ours {
                true => write.push(common),
                false => read.push(common),
            }
            write.extend(parts.iter().map(PathBuf::as_path));
        }
        let mut denied: Vec<&Path> = self.denied.iter().map(PathBuf::as_path).collect();
        if needs.credentials {
            read.extend(self.credentials.iter().map(PathBuf::as_path));
            denied.retain(|path| !self.credentials.iter().any(|one| one == path));
        }
        self.prepared.ruleset(&Plan {
            read,
            write,
            own: reach.own.iter().map(PathBuf::as_path).collect(),
            devices: DEVICES.iter().map(Path::new).collect(),
            denied,
            read_only: self.read_only.iter().map(PathBuf::as_path).collect(),
            network: needs.network,
            unix_sockets: self.unix_sockets,
        })
    }

    fn filters(&self, network: bool) -> Result<Arc<Vec<BpfProgram>>, String> {
        let make = || {
            let reachable = Reachable {
                network,
                unix_sockets: self.unix_sockets
                    || self.landlock_abi >= rules::ABI_WITH_UNIX_SOCKETS,
                landlock_abi: self.landlock_abi,
            };
            filter::programs(reachable).map(Arc::new)
        };
        self.filters[usize::from(network)].get_or_init(make).clone()
    }

    fn rlimits(&self) -> Vec<(Resource, u64)> {
        let limits = &self.limits;
        // The kernel counts all processes and threads of the user: those that are there must not use it up.
        let running = sysinfo().map_or(0, |info| u64::from(info.process_count()));
        let processes = match limits.processes_max {
            0 => 0,
            more => running.saturating_add(more),
        };
        let wanted = [
            (Resource::RLIMIT_NPROC, processes),
            (Resource::RLIMIT_NOFILE, limits.open_files_max),
            (Resource::RLIMIT_FSIZE, limits.file_bytes_max),
            (Resource::RLIMIT_AS, limits.memory_bytes_max),
        ];
        let lower = |(resource, max): (Resource, u64)| {
            let (_, hard) = getrlimit(resource).ok()?;
            (max > 0).then(|| (resource, max.min(hard)))
        };
        wanted.into_iter().filter_map(lower).collect()
    }

    /// Variables that send caches to where they may be written. The person's own caches are only read: what a command
    /// left there would run outside, with the next build of the person.
    pub fn variables(&self, temp: &Path) -> Vec<(String, String)> {
        let mut variables: Vec<_> = ["TMPDIR", "TMP", "TEMP"]
            .map(|name| (name.to_owned(), temp.to_string_lossy().into_owned()))
            .into();
        if !self.has_landlock() {
            return variables;
        }
        let writable = |name: &str| {
            let folder = self.home.as_ref().map(|home| home.join(name));
            folder.is_some_and(|folder| self.write.iter().any(|root| folder.starts_with(root)))
        };
        for (cache, variable, folder) in [
            (".cache", "XDG_CACHE_HOME", "cache"),
            (".cache/go-build", "GOCACHE", "cache/go-build"),
            (".npm", "npm_config_cache", "cache/npm"),
        ] {
            if !writable(cache) {
                let folder = temp.join(folder).to_string_lossy().into_owned();
                variables.push((variable.to_owned(), folder));
            }
        }
        variables
    }
}

const TO_CHANGE: &str = "To run with what there is, set sandbox = \"best-effort\" in config/settings.toml; to run \
                         without, \"off\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn without_landlock(mode: Mode) -> Sandbox {
        let limits = ProcessLimits {
            processes_max: 0,
            open_files_max: 0,
            file_bytes_max: 0,
            memory_bytes_max: 0,
        };
        Sandbox {
            mode,
            landlock_abi: 0,
            unix_sockets: false,
            read: Vec::new(),
            write: Vec::new(),
            denied: Vec::new(),
            read_only: Vec::new(),
            credentials: Vec::new(),
            limits,
            home: None,
            filters: Default::default(),
            prepared: Default::default(),
            proven: OnceCell::new(),
        }
    }

    #[test]
    fn starts_nothing_that_must_be_confined_and_cannot_be() {
        let refusal = without_landlock(Mode::Required).refusal();
        assert!(refusal.is_some_and(|why| why.contains("sandbox = \"best-effort\"")));
        assert_eq!(without_landlock(Mode::BestEffort).refusal(), None);
        assert_eq!(without_landlock(Mode::Off).refusal(), None);
        let required = without_landlock(Mode::Required);
        assert!(required.distrust("it writes".into()).is_some());
        assert!(
            without_landlock(Mode::BestEffort)
                .distrust("it writes".into())
                .is_none()
        );
    }
}
