//! What git says about a remote that refused, in words that say what to do. Pure.

/// Of what git printed, its last lines.
const SAID_LINES_MAX: usize = 12;
const SAID_LINE_CHARS_MAX: usize = 300;

/// With what git asked to be let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Used {
    Token,
    Address,
    /// Helpers and keys of the person's own git.
    OwnGit,
}

/// Why a push or a look at a remote failed. `said`: everything that git printed.
pub fn explain(said: &str, url: &str, used: Used) -> String {
    let any = |marks: &[&str]| marks.iter().any(|mark| said.contains(mark));
    let why = if any(&["hook declined", "protected branch", "GH006", "GH013"]) {
        "the remote's own rules (a protected branch, a hook) refused it. Push another branch and open a pull request; do not try to get around it".to_owned()
    } else if any(&["stale info"]) {
        "the remote's branch is no longer what was last seen of it, so it was not overwritten. Fetch (run_command `git fetch`), look at what is new, then decide".to_owned()
    } else if any(&["non-fast-forward", "fetch first", "[rejected]"]) {
        "the remote's branch has commits that are not here. Bring them in first (run_command `git pull --rebase`, which asks the person), run the tests, and push again; or push another branch".to_owned()
    } else if any(&[
        "unable to update url base from redirection",
        "redirected",
        "error: 301",
        "error: 302",
        "error: 307",
        "error: 308",
    ]) {
        "the remote redirects to another address, which is not followed. If the repository moved, the person can set its new address (git remote set-url)".to_owned()
    } else if any(&[
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "Permission denied (",
        "returned error: 401",
        "returned error: 403",
    ]) {
        let fix = match used {
            Used::Token => {
                "GITHUB_TOKEN is wrong, expired, or may not write there. The person can set another one (contents: write, pull requests: write)"
            }
            Used::Address => "the person can correct the credentials in the remote's address",
            Used::OwnGit => {
                "the person can set GITHUB_TOKEN (for the host of GITHUB_API_URL), or log their own git in: a credential helper or an ssh key without passphrase"
            }
        };
        format!("the remote does not let us in: {fix}")
    } else if any(&["not found", "returned error: 404", "does not exist"]) {
        "there is no such repository, or the credentials may not see it".to_owned()
    } else if any(&[
        "Could not resolve host",
        "Failed to connect",
        "Couldn't connect",
        "Connection refused",
        "Connection timed out",
        "Operation timed out",
        "unable to access",
        "Could not read from remote repository",
    ]) {
        "it cannot be reached from here".to_owned()
    } else {
        "git refused".to_owned()
    };
    format!("It failed at {url}: {why}.\ngit said:\n{}", end_of(said))
}

fn end_of(said: &str) -> String {
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(SAID_LINES_MAX);
    let short = |line: &&str| line.chars().take(SAID_LINE_CHARS_MAX).collect::<String>();
    let shown: Vec<String> = lines[from..].iter().map(short).collect();
    match from {
        0 => shown.join("\n"),
        omitted => format!("[{omitted} lines omitted]\n{}", shown.join("\n")),
    }
}
