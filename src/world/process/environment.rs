//! What commands see of this program's environment: a short list, without tokens and keys.

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
