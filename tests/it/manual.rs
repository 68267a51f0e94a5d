//! docs/skills.md: its examples are written where they say, and are what the page says of them.

use crate::definitions::write;
use crate::program::Program;
use crate::skills::{newest, trust};
use crate::support::{Rig, call, calls, says};
use journeyman::agent::event::OutgoingKind;
use journeyman::agent::step::toolset;
use serde_json::json;

const SKILLS: &str = include_str!("../../docs/skills.md");

fn blocks() -> impl Iterator<Item = &'static str> {
    let rest = SKILLS.split("```text\n").skip(1);
    rest.filter_map(|rest| rest.split("\n```").next())
}

/// Path and text of each example that is a file.
fn files() -> Vec<(&'static str, &'static str)> {
    let files = blocks().filter_map(|block| block.split_once('\n'));
    let files: Vec<_> = files.filter(|(path, _)| path.ends_with(".md")).collect();
    assert_eq!(files.len(), 3, "a skill, instructions and an agent");
    files
}

fn said(rig: &Rig) -> String {
    let state = newest(rig);
    let messages = state.conversation.messages().iter();
    messages.map(|message| message.get()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manuals_skill_instructions_and_agent_work_as_it_says() {
    let replies = [
        calls(&[call("load_skill", json!({"skillId": "rest-api"}))]),
        calls(&[call("read_lines", json!({"path": "a.ts"}))]),
        says("Planned."),
    ];
    let mut rig = Rig::new(&replies);
    for (path, text) in files() {
        write(&rig.workspace(), path, text);
    }
    write(&rig.workspace(), "a.ts", "let a = 1\n");
    trust(&mut rig).await;
    rig.say("/agents use architect").await;
    rig.message(OutgoingKind::Notice).await;
    rig.say("plan it").await;
    assert_eq!(rig.answer().await, "Planned.");
    let said = said(&rig);
    for words in ["You are the Architect agent.", "Use nouns.", "No `any`."] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let offered = toolset(&newest(&rig), &rig.settings.policy().expect("a policy"));
    assert!(offered.forbids("run_command") && offered.forbids("write_file"));
    assert!(!offered.forbids("read_lines"));
}

#[tokio::test]
async fn a_check_says_what_the_manual_shows() {
    let shown = blocks().find_map(|block| block.strip_prefix("$ journeyman defs check\n"));
    let program = Program::new("");
    let broken = "---\na: [\n---\nShip it.\n";
    write(&program.workspace(), ".claude/commands/deploy.md", broken);
    assert_eq!(program.run(&["trust"]).await.code, 0);
    let run = program.run(&["defs", "check"]).await;
    assert_eq!(Some(run.out.trim_end()), shown);
    assert_eq!(run.code, 1);
}
