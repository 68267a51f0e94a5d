//! Plans where they could go wrong: what a model, an output or a person does to them must not bring more than was seen.

use crate::limits::know;
use crate::plan_chat::{Task, drafts, plan, shell};
use crate::support::{Rig, make_repository};
use journeyman::agent::event::{Event, OutgoingKind};
use journeyman::config::Settings;
use serde_json::json;

const OBJECTIVE: &str = "tidy up the shop";

fn rig(tasks: &[Task], adjust: impl FnOnce(&mut Settings)) -> Rig {
    Rig::playing(json!({"replies": [], "drafts": drafts(tasks)}), adjust)
}

// --- what it may cost --------------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_money_of_a_turn_ends_a_draft() {
    let dear = "[[model]]\nnames = [\"recording\"]\ninput_usd = 1000\noutput_usd = 1000\n";
    let tasks = [shell("a", "cat notes.txt", &[]), shell("b", "ls", &[])];
    let mut rig = rig(&tasks, |settings| {
        know(settings, dear);
        settings.limits.turn_cents_max = 1;
    });
    rig.say(&format!("/plan {OBJECTIVE}")).await;
    let text = rig.message(OutgoingKind::Final).await;
    assert!(text.contains("money") && text.contains("/cost"), "{text}");
    let cost = rig.records().into_iter().find_map(|one| match one.event {
        Event::GraphDrafted { cost, .. } => Some(cost),
        _ => None,
    });
    assert_eq!(cost.expect("it was drafted").answers, 1);
}

// --- whose plan, and where -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_plan_ends_in_the_workspace_that_it_was_approved_for() {
    let tasks = [
        shell("make", "mkdir made", &[]),
        shell("deeper", "mkdir made/deeper", &["make"]),
        shell("look", "touch made/deeper/here", &["deeper"]),
    ];
    let mut rig = rig(&tasks, |settings| {
        let root = settings.projects_root.as_ref().expect("a root");
        make_repository(&root.join("other"));
    });
    plan(&mut rig).await;
    rig.say("/plan run").await;
    rig.question().await;
    rig.say("/workspace other").await;
    rig.message(OutgoingKind::Notice).await;
    rig.say("yes").await;
    let text = rig.message(OutgoingKind::Final).await;
    assert!(text.contains("3 done"), "{text}\n{}", rig.transcript());
    assert!(rig.workspace().join("made/deeper/here").is_file());
    rig.until(|event| matches!(event, Event::WorkspaceSwitched { .. }).then_some(()))
        .await;
    assert!(!rig.folder.path().join("projects/other/made").exists());
}

#[tokio::test]
async fn a_plan_is_unknown_after_new_and_runs_nothing_there() {
    let mut rig = rig(&[shell("make", "mkdir made", &[])], |_| {});
    let (id, _) = plan(&mut rig).await;
    rig.say("/new").await;
    rig.message(OutgoingKind::Notice).await;
    rig.say(&format!("/plan run {id}")).await;
    let told = rig.message(OutgoingKind::Notice).await;
    assert!(told.contains(&format!("no plan {id} here")), "{told}");
    assert!(!rig.workspace().join("made").exists());
}
