//! Commands that are written in files, called in a chat, by a schedule and by the model.

use crate::definitions::write as write_below;
use crate::fake_model::{self, FakeModel};
use crate::program::Program;
use crate::support::{OWNER, Rig, call, calls, run_command, says, words};
use journeyman::agent::event::{Event, Inbound, Loaded, OutgoingKind, Via};
use serde_json::{Value, json};
use std::fs;
use std::sync::{Arc, OnceLock};

const REVIEW: &str = "---\ndescription: Reviews a change\nargument-hint: \"[what]\"\n---\nReview $0.\n@notes.txt\n!`git branch`";

fn write(rig: &Rig, name: &str, text: &str) {
    let folder = rig.workspace().join(".claude/commands");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(format!("{name}.md")), text).expect("written");
}

async fn notice(rig: &mut Rig) -> String {
    rig.message(OutgoingKind::Notice).await
}

async fn trust(rig: &mut Rig) {
    rig.say("/trust").await;
    let shown = notice(rig).await;
    let after = shown.rsplit_once("/trust ").expect("a code").1;
    let code = after.split(' ').next().unwrap_or_default().to_owned();
    rig.say(&format!("/trust {code}")).await;
    notice(rig).await;
}

/// A rig whose workspace is trusted with these commands.
async fn rig(replies: &[serde_json::Value], commands: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::new(replies);
    commands
        .iter()
        .for_each(|(name, text)| write(&rig, name, text));
    trust(&mut rig).await;
    rig
}

