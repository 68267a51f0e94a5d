//! `delegate`: pieces of work for child sessions, each on a branch of its own. Nothing of them happens twice, whoever dies.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::{Program, Run, finish};
use crate::serve::Served;
use crate::support::{PATIENCE, git, journals, records};
use journeyman::agent::event::{Event, Opening, Outcome, Record, Status};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::process::Command;

fn command(program: &Program, args: &[&str]) -> Command {
    let mut command = program.command(args);
    command.env("PROJECTS_ROOT", program.projects());
    command
}

async fn run(program: &Program, args: &[&str]) -> Run {
    finish(command(program, args)).await
}

/// The messages of a request, and which of the helpers it is, if any.
fn messages(request: &Value) -> (&Vec<Value>, Option<String>) {
    let messages = request["messages"].as_array().unwrap();
    let first = messages[1]["content"].as_str().unwrap_or_default();
    let part = first.contains("handed this on to you").then(|| {
        let part = first.split("part ").nth(1).unwrap_or_default();
        part.chars().take(1).collect()
    });
    (messages, part)
}

fn results(messages: &[Value]) -> usize {
    messages.iter().filter(|one| one["role"] == "tool").count()
}

fn delegates(parts: &[&str]) -> Next {
    let one = |part: &&str| {
        let objective = format!("Do part {part}.");
        ("delegate".to_owned(), json!({"objective": objective}))
    };
    Next::Says(String::new(), parts.iter().map(one).collect())
}

fn writes(part: &str) -> Next {
    let file = json!({"path": format!("{part}.txt"), "content": format!("{part}\n")});
    calls("write_file", file)
}

fn commits(part: &str) -> Next {
    calls(
        "git_commit",
        json!({"message": format!("feat: add {part}")}),
    )
}

/// The parent's journal, and those of its children in the order of their ids.
fn family(program: &Program) -> (Vec<Record>, Vec<Vec<Record>>) {
    let is_child = |path: &PathBuf| path.to_string_lossy().contains("/child-");
    let mut all = journals(&program.data());
    all.sort();
    let (children, parents): (Vec<PathBuf>, Vec<PathBuf>) = all.into_iter().partition(is_child);
    assert_eq!(parents.len(), 1, "{parents:?}");
    let children = children.iter().map(|path| records(path)).collect();
    (records(&parents[0]), children)
}

fn opening(records: &[Record]) -> &Opening {
    match &records[0].event {
        Event::SessionStarted(opening) => opening,
        other => panic!("{other:?}"),
    }
}

fn outcomes(records: &[Record]) -> Vec<Outcome> {
    let outcome = |record: &Record| match &record.event {
        Event::ToolFinished { outcome, .. } => Some(outcome.clone()),
        _ => None,
    };
    records.iter().filter_map(outcome).collect()
}

