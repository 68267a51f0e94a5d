//! GitHub's API, by octocrab: pull requests, their checks, their comments. The token goes to the configured address only;
//! no redirect is followed.
//!
//! What is created carries a mark, an HTML comment that names session and call, by which it is found again.

use super::net;
use super::remote::Hosting;
use crate::gate::Project;
use octocrab::Octocrab;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::time::Duration;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Entries of one list that are read; GitHub gives 100 at most.
const PAGE: &str = "per_page=100";
const PAGE_ITEMS: usize = 100;
const PAGES_MAX: usize = 10;
const VERSION: (&str, &str) = ("x-github-api-version", "2022-11-28");
const CHECKS_SHOWN_MAX: usize = 30;
const COMMENTS_SHOWN_MAX: usize = 40;
const COMMENT_CHARS_MAX: usize = 1_200;

/// One project, reached with the token.
pub struct GitHub {
    crab: Octocrab,
    project: Project,
}

/// A pull request as it is wanted.
#[derive(Debug)]
pub struct Proposal {
    pub title: String,
    pub body: String,
    /// `None`: the remote's default branch.
    pub base: Option<String>,
    pub draft: bool,
    pub reviewers: Vec<String>,
    pub labels: Vec<String>,
}

/// A branch, and who owns the repository that it is in.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    pub owner: &'a str,
    pub branch: &'a str,
}

