//! Workspaces: which there are, how a session goes to another one with everything that it does, and what stays behind.

use crate::fake_forge::{Forge, TOKEN};
use crate::fake_model::{self, FakeModel};
use crate::program::{Program, finish};
use crate::support::{Rig, call, calls, git, make_repository, run_command, says};
use journeyman::agent::event::{Event, Outcome, OutgoingKind, Status};
use journeyman::world::projects::Projects;
use journeyman::world::remote::Hosting;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const CASES: &str = include_str!("../vectors/workspaces.tsv");

fn switch(name: &str) -> Value {
    call("switch_workspace", json!({"name": name}))
}

fn write(path: &str) -> Value {
    call("write_file", json!({"path": path, "content": "new\n"}))
}

/// A rig in `shop`, with `other` beside it.
fn rig(replies: &[Value]) -> Rig {
    Rig::with(replies, |settings| {
        let root = settings.projects_root.as_ref().expect("a root");
        make_repository(&root.join("other"));
    })
}

fn other(rig: &Rig) -> PathBuf {
    rig.folder.path().join("projects/other")
}

async fn finished(rig: &mut Rig) -> Outcome {
    rig.until(|event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    })
    .await
}

async fn notice(rig: &mut Rig) -> String {
    rig.message(OutgoingKind::Notice).await
}

// --- names ---------------------------------------------------------------------------------------------------------

#[test]
fn only_a_visible_folder_right_below_the_root_is_a_workspace() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("its real path");
    make_repository(&root.join("a"));
    for name in ["sp ace", "a/nested", ".hidden"] {
        fs::create_dir_all(root.join(name)).expect("a folder");
    }
    fs::write(root.join("file.txt"), "").expect("a file");
    symlink("/etc", root.join("link")).expect("a link");
    symlink("a/nested", root.join("inner")).expect("a link");
    let projects = Projects::at(&root);
    let lines = CASES.lines().filter(|line| !line.starts_with('#'));
    let cases: Vec<_> = lines.filter_map(|line| line.split_once('\t')).collect();
    assert_eq!(cases.len(), 14);
    for (name, expected) in cases {
        let found = projects.find(name);
        let word = if found.is_ok() { "ok" } else { "refused" };
        assert_eq!(word, expected, "{name:?}: {found:?}");
    }
    for name in ["a\0", "a\n", &"n".repeat(300), "a/", "./a", " a"] {
        assert!(projects.find(name).is_err(), "{name:?}");
    }
    assert_eq!(projects.names(), ["a", "sp ace"]);
    assert!(projects.holds(&root.join("a")) && !projects.holds(&root.join("a/nested")));
}

// --- the model goes there --------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_works_in_the_other_workspace_from_the_next_call_on() {
    let mut rig = rig(&[
        calls(&[
            write("here.txt"),
            switch("other"),
            write("there.txt"),
            call("run_command", json!({"command": "cat there.txt here.txt"})),
            call("git_commit", json!({"message": "feat: there"})),
            call("get_workspace_info", json!({})),
            call("list_workspaces", json!({})),
        ]),
        says("Both."),
    ]);
    rig.say("work in both").await;
    assert_eq!(rig.answer().await, "Both.");
    let transcript = rig.transcript();
    assert!(rig.workspace().join("here.txt").exists(), "{transcript}");
    assert!(other(&rig).join("there.txt").exists(), "{transcript}");
    assert!(!rig.workspace().join("there.txt").exists());
    let log = |folder: &Path| git(folder, &["log", "--format=%s"]);
    assert_eq!(log(&other(&rig)), "feat: there\nfeat: begin\n");
    assert_eq!(log(&rig.workspace()), "feat: begin\n");
    let outputs = outputs(&rig);
    assert!(
        outputs[2].contains("new") && outputs[2].contains("here.txt: No such file"),
        "{outputs:#?}"
    );
    let info = &outputs[4];
    for part in [
        "Path: ",
        "/projects/other\n",
        "Files: 2",
        "Branch: main",
        "Dirty: no",
        "feat: there",
    ] {
        assert!(info.contains(part), "{part:?} in {info}");
    }
    assert_eq!(outputs[5], "other (you are here)\nshop");
    let state = rig.state();
    assert_eq!(state.workspace.name, "other");
    assert_eq!(state.opening.workspace.name, "shop");
}