/// What the model saw.
fn seen(rig: &Rig) -> String {
    let messages = rig.state().conversation.messages().to_vec();
    messages.iter().map(|wire| wire.get().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_the_workspace_is_what_the_turn_is_about() {
    let mut rig = rig(&[says("Fine."), says("Again.")], &[("review", REVIEW)]).await;
    rig.say("/review it").await;
    assert_eq!(rig.answer().await, "Fine.");
    let seen = seen(&rig);
    for part in [
        "[/review it: the person calls the command in .claude/commands/review.md.",
        "Review it.",
        "## notes.txt (from notes.txt)",
        "* main",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    let events: Vec<_> = rig
        .records()
        .into_iter()
        .map(|record| record.event)
        .collect();
    let started = events
        .iter()
        .position(|event| matches!(event, Event::CommandStarted { .. }));
    let loaded = events
        .iter()
        .position(|event| matches!(event, Event::CommandLoaded { .. }));
    assert!(started.expect("its intent") < loaded.expect("its outcome"));
    // What the turn used stands in the journal: the file may go.
    fs::remove_dir_all(rig.workspace().join(".claude")).expect("removed");
    rig.restart().await;
    rig.say("and now?").await;
    assert_eq!(rig.answer().await, "Again.");
    assert!(self::seen(&rig).contains("Review it."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_an_untrusted_workspace_is_refused_and_it_is_said_how() {
    let mut rig = Rig::new(&[]);
    write(&rig, "deploy", "Deploy to $0");
    rig.say("/deploy prod").await;
    let told = notice(&mut rig).await;
    assert!(
        told.contains(".claude/commands/deploy.md") && told.contains("/trust"),
        "{told}"
    );
    assert!(!seen(&rig).contains("Deploy to"));
    assert!(rig.state().turn.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_says_who_may_call_it() {
    let commands = [
        ("inner", "---\nuser-invocable: false\n---\nx"),
        ("others", "---\nagents: [reviewer, tester]\n---\nx"),
        ("all", "---\nagents: [reviewer, agent]\n---\nx"),
    ];
    let mut rig = rig(&[says("Done.")], &commands).await;
    for (said, why) in [
        ("/inner", "user-invocable"),
        ("/others", "it is for other agents: reviewer, tester"),
    ] {
        rig.say(said).await;
        let told = notice(&mut rig).await;
        assert!(told.contains(why), "{told}");
    }
    rig.say("/all").await;
    assert_eq!(rig.answer().await, "Done.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chats_own_commands_are_not_shadowed() {
    let mut rig = rig(&[], &[("cost", "Spend everything")]).await;
    rig.say("/cost").await;
    let told = notice(&mut rig).await;
    assert!(told.contains("tokens"), "{told}");
    assert!(!rig.transcript().contains("Spend everything"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_text_says_is_no_command_and_no_answer() {
    let commands = [("agree", "yes"), ("halt", "/cancel")];
    let mut rig = rig(&[run_command("frobnicate"), says("Done.")], &commands).await;
    rig.say("go").await;
    let (code, _) = rig.question().await;
    for said in ["/agree", "/halt"] {
        rig.say(said).await;
        let told = notice(&mut rig).await;
        assert!(
            told.contains(&code),
            "it is steering, the question stays open: {told}"
        );
    }
    rig.say("no").await;
    assert_eq!(rig.answer().await, "Done.");
    let seen = seen(&rig);
    assert!(
        seen.contains("[/agree:") && seen.contains("[/halt:"),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_none_is_answered_with_the_nearest() {
    let mut rig = rig(&[], &[("deploy", "x")]).await;
    rig.say("/depoly").await;
    let told = notice(&mut rig).await;
    assert!(
        told.contains("no command /depoly") && told.contains("/deploy"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_commands_list_what_is_written_down() {
    let mut rig = rig(
        &[],
        &[
            ("deploy", REVIEW),
            ("inner", "---\nuser-invocable: false\n---\nx"),
        ],
    )
    .await;
    for said in ["/help", "/commands"] {
        rig.say(said).await;
        let told = notice(&mut rig).await;
        assert!(
            told.contains("/deploy [what] — Reviews a change") && !told.contains("/inner"),
            "{told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_can_call_one() {
    let rig = &mut rig(&[says("Fine.")], &[("review", REVIEW)]).await;
    let message = Inbound {
        via: Via::Schedule,
        ..Inbound::text("slot-1", OWNER, "/review it")
    };
    rig.deliver(message).await.expect("taken");
    assert_eq!(rig.answer().await, "Fine.");
    assert!(seen(rig).contains("Review it."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_text_is_cut_where_one_sees_it() {
    let mut rig = rig(&[says("Fine.")], &[("long", &"word ".repeat(20_000))]).await;
    let text = loaded(&mut rig).await;
    assert!(
        text.chars().count() < 41_000 && text.ends_with("characters]"),
        "{}",
        text.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_a_text_may_be_the_limits_say() {
    let mut rig = Rig::with(&[says("Fine.")], |settings| {
        settings.limits.written_chars_max = 1_000;
    });
    write(&rig, "long", &"word ".repeat(20_000));
    trust(&mut rig).await;
    let text = loaded(&mut rig).await;
    assert!(
        (1_000..1_100).contains(&text.chars().count()),
        "{}",
        text.len()
    );
}

/// The text of the command `long`, as the model gets it.
async fn loaded(rig: &mut Rig) -> String {
    rig.say("/long").await;
    rig.answer().await;
    let texts = rig
        .records()
        .into_iter()
        .find_map(|record| match record.event {
            Event::CommandLoaded {
                loaded: Loaded::Text { text, .. },
                ..
            } => Some(text),
            _ => None,
        });
    texts.expect("its text")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_loads_what_is_not_kept_from_it() {
    let load = |name: &str| call("load_command", json!({"name": name, "arguments": "it"}));
    let commands = [
        ("review", REVIEW),
        (
            "secret",
            "---\ndisable-model-invocation: true\n---\nhidden text",
        ),
    ];
    let all = [load("review"), load("secret"), load("nothing")];
    let mut rig = rig(&[calls(&all), says("Read.")], &commands).await;
    rig.say("use the commands").await;
    assert_eq!(rig.answer().await, "Read.");
    let seen = seen(&rig);
    assert!(
        seen.contains("Review it.") && seen.contains("## notes.txt (from notes.txt)"),
        "{seen}"
    );
    assert!(
        seen.contains("disable-model-invocation") && !seen.contains("hidden text"),
        "{seen}"
    );
    assert!(
        seen.contains("Command 'nothing' not found. Available commands: ")
            && !seen.contains(", secret"),
        "{seen}"
    );
}

/// Names of the tools that a request offers.
fn offered(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_command_that_is_written_or_trusted_during_a_session_can_be_loaded() {
    let place: Arc<OnceLock<Program>> = Arc::default();
    let seen = place.clone();
    let model = FakeModel::deciding(move |request| {
        let program = seen.get().expect("the program");
        let messages = request["messages"].as_array().expect("messages").len();
        let has = offered(request).contains(&"load_command");
        match (messages, has) {
            (2, _) => {
                write_below(
                    &program.workspace(),
                    ".claude/commands/late.md",
                    "Late text.",
                );
                fake_model::calls("list_files", json!({"path": "."}))
            }
            // Written, and not trusted.
            (4, _) => {
                let mut trust = program.command(&["trust"]);
                assert!(trust.as_std_mut().status().expect("it runs").success());
                fake_model::calls("list_files", json!({"path": "."}))
            }
            (6, true) => fake_model::calls("load_command", json!({"name": "late"})),
            (8, true) => {
                fs::remove_dir_all(program.workspace().join(".claude")).expect("removed");
                fake_model::calls("list_files", json!({"path": "."}))
            }
            (10, true) => fake_model::says("Followed."),
            _ => fake_model::says("There is no tool for it."),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    assert!(place.set(program).is_ok());
    let program = place.get().expect("it");
    let run = program.run(&["run", "use the late command"]).await;
    assert_eq!(words(run.out.trim()), "Followed.", "{}", run.err);
    let requests = model.requests();
    let tools: Vec<_> = requests.iter().map(offered).collect();
    assert_eq!(tools[0], tools[1]);
    // One more, and then no change: it stays when the command goes.
    assert_eq!(tools[2].len(), tools[1].len() + 1);
    assert!(tools[2..].iter().all(|these| *these == tools[2]));
    assert!(requests[3]["messages"].to_string().contains("Late text."));
}
