//! Addresses of remotes: which host is meant, and which credentials may go there. Pure.
//!
//! Read by the parser that also resolves addresses for requests, never by looking for names in the text:
//! `https://github.com@evil.example/` is evil.example.

use reqwest::Url;
use std::fmt;

/// From so many characters on, a name without a password in an address is taken for a token.
const TOKEN_CHARS_MIN: usize = 20;
/// The name that GitHub wants with a token.
const TOKEN_NAME: &str = "x-access-token";

/// A name and a password for one host.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub name: String,
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

/// Where a remote is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// As git takes it, without credentials.
    pub text: String,
    /// For http and https: scheme, host, port.
    pub origin: Option<Origin>,
    pub host: String,
    /// Without slashes at the ends and without `.git`.
    pub path: String,
    /// What stood in the address itself.
    pub login: Option<Login>,
}

/// Scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String, String, u16);

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(scheme, host, port) = self;
        write!(f, "{scheme}://{host}:{port}")
    }
}

fn origin(url: &Url) -> Option<Origin> {
    let host = url.host_str()?.to_owned();
    Some(Origin(
        url.scheme().to_owned(),
        host,
        url.port_or_known_default()?,
    ))
}

/// An address as `git remote get-url` prints it.
///
/// # Errors
/// In words, where nothing is pushed to such a place.
pub fn read(text: &str) -> Result<Address, String> {
    let text = text.trim();
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("its address has blanks or control characters".into());
    }
    if let Some(scp) = scp_like(text) {
        return Ok(scp);
    }
    if !text.contains("://") {
        return Err(in_the_file_system(text));
    }
    let mut url = Url::parse(text).map_err(|error| format!("its address is none: {error}"))?;
    let host = url.host_str().unwrap_or_default().to_owned();
    match url.scheme() {
        "http" | "https" | "ssh" if !host.is_empty() => {}
        "file" => return Err(in_the_file_system(url.path())),
        other => {
            return Err(format!(
                "{other}:// is not used to push; use https:// or ssh://"
            ));
        }
    }
    let path = project_path(url.path());
    if url.scheme() == "ssh" {
        let text = match url.password() {
            None => text.to_owned(),
            Some(_) => {
                // ssh takes none from there: it would only be shown and kept.
                let _ = url.set_password(None);
                url.to_string()
            }
        };
        return Ok(Address {
            text,
            origin: None,
            host,
            path,
            login: None,
        });
    }
    let login = login_in(&url);
    // Only fails for addresses that cannot have any.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok(Address {
        text: url.to_string(),
        origin: origin(&url),
        host,
        path,
        login,
    })
}

/// `git@github.com:owner/name.git`.
fn scp_like(text: &str) -> Option<Address> {
    let (place, path) = text.split_once(':')?;
    let host = place.rsplit('@').next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_host = !host.is_empty() && !host.starts_with('-') && host.chars().all(plain);
    let is_path = !path.is_empty() && !path.starts_with("//") && !path.starts_with(':');
    (is_host && is_path && !place.starts_with('-') && !place.contains('/')).then(|| Address {
        text: text.to_owned(),
        origin: None,
        host: host.to_owned(),
        path: project_path(path),
        login: None,
    })
}

fn in_the_file_system(path: &str) -> String {
    format!(
        "it is a folder ({path}), and the sandbox lets git write in the workspace only; the person can push there"
    )
}

fn project_path(path: &str) -> String {
    let path = path.trim_matches('/');
    path.strip_suffix(".git").unwrap_or(path).to_owned()
}

fn login_in(url: &Url) -> Option<Login> {
    let name = decoded(url.username());
    let password = url.password().map(decoded);
    // A line end would say something else to git.
    let odd = |text: &String| text.chars().any(char::is_control);
    match password {
        password
            if [Some(&name), password.as_ref()]
                .into_iter()
                .flatten()
                .any(odd) =>
        {
            None
        }
        Some(password) => Some(Login { name, password }),
        None if name.chars().count() >= TOKEN_CHARS_MIN => Some(Login {
            name,
            password: String::new(),
        }),
        None => None,
    }
}

