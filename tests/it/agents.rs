//! Agents: a role that the person chooses, whose tools are fewer, and never more.

use crate::definitions::write;
use crate::skills::{newest, trust};
use crate::support::{Rig, call, calls, run_command, says};
use journeyman::agent::event::{Event, OutgoingKind, Status};
use journeyman::agent::step::toolset;
use serde_json::json;

const ARCHITECT: &str = "---\nname: architect\ndescription: Designs plans\ntools: ['Read', 'Glob', 'Grep', 'Task']\ndisallowedTools: ['Bash', 'Write', 'Edit']\nmodel: sonnet\nuseSkills: ['rest-api']\n---\n\nYou are the Architect agent.\n";
const SKILL: &str = "---\nname: rest-api\ndescription: REST\n---\nUse nouns.";

async fn notice(rig: &mut Rig) -> String {
    rig.message(OutgoingKind::Notice).await
}

async fn rig(replies: &[serde_json::Value]) -> Rig {
    let mut rig = Rig::new(replies);
    write(
        &rig.workspace(),
        ".github/agents/architect.agent.md",
        ARCHITECT,
    );
    write(&rig.workspace(), ".claude/skills/rest-api/SKILL.md", SKILL);
    trust(&mut rig).await;
    rig
}

fn system(rig: &Rig) -> String {
    newest(rig).conversation.messages()[0].get().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_listed_chosen_and_left_by_the_persons_word() {
    let mut rig = rig(&["One.", "Two.", "Three."].map(says)).await;
    rig.say("/agents").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("• architect: Designs plans"), "{told}");
    rig.say("first").await;
    rig.answer().await;
    let before = system(&rig);
    rig.say("/agents use architect").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("architect, from the next turn on. Tools: list_files, search, get_file_outline, read_lines, delegate."), "{told}");
    assert_eq!(system(&rig), before, "not before the next turn");
    rig.say("second").await;
    rig.answer().await;
    let with = system(&rig);
    let wrapper = "<custom-instructions source=\\\"repo\\\" agent=\\\"architect\\\">\\n## Repository Custom Instructions\\n\\nThese instructions are defined by the repository maintainers";
    assert!(with.contains(wrapper), "{with}");
    assert!(
        with.contains("You are the Architect agent.") && with.contains("Use nouns."),
        "{with}"
    );
    rig.restart().await;
    assert_eq!(system(&rig), with);
    rig.say("/agents off").await;
    notice(&mut rig).await;
    rig.say("third").await;
    rig.answer().await;
    assert_eq!(system(&rig), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_for_some_agents_is_for_those() {
    let mut rig = rig(&[says("Drawn.")]).await;
    let command = "---\nagents: ['architect']\n---\nDraw the plan.";
    write(&rig.workspace(), ".claude/commands/draw.md", command);
    rig.say("/draw").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("it is for other agents: architect"), "{told}");
    rig.say("/agents use architect").await;
    notice(&mut rig).await;
    rig.say("/draw").await;
    assert_eq!(rig.answer().await, "Drawn.");
    let seen = newest(&rig).conversation.messages().to_vec();
    assert!(
        seen.iter()
            .any(|wire| wire.get().contains("Draw the plan."))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_an_agent_does_not_have_is_neither_offered_nor_run() {
    let plan = calls(&[call("create_task_plan", json!({"steps": ["a", "b"]}))]);
    let mut rig = rig(&[
        run_command("echo ran > proof.txt"),
        plan,
        says("I could not."),
    ])
    .await;
    rig.say("/agents use architect").await;
    notice(&mut rig).await;
    rig.say("make the proof").await;
    assert_eq!(rig.answer().await, "I could not.");
    assert!(!rig.workspace().join("proof.txt").exists());
    let records = rig.records();
    let verdict = records.iter().find_map(|record| match &record.event {
        Event::GateDecided { verdict, .. } => Some(verdict.clone()),
        _ => None,
    });
    let verdict = verdict.expect("the gate said so");
    assert_eq!(verdict.reasons[0].rule, "agent-tools");
    assert_eq!(
        verdict.reasons[0].text,
        "the agent architect does not have run_command"
    );
    let denied = records.iter().filter_map(|record| match &record.event {
        Event::ToolFinished { outcome, .. } => {
            Some((outcome.status, outcome.output.contains("agent-tools")))
        }
        _ => None,
    });
    assert_eq!(
        denied.collect::<Vec<_>>(),
        [(Status::Denied, true), (Status::Denied, true)]
    );
    assert!(newest(&rig).plan.is_empty());
    let offered = toolset(&newest(&rig), &rig.settings.policy().expect("a policy"));
    let role = offered.role.expect("the agent");
    assert!(
        role.forbids("run_command") && role.forbids("write_file") && !role.forbids("read_lines")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_not_chosen_where_nobody_knows_what_it_may_do_or_trusts_it() {
    let mut rig = Rig::new(&[says("One.")]);
    write(
        &rig.workspace(),
        ".claude/agents/bad.md",
        "---\ndescription: d\ndisallowedTools: [Bosh]\n---\nx",
    );
    write(
        &rig.workspace(),
        ".claude/agents/broken.md",
        "---\ntools: [Read\n---\nx",
    );
    rig.say("/agents").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("bad: not loaded"), "{told}");
    rig.say("/agents use bad").await;
    assert!(
        notice(&mut rig)
            .await
            .contains("has not trusted this workspace")
    );
    trust(&mut rig).await;
    rig.say("/agents use bad").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("there is no tool \"Bosh\""), "{told}");
    rig.say("/agents use broken").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("nobody knows what it may use"), "{told}");
    rig.say("/agents use nobody").await;
    assert_eq!(
        notice(&mut rig).await,
        "There is no agent nobody. Agents: bad, broken"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_with_the_model_that_the_settings_give_its_name() {
    let mut rig = Rig::new(&["One.", "Two."].map(says));
    rig.stop().await;
    let home = rig.settings.home.join("config");
    std::fs::create_dir_all(&home).expect("a folder");
    std::fs::write(home.join("models.toml"), "[alias]\nsonnet = \"bigger\"\n").expect("written");
    rig.settings.models =
        journeyman::config::models::Models::load(&rig.settings.home).expect("models");
    rig.restart().await;
    write(
        &rig.workspace(),
        ".github/agents/architect.agent.md",
        ARCHITECT,
    );
    trust(&mut rig).await;
    rig.say("/agents use architect").await;
    notice(&mut rig).await;
    rig.say("go").await;
    rig.answer().await;
    let asked = rig
        .records()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::ModelAsked { model, .. } => Some(model),
            _ => None,
        });
    assert_eq!(asked.collect::<Vec<_>>(), ["bigger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn trust_that_is_taken_back_takes_the_agent_along() {
    let mut rig = rig(&["One.", "Two."].map(says)).await;
    rig.say("/agents use architect").await;
    notice(&mut rig).await;
    rig.say("one").await;
    rig.answer().await;
    rig.say("/trust off").await;
    notice(&mut rig).await;
    rig.say("two").await;
    rig.answer().await;
    assert!(newest(&rig).role.is_none() && !system(&rig).contains("Architect"));
}
