//! What must be known of the outside, beyond this machine, before the gate judges and after a crash.
//!
//! Where a push would go and which project is meant is read from the repository alone; only a probe asks the remote.

use super::github::{GitHub, Head, mark};
use super::remote::Remote;
use crate::agent::event::{Call, Expectation, ExpectedMark, Probe};
use crate::gate::{Destination, Facts, PushPlan, Touch, Wants};
use serde_json::Value;
use std::time::Duration;

/// Longer than this nobody waits for a remote that does not answer: then it is not known.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Adds what is wanted to the facts.
pub async fn look_up(remote: &Remote<'_>, wants: &Wants, facts: &mut Facts) {
    if let Some(wish) = &wants.push {
        facts.push = Some(remote.plan(wish).await);
    }
    if wants.github {
        facts.github = Some(remote.project().await);
    }
}

/// What a probe will look for; `None` for calls that leave nothing outside.
pub fn expectation(
    session: &str,
    call: &Call,
    touches: &[Touch],
    facts: &Facts,
) -> Option<Expectation> {
    let push = match &facts.push {
        Some(Destination::Known(plan)) => Some(plan.clone()),
        Some(Destination::Nowhere { .. }) | None => None,
    };
    let mark = match &facts.github {
        Some(Destination::Known(project)) if touches.contains(&Touch::GitHubWrite) => {
            let arguments = call.json().unwrap_or_default();
            Some(Box::new(ExpectedMark {
                project: project.as_ref().clone(),
                text: mark(session, &call.id.0),
                pull: arguments["pull"].as_u64(),
                also: also(&arguments),
            }))
        }
        _ => None,
    };
    (push.is_some() || mark.is_some()).then(|| Expectation {
        push,
        mark,
        ..Expectation::default()
    })
}

fn also(arguments: &Value) -> Vec<String> {
    let lists = ["reviewers", "labels"].map(|name| arguments[name].as_array());
    let names = lists.into_iter().flatten().flatten();
    names
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect()
}

/// Whether it is there; `None` where nothing outside was expected.
pub async fn probe(remote: &Remote<'_>, expect: Option<&Expectation>) -> Option<Probe> {
    let expect = expect?;
    let found = async {
        match (&expect.mark, &expect.push) {
            (Some(mark), push) => Some(marked(remote, mark, push.as_deref()).await),
            (None, Some(plan)) => Some(pushed(remote, plan).await),
            (None, None) => None,
        }
    };
    match tokio::time::timeout(PROBE_TIMEOUT, found).await {
        Ok(found) => Some(found?.unwrap_or_else(|why| Probe::Unclear { why })),
        Err(_) => Some(Probe::Unclear {
            why: "the remote did not answer in time".into(),
        }),
    }
}

async fn pushed(remote: &Remote<'_>, plan: &PushPlan) -> Result<Probe, String> {
    Ok(match remote.tip(plan).await? {
        Some(tip) if tip == plan.commit => Probe::Happened {
            output: format!(
                "Pushed {} ({:.10}) to {} (found there after an interruption).",
                plan.branch, plan.commit, plan.url
            ),
        },
        // It arrived, and somebody removed the branch since, as after a merge.
        None if remote.knows_as_pushed(plan).await => Probe::Unclear {
            why: format!(
                "{} was pushed and is not on the remote any more",
                plan.branch
            ),
        },
        Some(_) | None => Probe::DidNotHappen,
    })
}

async fn marked(
    remote: &Remote<'_>,
    mark: &ExpectedMark,
    push: Option<&PushPlan>,
) -> Result<Probe, String> {
    let github = GitHub::of(remote.hosting, &mark.project)?;
    let found = match (mark.pull, push) {
        (Some(pull), _) => github.marked_comment(pull, &mark.text).await?,
        (None, Some(plan)) => {
            let owner = Remote::owner(plan).unwrap_or_else(|| mark.project.owner.clone());
            let head = Head {
                owner: &owner,
                branch: &plan.branch,
            };
            let pull = github.find_marked(head, &mark.text).await?;
            pull.map(|pull| told(&pull, mark))
        }
        (None, None) => None,
    };
    Ok(match found {
        Some(output) => Probe::Happened { output },
        None => Probe::DidNotHappen,
    })
}

/// The pull request as the model hears of it, and what is set after it and is not there.
fn told(pull: &Value, mark: &ExpectedMark) -> String {
    let names = |list: &str, name: &str| {
        let items = pull[list].as_array().cloned().unwrap_or_default();
        let name = |item: &Value| item[name].as_str().map(str::to_owned);
        items.iter().filter_map(name).collect::<Vec<_>>()
    };
    let there = [
        names("labels", "name"),
        names("requested_reviewers", "login"),
    ]
    .concat();
    let mut told = format!(
        "The pull request is there (found after an interruption): #{} {}, {}",
        pull["number"],
        pull["html_url"].as_str().unwrap_or_default(),
        pull["state"].as_str().unwrap_or_default()
    );
    let missing: Vec<&str> = (mark.also.iter().map(String::as_str))
        .filter(|name| !there.iter().any(|there| there == name))
        .collect();
    if !missing.is_empty() {
        told.push_str(&format!(
            "\nNot on it, set or asked for: {}",
            missing.join(", ")
        ));
    }
    told
}