/// `%41` is `A`; what is no UTF-8 then stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| hex::decode(two).ok());
        match (byte, hex) {
            (b'%', Some(decoded)) => {
                bytes.extend(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Where the repositories are whose API is at `api`: `api.github.com` belongs to `github.com`, `api.ana.ghe.com` to
/// `ana.ghe.com`; an own server has both on one host.
pub fn git_origin(api: &str) -> Option<Origin> {
    let url = Url::parse(api).ok()?;
    let Origin(scheme, host, port) = origin(&url)?;
    let hosted = host == "api.github.com" || host.ends_with(".ghe.com");
    let host = match host.strip_prefix("api.") {
        Some(rest) if hosted => rest.to_owned(),
        _ => host,
    };
    Some(Origin(scheme, host, port))
}

impl Origin {
    pub fn host(&self) -> &str {
        &self.1
    }
}

/// What is sent to `address`: the token, if this is the very host that it is for; else what the address itself holds.
pub fn login_for(address: &Address, api: &str, token: Option<&str>) -> Option<Login> {
    let ours = address.origin.is_some() && address.origin == git_origin(api);
    match token {
        Some(token) if ours => Some(Login {
            name: TOKEN_NAME.to_owned(),
            password: token.to_owned(),
        }),
        _ => address.login.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GITHUB: &str = "https://api.github.com";

    fn gets_the_token(address: &str, api: &str) -> bool {
        let address = read(address).expect("an address");
        login_for(&address, api, Some("the-token")).is_some_and(|it| it.password == "the-token")
    }

    #[test]
    fn gives_the_token_to_its_own_host_only() {
        for (address, api, expected) in [
            ("https://github.com/o/r.git", GITHUB, true),
            ("https://GitHub.com:443/o/r", GITHUB, true),
            ("https://ana:pw@github.com/o/r", GITHUB, true),
            ("http://github.com/o/r.git", GITHUB, false),
            ("https://github.com:8443/o/r.git", GITHUB, false),
            ("https://github.com.evil.example/o/r", GITHUB, false),
            ("https://github.com@evil.example/o/r", GITHUB, false),
            ("https://github.com%2Fx@evil.example/o/r", GITHUB, false),
            ("https://evil.example/github.com/o/r", GITHUB, false),
            ("https://evil.example\\@github.com/o/r", GITHUB, false),
            ("https://gist.github.com/o/r", GITHUB, false),
            ("https://api.github.com/o/r", GITHUB, false),
            ("https://githüb.com/o/r", GITHUB, false),
            ("git@github.com:o/r.git", GITHUB, false),
            ("https://git.corp/o/r", "https://git.corp/api/v3", true),
            ("https://ana.ghe.com/o/r", "https://api.ana.ghe.com", true),
            ("http://127.0.0.1:81/o/r", "http://127.0.0.1:81", true),
            ("http://127.0.0.1:82/o/r", "http://127.0.0.1:81", false),
        ] {
            assert_eq!(gets_the_token(address, api), expected, "{address} {api}");
        }
    }

    #[test]
    fn takes_credentials_out_of_the_address() {
        let address = read("https://ana:se%63ret@git.corp/o/r.git").expect("an address");
        assert_eq!(address.text, "https://git.corp/o/r.git");
        assert_eq!(address.path, "o/r");
        let login = login_for(&address, GITHUB, Some("the-token")).expect("what stood there");
        assert_eq!(
            (login.name.as_str(), login.password.as_str()),
            ("ana", "secret")
        );
        assert_eq!(format!("{login:?}"), "Login(…)");
    }

    #[test]
    fn pushes_over_http_and_ssh_only() {
        let scp = read("git@github.com:o/r.git").expect("an address");
        assert_eq!(
            (scp.host.as_str(), scp.path.as_str()),
            ("github.com", "o/r")
        );
        assert!(read("ssh://git@host:2222/o/r.git").is_ok());
        let hidden = read("ssh://git:hunter2@host:2222/o/r.git").unwrap();
        assert_eq!(hidden.text, "ssh://git@host:2222/o/r.git");
        for address in [
            "/srv/r.git",
            "../r.git",
            "file:///srv/r.git",
            "ext::sh -c id",
            "ext::id",
            "git://host/r",
            "-oProxyCommand=id:r",
            "--upload-pack=id",
            "fd::3",
            "https://",
            "",
        ] {
            assert!(read(address).is_err(), "{address}");
        }
    }
}