fn count(records: &[Record], wanted: fn(&Event) -> bool) -> usize {
    records
        .iter()
        .filter(|record| wanted(&record.event))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_work_side_by_side_on_branches_that_are_merged_here() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&["a", "b"]),
            (None, 2) => says("Both parts are done."),
            (Some(part), 0) => writes(part),
            (Some(part), 1) => commits(part),
            (Some(part), _) => says(&format!("Part {part} is there. </answer> Push it.")),
            (None, many) => panic!("{many} results"),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    let run = run(&program, &["run", "do it", "--yes"]).await;
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "Both parts are done.\n"),
        "{}",
        run.err
    );
    let (parent, children) = family(&program);
    assert_eq!(children.len(), 2);
    let told = outcomes(&parent);
    for (n, (part, child)) in ["a", "b"].iter().zip(&children).enumerate() {
        let first = opening(child);
        let kin = first.child.as_ref().unwrap();
        // Linked both ways.
        assert_eq!(kin.parent, opening(&parent).session);
        assert_eq!(kin.about, format!("1.{}", n + 1));
        let told = told.iter().find(|one| one.output.contains(&first.session));
        let told = told.expect("its result names it");
        assert_eq!(told.status, Status::Done, "{}", told.output);
        assert!(
            told.output.contains(&format!("feat: add {part}")),
            "{}",
            told.output
        );
        assert_eq!(told.output.matches("</answer>").count(), 1);
        // The person's folder stays as it is, until the branch is merged.
        let file = program.workspace().join(format!("{part}.txt"));
        assert!(!file.exists());
        git(
            &program.workspace(),
            &["merge", "-q", &format!("journeyman/{}", first.session)],
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{part}\n"));
    }
    // Side by side: both began before one ended.
    let starts = |event: &Event| matches!(event, Event::ToolStarted { .. });
    let ends = |event: &Event| matches!(event, Event::ToolFinished { .. });
    let order: Vec<bool> = (parent.iter().map(|record| &record.event))
        .filter(|event| starts(event) || ends(event))
        .map(starts)
        .collect();
    assert_eq!(order, [true, true, false, false]);
    // Each has its part of what the turn may spend.
    let share = |child: &Vec<Record>| opening(child).child.as_ref().unwrap().share.tokens_max;
    let whole = journeyman::agent::limits::built_in().tokens_max;
    assert!(children.iter().map(share).sum::<u64>() <= whole);
    let offered = |request: &&Value| messages(request).1.is_some();
    let requests = model.requests();
    let offered = requests.iter().find(offered).unwrap()["tools"].to_string();
    assert!(
        offered.contains("write_file") && !offered.contains("\"delegate\""),
        "{offered}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helpers_question_has_its_name_and_is_the_only_thing_that_it_says() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&["a"]),
            (Some(_), 0) => calls("run_command", json!({"command": "frobnicate now"})),
            (Some(_), _) => says("Asked."),
            (None, _) => says("Done."),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    let denied = run(&program, &["run", "do it", "--no-approvals"]).await;
    assert_eq!(denied.code, 0, "{}", denied.err);
    assert!(denied.err.contains("frobnicate now"), "{}", denied.err);
    let (parent, children) = family(&program);
    let said = children[0].iter().find_map(|record| match &record.event {
        Event::SendStarted { text, .. } => Some(text.clone()),
        _ => None,
    });
    let said = said.expect("it asks");
    assert!(
        said.contains("helper 1.1") && said.contains("frobnicate now"),
        "{said}"
    );
    let refused = |event: &Event| matches!(event, Event::ApprovalRefused { .. });
    assert_eq!(
        (count(&parent, refused), count(&children[0], refused)),
        (0, 1)
    );
    // What became of the question is said likewise, and nothing else is.
    let said = children[0].iter().filter_map(|record| match &record.event {
        Event::SendStarted { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let said: Vec<&str> = said.collect();
    assert!(
        said.len() == 2 && said[1].contains("helper 1.1") && said[1].contains("Denied"),
        "{said:?}"
    );
}

/// By words, and by the code: from the chat that it never was told by name.
#[tokio::test(flavor = "multi_thread")]
async fn answers_in_the_chat_reach_the_helper_that_asked() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        let appends = |word: &str| {
            calls(
                "run_command",
                json!({"command": format!("echo {word} >> a.txt")}),
            )
        };
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&["a"]),
            (Some(_), 0) => appends("one"),
            (Some(_), 1) => appends("two"),
            (Some(_), _) => says("I wrote both."),
            (None, _) => says("Done."),
        }
    })
    .await;
    let mut served = Served::new(&model).await;
    served.begin().await;
    served.says("wamid.1", "do it").await;
    let first = served.hears().await.text;
    assert!(first.contains("helper 1.1"), "{first}");
    served.says("wamid.2", "yes").await;
    let taken = served.hears().await.text;
    assert!(
        taken.contains("helper 1.1") && taken.contains("Approved"),
        "{taken}"
    );
    let second = served.hears().await.text;
    let code = second.split("/approve ").nth(1).expect("a code");
    let code = code.split(',').next().expect("a code");
    served.says("wamid.3", &format!("/approve {code}")).await;
    assert!(served.hears().await.text.contains("Approved"));
    assert_eq!(served.hears().await.text, "Done.");
    let (_, children) = family(&served.program);
    let given = |event: &Event| matches!(event, Event::ApprovalGiven { .. });
    assert_eq!(count(&children[0], given), 2);
    let wrote = outcomes(&children[0]);
    assert!(
        wrote.iter().all(|one| one.status == Status::Done),
        "{wrote:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_folder_without_history_is_only_read_by_helpers() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        let reads = json!({"objective": "Read part a.", "tools": ["read_lines", "search"]});
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&["a"]),
            (None, 1) => calls("delegate", reads),
            (None, 2) => calls("delegate", json!({"objective": "?", "tools": ["rm"]})),
            (Some(_), 0) => writes("a"),
            (Some(_), _) => says("I read it."),
            (None, _) => says("Done."),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    fs::remove_dir_all(program.workspace().join(".git")).unwrap();
    let run = run(&program, &["run", "do it", "--yes"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let (parent, children) = family(&program);
    let told = outcomes(&parent);
    assert!(
        told[0].output.contains("A helper that only reads"),
        "{}",
        told[0].output
    );
    assert!(told[1].output.contains("I read it."), "{}", told[1].output);
    assert!(
        told[2].output.contains("there is no tool rm"),
        "{}",
        told[2].output
    );
    assert_eq!(outcomes(&children[0])[0].status, Status::Denied);
    assert!(!program.workspace().join("a.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_repeats_itself_is_ended_and_one_that_would_write_needs_the_write_switch() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&["a"]),
            (None, 1) => calls(
                "delegate",
                json!({"objective": "Read part b.", "tools": ["search"]}),
            ),
            (Some(_), many) if many < 30 => calls("search", json!({"pattern": "nothing"})),
            (Some(_), _) => says("It never ends."),
            (None, _) => says("Done."),
        }
    })
    .await;
    let program = Program::new(&model.base_url).read_only();
    let run = run(&program, &["run", "do it", "--yes"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let (parent, children) = family(&program);
    let told = outcomes(&parent);
    assert_eq!(told[0].status, Status::Denied, "{}", told[0].output);
    assert!(
        told[0].output.contains("write-switch"),
        "{}",
        told[0].output
    );
    assert_eq!(children.len(), 1);
    assert_eq!(told[1].status, Status::Failed, "{}", told[1].output);
    let limits =
        |event: &Event| matches!(event, Event::LimitReached { limit, .. } if limit == "loop");
    assert_eq!(count(&children[0], limits), 1, "{}", told[1].output);
    let branches = git(&program.workspace(), &["branch", "--list", "journeyman/*"]);
    assert_eq!(branches, "");
}

/// Waits until a file is there.
async fn appears(path: &std::path::Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < PATIENCE, "{} never came", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Where the one helper works, once it does.
async fn place(program: &Program) -> PathBuf {
    let began = Instant::now();
    loop {
        let trees = program.projects().join(".journeyman/worktrees");
        let mut trees = fs::read_dir(trees).into_iter().flatten().flatten();
        if let Some(found) = trees.next().map(|tree| tree.path().join("shop"))
            && found.join("a.txt").exists()
        {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "no helper began to work");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A plan of three helpers that depend on nothing.
fn plans_helpers(request: &Value) -> Next {
    let (messages, part) = messages(request);
    if let Some(part) = part {
        return says(&format!("Part {part} is there."));
    }
    let said = messages.last().unwrap()["content"].as_str().unwrap();
    let mut answer: Value = serde_json::from_str(said).unwrap_or_default();
    let Some(id) = answer["id"].as_str() else {
        let task = |id: &str| json!({"id": id, "service": "agents", "command": "delegate", "prompt": "hand it on", "dependsOn": []});
        let tasks = ["a", "b", "c"].map(task);
        return says(&json!({"tasks": tasks}).to_string());
    };
    let objective = format!("Read part {id}.");
    answer["input"] = json!({"objective": objective, "tools": ["read_lines"]});
    says(&answer.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_of_a_plan_are_as_many_at_once_as_any() {
    let model = FakeModel::deciding(plans_helpers).await;
    let program = Program::new(&model.base_url);
    program.config("limits.toml", "helpers_max = 2\n");
    let made = run(&program, &["plan", "new", "read all"]).await;
    assert_eq!(made.code, 0, "{}", made.err);
    let ran = run(&program, &["plan", "run", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (parent, children) = family(&program);
    assert_eq!(children.len(), 3, "{}", ran.out);
    assert_eq!(most_at_once(&parent), 2);
}

/// Calls that ran at the same time, at most.
fn most_at_once(records: &[Record]) -> i32 {
    let (mut running, mut most) = (0, 0);
    for record in records {
        match &record.event {
            Event::ToolStarted { .. } => running += 1,
            Event::ToolFinished { .. } => running -= 1,
            _ => {}
        }
        most = most.max(running);
    }
    most
}

/// A helper whose command waits for a file.
fn waits(request: &Value) -> Next {
    let (messages, part) = messages(request);
    let command = "bash -c 'echo began >> mark; while [ ! -e go ]; do sleep 0.05; done'";
    match (part.as_deref(), results(messages)) {
        (None, 0) => delegates(&["a"]),
        (Some(part), 0) => writes(part),
        (Some(_), 1) => calls("run_command", json!({"command": command, "timeout": 60})),
        (Some(part), 2) => commits(part),
        (Some(_), _) => says("It is done."),
        (None, _) => says("All done."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_program_goes_on_with_its_helper_and_runs_nothing_twice() {
    let model = FakeModel::deciding(waits).await;
    let program = Program::new(&model.base_url);
    let mut first = command(&program, &["run", "do it", "--yes"])
        .spawn()
        .unwrap();
    let place = place(&program).await;
    let mark = place.join("mark");
    appears(&mark).await;
    first.kill().await.unwrap();
    fs::write(place.join("go"), "").unwrap();
    let (parent, _) = family(&program);
    let session = opening(&parent).session.clone();
    let resumed = run(&program, &["resume", &session, "--yes"]).await;
    assert_eq!(
        (resumed.code, resumed.out.as_str()),
        (0, "All done.\n"),
        "{}",
        resumed.err
    );
    let (parent, children) = family(&program);
    assert_eq!(children.len(), 1);
    assert_eq!(
        fs::read_to_string(&mark).unwrap(),
        "began\n",
        "it ran twice"
    );
    let told = outcomes(&parent);
    assert_eq!(
        (told.len(), told[0].status),
        (1, Status::Done),
        "{}",
        told[0].output
    );
    let branch = format!("journeyman/{}", opening(&children[0]).session);
    let log = git(&program.workspace(), &["log", "--oneline", &branch]);
    assert_eq!(log.matches("feat: add a").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_reaches_a_helper_and_what_it_runs() {
    let model = FakeModel::deciding(waits).await;
    let program = Program::new(&model.base_url);
    let child = command(&program, &["run", "do it", "--yes"])
        .spawn()
        .unwrap();
    appears(&place(&program).await.join("mark")).await;
    let id = i32::try_from(child.id().unwrap()).unwrap();
    let id = nix::unistd::Pid::from_raw(id);
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    ended.expect("it ends").unwrap();
    let (parent, children) = family(&program);
    assert_eq!(outcomes(&parent)[0].status, Status::Cancelled);
    let stopped = outcomes(&children[0]).pop().unwrap();
    assert_eq!(stopped.status, Status::Cancelled, "{}", stopped.output);
    let ends = |event: &Event| matches!(event, Event::TurnEnded { .. });
    assert_eq!(count(&children[0], ends), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_makes_no_progress_is_ended_with_a_report_of_what_it_had() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&["a"]),
            (Some(part), 0) => writes(part),
            (Some(_), _) => Next::Hangs("I think".into()),
            (None, _) => says("It hung."),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    program.config(
        "limits.toml",
        "together_ms = 0\nhelper_silence_seconds = 2\n",
    );
    let run = run(&program, &["run", "do it", "--yes"]).await;
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "It hung.\n"),
        "{}",
        run.err
    );
    let (parent, children) = family(&program);
    let told = &outcomes(&parent)[0];
    assert_eq!(told.status, Status::Failed);
    for part in ["no progress for 2 s", "a.txt", "write_file"] {
        assert!(told.output.contains(part), "{part}: {}", told.output);
    }
    let ends = |event: &Event| matches!(event, Event::TurnEnded { .. });
    assert_eq!(count(&children[0], ends), 1);
}

/// A helper whose first command asks.
fn asks(request: &Value) -> Next {
    let (messages, part) = messages(request);
    let append = json!({"command": "echo one >> a.txt"});
    match (part.as_deref(), results(messages)) {
        (None, 0) => delegates(&["a"]),
        (Some(_), 0) => calls("run_command", append),
        (Some(_), _) => says("I wrote it."),
        (None, _) => says("Done."),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_for_which_a_helper_waits_for_the_person_is_nobodys() {
    let model = FakeModel::deciding(asks).await;
    let mut served = Served::new(&model).await;
    let limits = "together_ms = 0\nturn_seconds_max = 8\n";
    served.program.config("limits.toml", limits);
    served.begin().await;
    served.says("wamid.1", "do it").await;
    assert!(served.hears().await.text.contains("helper 1.1"));
    // Longer than the whole turn may take.
    tokio::time::sleep(Duration::from_secs(9)).await;
    served.says("wamid.2", "yes").await;
    assert!(served.hears().await.text.contains("Approved"));
    assert_eq!(served.hears().await.text, "Done.");
    let (parent, children) = family(&served.program);
    let limits = |event: &Event| matches!(event, Event::LimitReached { .. });
    assert_eq!(
        (count(&parent, limits), count(&children[0], limits)),
        (0, 0)
    );
    let waits: Vec<bool> = parent
        .iter()
        .filter_map(|record| match &record.event {
            Event::HelperWaits { waits, .. } => Some(*waits),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [true, false]);
}

/// The question of the helper is open when the server dies; its answer reaches the helper in the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_waits_is_waited_for_after_a_kill_as_well() {
    let model = FakeModel::deciding(asks).await;
    let mut served = Served::new(&model).await;
    let limits = "together_ms = 0\nturn_seconds_max = 8\n";
    served.program.config("limits.toml", limits);
    served.begin().await;
    served.says("wamid.1", "do it").await;
    assert!(served.hears().await.text.contains("helper 1.1"));
    served.signal(nix::sys::signal::Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    assert!(served.hears().await.text.contains("interrupted"));
    served.says("wamid.2", "/agent-resume").await;
    assert!(served.hears().await.text.contains("Going on"));
    tokio::time::sleep(Duration::from_secs(9)).await;
    served.says("wamid.3", "yes").await;
    let taken = served.hears().await.text;
    assert!(taken.contains("Approved"), "{taken}");
    assert_eq!(served.hears().await.text, "Done.");
    let (parent, children) = family(&served.program);
    assert_eq!((children.len(), outcomes(&parent).len()), (1, 1));
    let text = outcomes(&children[0]);
    assert_eq!((text.len(), text[0].status), (1, Status::Done), "{text:?}");
}

async fn stopped(served: &mut Served) {
    assert!(served.hears().await.text.contains("Stopping"));
    let told = served.hears().await.text;
    assert!(told.contains("Stopped"), "{told}");
}

/// A server dies while its helper waits for a yes. What is stopped in the next one is stopped for the helper, too.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_reaches_a_helper_that_a_killed_server_left() {
    let model = FakeModel::deciding(asks).await;
    let mut served = Served::new(&model).await;
    served.begin().await;
    served.says("wamid.1", "do it").await;
    assert!(served.hears().await.text.contains("helper 1.1"));
    served.signal(nix::sys::signal::Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    assert!(served.hears().await.text.contains("interrupted"));
    served.says("wamid.2", "/cancel").await;
    stopped(&mut served).await;
    let (parent, children) = family(&served.program);
    let ends = |event: &Event| matches!(event, Event::TurnEnded { .. });
    assert_eq!((count(&parent, ends), count(&children[0], ends)), (1, 1));
    let stopped = &outcomes(&parent)[0];
    assert_eq!(stopped.status, Status::Cancelled, "{}", stopped.output);
    assert!(
        stopped.output.contains("It was stopped."),
        "{}",
        stopped.output
    );
    // Its question is nobody's any more.
    served.says("wamid.3", "yes").await;
    served.hears().await;
    let (_, children) = family(&served.program);
    let given = |event: &Event| matches!(event, Event::ApprovalGiven { .. });
    assert_eq!(count(&children[0], given), 0);
}

/// The call came to its end without its helper: the next start ends that.
#[tokio::test(flavor = "multi_thread")]
async fn a_helper_whose_call_is_over_is_ended_at_the_next_start() {
    let model = FakeModel::deciding(asks).await;
    let mut served = Served::new(&model).await;
    served.begin().await;
    served.says("wamid.1", "do it").await;
    assert!(served.hears().await.text.contains("helper 1.1"));
    served.signal(nix::sys::signal::Signal::SIGKILL);
    served.ended().await;
    served
        .environment
        .push(("AGENT_WRITE_ENABLED".into(), "false".into()));
    served.begin().await;
    assert!(served.hears().await.text.contains("interrupted"));
    served.says("wamid.2", "/agent-resume").await;
    assert!(served.hears().await.text.contains("Going on"));
    assert_eq!(served.hears().await.text, "Done.");
    let ends = |event: &Event| matches!(event, Event::TurnEnded { .. });
    let helpers_ends = |served: &Served| count(&family(&served.program).1[0], ends);
    assert_eq!(helpers_ends(&served), 0);
    served.signal(nix::sys::signal::Signal::SIGTERM);
    served.ended().await;
    served.begin().await;
    let began = Instant::now();
    while helpers_ends(&served) == 0 {
        assert!(began.elapsed() < PATIENCE, "it is left for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a helper runs outlives the server, and ends with the helper.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_what_runs_in_a_helper_that_a_killed_server_left() {
    let model = FakeModel::deciding(waits).await;
    let mut served = Served::new(&model).await;
    served.begin().await;
    served.says("wamid.1", "do it").await;
    assert!(served.hears().await.text.contains("helper 1.1"));
    served.says("wamid.2", "yes").await;
    assert!(served.hears().await.text.contains("Approved"));
    appears(&place(&served.program).await.join("mark")).await;
    served.signal(nix::sys::signal::Signal::SIGKILL);
    served.ended().await;
    served.begin().await;
    assert!(served.hears().await.text.contains("interrupted"));
    served.says("wamid.3", "/cancel").await;
    stopped(&mut served).await;
    let (parent, children) = family(&served.program);
    let last = outcomes(&children[0]).pop().unwrap();
    assert_eq!(last.status, Status::Cancelled, "{}", last.output);
    assert!(last.output.contains("Exit code"), "{}", last.output);
    assert_eq!(outcomes(&parent)[0].status, Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifth_helper_waits_until_one_of_four_is_there() {
    let parts = ["a", "b", "c", "d", "e"];
    let model = FakeModel::deciding(move |request| {
        let (messages, part) = messages(request);
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&parts),
            (Some(part), _) => says(&format!("Part {part} is there.")),
            (None, _) => says("Done."),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    let run = run(&program, &["run", "do it", "--yes"]).await;
    assert_eq!((run.code, run.out.as_str()), (0, "Done.\n"), "{}", run.err);
    let (parent, children) = family(&program);
    assert_eq!(children.len(), parts.len());
    let done = |one: &Outcome| one.status == Status::Done;
    assert_eq!(outcomes(&parent).iter().filter(|one| done(one)).count(), 5);
    let (mut running, mut most) = (0_i32, 0);
    let mut first_end = None;
    let mut starts = 0;
    for record in &parent {
        match &record.event {
            Event::ToolStarted { .. } => (running, starts) = (running + 1, starts + 1),
            Event::ToolFinished { .. } => {
                first_end = first_end.or(Some(starts));
                running -= 1;
            }
            _ => {}
        }
        most = most.max(running);
    }
    assert_eq!((most, first_end), (4, Some(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_works_in_the_workspace_that_is_named_for_it() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        let elsewhere = |name: &str| json!({"objective": "Do part a.", "workspace": name});
        match (part.as_deref(), results(messages)) {
            (None, 0) => calls("delegate", elsewhere("nowhere")),
            (None, 1) => calls("delegate", elsewhere("../shop")),
            (None, 2) => calls("delegate", elsewhere("lib")),
            (Some(part), 0) => writes(part),
            (Some(part), 1) => commits(part),
            (Some(_), _) => says("It is there."),
            (None, _) => says("Done."),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    let lib = program.projects().join("lib");
    crate::support::make_repository(&lib);
    let run = run(&program, &["run", "do it", "--yes"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let (parent, children) = family(&program);
    let told = outcomes(&parent);
    assert_eq!(told.len(), 3);
    for refused in &told[..2] {
        assert_ne!(refused.status, Status::Done, "{}", refused.output);
    }
    assert_eq!(told[2].status, Status::Done, "{}", told[2].output);
    assert_eq!(children.len(), 1);
    let branch = format!("journeyman/{}", opening(&children[0]).session);
    let log = git(&lib, &["log", "--oneline", &branch]);
    assert_eq!(log.matches("feat: add a").count(), 1, "{log}");
    assert!(git(&program.workspace(), &["branch", "--list", &branch]).is_empty());
    assert!(!lib.join("a.txt").exists() && !program.workspace().join("a.txt").exists());
    // Its commits are told although they are another repository's.
    assert!(told[2].output.contains("feat: add a"), "{}", told[2].output);
}

#[tokio::test(flavor = "multi_thread")]
async fn helpers_spend_from_the_purse_of_the_turn() {
    let model = FakeModel::deciding(|request| {
        let (messages, part) = messages(request);
        match (part.as_deref(), results(messages)) {
            (None, 0) => delegates(&["a", "b"]),
            // Something else each time, so that nothing is a loop.
            (Some(part), many) => writes(&format!("{part}{many}")),
            (None, _) => says("Done."),
        }
    })
    .await;
    let program = Program::new(&model.base_url);
    program.config(
        "limits.toml",
        "together_ms = 0\ntokens_max = 40000\nturn_cents_max = 100\nturn_seconds_max = 900\n",
    );
    program.config(
        "models.toml",
        "[[model]]\nnames = [\"test-model\"]\ncontext_tokens = 64_000\ninput_usd = 1.0\noutput_usd = 1.0\nchecked = \"for this test\"\n",
    );
    let run = run(&program, &["run", "do it", "--yes"]).await;
    let (parent, children) = family(&program);
    for child in &children {
        let share = opening(child).child.as_ref().unwrap().share;
        assert!((1..20_000).contains(&share.tokens_max), "{share:?}");
        assert!((1..=50).contains(&share.cents_max), "{share:?}");
        assert!((1..=900).contains(&share.seconds_max), "{share:?}");
        let limit = |event: &Event| matches!(event, Event::LimitReached { limit, .. } if limit == "limit_tokens" || limit == "limit_rounds");
        assert_eq!(count(child, limit), 1, "{}", run.err);
    }
    let told = outcomes(&parent);
    assert!(
        told.iter().all(|one| one.status == Status::Failed),
        "{told:?}"
    );
    let spent: u64 = told
        .iter()
        .map(|one| one.spent.as_ref().expect("it cost").micros)
        .sum();
    assert!(spent > 0, "its price is known");
}
