//! Skills: named in the prompt, loaded when they are needed, and kept.

use crate::definitions::write;
use crate::support::{Rig, call, calls, says, texts};
use journeyman::agent::event::{Event, OutgoingKind, Status};
use journeyman::agent::state::State;
use journeyman::history::inspect;
use journeyman::tools;
use serde_json::json;
use std::fs;

const REST: &str = "---\nname: rest-api\ndescription: How our REST APIs look. Use before you add an endpoint.\n---\n\nUse nouns.\n";

fn load(arguments: serde_json::Value) -> serde_json::Value {
    calls(&[call("load_skill", arguments)])
}

/// A rig in a workspace that has this skill and is trusted, in a session that began after that.
async fn rig(replies: &[serde_json::Value]) -> Rig {
    let mut rig = Rig::new(replies);
    write(&rig.workspace(), ".claude/skills/rest-api/SKILL.md", REST);
    trust(&mut rig).await;
    rig
}

pub async fn trust(rig: &mut Rig) {
    rig.say("/trust").await;
    let shown = rig.message(OutgoingKind::Notice).await;
    let after = shown.rsplit_once("/trust ").expect("a code").1;
    let code = after.split(' ').next().unwrap_or_default().to_owned();
    rig.say(&format!("/trust {code}")).await;
    let told = rig.message(OutgoingKind::Notice).await;
    assert!(told.contains("is trusted now"), "{told}");
}

/// The session that began last.
pub fn newest(rig: &Rig) -> State {
    let all = rig
        .journals()
        .into_iter()
        .map(|path| inspect(&path, &texts(), |_| {}).expect("intact").0);
    all.max_by_key(|state| state.started_at).expect("a session")
}

