//! Pushing: asked about, to the right place, with credentials that go nowhere else, once. Real git over real HTTP.

use crate::fake_forge::{Forge, TOKEN};
use crate::fake_model::{self, FakeModel};
use crate::program::Program;
use crate::support::{Rig, call, calls, git, journals, records, says};
use journeyman::agent::event::{Event, Outcome, Record, Status};
use journeyman::world::remote::Hosting;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, BufReader};

fn hosting(forge: &Forge, token: &str) -> Hosting {
    Hosting {
        api: forge.api(),
        token: Some(token.to_owned()),
        project: None,
    }
}

fn push(arguments: Value) -> Value {
    calls(&[call("git_push", arguments)])
}

/// A rig whose repository has this remote, and a branch `topic` checked out.
fn rig(remote: &str, hosting: Hosting, replies: &[Value]) -> Rig {
    let rig = Rig::with(replies, |settings| settings.github = hosting);
    git(
        &rig.workspace(),
        &["switch", "--quiet", "--create", "topic"],
    );
    git(&rig.workspace(), &["remote", "add", "origin", remote]);
    rig
}

/// How the first call that ended did.
async fn outcome(rig: &mut Rig) -> Outcome {
    rig.until(|event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    })
    .await
}

/// Asks for a push, approves it, and says how it ended.
async fn pushed(rig: &mut Rig) -> Outcome {
    rig.say("push it").await;
    rig.question().await;
    rig.say("yes").await;
    outcome(rig).await
}

fn tip(folder: &Path, name: &str) -> String {
    git(folder, &["rev-parse", name])
}