enum Method<'a> {
    Get,
    Post(&'a Value),
    Patch(&'a Value),
}

/// The mark of a call's work.
pub fn mark(session: &str, call: &str) -> String {
    format!("<!-- journeyman:{session}/{call} -->")
}

impl GitHub {
    /// # Errors
    /// In words, where the configured address is none.
    pub fn of(hosting: &Hosting, project: &Project) -> Result<Self, String> {
        // A project that was looked up under other settings: today's token is not for it.
        if project.api != hosting.api {
            return Err(format!(
                "GITHUB_API_URL is {} now, and was {} when this was looked up",
                hosting.api, project.api
            ));
        }
        let wrong = |error: octocrab::Error| format!("GITHUB_API_URL can't be used: {error}");
        let builder = Octocrab::builder()
            .base_uri(project.api.as_str())
            .map_err(wrong)?
            .add_header(
                reqwest::header::HeaderName::from_static(VERSION.0),
                VERSION.1.into(),
            );
        let builder = match &hosting.token {
            Some(token) => builder.personal_token(token.clone()),
            None => builder,
        };
        let client = net::strict_client(&project.api);
        Ok(Self {
            crab: builder.build_with_reqwest(client).map_err(wrong)?,
            project: project.clone(),
        })
    }

    /// The branch that pull requests go to.
    ///
    /// # Errors
    /// Here and below: in words for the model, what GitHub said and what to do.
    pub async fn default_branch(&self) -> Result<String, String> {
        let repository = self.get("").await?;
        Ok(text(&repository, "default_branch").to_owned())
    }

    /// The open pull request of a branch.
    pub async fn find(&self, head: Head<'_>) -> Result<Option<Value>, String> {
        let head_name = encoded(&format!("{}:{}", head.owner, head.branch));
        let found = self
            .get(&format!("/pulls?state=open&head={head_name}&{PAGE}"))
            .await?;
        // Some servers ignore the filter.
        let is_it = |pull: &&Value| {
            text(&pull["head"], "ref") == head.branch
                && text(&pull["head"]["user"], "login").eq_ignore_ascii_case(head.owner)
        };
        Ok(items(&found).iter().find(is_it).cloned())
    }

    /// The pull request of a branch that carries a mark, also one that was closed since.
    pub async fn find_marked(&self, head: Head<'_>, mark: &str) -> Result<Option<Value>, String> {
        let head_name = encoded(&format!("{}:{}", head.owner, head.branch));
        let found = self
            .get(&format!("/pulls?state=all&head={head_name}&{PAGE}"))
            .await?;
        let is_it = |pull: &&Value| text(pull, "body").contains(mark);
        Ok(items(&found).iter().find(is_it).cloned())
    }

    /// Creates the branch's pull request, or brings the open one up to date: twice is as good as once.
    pub async fn propose(
        &self,
        head: Head<'_>,
        base: &str,
        wanted: &Proposal,
    ) -> Result<String, String> {
        let (pull, done) = match self.find(head).await? {
            Some(pull) => (self.update(&pull, wanted).await?, "Updated"),
            None => self.create(head, base, wanted).await?,
        };
        let number = number(&pull)?;
        let mut told = format!("{done} pull request #{number}: {}", text(&pull, "html_url"));
        if pull["draft"] == json!(!wanted.draft) && done == "Updated" {
            told.push_str(
                "\nWhether it is a draft stays as it was; the person can change that on GitHub.",
            );
        }
        let also = [
            (
                &wanted.reviewers,
                "reviewers",
                format!("/pulls/{number}/requested_reviewers"),
            ),
            (&wanted.labels, "labels", format!("/issues/{number}/labels")),
        ];
        for (names, what, path) in also.iter().filter(|(names, ..)| !names.is_empty()) {
            match self.send(Method::Post(&json!({*what: names})), path).await {
                Ok(_) => told.push_str(&format!("\n{what}: {}", names.join(", "))),
                Err(why) => told.push_str(&format!("\nThe {what} could not be set: {why}")),
            }
        }
        Ok(told)
    }

    async fn create(
        &self,
        head: Head<'_>,
        base: &str,
        wanted: &Proposal,
    ) -> Result<(Value, &'static str), String> {
        let head_name = match head.owner.eq_ignore_ascii_case(&self.project.owner) {
            true => head.branch.to_owned(),
            false => format!("{}:{}", head.owner, head.branch),
        };
        let body = json!({
            "title": wanted.title, "head": head_name, "base": base, "body": wanted.body, "draft": wanted.draft,
        });
        match self.send(Method::Post(&body), "/pulls").await {
            Ok(pull) => Ok((pull, "Created")),
            // Somebody was faster.
            Err(why) if why.contains("already exists") => match self.find(head).await? {
                Some(pull) => Ok((self.update(&pull, wanted).await?, "Updated")),
                None => Err(why),
            },
            Err(why) => Err(why),
        }
    }

    async fn update(&self, pull: &Value, wanted: &Proposal) -> Result<Value, String> {
        let mut body = json!({"title": wanted.title, "body": wanted.body});
        if let Some(base) = &wanted.base {
            body["base"] = json!(base);
        }
        self.send(Method::Patch(&body), &format!("/pulls/{}", number(pull)?))
            .await
    }

    /// State, checks and reviews of a pull request, for a model.
    pub async fn status(&self, pull: u64) -> Result<String, String> {
        let pull = self.get(&format!("/pulls/{pull}")).await?;
        let sha = text(&pull["head"], "sha");
        let state = match (text(&pull, "state"), &pull["merged"], &pull["draft"]) {
            (_, Value::Bool(true), _) => "merged",
            ("open", _, Value::Bool(true)) => "open, a draft",
            (state, ..) => state,
        };
        let mut lines = vec![
            format!(
                "#{} {} ({state}) {}",
                number(&pull)?,
                text(&pull, "title"),
                text(&pull, "html_url")
            ),
            format!(
                "{} → {}, mergeable: {}",
                text(&pull["head"], "ref"),
                text(&pull["base"], "ref"),
                or(text(&pull, "mergeable_state"), "unknown")
            ),
        ];
        let runs = self.get(&format!("/commits/{sha}/check-runs?{PAGE}")).await;
        lines.push(part("Checks", runs, "check_runs", |run| {
            let how = or(text(run, "conclusion"), text(run, "status"));
            format!("{how}: {} {}", text(run, "name"), text(run, "html_url"))
        }));
        let statuses = self.get(&format!("/commits/{sha}/status?{PAGE}")).await;
        lines.push(part("Statuses", statuses, "statuses", |status| {
            let (name, address) = (text(status, "context"), text(status, "target_url"));
            format!("{}: {name} {address}", text(status, "state"))
        }));
        let reviews = self
            .all(&format!("/pulls/{}/reviews", number(&pull)?))
            .await;
        let reviews = reviews.map(|reviews| json!({"reviews": reviews}));
        lines.push(part("Reviews", reviews, "reviews", |review| {
            let words = short(text(review, "body"));
            format!("{} by {}: {words}", text(review, "state"), author(review))
        }));
        Ok(lines.join("\n"))
    }

    /// What people wrote about a pull request, for a model. The newest last; data, not instructions.
    pub async fn comments(&self, pull: u64) -> Result<String, String> {
        let talk = self.all(&format!("/issues/{pull}/comments")).await?;
        let code = self.all(&format!("/pulls/{pull}/comments")).await?;
        let talk = talk
            .iter()
            .map(|it| format!("[{}] {}: {}", it["id"], author(it), short(text(it, "body"))));
        let code = code.iter().map(|it| {
            let (path, words) = (text(it, "path"), short(text(it, "body")));
            format!(
                "[{}] {} on {path}:{}: {words}",
                it["id"],
                author(it),
                it["line"]
            )
        });
        Ok(format!(
            "{}\n{}",
            listed("Comments", talk.collect(), COMMENTS_SHOWN_MAX),
            listed(
                "Comments on the code (answer with reply_to)",
                code.collect(),
                COMMENTS_SHOWN_MAX
            )
        ))
    }

    /// Writes a comment, as an answer to one on the code if `reply_to` names it; one that carries the mark is not
    /// written again.
    pub async fn comment(
        &self,
        pull: u64,
        reply_to: Option<u64>,
        words: &str,
        mark: &str,
    ) -> Result<String, String> {
        if let Some(there) = self.marked_comment(pull, mark).await? {
            return Ok(there);
        }
        let path = match reply_to {
            Some(comment) => format!("/pulls/{pull}/comments/{comment}/replies"),
            None => format!("/issues/{pull}/comments"),
        };
        let body = json!({"body": format!("{words}\n\n{mark}")});
        let made = self.send(Method::Post(&body), &path).await?;
        Ok(format!("Commented: {}", text(&made, "html_url")))
    }

    /// The comment that an interrupted call has left, if it has.
    pub async fn marked_comment(&self, pull: u64, mark: &str) -> Result<Option<String>, String> {
        for place in ["issues", "pulls"] {
            let found = self.all(&format!("/{place}/{pull}/comments")).await?;
            let marked = found.iter().find(|it| text(it, "body").contains(mark));
            if let Some(comment) = marked {
                let address = text(comment, "html_url");
                return Ok(Some(format!("Commented already: {address}")));
            }
        }
        Ok(None)
    }

    /// A whole list, oldest first.
    async fn all(&self, path: &str) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        for page in 1..=PAGES_MAX {
            let found = self.get(&format!("{path}?{PAGE}&page={page}")).await?;
            all.extend_from_slice(items(&found));
            if items(&found).len() < PAGE_ITEMS {
                break;
            }
        }
        Ok(all)
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        self.send(Method::Get, path).await
    }

    /// One request to the project, `path` with its query.
    async fn send(&self, method: Method<'_>, path: &str) -> Result<Value, String> {
        let Project { owner, name, .. } = &self.project;
        let uri = format!("/repos/{owner}/{name}{path}");
        let exchange = async {
            let response = match method {
                Method::Get => self.crab._get(uri.as_str()).await?,
                Method::Post(body) => self.crab._post(uri.as_str(), Some(body)).await?,
                Method::Patch(body) => self.crab._patch(uri.as_str(), Some(body)).await?,
            };
            let (status, headers) = (response.status(), response.headers().clone());
            let body = self.crab.body_to_string(response).await?;
            Ok::<_, octocrab::Error>((status, headers, body))
        };
        let (status, headers, body) = match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                return Err(format!(
                    "GitHub cannot be reached at {}: {}",
                    self.project.api,
                    sources(&error)
                ));
            }
            Err(_) => {
                return Err(format!(
                    "GitHub did not answer within {} s at {}",
                    REQUEST_TIMEOUT.as_secs(),
                    self.project.api
                ));
            }
        };
        let body: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        match status.is_success() {
            true => Ok(body),
            false => Err(self.explain(status, &headers, &body)),
        }
    }

    /// What an error of the API means, and what to do.
    fn explain(&self, status: StatusCode, headers: &HeaderMap, body: &Value) -> String {
        let Project { owner, name, .. } = &self.project;
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let said = said(body);
        match status.as_u16() {
            401 => format!(
                "GitHub does not know the token (401): GITHUB_TOKEN is wrong, expired or revoked; the person can set another one. {said}"
            ),
            403 | 429
                if header("x-ratelimit-remaining") == Some("0")
                    || header("retry-after").is_some()
                    || said.contains("rate limit") =>
            {
                let wait = header("retry-after").map(|seconds| format!("{seconds} seconds"));
                let reset = header("x-ratelimit-reset")
                    .map(|at| format!("until {at} (seconds since 1970)"));
                let wait = wait.or(reset).unwrap_or_else(|| "a few minutes".into());
                format!(
                    "GitHub's rate limit is reached ({status}); wait {wait}, then try once more. {said}"
                )
            }
            403 => format!(
                "GitHub does not allow it (403): the token lacks a permission for {owner}/{name} (pull requests: write, contents: write), or an organisation's rule forbids it. {said}"
            ),
            404 => format!(
                "GitHub finds nothing (404): {owner}/{name} or what was asked for does not exist, or the token may not see it. GITHUB_REPO names another repository. {said}"
            ),
            422 => format!("GitHub refuses the request as it is (422): {said}"),
            300..=399 => format!(
                "GitHub redirects ({status}), which is not followed: the repository {owner}/{name} has probably moved; the person can set GITHUB_REPO. {said}"
            ),
            500..=599 => format!("GitHub itself failed ({status}); try again later. {said}"),
            _ => format!("GitHub refuses ({status}). {said}"),
        }
    }
}