fn results(rig: &Rig) -> Vec<(Status, String)> {
    let outcome = |event| match event {
        Event::ToolFinished { outcome, .. } => Some((outcome.status, outcome.output)),
        _ => None,
    };
    rig.records()
        .into_iter()
        .filter_map(|record| outcome(record.event))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_names_the_skills_and_a_call_loads_one() {
    let mut rig = rig(&[load(json!({"skillId": "rest-api"})), says("Done.")]).await;
    write(
        &rig.workspace(),
        ".claude/skills/rest-api/references/errors.md",
        "404",
    );
    rig.say("/agent add an endpoint").await;
    assert_eq!(rig.answer().await, "Done.");
    let state = newest(&rig);
    let system = &state.opening.system;
    let table = "## Available Skills\n\nYou have access to domain-specific knowledge via skills. Use the load_skill tool to load any of these, before you do what one is about:\n\n| Skill | Description |\n|-------|-------------|\n| rest-api | How our REST APIs look. Use before you add an endpoint. |\n";
    assert!(system.contains(table), "{system}");
    assert!(
        system.contains("load_skill({ skillId: \"rest-api\" })") && !system.contains("Use nouns")
    );
    let (status, text) = results(&rig).remove(0);
    assert_eq!(status, Status::Done);
    assert!(
        text.starts_with("Use nouns.\n") && text.contains("\nreferences/errors.md]"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_skill_is_read_and_nothing_beside_its_folder() {
    let files = [
        "references/errors.md",
        "../other/SKILL.md",
        "../../../.env",
        "/etc/passwd",
        "out.md",
        ".env",
    ];
    let mut replies: Vec<_> = files
        .map(|file| load(json!({"name": "rest-api", "file": file})))
        .into();
    replies.push(says("Done."));
    let mut rig = rig(&replies).await;
    let root = rig.workspace();
    write(
        &root,
        ".claude/skills/rest-api/references/errors.md",
        "404 is for what is gone",
    );
    write(&root, ".claude/skills/other/SKILL.md", "OTHER");
    write(&root, ".env", "PASSWORD=hunter22");
    write(&root, ".claude/skills/rest-api/.env", "PASSWORD=hunter22");
    std::os::unix::fs::symlink("/etc/hostname", root.join(".claude/skills/rest-api/out.md"))
        .expect("a link");
    rig.say("/agent look").await;
    rig.answer().await;
    let results = results(&rig);
    assert_eq!(results[0], (Status::Done, "404 is for what is gone".into()));
    assert!(
        results[1..]
            .iter()
            .all(|(status, _)| *status == Status::Failed),
        "{results:?}"
    );
    let told: String = results.iter().map(|(_, text)| text.as_str()).collect();
    assert!(
        !told.contains("OTHER") && !told.contains("hunter22") && !told.contains("root:"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_no_skill_is_answered_with_those_that_are() {
    let mut rig = rig(&[
        calls(&[call("loadSkill", json!({"skillId": "rust"}))]),
        says("Done."),
    ])
    .await;
    rig.say("/agent look").await;
    rig.answer().await;
    let expected = "Skill 'rust' not found. Available skills: rest-api";
    assert_eq!(results(&rig), [(Status::Failed, expected.to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_is_loaded_is_not_loaded_again() {
    let twice = calls(&[
        call("load_skill", json!({"skillId": "rest-api"})),
        call("load_skill", json!({"name": "rest-api"})),
    ]);
    let mut rig = rig(&[twice, load(json!({"skillId": "rest-api"})), says("Done.")]).await;
    rig.say("/agent look").await;
    rig.answer().await;
    let results = results(&rig);
    assert_eq!(
        results
            .iter()
            .filter(|(_, text)| text.contains("Use nouns"))
            .count(),
        1
    );
    let again = results
        .iter()
        .filter(|(_, text)| text.starts_with("Skill 'rest-api' is loaded already"));
    assert_eq!(again.count(), 2, "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_skills_there_is_neither_a_section_nor_a_tool() {
    let mut rig = Rig::new(&[says("Hello.")]);
    rig.say("hello").await;
    rig.answer().await;
    assert!(!newest(&rig).opening.system.contains("Skills"));
    let names = |kit| {
        tools::offered(kit)
            .iter()
            .map(|tool| tool["function"]["name"].clone())
            .collect::<Vec<_>>()
    };
    let all = tools::Kit {
        write: true,
        ..Default::default()
    };
    assert!(!names(all).contains(&"load_skill".into()));
    assert!(
        names(tools::Kit {
            skills: true,
            ..all
        })
        .contains(&"load_skill".into())
    );
    let offer =
        journeyman::agent::step::toolset(&newest(&rig), &rig.settings.policy().expect("a policy"));
    assert!(!offer.skills);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_of_a_workspace_that_nobody_trusts_is_not_known() {
    let mut rig = Rig::new(&[load(json!({"skillId": "rest-api"})), says("Done.")]);
    write(&rig.workspace(), ".claude/skills/rest-api/SKILL.md", REST);
    rig.say("look").await;
    let told = rig.message(OutgoingKind::Notice).await;
    assert!(
        told.contains(".claude/skills/rest-api/SKILL.md: here, but not read"),
        "{told}"
    );
    rig.answer().await;
    let all = rig.transcript() + &newest(&rig).opening.system;
    assert!(
        !all.contains("REST APIs") && !all.contains("Use nouns"),
        "{all}"
    );
    assert_eq!(
        results(&rig)[0].1,
        "Skill 'rest-api' not found. Available skills: "
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_that_come_later_are_told_and_their_tool_is_there() {
    let mut rig = Rig::new(&["One.", "Two."].map(says));
    trust(&mut rig).await;
    rig.say("/agent first").await;
    rig.answer().await;
    write(
        &rig.workspace(),
        ".agents/skills/late/SKILL.md",
        "---\nname: late\ndescription: Comes later\n---\nx",
    );
    rig.say("second").await;
    rig.answer().await;
    let state = newest(&rig);
    let last: String = state.conversation.messages()[1..]
        .iter()
        .map(|wire| wire.get())
        .collect();
    assert!(last.contains("| late | Comes later |"), "{last}");
    let offer = journeyman::agent::step::toolset(&state, &rig.settings.policy().expect("a policy"));
    assert!(offer.skills);
    fs::remove_dir_all(rig.workspace().join(".agents")).expect("removed");
}
