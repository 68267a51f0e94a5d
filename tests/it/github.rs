//! Pull requests: opened once, kept up to date, found again, and every refusal in words.

use crate::fake_forge::{Forge, TOKEN};
use crate::fake_model::{self, FakeModel};
use crate::program::Program;
use crate::remote::{killed_in_the_middle, resume};
use crate::support::{Rig, call, calls, git, says};
use journeyman::agent::event::{Event, Outcome, Status};
use journeyman::world::remote::Hosting;
use serde_json::{Value, json};

fn rig(forge: &Forge, replies: &[Value]) -> Rig {
    let rig = Rig::with(replies, |settings| {
        settings.github = Hosting {
            api: forge.api(),
            token: Some(TOKEN.to_owned()),
            project: None,
        };
    });
    git(
        &rig.workspace(),
        &["switch", "--quiet", "--create", "topic"],
    );
    git(
        &rig.workspace(),
        &["remote", "add", "origin", &forge.remote()],
    );
    rig
}

fn propose(title: &str) -> Value {
    let arguments = json!({"title": title, "summary": "It **works** now.", "tests": "cargo test: 3 passed", "draft": true,
        "labels": ["bug"], "reviewers": ["bob"]});
    calls(&[call("git_create_pr", arguments)])
}

async fn approved(rig: &mut Rig) -> Outcome {
    rig.question().await;
    rig.say("yes").await;
    rig.until(|event| match event {
        Event::ToolFinished { outcome, .. } if outcome.status != Status::Denied => {
            Some(outcome.clone())
        }
        _ => None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn opens_one_pull_request_for_a_branch_and_updates_it() {
    let forge = Forge::start().await;
    let replies = [
        calls(&[call(
            "create_task_plan",
            json!({"steps": ["find it", "fix it"]}),
        )]),
        propose("fix: the discount"),
        propose("fix: the whole discount"),
        says("Done."),
    ];
    let mut rig = rig(&forge, &replies);
    rig.say("fix it and open a pull request").await;
    let (_, question) = rig.question().await;
    assert!(
        question.contains(&format!("git push {}", forge.remote())),
        "{question}"
    );
    assert!(
        question.contains(&format!("POST {}/repos/ana/shop", forge.api())),
        "{question}"
    );
    rig.say("yes").await;
    let made = rig
        .until(|event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .await;
    assert!(
        made.output.starts_with("Created pull request #1"),
        "{}",
        made.output
    );
    assert_eq!(forge.pushes(), 1);
    let body = forge.pulls()[0]["body"]
        .as_str()
        .expect("a body")
        .to_owned();
    for part in [
        "It **works** now.",
        "## Tests\n\ncargo test: 3 passed",
        "session ",
        "<!-- journeyman:",
    ] {
        assert!(body.contains(part), "{part} in {body}");
    }
    assert!(!body.contains("find it"), "only what the question showed");
    let again = approved(&mut rig).await;
    assert!(
        again.output.starts_with("Updated pull request #1"),
        "{}",
        again.output
    );
    assert_eq!(rig.answer().await, "Done.");
    let pulls = forge.pulls();
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0]["title"], "fix: the whole discount");
    assert_eq!(pulls[0]["base"]["ref"], "main");
    assert_eq!(
        (
            &pulls[0]["labels"][0]["name"],
            &pulls[0]["requested_reviewers"][0]["login"]
        ),
        (&json!("bug"), &json!("bob"))
    );
    let mut creating = forge
        .requests()
        .into_iter()
        .filter(|it| it.method == "POST" && it.path.ends_with("/pulls"));
    let body = creating.next().expect("one that creates").body;
    assert_eq!(
        (&body["head"], &body["draft"]),
        (&json!("topic"), &json!(true))
    );
    assert!(creating.next().is_none());
    assert!(!rig.transcript().contains(TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn opens_one_pull_request_when_it_is_killed_before_it_knows() {
    let forge = Forge::holding().await;
    let arguments = json!({"title": "fix: it", "summary": "It works."});
    let replies = vec![
        fake_model::calls("git_create_pr", arguments),
        fake_model::says("Opened."),
    ];
    let program = Program::new(&FakeModel::recorded(replies).await.base_url);
    git(
        &program.workspace(),
        &["switch", "--quiet", "--create", "topic"],
    );
    git(
        &program.workspace(),
        &["remote", "add", "origin", &forge.remote()],
    );
    forge.let_pass(1); // the push
    let (id, _) = killed_in_the_middle(&program, &forge).await;
    assert_eq!(forge.pulls().len(), 1);
    forge.close_pull(); // a person did, meanwhile
    forge.go();
    let resumed = resume(&program, &forge, &id).await;
    assert!(
        resumed.contains("#1") && resumed.contains("found after an interruption"),
        "{resumed}"
    );
    assert_eq!((forge.pulls().len(), forge.pushes()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn says_in_words_what_github_refuses() {
    let forge = Forge::start().await;
    let limit = vec![
        ("x-ratelimit-remaining", "0".to_owned()),
        ("x-ratelimit-reset", "1795000000".to_owned()),
    ];
    let exists = json!({"message": "Validation Failed", "errors": [{"resource": "PullRequest", "field": "head", "code": "invalid"}]});
    for (failure, expected) in [
        (
            (401, vec![], json!({"message": "Bad credentials"})),
            "GITHUB_TOKEN is wrong, expired or revoked",
        ),
        (
            (403, limit, json!({"message": "API rate limit exceeded"})),
            "wait until 1795000000",
        ),
        (
            (403, vec![], json!({"message": "Resource not accessible"})),
            "lacks a permission for ana/shop",
        ),
        (
            (404, vec![], json!({"message": "Not Found"})),
            "GITHUB_REPO names another repository",
        ),
        ((422, vec![], exists), "PullRequest head invalid"),
        (
            (
                301,
                vec![("location", "http://127.0.0.1:9/x".to_owned())],
                json!({}),
            ),
            "has probably moved",
        ),
        ((502, vec![], json!("<html>")), "GitHub itself failed (502"),
    ] {
        let mut rig = rig(&forge, &[propose("fix: it"), says("Done.")]);
        forge.fail_next(failure);
        rig.say("open it").await;
        let outcome = approved(&mut rig).await;
        assert_eq!(outcome.status, Status::Failed);
        assert!(outcome.output.contains(expected), "{}", outcome.output);
        assert_eq!(rig.answer().await, "Done.");
    }
    assert_eq!(
        (forge.pulls().len(), forge.pushes()),
        (0, 0),
        "what can fail without consequences comes first"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn proposes_nothing_from_the_branch_that_it_would_go_to() {
    let forge = Forge::start().await;
    let mut rig = rig(&forge, &[propose("fix: it"), says("Done.")]);
    git(&rig.workspace(), &["switch", "--quiet", "main"]);
    rig.say("open it").await;
    let outcome = approved(&mut rig).await;
    assert!(
        outcome.output.contains("git_create_branch"),
        "{}",
        outcome.output
    );
    assert_eq!((forge.pulls().len(), forge.pushes()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_checks_reviews_and_comments_and_answers_once() {
    let forge = Forge::start().await;
    let replies = [
        propose("fix: it"),
        calls(&[call("git_pr_status", json!({}))]),
        calls(&[call(
            "git_pr_reply",
            json!({"pull": 1, "text": "Tested now.", "reply_to": 7}),
        )]),
        calls(&[call("git_pr_comments", json!({"pull": 1}))]),
        says("Done."),
    ];
    let mut rig = rig(&forge, &replies);
    rig.say("open it, then look").await;
    approved(&mut rig).await;
    let (code, question) = rig.question().await;
    assert!(question.contains("github read"), "{question}");
    rig.say(&format!("/approve {code} always")).await;
    let status = rig
        .until(|event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome.output.clone()),
            _ => None,
        })
        .await;
    for part in [
        "#1 fix: it (open, a draft)",
        "failure: tests",
        "success: lint",
        "CHANGES_REQUESTED by bob: please test it",
    ] {
        assert!(status.contains(part), "{part} in {status}");
    }
    let replied = approved(&mut rig).await;
    assert!(
        replied.output.starts_with("Commented"),
        "{}",
        replied.output
    );
    // Reading was granted: nobody is asked again.
    let comments = rig
        .until(|event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome.output.clone()),
            _ => None,
        })
        .await;
    assert!(
        comments.contains("[1] ana on a.rs:3: Tested now."),
        "{comments}"
    );
    assert_eq!(rig.answer().await, "Done.");
    assert_eq!(forge.comments().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn offers_pull_requests_only_where_there_is_a_project() {
    let forge = Forge::start().await;
    for (remote, expected) in [
        (forge.remote(), true),
        ("https://elsewhere.example/o/r.git".to_owned(), false),
    ] {
        let model = FakeModel::recorded(vec![fake_model::says("Hello.")]).await;
        let program = Program::new(&model.base_url);
        git(&program.workspace(), &["remote", "add", "origin", &remote]);
        let mut command = program.command(&["run", "hello", "--yes"]);
        command
            .env("GITHUB_TOKEN", TOKEN)
            .env("GITHUB_API_URL", forge.api());
        assert_eq!(crate::program::finish(command).await.code, 0);
        let request = model.requests()[0].to_string();
        assert_eq!(request.contains("git_create_pr"), expected, "{remote}");
        assert!(request.contains("git_push") && !request.contains(TOKEN));
    }
    // What is not offered is refused all the same.
    let mut rig = Rig::new(&[
        calls(&[call("git_pr_status", json!({"pull": 1}))]),
        says("Done."),
    ]);
    rig.say("look").await;
    let outcome = rig
        .until(|event| match event {
            Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
            _ => None,
        })
        .await;
    assert!(
        outcome.output.contains("GITHUB_TOKEN is not set"),
        "{}",
        outcome.output
    );
}