/// What the calls that ran said, in their order; a switch is none of them.
fn outputs(rig: &Rig) -> Vec<String> {
    let output = |event: &Event| match event {
        Event::ToolFinished { call, outcome } => Some((call.0.clone(), outcome.output.clone())),
        _ => None,
    };
    let records = rig.records();
    let by_call: BTreeMap<_, _> = records.iter().filter_map(|r| output(&r.event)).collect();
    by_call.into_values().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_takes_back_what_was_done_here_and_nothing_elsewhere() {
    let mut rig = rig(&[
        calls(&[write("one.txt")]),
        calls(&[write("two.txt"), switch("other"), write("three.txt")]),
        says("Done."),
    ]);
    rig.say("write").await;
    rig.answer().await;
    let (shop, other) = (rig.workspace(), other(&rig));
    rig.say("/diff").await;
    let diff = rig.message(OutgoingKind::Change).await;
    assert!(
        diff.contains("three.txt") && !diff.contains("two.txt"),
        "{diff}"
    );
    rig.say("/undo 2").await;
    assert!(notice(&mut rig).await.contains("Only 1 rounds"));
    rig.say("/undo").await;
    assert!(notice(&mut rig).await.contains("three.txt"));
    assert!(!other.join("three.txt").exists() && shop.join("two.txt").exists());
    rig.say("/workspace shop").await;
    assert_eq!(notice(&mut rig).await, "📁 Workspace: shop");
    rig.say("/undo 2").await;
    assert!(notice(&mut rig).await.contains("two.txt"));
    assert!(!shop.join("one.txt").exists() && !shop.join("two.txt").exists());
    rig.say("/redo").await;
    assert!(notice(&mut rig).await.contains("one.txt"));
    assert!(shop.join("one.txt").exists() && !other.join("three.txt").exists());
    rig.say("/workspace other").await;
    notice(&mut rig).await;
    rig.say("/redo").await;
    assert!(notice(&mut rig).await.contains("three.txt"));
    assert!(other.join("three.txt").exists());
}

/// Two worktrees of one repository keep their trees in the same place.
#[tokio::test(flavor = "multi_thread")]
async fn worktrees_of_one_repository_keep_each_their_own_checkpoints() {
    let mut rig = Rig::new(&[
        calls(&[write("one.txt"), switch("other"), write("two.txt")]),
        says("Done."),
    ]);
    let other = other(&rig).display().to_string();
    git(&rig.workspace(), &["worktree", "add", "--quiet", &other]);
    rig.say("write").await;
    rig.answer().await;
    let refs = git(
        &rig.workspace(),
        &["for-each-ref", "--format=%(objectname)", "refs/journeyman"],
    );
    let mut trees: Vec<&str> = refs.lines().collect();
    assert_eq!(trees.len(), 4, "before and after, in each: {refs}");
    trees.sort();
    trees.dedup();
    assert_eq!(trees.len(), 3, "both began with the same files: {refs}");
    git(&rig.workspace(), &["gc", "--quiet", "--prune=now"]);
    for (name, file) in [("other", "two.txt"), ("shop", "one.txt")] {
        rig.say(&format!("/workspace {name}")).await;
        notice(&mut rig).await;
        rig.say("/undo").await;
        assert!(notice(&mut rig).await.contains(file));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_no_workspace_is_refused_and_everything_stays_where_it_is() {
    let names = ["../other", "/etc", "nope", ".", ""];
    let mut rig = rig(&[
        calls(&names.map(switch)),
        calls(&[write("x.txt")]),
        says("No."),
    ]);
    rig.say("go").await;
    assert_eq!(rig.answer().await, "No.");
    let outputs = outputs(&rig);
    for (output, name) in outputs.iter().zip(names) {
        assert!(output.starts_with("Not switched: "), "{name}: {output}");
    }
    assert!(
        outputs[2].contains("There are: other, shop"),
        "{}",
        outputs[2]
    );
    assert!(rig.workspace().join("x.txt").exists());
    assert_eq!(rig.state().workspace.name, "shop");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_granted_or_refused_in_one_workspace_says_nothing_about_another() {
    let command = || call("run_command", json!({"command": "cargo build"}));
    let mut rig = rig(&[
        calls(&[command()]),
        calls(&[switch("other"), command()]),
        calls(&[switch("shop"), command()]),
        says("Done."),
    ]);
    rig.say("build").await;
    let (code, question) = rig.question().await;
    assert!(question.contains("Workspace: shop"), "{question}");
    rig.say(&format!("/deny {code} not here")).await;
    let (code, question) = rig.question().await;
    assert!(question.contains("Workspace: other"), "{question}");
    rig.say(&format!("/approve {code} always")).await;
    rig.answer().await;
    let outputs = outputs(&rig);
    let last = outputs.last().expect("the last command");
    assert!(last.contains("Refused before"), "{outputs:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_on_in_the_other_workspace_after_a_restart() {
    let mut rig = rig(&[
        calls(&[switch("other")]),
        run_command("echo there > proof.txt"),
        says("There."),
    ]);
    rig.say("go there").await;
    let (code, question) = rig.question().await;
    assert!(question.contains("Workspace: other"), "{question}");
    rig.restart().await;
    rig.say(&format!("/approve {code}")).await;
    assert_eq!(rig.answer().await, "There.");
    assert!(other(&rig).join("proof.txt").exists());
    assert!(!rig.workspace().join("proof.txt").exists());
}

/// The way out of a workspace that somebody removed.
#[tokio::test(flavor = "multi_thread")]
async fn leaves_a_workspace_that_is_gone() {
    let mut rig = rig(&[
        calls(&[switch("other")]),
        says("There."),
        calls(&[write("x.txt"), switch("shop"), write("x.txt")]),
        says("Back."),
    ]);
    rig.say("go there").await;
    rig.answer().await;
    rig.stop().await;
    fs::remove_dir_all(other(&rig)).expect("removed");
    rig.restart().await;
    rig.say("go on").await;
    let lost = finished(&mut rig).await;
    assert!(lost.output.contains("cannot be opened"), "{}", lost.output);
    assert_eq!(rig.answer().await, "Back.");
    assert!(rig.workspace().join("x.txt").exists());
}

// --- the person sends it there ---------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_switches_from_the_chat() {
    let mut rig = rig(&[calls(&[write("x.txt")]), says("Written.")]);
    rig.say("/workspaces").await;
    let list = notice(&mut rig).await;
    assert!(list.contains("• other\n• shop ←"), "{list}");
    rig.say("/workspace ../other").await;
    assert!(
        notice(&mut rig)
            .await
            .starts_with("✗ \"../other\" is no name")
    );
    rig.say("/workspace shop").await;
    assert_eq!(notice(&mut rig).await, "I work in shop already.");
    rig.say("/workspace other").await;
    assert_eq!(notice(&mut rig).await, "📁 Workspace: other");
    rig.say("write").await;
    rig.answer().await;
    assert!(other(&rig).join("x.txt").exists());
    rig.say("/agent").await;
    assert!(notice(&mut rig).await.contains("Workspace: other"));
    let said = rig.state().conversation.messages()[1].get().to_owned();
    assert!(
        said.contains("[The person switched the workspace."),
        "{said}"
    );
}

/// A question is about the workspace that it was asked in: the answer counts there, and the switch comes after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_waits_for_the_round_that_is_under_way() {
    let mut rig = rig(&[
        run_command("echo here > proof.txt"),
        calls(&[write("next.txt")]),
        says("Done."),
    ]);
    rig.say("prove it").await;
    rig.question().await;
    rig.say("/workspace other").await;
    assert_eq!(
        notice(&mut rig).await,
        "I go to other when this round has ended."
    );
    rig.say("yes").await;
    assert_eq!(rig.answer().await, "Done.");
    assert!(rig.workspace().join("proof.txt").exists());
    assert!(other(&rig).join("next.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_switches_nothing() {
    let mut rig = rig(&[says("Hello.")]);
    rig.say("hello").await;
    rig.answer().await;
    let via = journeyman::agent::event::Via::Text;
    rig.try_say("/workspace other", "eve", via)
        .await
        .expect("taken");
    assert!(notice(&mut rig).await.contains("Only the owner"));
    assert_eq!(rig.state().workspace.name, "shop");
}

// --- what is offered -------------------------------------------------------------------------------------------------

/// The tools that each request offered.
fn names(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().expect("tools");
    let name = |tool: &Value| {
        tool["function"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    tools.iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn offers_other_workspaces_only_where_there_are_some_and_keeps_to_it() {
    for several in [false, true] {
        let go = fake_model::calls("switch_workspace", json!({"name": "other"}));
        let model = FakeModel::start(vec![go, fake_model::says("Done.")], None).await;
        let program = Program::new(&model.base_url);
        if several {
            make_repository(&program.projects().join("other"));
        }
        let mut run = program.command(&["run", "look", "--yes"]);
        run.env("PROJECTS_ROOT", program.projects());
        let run = finish(run).await;
        assert_eq!(run.code, 0, "{}", run.err);
        let requests = model.requests();
        assert_eq!(requests.len(), 2);
        for request in &requests {
            let there = names(request).contains(&"switch_workspace".to_owned());
            assert_eq!(there, several);
            assert_eq!(request["tools"], requests[0]["tools"]);
        }
    }
}

// --- one more --------------------------------------------------------------------------------------------------------

fn clone(url: &str) -> Value {
    call("clone_workspace", json!({"url": url}))
}

/// A forge that has `ana/extra.git` with one commit, and a rig that knows its token.
async fn hosted(replies: impl FnOnce(&str) -> Vec<Value>) -> (Forge, Rig) {
    let forge = Forge::start().await;
    let extra = forge.repository().with_file_name("extra.git");
    let url = forge.remote().replace("shop.git", "extra.git");
    let hosting = Hosting {
        api: forge.api(),
        token: Some(TOKEN.to_owned()),
        project: None,
    };
    let rig = Rig::with(&replies(&url), |settings| settings.github = hosting);
    let (shop, extra) = (rig.workspace(), extra.display().to_string());
    git(&shop, &["clone", "--quiet", "--bare", ".", &extra]);
    (forge, rig)
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_after_a_yes_and_works_there() {
    let replies = |url: &str| {
        vec![
            calls(&[clone(url)]),
            calls(&[switch("extra"), write("x.txt")]),
            says("Cloned."),
        ]
    };
    let (forge, mut rig) = hosted(replies).await;
    rig.say("clone it").await;
    let (_, question) = rig.question().await;
    let what = format!("git clone {}/ana/extra.git extra", forge.url);
    assert!(question.contains(&what), "{question}");
    assert!(
        forge.requests().is_empty(),
        "nothing is asked before the yes"
    );
    rig.say("yes").await;
    let cloned = finished(&mut rig).await;
    assert_eq!(cloned.status, Status::Done, "{}", cloned.output);
    assert_eq!(rig.answer().await, "Cloned.");
    let projects = rig.settings.projects_root.clone().expect("a root");
    let extra = projects.join("extra");
    assert!(extra.join("x.txt").exists() && extra.join("notes.txt").exists());
    assert_eq!(git(&extra, &["log", "--format=%s"]), "feat: begin\n");
    let config = fs::read_to_string(extra.join(".git/config")).expect("its configuration");
    assert!(!config.contains(TOKEN), "{config}");
    assert!(!rig.transcript().contains(TOKEN));
    let left = fs::read_dir(projects.join(".journeyman")).expect("the room for new ones");
    assert_eq!(left.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_nothing_from_a_folder_over_another_workspace_or_with_credentials_in_the_address() {
    let (forge, mut rig) = hosted(|url| {
        let urls = [
            "/etc",
            "file:///etc",
            "ext::sh -c id",
            "--upload-pack=id",
            &url.replace("http://", "http://ana:secret@"),
            &url.replace("extra.git", "shop.git"),
            &url.replace("extra.git", ".git"),
        ];
        vec![calls(&urls.map(clone)), says("No.")]
    })
    .await;
    rig.say("clone").await;
    assert_eq!(rig.answer().await, "No.");
    let outputs = outputs(&rig);
    assert_eq!(outputs.len(), 7);
    for output in &outputs {
        assert!(output.starts_with("Nothing was cloned: "), "{output}");
    }
    assert!(
        outputs[5].contains("there is a shop already"),
        "{}",
        outputs[5]
    );
    assert!(forge.requests().is_empty());
}

#[test]
fn what_a_killed_clone_left_goes_and_what_is_under_way_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let projects = Projects::at(folder.path());
    let left = projects.stage("killed").expect("a place").folder;
    fs::write(left.join("half"), "").expect("a file");
    let under_way = projects.stage("cloning").expect("a place");
    let other = folder.path().join(".journeyman/trees");
    fs::create_dir(&other).expect("a folder");
    projects.sweep();
    assert!(!left.exists() && under_way.folder.exists() && other.exists());
    drop(under_way);
    projects.sweep();
    assert!(!folder.path().join(".journeyman/clone-cloning").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_that_is_refused_leaves_nothing() {
    let replies = |url: &str| vec![calls(&[clone(&url.replace("extra", "none"))]), says("No.")];
    let (_forge, mut rig) = hosted(replies).await;
    rig.say("clone").await;
    rig.question().await;
    rig.say("yes").await;
    let outcome = finished(&mut rig).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(
        outcome
            .output
            .starts_with("Nothing was cloned: It failed at http"),
        "{}",
        outcome.output
    );
    rig.answer().await;
    let projects = Projects::at(rig.settings.projects_root.as_ref().expect("a root"));
    assert_eq!(projects.names(), ["shop"]);
}
