//! WhatsApp's window of 24 hours: who has something to say outside of it asks the person to write, once, and says it then.

use crate::cron_killed::{cron, killed, until_history};
use crate::fake_model::{FakeModel, says};
use crate::serve::Served;
use crate::support::PATIENCE;
use journeyman::agent::event::{Closed, Event};
use journeyman::doors::whatsapp::standin::{Sent, SentKind};

const TEMPLATE: &str =
    "worktree = \"shared\"\nwhatsapp_template = \"news\"\nwhatsapp_template_language = \"es\"\n";

async fn sent(served: &mut Served) -> Sent {
    let sent = tokio::time::timeout(PATIENCE, served.graph.sent.recv()).await;
    sent.expect("in time").expect("the stand-in is there")
}

fn invitations(served: &Served) -> usize {
    served.happened(|event| {
        let Event::SendFinished { closed, .. } = event else {
            return false;
        };
        matches!(
            closed,
            Some(Closed {
                invited: Some(_),
                ..
            })
        )
    })
}

fn held(served: &Served) -> usize {
    served.happened(|event| {
        matches!(
            event,
            Event::SendFinished {
                closed: Some(_),
                ..
            }
        )
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_template_asks_the_person_to_write_and_then_everything_comes() {
    let model = FakeModel::deciding(|_| says("Watered.")).await;
    let mut served = Served::new(&model).await;
    served.program.config("settings.toml", TEMPLATE);
    served.begin().await;
    for plant in ["water the roses", "water the lilies"] {
        cron(&served, &["add", "@yearly", plant, "--tz", "UTC"]).await;
    }
    cron(&served, &["run", "1"]).await;
    cron(&served, &["run", "2"]).await;
    let both = "SELECT count(*) AS n FROM cron_runs WHERE outcome = 'done' HAVING n = 2";
    until_history(&served, both).await;
    let template = sent(&mut served).await;
    assert_eq!(template.kind, SentKind::Template("news".into()));
    assert_eq!(template.text, "shop", "it names the workspace");
    // Nor does another process ask again.
    killed(&mut served).await;
    cron(&served, &["run", "1"]).await;
    let again = "SELECT count(*) AS n FROM cron_runs WHERE outcome = 'done' HAVING n = 3";
    until_history(&served, again).await;
    while held(&served) < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(invitations(&served), 1);
    assert!(
        served.graph.sent.try_recv().is_err(),
        "nothing but the template"
    );
    // The next try of what is held is a quarter of an hour away.
    served.says("wamid.here", "/agent").await;
    let mut finals = 0;
    while finals < 3 {
        finals += usize::from(served.hears().await.text.ends_with("Watered."));
    }
    assert_eq!(invitations(&served), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_template_messages_wait_until_the_person_writes() {
    let model = FakeModel::deciding(|_| says("Watered.")).await;
    let mut served = Served::new(&model).await;
    served.begin().await;
    cron(
        &served,
        &["add", "@yearly", "water the roses", "--tz", "UTC"],
    )
    .await;
    cron(&served, &["run", "1"]).await;
    until_history(&served, "SELECT 1 FROM cron_runs WHERE outcome = 'done'").await;
    while held(&served) < 1 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(served.graph.sent.try_recv().is_err());
    served.says("wamid.here", "/agent").await;
    while !served.hears().await.text.ends_with("Watered.") {}
    assert_eq!(invitations(&served), 0);
}

/// By our clock the window is open; Meta knows better.
#[tokio::test(flavor = "multi_thread")]
async fn what_whatsapp_refuses_for_the_window_waits_as_well() {
    let model = FakeModel::recorded(vec![]).await;
    let mut served = Served::new(&model).await;
    served.program.config("settings.toml", TEMPLATE);
    served.begin().await;
    served.graph.control.fail_next_with(1, 400, 131_047, None);
    served.says("wamid.1", "/agent").await;
    let template = sent(&mut served).await;
    assert_eq!(template.kind, SentKind::Template("news".into()));
    served.says("wamid.2", "/cost").await;
    assert!(served.hears().await.text.contains("Status"));
    assert!(served.hears().await.text.contains("Month"));
}

/// A template that Meta does not know is no reason to ask for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_is_refused_is_not_tried_again_before_the_person_writes() {
    let model = FakeModel::recorded(vec![]).await;
    let mut served = Served::new(&model).await;
    served.program.config("settings.toml", TEMPLATE);
    served.begin().await;
    served.graph.control.fail_next_with(1, 400, 131_047, None);
    served.graph.control.fail_next_with(1, 404, 132_001, None);
    served.says("wamid.1", "/agent").await;
    while invitations(&served) == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    served.says("wamid.2", "/cost").await;
    assert!(served.hears().await.text.contains("Status"));
    let paths = served.graph.control.requests();
    let templates = paths
        .iter()
        .filter(|request| request.body["type"] == "template");
    assert_eq!(templates.count(), 1);
}