/// Somebody else pushes to the branch, from another repository.
fn push_another(forge: &Forge, rig: &Rig) {
    let other = rig.folder.path().join("other");
    crate::support::make_repository(&other);
    git(
        &other,
        &[
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            "feat: other",
        ],
    );
    git(
        &other,
        &[
            "push",
            "--quiet",
            &forge.repository().display().to_string(),
            "main:topic",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_before_pushing_and_pushes_what_was_approved() {
    let forge = Forge::start().await;
    let mut rig = rig(
        &forge.remote(),
        hosting(&forge, TOKEN),
        &[push(json!({})), says("Pushed.")],
    );
    rig.say("push it").await;
    let (_, question) = rig.question().await;
    let commit = tip(&rig.workspace(), "topic").trim().to_owned();
    let whole = format!("git push {} {commit}:refs/heads/topic", forge.remote());
    assert!(question.contains(&whole), "{question}");
    assert!(
        forge.requests().is_empty(),
        "nothing is asked of the remote before the yes"
    );
    rig.say("yes").await;
    let outcome = outcome(&mut rig).await;
    assert_eq!(outcome.status, Status::Done, "{}", outcome.output);
    assert_eq!(tip(&forge.repository(), "topic").trim(), commit);
    let upstream = git(
        &rig.workspace(),
        &["rev-parse", "--abbrev-ref", "topic@{upstream}"],
    );
    assert_eq!(upstream.trim(), "origin/topic");
    assert_eq!(tip(&rig.workspace(), "origin/topic").trim(), commit);
    assert_eq!(rig.answer().await, "Pushed.");
    assert!(!rig.transcript().contains(TOKEN));
    let config =
        fs::read_to_string(rig.workspace().join(".git/config")).expect("the configuration");
    assert!(!config.contains(TOKEN), "{config}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_nothing_that_became_something_else_after_the_question() {
    let forge = Forge::start().await;
    let mut rig = rig(
        &forge.remote(),
        hosting(&forge, TOKEN),
        &[push(json!({})), says("Done.")],
    );
    rig.say("push it").await;
    rig.question().await;
    git(
        &rig.workspace(),
        &[
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            "feat: more",
        ],
    );
    rig.say("yes").await;
    let outcome = outcome(&mut rig).await;
    assert!(
        outcome.output.contains("not what the person approved"),
        "{}",
        outcome.output
    );
    assert_eq!(forge.pushes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn says_what_to_do_when_the_remote_refuses() {
    let forge = Forge::start().await;
    let mut wrong = rig(
        &forge.remote(),
        hosting(&forge, "a-wrong-token-of-somebody"),
        &[push(json!({})), says("Done.")],
    );
    let outcome = pushed(&mut wrong).await;
    assert!(
        outcome.output.contains("GITHUB_TOKEN is wrong"),
        "{}",
        outcome.output
    );

    let mut behind = rig(
        &forge.remote(),
        hosting(&forge, TOKEN),
        &[push(json!({})), says("Done.")],
    );
    push_another(&forge, &behind);
    let outcome = pushed(&mut behind).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(
        outcome.output.contains("git pull --rebase"),
        "{}",
        outcome.output
    );

    let mut protected = rig(
        &forge.remote(),
        hosting(&forge, TOKEN),
        &[push(json!({"branch": "main"})), says("Done.")],
    );
    protected.say("push it").await;
    let (_, question) = protected.question().await;
    assert!(
        question.contains("it changes a protected branch (git-push-protected)"),
        "{question}"
    );
    protected.say("yes").await;
    let outcome = self::outcome(&mut protected).await;
    assert!(
        outcome.output.contains("open a pull request"),
        "{}",
        outcome.output
    );
    assert!(
        outcome.output.contains("main is protected here"),
        "{}",
        outcome.output
    );

    let mut gone = rig(
        "http://127.0.0.1:9/o/r.git",
        Hosting::default(),
        &[push(json!({})), says("Done.")],
    );
    let outcome = pushed(&mut gone).await;
    assert!(
        outcome.output.contains("cannot be reached"),
        "{}",
        outcome.output
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_nobody_about_a_push_that_cannot_be() {
    for (remote, expected) in [
        ("/srv/shop.git", "it is a folder"),
        ("ext::sh -c id", "blanks"),
        ("git://127.0.0.1/shop.git", "git:// is not used"),
    ] {
        let mut rig = rig(
            remote,
            Hosting::default(),
            &[push(json!({})), says("Done.")],
        );
        rig.say("push it").await;
        let outcome = outcome(&mut rig).await;
        assert_eq!(outcome.status, Status::Failed);
        assert!(outcome.output.contains(expected), "{}", outcome.output);
        assert_eq!(rig.answer().await, "Done.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overwrites_no_protected_branch_and_nothing_that_it_has_not_seen() {
    let forge = Forge::start().await;
    let replies = [
        push(json!({"force": true})),
        push(json!({"branch": "main", "force": true})),
        says("Done."),
    ];
    let mut rig = rig(&forge.remote(), hosting(&forge, TOKEN), &replies);
    // What was last seen of it is not what it is.
    git(
        &rig.workspace(),
        &["update-ref", "refs/remotes/origin/topic", "topic"],
    );
    git(
        &rig.workspace(),
        &["update-ref", "refs/remotes/origin/main", "main"],
    );
    push_another(&forge, &rig);
    let before = tip(&forge.repository(), "topic");
    let unseen = pushed(&mut rig).await;
    assert!(
        unseen.output.contains("not overwritten"),
        "{}",
        unseen.output
    );
    assert_eq!(tip(&forge.repository(), "topic"), before);
    let protected = outcome(&mut rig).await;
    assert_eq!(protected.status, Status::Denied);
    assert!(
        protected.output.contains("git-force-push-protected"),
        "{}",
        protected.output
    );
}

/// Names and values of git's configuration.
type Configured<'a> = Vec<(&'a str, &'a str)>;

/// Everything that a repository can be configured with to have a token sent elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn gives_the_token_to_no_other_host() {
    let (forge, evil) = (Forge::start().await, Forge::start().await);
    let redirecting = Forge::redirecting(&evil.url).await;
    let local = |forge: &Forge| forge.remote().replace("127.0.0.1", "localhost");
    let instead = format!("url.{}/.insteadOf", evil.url);
    let push_instead = format!("url.{}/.pushInsteadOf", evil.url);
    let ours = format!("{}/", forge.url);
    let stolen = "!f() { cat > ../stolen; cat \"$GIT_DIR/credentials\" > ../stolen2; }; f";
    let cases: [(&str, String, Configured<'_>); 8] = [
        ("a name that is another host", local(&forge), vec![]),
        ("the other host itself", evil.remote(), vec![]),
        ("insteadOf", forge.remote(), vec![(&instead, &ours)]),
        (
            "pushInsteadOf",
            forge.remote(),
            vec![(&push_instead, &ours)],
        ),
        (
            "a push address",
            forge.remote(),
            vec![("remote.origin.pushurl", "http://127.0.0.1:9/x/y")],
        ),
        (
            "a proxy",
            forge.remote(),
            vec![
                ("http.proxy", &evil.url),
                ("remote.origin.proxy", &evil.url),
            ],
        ),
        (
            "a helper",
            forge.remote(),
            vec![("credential.helper", stolen), ("core.askPass", "../steal")],
        ),
        (
            "a submodule",
            forge.remote(),
            vec![
                ("push.recurseSubmodules", "on-demand"),
                ("submodule.x.url", &evil.url),
            ],
        ),
    ];
    for (number, (name, remote, config)) in cases.into_iter().enumerate() {
        let mut rig = rig(
            &remote,
            hosting(&forge, TOKEN),
            &[push(json!({})), says("Done.")],
        );
        // Each repository has its own history.
        let branch = format!("topic-{number}");
        git(&rig.workspace(), &["branch", "--move", "topic", &branch]);
        for (key, value) in config {
            git(&rig.workspace(), &["config", key, value]);
        }
        let hook = rig.workspace().join(".git/hooks/pre-push");
        fs::write(
            &hook,
            "#!/bin/sh\nenv > ../stolen3\ncat \"$GIT_DIR/credentials\" > ../stolen4\n",
        )
        .expect("a hook");
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a mode");
        let outcome = pushed(&mut rig).await;
        for file in ["stolen", "stolen2", "stolen3", "stolen4"] {
            assert!(
                !rig.workspace().join("..").join(file).exists(),
                "{name}: {file}"
            );
            assert!(!rig.workspace().join(file).exists(), "{name}: {file}");
        }
        assert!(!rig.transcript().contains(TOKEN), "{name}");
        let ours = ["a proxy", "a helper", "a submodule"].contains(&name);
        assert_eq!(
            outcome.status == Status::Done,
            ours,
            "{name}: {}",
            outcome.output
        );
    }
    let mut sent_on = rig(
        &redirecting.remote(),
        hosting(&redirecting, TOKEN),
        &[push(json!({})), says("Done.")],
    );
    let outcome = pushed(&mut sent_on).await;
    assert!(outcome.output.contains("redirects"), "{}", outcome.output);
    for request in evil.requests() {
        assert!(!request.credentials.contains(TOKEN), "{request:?}");
    }
    // The server that it is for saw it only under its own name.
    assert!(evil.pushes() == 0 && forge.pushes() >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_the_token_to_no_other_process() {
    let forge = Forge::holding().await;
    let mut rig = rig(
        &forge.remote(),
        hosting(&forge, TOKEN),
        &[push(json!({})), says("Done.")],
    );
    rig.say("push it").await;
    rig.question().await;
    rig.say("yes").await;
    forge.arrived().await;
    let mut seen = 0;
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let read = |name: &str| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (comm, shown) = (read("comm"), read("cmdline") + &read("environ"));
        let about_us = shown.contains("git-receive-pack") || shown.contains(&forge.remote());
        seen += usize::from(about_us);
        // Servers of other tests have the token where their person put it: in their environment.
        if about_us || comm.starts_with("git") {
            assert!(!shown.contains(TOKEN), "{}: {comm}", entry.path().display());
        }
    }
    assert!(seen > 0, "git was running");
    forge.go();
    assert_eq!(outcome(&mut rig).await.status, Status::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_once_when_it_is_killed_before_it_knows() {
    let forge = Forge::holding().await;
    let replies = vec![
        fake_model::calls("git_push", json!({})),
        fake_model::says("Pushed."),
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
    let (id, records) = killed_in_the_middle(&program, &forge).await;
    assert!(
        !records
            .iter()
            .any(|it| matches!(it.event, Event::ToolFinished { .. }))
    );
    forge.go();
    let resumed = resume(&program, &forge, &id).await;
    assert!(
        resumed.contains("found there after an interruption"),
        "{resumed}"
    );
    assert_eq!(forge.pushes(), 1);
    assert_eq!(
        tip(&forge.repository(), "topic"),
        tip(&program.workspace(), "topic")
    );
    let commands = fs::read_to_string(&journals(&program.data())[0]).expect("the journal");
    assert!(!commands.contains(TOKEN));
}

fn command(program: &Program, forge: &Forge, args: &[&str]) -> tokio::process::Command {
    let mut command = program.command(args);
    command
        .env("GITHUB_TOKEN", TOKEN)
        .env("GITHUB_API_URL", forge.api());
    command
}

/// Runs until a write has arrived at the forge, then SIGKILL.
pub async fn killed_in_the_middle(program: &Program, forge: &Forge) -> (String, Vec<Record>) {
    let mut child = command(program, forge, &["run", "do it", "--yes", "--json"])
        .spawn()
        .expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    tokio::spawn(async move { while let Ok(Some(_)) = out.next_line().await {} });
    tokio::time::timeout(crate::support::PATIENCE, forge.arrived())
        .await
        .expect("it arrives");
    child.kill().await.expect("killed");
    let journal = journals(&program.data())[0].clone();
    let id = journal
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    (id, records(&journal))
}

/// Goes on to the end; what the calls said.
pub async fn resume(program: &Program, forge: &Forge, id: &str) -> String {
    let run = crate::program::finish(command(program, forge, &["resume", id, "--yes"])).await;
    assert_eq!(run.code, 0, "{} {}", run.out, run.err);
    let outputs = records(&journals(&program.data())[0])
        .into_iter()
        .filter_map(|it| match it.event {
            Event::ToolFinished { outcome, .. } => Some(outcome.output),
            _ => None,
        });
    outputs.collect::<Vec<_>>().join("\n")
}
