//! What a command's front matter lays down for the turn that it begins: tools, model, agent. It only takes away.

use crate::definitions::write;
use crate::program::Program;
use crate::skills::{newest, trust};
use crate::support::{OWNER, Rig, call, calls, run_command, says};
use journeyman::agent::event::{Event, Inbound, OutgoingKind, Status, Via};
use journeyman::agent::step::toolset;
use serde_json::{Value, json};

const LOOK: &str = "---\nallowed-tools: Read, Bash(git status:*)\n---\nLook around.";
const READER: &str = "---\ndescription: Reads\ntools: [Read, Bash]\n---\nYou are the reader.";

async fn rig(replies: &[Value], files: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::new(replies);
    for (path, text) in files {
        write(&rig.workspace(), path, text);
    }
    trust(&mut rig).await;
    rig
}

async fn notice(rig: &mut Rig) -> String {
    rig.message(OutgoingKind::Notice).await
}

fn write_file() -> Value {
    call("write_file", json!({"path": "new.txt", "content": "x\n"}))
}

/// The outcomes of all calls, as far as one can tell them apart.
fn outcomes(rig: &Rig) -> Vec<(Status, bool)> {
    let outcome = |event| match event {
        Event::ToolFinished { outcome, .. } => {
            Some((outcome.status, outcome.output.contains("command-tools")))
        }
        _ => None,
    };
    let records = rig.records().into_iter();
    records.filter_map(|record| outcome(record.event)).collect()
}

fn models(rig: &Rig) -> Vec<String> {
    let records = rig.records().into_iter();
    let model = |event| match event {
        Event::ModelAsked { model, .. } => Some(model),
        _ => None,
    };
    records.filter_map(|record| model(record.event)).collect()
}

fn system(rig: &Rig) -> String {
    newest(rig).conversation.messages()[0].get().to_owned()
}

