//! Messages of one person that start work, beyond their limit.

use crate::webhook::Front;
use journeyman::agent::event::{Event, Reading};
use journeyman::config::Settings;
use journeyman::world::journal;
use serde_json::json;

fn two(settings: &mut Settings) {
    settings.limits.messages_max = 2;
}

/// What the messages of all sessions were read as.
fn readings(front: &Front) -> Vec<(String, Reading)> {
    let hub = &front.assembly.hub;
    let sessions = hub.surface().store.sessions().expect("the table");
    let mut readings = Vec::new();
    for session in sessions {
        let (_, path) = hub.journal_of(&session.id).expect("its journal");
        let read = journal::read(&path, |record| {
            if let Event::MessageTaken {
                message, reading, ..
            } = record.event
            {
                readings.push((message, reading));
            }
        });
        read.expect("a journal");
    }
    readings
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_limit_work_is_refused_in_words_once_and_recorded_each_time() {
    let mut front = Front::with(json!([{"text": "One."}]), two).await;
    front.says("wamid.1", "one").await;
    assert_eq!(front.hears().await.text, "One.");
    front.says("wamid.2", "/agent two").await;
    assert_eq!(front.hears().await.text, "One.");
    assert_eq!(front.says("wamid.3", "three").await, 200);
    let told = front.hears().await.text;
    assert!(
        told.contains("2 messages in 10 minutes") && told.contains("10 min: send it again"),
        "{told}"
    );
    assert_eq!(front.says("wamid.4", "/agent four").await, 200);
    assert_eq!(front.says("wamid.4", "/agent four").await, 200);
    front.says("wamid.5", "/agent").await;
    let status = front.hears().await.text;
    assert!(
        status.contains("Rounds: 1"),
        "commands are taken, and the limit is told once: {status}"
    );
    let refused = readings(&front)
        .into_iter()
        .filter(|(_, reading)| *reading == Reading::TooMany);
    let refused: Vec<String> = refused.map(|(message, _)| message).collect();
    assert_eq!(refused, ["wamid.3", "wamid.4"]);
    assert_eq!(
        front
            .assembly
            .hub
            .surface()
            .store
            .sessions()
            .expect("the table")
            .len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_commands_have_no_limit() {
    let ask = |command: &str| json!({"calls": [{"tool": "run_command", "arguments": {"command": command}}]});
    let asks =
        json!({"calls": [{"tool": "request_user_approval", "arguments": {"question": "Which?"}}]});
    let replies = json!([ask("frobnicate one"), ask("frobnicate two"), asks, {"text": "Done."}]);
    let one = |settings: &mut Settings| settings.limits.messages_max = 1;
    let mut front = Front::with(replies, one).await;
    front.says("wamid.1", "go").await;
    assert!(front.hears().await.text.contains("frobnicate one"));
    front.says("wamid.2", "but quickly").await;
    assert!(
        front
            .hears()
            .await
            .text
            .contains("1 messages in 10 minutes")
    );
    front.says("wamid.3", "no").await;
    front.hears().await;
    let question = front.hears().await;
    assert!(
        question.text.contains("frobnicate two"),
        "{}",
        question.text
    );
    front.says("wamid.4", "no").await;
    front.hears().await;
    assert_eq!(front.hears().await.text, "Which?");
    front.says("wamid.5", "the second one").await;
    assert_eq!(front.hears().await.text, "Done.");
    let answered = readings(&front).into_iter().any(|(message, reading)| {
        message == "wamid.5" && matches!(reading, Reading::Answer { .. })
    });
    assert!(answered);
}
