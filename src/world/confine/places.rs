//! Where things are that commands need, and where things are that they must not see.
//!
//! Lists, because Landlock only knows what is allowed: a toolchain that is missing here is named in `sandbox_read`.

use std::env;
use std::path::{Path, PathBuf};

/// What a program may read anywhere, as far as the file's own mode lets it.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
    "/proc",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    // Where `/etc/resolv.conf` leads, and what NixOS calls the system.
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/mnt/wsl/resolv.conf",
];
/// Only root can read these at all, and nobody's tests need them.
const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/kubernetes",
    "/etc/ssh",
];
pub const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];
/// Semaphores and shared memory, which Python's multiprocessing and browsers need.
pub const SHARED_MEMORY: &str = "/dev/shm";
/// Below the home folder: toolchains, and how git knows its person.
const HOME_READ: &[&str] = &[
    ".asdf",
    ".bun",
    ".cabal",
    ".cache/go-build",
    ".cache/ms-playwright",
    ".cache/pip",
    ".cache/pypoetry",
    ".cache/uv",
    ".cargo",
    ".config/git",
    ".deno",
    ".dotnet",
    ".gem",
    ".ghcup",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".hex",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2/repository",
    ".mix",
    ".nuget/packages",
    ".nvm",
    ".opam",
    ".poetry",
    ".pub-cache",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".stack",
    ".volta",
    "go",
    "miniconda3",
];
/// Below the home folder, wherever a root may lead.
const HOME_SECRETS: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".docker",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pypirc",
    ".ssh",
    ".zsh_history",
];
/// Of those, what git needs to answer to a remote.
const GIT_CREDENTIALS: &[&str] = &[
    ".config/gh",
    ".config/git/credentials",
    ".git-credentials",
    ".netrc",
    ".ssh",
];
/// Variables that name a toolchain's folder.
const TOOLCHAIN_VARIABLES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOMODCACHE",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The folders of one environment.
pub struct Places<'a> {
    environment: &'a [(String, String)],
    pub home: Option<PathBuf>,
}

impl<'a> Places<'a> {
    pub fn of(environment: &'a [(String, String)]) -> Self {
        let mut places = Self {
            environment,
            home: None,
        };
        places.home = places
            .folder("HOME")
            .and_then(|path| path.canonicalize().ok());
        places
    }

    /// The system, the toolchains, what `PATH` names.
    pub fn readable(&self) -> Vec<PathBuf> {
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        read.extend(self.below_home(HOME_READ));
        read.extend(
            TOOLCHAIN_VARIABLES
                .iter()
                .filter_map(|name| self.folder(name)),
        );
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        let folders = path
            .into_iter()
            .flat_map(|(_, path)| env::split_paths(path));
        read.extend(folders.flat_map(|folder| program_roots(folder, self.home.as_deref())));
        read
    }

    /// What stays out of reach wherever a root may lead.
    pub fn secrets(&self) -> Vec<PathBuf> {
        let mut secrets = self.below_home(HOME_SECRETS);
        let credentials =
            |cargo: PathBuf| ["credentials", "credentials.toml"].map(|name| cargo.join(name));
        secrets.extend(self.folder("CARGO_HOME").into_iter().flat_map(credentials));
        if nix::unistd::geteuid().is_root() {
            secrets.extend(SYSTEM_SECRETS.iter().map(PathBuf::from));
        }
        secrets
    }

    pub fn credentials(&self) -> Vec<PathBuf> {
        self.below_home(GIT_CREDENTIALS)
    }

    /// `~/` is the home folder.
    pub fn at_home(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(path),
        }
    }

    fn folder(&self, variable: &str) -> Option<PathBuf> {
        let (_, value) = self.environment.iter().find(|(name, _)| name == variable)?;
        Some(PathBuf::from(value)).filter(|path| path.is_absolute())
    }

    fn below_home(&self, names: &[&str]) -> Vec<PathBuf> {
        let home = self.home.as_deref();
        let join = |name: &&str| Some(home?.join(name));
        names.iter().filter_map(join).collect()
    }
}

/// A folder of `PATH`, and with `bin` what stands beside it (`lib`, `share`), unless that were the whole home folder.
fn program_roots(folder: PathBuf, home: Option<&Path>) -> Vec<PathBuf> {
    let too_much = |path: &Path| {
        let at_home = |home: &Path| home.starts_with(path) || path == home.join(".local");
        !path.is_absolute() || path == Path::new("/") || home.is_some_and(at_home)
    };
    let prefix = folder
        .parent()
        .filter(|_| folder.ends_with("bin"))
        .map(Path::to_owned);
    [Some(folder), prefix]
        .into_iter()
        .flatten()
        .filter(|path| !too_much(path))
        .collect()
}

/// Those that exist, with links followed, none below another.
pub fn real(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut real: Vec<PathBuf> = paths
        .iter()
        .filter(|path| path.is_absolute())
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    real.sort();
    real.dedup_by(|later, earlier| later.starts_with(&*earlier));
    real
}

/// With links followed, if it exists.
pub fn real_or_same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