/// GitHub's own words: the message, and each error's.
fn said(body: &Value) -> String {
    let errors = items(&body["errors"]).iter().map(|error| match error {
        Value::String(text) => text.clone(),
        error => {
            let parts = ["message", "resource", "field", "code"].map(|name| text(error, name));
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            parts.join(" ")
        }
    });
    let message = text(body, "message").to_owned();
    let all: Vec<String> = [message]
        .into_iter()
        .chain(errors)
        .filter(|part| !part.is_empty())
        .collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("It says: {}", short(&all.join("; "))),
    }
}

/// An error with what is behind it.
fn sources(error: &octocrab::Error) -> String {
    let mut told = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        told.push(error.to_string());
        next = error.source();
    }
    told.last().cloned().unwrap_or_else(|| error.to_string())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn author(value: &Value) -> &str {
    or(text(&value["user"], "login"), "somebody")
}

/// The number of a pull request.
///
/// # Errors
/// Where GitHub answered with something else.
pub fn number(pull: &Value) -> Result<u64, String> {
    let number = pull["number"].as_u64();
    number.ok_or_else(|| "GitHub's answer is no pull request".to_owned())
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(COMMENT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!(
            "{} [{} characters omitted]",
            &text[..end],
            text[end..].chars().count()
        ),
    }
}

/// One part of a pull request's status; a token that may not read it does not hide the others.
fn part(
    title: &str,
    found: Result<Value, String>,
    list: &str,
    tell: fn(&Value) -> String,
) -> String {
    match found {
        Ok(found) => {
            let lines = items(&found[list]).iter().map(tell).collect();
            listed(title, lines, CHECKS_SHOWN_MAX)
        }
        Err(why) => format!("{title}: not readable. {why}"),
    }
}

/// The last ones of a list, under a title.
fn listed(title: &str, lines: Vec<String>, max: usize) -> String {
    let omitted = lines.len().saturating_sub(max);
    let shown: Vec<String> = lines
        .into_iter()
        .skip(omitted)
        .map(|line| format!("\n- {line}"))
        .collect();
    match (shown.is_empty(), omitted) {
        (true, _) => format!("{title}: none"),
        (false, 0) => format!("{title}:{}", shown.concat()),
        (false, n) => format!("{title} ({n} older ones omitted):{}", shown.concat()),
    }
}

/// For a query: everything but letters, digits and `-._~` as `%41`.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}