fn forbids(rig: &Rig, tool: &str) -> bool {
    let policy = rig.settings.policy().expect("a policy");
    toolset(&newest(rig), &policy).forbids(tool)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_a_command_keeps_only_its_allowed_tools() {
    let replies = [
        calls(&[write_file()]),
        run_command("touch proof.txt"),
        run_command("git status --short && touch proof.txt"),
        run_command("git status --short"),
        says("Looked."),
        calls(&[write_file()]),
        says("Written."),
    ];
    let mut rig = rig(&replies, &[(".claude/commands/look.md", LOOK)]).await;
    rig.say("/look").await;
    assert_eq!(rig.answer().await, "Looked.");
    assert_eq!(
        outcomes(&rig),
        [
            (Status::Denied, true),
            (Status::Denied, true),
            (Status::Denied, true),
            (Status::Done, false)
        ]
    );
    assert!(!rig.workspace().join("proof.txt").exists());
    assert!(forbids(&rig, "write_file") && forbids(&rig, "git_commit"));
    assert!(!forbids(&rig, "read_lines") && !forbids(&rig, "git_status"));
    rig.restart().await;
    rig.say("now write it").await;
    assert_eq!(rig.answer().await, "Written.");
    assert!(rig.workspace().join("new.txt").exists() && !forbids(&rig, "write_file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_tools_answer_no_question_of_the_gate() {
    let command = "---\nallowed-tools: Bash(frobnicate:*)\n---\nDo it.";
    let replies = [run_command("frobnicate now"), says("It was refused.")];
    let mut rig = rig(&replies, &[(".claude/commands/do.md", command)]).await;
    rig.say("/do").await;
    let (_, question) = rig.question().await;
    assert!(question.contains("frobnicate now"), "{question}");
    rig.say("no").await;
    assert_eq!(rig.answer().await, "It was refused.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_steers_changes_nothing_of_the_turn() {
    let replies = [
        run_command("frobnicate"),
        calls(&[write_file()]),
        says("Done."),
    ];
    let mut rig = rig(&replies, &[(".claude/commands/look.md", LOOK)]).await;
    rig.say("go").await;
    rig.question().await;
    rig.say("/look").await;
    notice(&mut rig).await;
    rig.say("no").await;
    assert_eq!(rig.answer().await, "Done.");
    assert!(rig.workspace().join("new.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_lays_down_holds_where_its_turn_is_resumed() {
    let replies = [
        run_command("git status"),
        calls(&[write_file()]),
        says("Denied."),
    ];
    let mut rig = rig(&replies, &[(".claude/commands/look.md", LOOK)]).await;
    rig.settings.limits.rounds_max = 1;
    rig.restart().await;
    rig.say("/look").await;
    rig.answer().await;
    rig.settings.limits.rounds_max = 15;
    rig.restart().await;
    rig.say("/agent-resume").await;
    assert_eq!(rig.answer().await, "Denied.");
    assert!(!rig.workspace().join("new.txt").exists());
    assert_eq!(outcomes(&rig).last(), Some(&(Status::Denied, true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_a_command_acts_as_its_agent_with_its_model_and_the_next_one_does_not() {
    let command = "---\nagent: reader\nmodel: Sonnet\n---\nRead it.";
    let files = [
        (".claude/commands/read.md", command),
        (".claude/agents/reader.md", READER),
    ];
    let replies = [calls(&[write_file()]), says("Read."), says("Me again.")];
    let mut rig = rig(&replies, &files).await;
    let home = rig.settings.home.join("config");
    std::fs::create_dir_all(&home).expect("a folder");
    std::fs::write(home.join("models.toml"), "[alias]\nsonnet = \"bigger\"\n").expect("written");
    rig.settings.models =
        journeyman::config::models::Models::load(&rig.settings.home).expect("models");
    rig.restart().await;
    rig.say("/read").await;
    assert_eq!(rig.answer().await, "Read.");
    assert!(system(&rig).contains("You are the reader."));
    assert!(forbids(&rig, "write_file") && !rig.workspace().join("new.txt").exists());
    rig.restart().await;
    rig.say("and you?").await;
    assert_eq!(rig.answer().await, "Me again.");
    assert!(!system(&rig).contains("You are the reader.") && !forbids(&rig, "write_file"));
    let models = models(&rig);
    assert_eq!(models[..2], ["bigger", "bigger"]);
    assert_ne!(models[2], "bigger");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commands_agent_has_no_more_than_the_one_that_the_person_chose() {
    let files = [
        (
            ".claude/commands/read.md",
            "---\nagent: reader\n---\nRead it.",
        ),
        (".claude/agents/reader.md", READER),
        (
            ".claude/agents/tidy.md",
            "---\ndescription: d\ndisallowedTools: [Bash]\n---\nYou are tidy.",
        ),
    ];
    let replies = [run_command("touch proof.txt"), says("Read."), says("Tidy.")];
    let mut rig = rig(&replies, &files).await;
    rig.say("/agents use tidy").await;
    notice(&mut rig).await;
    rig.say("/read").await;
    assert_eq!(rig.answer().await, "Read.");
    assert!(!rig.workspace().join("proof.txt").exists());
    assert!(system(&rig).contains("You are the reader."));
    rig.say("and now").await;
    assert_eq!(rig.answer().await, "Tidy.");
    assert!(system(&rig).contains("You are tidy.") && !forbids(&rig, "write_file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_for_an_agent_that_is_not_there_begins_nothing() {
    let command = "---\nagent: nobody\n---\nRead it.";
    let mut rig = rig(&[], &[(".claude/commands/read.md", command)]).await;
    rig.say("/read").await;
    let told = notice(&mut rig).await;
    assert!(
        told.contains("the agent nobody") && rig.state().turn.is_none(),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_off_says_that_the_agents_limits_end() {
    let mut rig = rig(&[], &[(".claude/agents/reader.md", READER)]).await;
    rig.say("/agents use reader").await;
    notice(&mut rig).await;
    rig.say("/trust off").await;
    let told = notice(&mut rig).await;
    assert!(
        told.contains("The agent reader is of this workspace"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_chooses_no_agent() {
    let mut rig = rig(&[], &[(".claude/agents/reader.md", READER)]).await;
    let message = Inbound {
        via: Via::Schedule,
        ..Inbound::text("slot-1", OWNER, "/agents use reader")
    };
    rig.deliver(message).await.expect("taken");
    let told = notice(&mut rig).await;
    assert!(told.contains("Only a person's own message"), "{told}");
    assert!(rig.state().next_role.is_none());
}

#[tokio::test]
async fn a_check_names_tools_that_are_none_and_commands_that_would_not_run() {
    let program = Program::new("");
    let text = "---\ndescription: d\nallowed-tools: Read, Bosh\n---\n!`git status` !`rm -rf /` !`git diff $0`\n`!`not one`";
    write(&program.workspace(), ".claude/commands/x.md", text);
    assert_eq!(program.run(&["trust"]).await.code, 0);
    let run = program.run(&["defs", "check"]).await;
    assert_eq!(run.code, 1, "{}", run.err);
    for part in [
        ".claude/commands/x.md: allowed-tools: \"Bosh\" is no tool here and leaves nothing",
        ".claude/commands/x.md: !`rm -rf /` is not run: not allowed: rm is not on the list",
        "2 problems",
    ] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
}
