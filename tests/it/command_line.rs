//! The command line: exit codes, what goes where, and clear words for wrong use.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::{Program, finish};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn shell(command: &str) -> Next {
    calls("run_command", json!({"command": command}))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_is_on_stdout_and_the_work_on_stderr() {
    let model = FakeModel::start(
        vec![calls("list_files", json!({})), says("One file.")],
        None,
    )
    .await;
    let run = Program::new(&model.base_url)
        .run(&["run", "what is here?"])
        .await;
    assert_eq!((run.code, run.out.as_str()), (0, "One file.\n"));
    assert!(run.err.contains("list_files"), "{}", run.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_prints_every_event_as_a_line() {
    let model = FakeModel::start(vec![says("Hello.")], None).await;
    let run = Program::new(&model.base_url)
        .run(&["run", "hello", "--json"])
        .await;
    let events: Vec<Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let ended = events
        .iter()
        .find(|event| event["event"] == "turn_ended")
        .expect("an end");
    assert_eq!(
        (ended["reason"].as_str(), ended["text"].as_str()),
        (Some("done"), Some("Hello."))
    );
    assert_eq!(run.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_a_question_parks_the_session_and_resume_goes_on() {
    let model = FakeModel::start(vec![shell("echo ran > proof.txt"), says("It ran.")], None).await;
    let program = Program::new(&model.base_url);
    let parked = program.run(&["run", "prove it"]).await;
    assert_eq!(parked.code, 3, "{}", parked.err);
    assert!(!program.workspace().join("proof.txt").exists());
    let sessions: Value =
        serde_json::from_str(&program.run(&["sessions", "--json"]).await.out).expect("JSON");
    let id = sessions[0]["id"].as_str().expect("an id");
    assert_eq!(sessions[0]["status"], "waiting");
    assert!(
        parked.err.contains(id) && parked.err.contains("journeyman resume"),
        "{}",
        parked.err
    );
    let resumed = program.run(&["resume", id, "--yes"]).await;
    assert_eq!(
        (resumed.code, resumed.out.trim()),
        (0, "It ran."),
        "{}",
        resumed.err
    );
    assert_eq!(
        fs::read_to_string(program.workspace().join("proof.txt")).expect("the proof"),
        "ran\n"
    );
    let again = program.run(&["resume", id]).await;
    assert_eq!(again.code, 2);
    assert!(again.err.contains("nothing to resume"), "{}", again.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_question_parks_the_session_too() {
    let ask = calls(
        "request_user_approval",
        json!({"question": "Which colour?"}),
    );
    let model = FakeModel::start(vec![ask, says("Green, then.")], None).await;
    let program = Program::new(&model.base_url);
    let parked = program.run(&["run", "paint it"]).await;
    assert_eq!(parked.code, 3, "{}", parked.err);
    let sessions: Value =
        serde_json::from_str(&program.run(&["sessions", "--json"]).await.out).expect("JSON");
    let id = sessions[0]["id"].as_str().expect("an id");
    let again = program.run(&["resume", id]).await;
    assert_eq!(again.code, 3);
    assert!(again.err.contains("Which colour?"), "{}", again.err);
    let resumed = program.run(&["resume", id, "--yes"]).await;
    assert_eq!(
        (resumed.code, resumed.out.trim()),
        (0, "Green, then."),
        "{}",
        resumed.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn yes_approves_but_never_what_is_denied() {
    let model = FakeModel::start(
        vec![shell("echo a > a.txt"), shell("rm a.txt"), says("Done.")],
        None,
    )
    .await;
    let program = Program::new(&model.base_url);
    let run = program.run(&["run", "go", "--yes"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("approved by --yes"), "{}", run.err);
    assert!(
        program.workspace().join("a.txt").exists(),
        "rm stays denied"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_approvals_denies_and_the_model_goes_on() {
    let model = FakeModel::start(vec![shell("echo a > a.txt"), says("Without, then.")], None).await;
    let program = Program::new(&model.base_url);
    let run = program.run(&["run", "go", "--no-approvals"]).await;
    assert_eq!(
        (run.code, run.out.trim()),
        (0, "Without, then."),
        "{}",
        run.err
    );
    assert!(!program.workspace().join("a.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_a_command_prints_are_masked_wherever_they_are_kept_or_shown() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let print = shell(&format!("cat token.txt ; echo {token} > /dev/null"));
    let model = FakeModel::start(vec![print, says("Seen.")], None).await;
    let program = Program::new(&model.base_url);
    let secret = "hunter2-hunter2";
    fs::write(
        program.workspace().join("token.txt"),
        format!("{token}\n{secret}\n"),
    )
    .expect("written");
    let mut command = program.command(&["run", "look", "--yes"]);
    command.env("DEPLOY_TOKEN", secret);
    let run = finish(command).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let sent = model.requests()[1]["messages"]
        .as_array()
        .expect("messages")
        .last()
        .expect("the result")
        .to_string();
    assert!(
        sent.contains("[masked]") && !sent.contains(&token) && !sent.contains(secret),
        "{sent}"
    );
    let question = run
        .err
        .lines()
        .find(|line| line.contains("cat token.txt ;") && !line.contains('→'));
    assert!(
        question.is_some_and(|line| line.contains("[masked]")),
        "{}",
        run.err
    );
    let db =
        rusqlite::Connection::open(program.data().join("journeyman.db")).expect("the database");
    let logged: String = db
        .query_row("SELECT command FROM agent_command_log", [], |row| {
            row.get(0)
        })
        .expect("a row");
    assert!(
        logged.contains("[masked]") && !logged.contains(&token),
        "{logged}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_exit_code_4() {
    let model = FakeModel::start(vec![], Some(calls("list_files", json!({})))).await;
    let program = Program::new(&model.base_url);
    program.config("limits.toml", "rounds_max = 2\n");
    let run = program.run(&["run", "loop"]).await;
    assert_eq!(run.code, 4, "{}", run.err);
    assert!(run.out.contains("2 rounds"), "{}", run.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_use_is_exit_code_2_and_names_what_is_wrong() {
    let program = Program::new("");
    let none = program.run(&["run", "hello"]).await;
    assert_eq!(none.code, 2);
    assert!(none.err.contains("AGENT_MODEL"), "{}", none.err);
    for (name, value, accepted) in [
        ("AGENT_WRITE_ENABLED", "perhaps", "true or false"),
        ("BIND_ADDR", "here", "address with port"),
        ("OPENAI_BASE_URL", "localhost:11434", "http://"),
        ("ALLOWED_PHONE_NUMBERS", "mum", "digits"),
        ("PROJECTS_ROOT", "/no/such/folder", "existing folder"),
        ("AGENT_SHELL_ALLOWLIST", "/bin/ls", "without paths"),
    ] {
        let mut command = program.command(&["sessions"]);
        command.env(name, value);
        let run = finish(command).await;
        assert_eq!(run.code, 2, "{name}");
        assert!(
            run.err.contains(name) && run.err.contains(value) && run.err.contains(accepted),
            "{}",
            run.err
        );
    }
    program.config("limits.toml", "rounds_max = \"many\"\n");
    let run = program.run(&["sessions"]).await;
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("limits.toml") && run.err.contains("rounds_max"),
        "{}",
        run.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_never_sets_a_key_or_an_allowlist() {
    let model = FakeModel::start(vec![shell("frobnicate"), says("Done.")], None).await;
    let program = Program::new(&model.base_url);
    fs::write(
        program.workspace().join(".env"),
        "AGENT_SHELL_ALLOWLIST=frobnicate\nAGENT_MODEL=evil\n",
    )
    .expect("written");
    fs::create_dir_all(program.workspace().join("config")).expect("a folder");
    fs::write(program.workspace().join("config/settings.toml"), "broken [").expect("written");
    let run = program.run(&["run", "go"]).await;
    assert_eq!(run.code, 3, "frobnicate still asks: {}", run.err);
    assert_eq!(model.requests()[0]["model"], "test-model");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_that_cannot_be_used_is_named() {
    let program = Program::new("http://127.0.0.1:9/v1");
    let file = program.home().join("file");
    fs::write(&file, "").expect("written");
    let mut command = program.command(&["run", "hello"]);
    command.env("DATA_DIR", file.join("data"));
    let run = finish(command).await;
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("data folder") && run.err.contains("file/data"),
        "{}",
        run.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_data_folder_is_named_and_nothing_is_lost() {
    let program = Program::new("http://127.0.0.1:9/v1");
    fs::create_dir_all(program.data()).expect("a folder");
    fs::set_permissions(program.data(), fs::Permissions::from_mode(0o555)).expect("read-only");
    let run = program.run(&["run", "hello"]).await;
    fs::set_permissions(program.data(), fs::Permissions::from_mode(0o755)).expect("writable again");
    // Root may write anywhere: then only the unreachable model is left to complain about.
    let as_root = run.out.contains("127.0.0.1:9");
    assert_eq!(run.code, 1);
    assert!(
        as_root || (run.err.contains("cannot be written") && run.err.contains("DATA_DIR")),
        "{} {}",
        run.out,
        run.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_the_same_data_is_refused_with_the_firsts_pid() {
    let slow = FakeModel::start(vec![Next::Fails(429, Some(20), json!({}))], None).await;
    let program = Program::new(&slow.base_url);
    let mut first = program.start(&["run", "wait"]);
    while slow.requests().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let second = program.run(&["run", "me too"]).await;
    assert_eq!(second.code, 1);
    let pid = first.id().expect("it runs").to_string();
    assert!(
        second.err.contains(&pid) && second.err.contains("in use"),
        "{}",
        second.err
    );
    first.kill().await.expect("killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let program = Program::new("http://127.0.0.1:9/v1");
    let mut command = program.command(&["serve"]);
    let projects = program.projects();
    for (name, value) in [
        ("WHATSAPP_ACCESS_TOKEN", "t"),
        ("WHATSAPP_PHONE_NUMBER_ID", "1"),
        ("WHATSAPP_VERIFY_TOKEN", "v"),
        ("WHATSAPP_APP_SECRET", "s"),
        ("ALLOWED_PHONE_NUMBERS", "5491112345678"),
        ("PROJECTS_ROOT", projects.to_str().expect("text")),
        ("BIND_ADDR", &address),
    ] {
        command.env(name, value);
    }
    let run = finish(command).await;
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains(&address) && run.err.contains("BIND_ADDR"),
        "{}",
        run.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_can_be_listed_shown_and_verified() {
    let model = FakeModel::start(vec![says("Hello.")], None).await;
    let program = Program::new(&model.base_url);
    assert!(
        program
            .run(&["sessions"])
            .await
            .out
            .contains("No sessions yet")
    );
    program.run(&["run", "say hello"]).await;
    let list = program.run(&["sessions"]).await;
    assert!(
        list.out.contains("done") && list.out.contains("say hello"),
        "{}",
        list.out
    );
    let id = list
        .out
        .split_whitespace()
        .next()
        .expect("an id")
        .to_owned();
    let shown = program.run(&["show", &id]).await;
    assert!(
        shown.out.contains("session_started") && shown.out.contains("turn_ended"),
        "{}",
        shown.out
    );
    let good = program.run(&["audit", "verify"]).await;
    assert_eq!(good.code, 0, "{}", good.out);
    let journal = program
        .data()
        .join("agent_sessions")
        .join(format!("{id}.jsonl"));
    let text = fs::read_to_string(&journal).expect("the journal");
    fs::write(&journal, text.replace("say hello", "say hallo")).expect("tampered");
    let bad = program.run(&["audit", "verify"]).await;
    assert_eq!(bad.code, 1);
    assert!(
        bad.out.contains("BAD") && bad.out.contains("line 2"),
        "{}",
        bad.out
    );
    assert_eq!(program.run(&["show", "../../etc/passwd"]).await.code, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_is_made_again_from_the_journals() {
    let model = FakeModel::start(vec![shell("git status"), says("Clean.")], None).await;
    let program = Program::new(&model.base_url);
    program.run(&["run", "status"]).await;
    let rebuilt = program.run(&["index", "rebuild"]).await;
    assert_eq!(
        (rebuilt.code, rebuilt.out.trim()),
        (0, "1 sessions indexed"),
        "{}",
        rebuilt.err
    );
    let db =
        rusqlite::Connection::open(program.data().join("journeyman.db")).expect("the database");
    let sql = "SELECT command, decision, exit_code FROM agent_command_log ORDER BY id DESC LIMIT 5";
    let row: (String, String, i64) = db
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("a row");
    assert_eq!(row, ("git status".into(), "allow".into(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_check_explains_without_running() {
    let program = Program::new("").read_only();
    let run = program
        .run(&["policy", "check", "--json", "--", "rm -rf build"])
        .await;
    let verdict: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!((run.code, verdict["decision"].as_str()), (0, Some("deny")));
    assert!(
        verdict["reasons"][0]["fix"]
            .as_str()
            .is_some_and(|fix| !fix.is_empty())
    );
    assert_eq!(verdict["commands"][0]["program"], "rm");
    let words = program
        .run(&["policy", "check", "--", "git", "status"])
        .await;
    assert!(
        words.out.starts_with("allow") && words.out.contains("AGENT_WRITE_ENABLED"),
        "{}",
        words.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_what_is_missing_and_how_to_fix_it() {
    let run = Program::new("").run(&["doctor"]).await;
    assert_eq!(run.code, 1);
    for needle in [
        "AGENT_MODEL",
        "git version",
        "data folder",
        "Ollama",
        "WhatsApp is not configured",
    ] {
        assert!(run.out.contains(needle), "{needle}: {}", run.out);
    }
    let model = FakeModel::start(vec![], Some(says(""))).await;
    let good = Program::new(&model.base_url).run(&["doctor"]).await;
    assert_eq!(good.code, 0, "{}", good.out);
    assert!(!good.out.contains("test-key"), "no secret is shown");
    let json = Program::new("").run(&["doctor", "--json"]).await;
    assert_eq!(json.code, 1);
    let json: Value = serde_json::from_str(&json.out).expect("JSON and nothing else");
    let findings = json["findings"].as_array().expect("findings");
    let is_the_model = |finding: &&Value| finding["state"] == "bad";
    let bad: Vec<&Value> = findings.iter().filter(is_the_model).collect();
    assert_eq!(bad.len(), 1, "{json}");
    let why = bad[0]["text"].as_str().expect("a text");
    assert!(why.contains("AGENT_MODEL"), "{why}");
    let named = |set: &Value| set["name"] == "BIND_ADDR" && set["origin"].is_string();
    assert!(
        json["settings"]
            .as_array()
            .expect("settings")
            .iter()
            .any(named)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_completes_what_is_typed() {
    let program = Program::new("");
    let script = program.run(&["completions", "bash"]).await;
    assert_eq!(script.code, 0, "{}", script.err);
    let typed = "COMP_WORDS=(journeyman policy ch) COMP_CWORD=2; _journeyman journeyman ch policy; echo \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash")
        .args(["-c", &format!("{}\n{typed}", script.out)])
        .output()
        .expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "check\n");
    for shell in ["elvish", "fish", "powershell", "zsh"] {
        let script = program.run(&["completions", shell]).await;
        assert!(script.out.contains("backtest"), "{shell}: {}", script.err);
    }
    let unknown = program.run(&["completions", "ksh"]).await;
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("fish"), "{}", unknown.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manual_has_a_page_for_each_subcommand() {
    let program = Program::new("");
    let page = program.run(&["man"]).await;
    assert_eq!(page.code, 0, "{}", page.err);
    assert!(page.out.contains(".TH journeyman 1"), "{}", page.out);
    assert!(page.out.contains("Exit codes"), "{}", page.out);
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("share/man1");
    let given = pages.to_str().expect("UTF-8");
    assert_eq!(program.run(&["man", "--dir", given]).await.code, 0);
    for name in ["journeyman", "journeyman-run", "journeyman-policy-check"] {
        let page = fs::read_to_string(pages.join(format!("{name}.1"))).expect(name);
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_does_the_whole_job() {
    let program = Program::new("");
    let run = program.run(&["demo", "--yes"]).await;
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(
        run.out
            .lines()
            .next()
            .is_some_and(|line| line.contains("recording")),
        "{}",
        run.out
    );
    for needle in [
        "typing",
        "1/5 steps done",
        "cargo test",
        "[Approve]",
        "+    price - price * percent / 100",
        "Committed",
        "ok  ",
    ] {
        assert!(run.out.contains(needle), "{needle}: {}", run.out);
    }
    let folder = run.out.rsplit("rm -r ").next().expect("the folder").trim();
    let log = crate::support::git(
        &std::path::Path::new(folder).join("projects/shop"),
        &["log", "--format=%s"],
    );
    assert_eq!(
        log.lines().next(),
        Some("fix: take the discount as a share of the price")
    );
    fs::remove_dir_all(folder).expect("removed");
    let parked = program.run(&["demo"]).await;
    assert_eq!(parked.code, 3, "{}", parked.out);
    let folder = parked
        .out
        .rsplit("rm -r ")
        .next()
        .expect("the folder")
        .trim();
    fs::remove_dir_all(folder).expect("removed");
}
