//! `journeyman ask` with agents of others: a clean room, the words of the question, an answer, and nothing left behind.
//! The agents are shell scripts here; `tests/interop` has real ones.

use crate::fake_forge::Forge;
use crate::fake_model::{FakeModel, calls, says};
use crate::program::{Program, Run, finish};
use crate::support::{PATIENCE, git};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// A program, sources for it to be asked about, and a folder for temporary files that can be looked into.
pub struct Desk {
    pub program: Program,
    pub temp: TempDir,
    pub things: TempDir,
}

impl Desk {
    /// The default agent runs this script to answer; it gets the path of the prompt and of the MCP configuration.
    pub async fn with(script: &str) -> Self {
        let desk = Self::of(Program::new("")).await;
        desk.agent("claude-code", script);
        desk
    }

    pub async fn of(program: Program) -> Self {
        let desk = Self {
            program,
            temp: tempfile::tempdir().unwrap(),
            things: tempfile::tempdir().unwrap(),
        };
        let src = desk.things.path().join("my src");
        fs::create_dir_all(&src).unwrap();
        fs::write(src.join("tool.py"), "def make(): pass\n").unwrap();
        fs::write(desk.things.path().join("README.md"), "Read me.\n").unwrap();
        for (kind, name, place) in [("dir", "src", "my src"), ("file", "readme", "README.md")] {
            let place = desk.things.path().join(place).display().to_string();
            let added = desk.run(&["sources", "add", kind, name, &place]).await;
            assert_eq!(added.code, 0, "{}", added.err);
        }
        desk
    }

    pub fn agent(&self, name: &str, script: &str) {
        let quoted = format!("'{}'", script.replace('\'', r"'\''"));
        let agents = json!({"defaultAgent": name, "agents": {name: {
            "ask": format!("sh -c {quoted} agent {{prompt_file}} --mcp-config {{mcp_config}}"),
            "chat": "sh",
        }}});
        self.program.config("agents.json", &agents.to_string());
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program.command(args);
        command.env("TMPDIR", self.temp.path());
        command
    }

    pub async fn run(&self, args: &[&str]) -> Run {
        finish(self.command(args)).await
    }

    pub async fn ask(&self, question: &str) -> Run {
        self.run(&["ask", "-s", "src", "-s", "readme", "-q", question])
            .await
    }

    pub fn rooms(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.temp.path()).unwrap().flatten();
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        (entries.map(|entry| entry.path()))
            .filter(|path| name(path).starts_with("lctx-"))
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spawn_agent_with_command_template_and_capture_stdout_as_answer() {
    let desk = Desk::with(r#"pwd; echo "$1"; echo "$3"; echo noise >&2"#).await;
    let run = desk.ask("How do I create a tool?").await;
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<&str> = run.out.lines().collect();
    let room = lines[0];
    let id = room.rsplit("/lctx-").next().unwrap();
    assert_eq!((id.len(), id.matches('-').count()), (36, 4), "{room}");
    assert_eq!(
        lines[1..],
        [format!("{room}/prompt.md"), format!("{room}/.mcp.json")]
    );
    // Cleanup after successful ask.
    assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn create_temp_directory_write_empty_mcp_configs_and_symlink_sources() {
    let script = r#"
        stat -c %a .
        for f in .mcp.json .gemini/settings.json .cursor/mcp.json opencode.json; do echo "$f $(cat $f)"; done
        readlink src; readlink readme; cat src/tool.py readme"#;
    let desk = Desk::with(script).await;
    let run = desk.ask("what?").await;
    let things = desk.things.path().canonicalize().unwrap();
    let expected = format!(
        "700\n.mcp.json {{\"mcpServers\":{{}}}}\n.gemini/settings.json {{}}\n.cursor/mcp.json {{}}\nopencode.json {{}}\n{0}/my src\n{0}/README.md\ndef make(): pass\nRead me.\n",
        things.display()
    );
    assert_eq!(run.out, expected, "{}", run.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn generate_prompt_file_for_ask_with_the_question_as_it_is() {
    let desk = Desk::with(r#"cat "$1""#).await;
    let template = desk.program.home().join("config/prompt_template.md");
    // Auto-create template when missing.
    let question = "is ${sourcesList} or $& or {mcp_config} or `id` expanded?";
    let run = desk.ask(question).await;
    assert!(
        run.out.contains(&format!("# Question\n\n{question}\n")),
        "{}",
        run.out
    );
    assert!(
        run.out
            .contains("# Available Sources\n\n- ./src/\n- ./readme\n"),
        "{}",
        run.out
    );
    assert!(
        fs::read_to_string(&template)
            .unwrap()
            .contains("${question}")
    );
    // Load existing template; preserve its structure.
    fs::write(&template, "Mine.\n${question}\n---\n${sourcesList}\nEnd.").unwrap();
    let run = desk.ask("why?").await;
    assert_eq!(run.out, "Mine.\nwhy?\n---\n- ./src/\n- ./readme\nEnd.");
    // Missing both placeholders.
    fs::write(&template, "Nothing.").unwrap();
    let run = desk.ask("why?").await;
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(
        run.err
            .contains("missing required placeholders ${question}, ${sourcesList}"),
        "{}",
        run.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn handle_agent_failure_with_its_stderr_and_cleanup() {
    let desk = Desk::with("echo half; echo 'no key is set' >&2; exit 7").await;
    let run = desk.ask("why?").await;
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(
        run.err.contains("ended with 7: no key is set"),
        "{}",
        run.err
    );
    assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_sources_and_agents_are_named_with_those_that_are_known() {
    let desk = Desk::with("echo no").await;
    let run = desk.run(&["ask", "-s", "unknown", "-q", "x"]).await;
    assert_eq!(run.code, 2);
    assert!(
        run.err
            .contains("source \"unknown\" was not found; there are: readme, src"),
        "{}",
        run.err
    );
    let run = desk
        .run(&["ask", "-s", "src", "-q", "x", "--agent", "nobody"])
        .await;
    assert_eq!(run.code, 2);
    assert!(
        run.err.contains("agent \"nobody\" is not known"),
        "{}",
        run.err
    );
    let run = desk.run(&["ask", "-s", "src", "-q", "  "]).await;
    assert!(
        run.code == 2 && run.err.contains("the question is empty"),
        "{}",
        run.err
    );
    assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_pipes_are_drained() {
    let desk = Desk::with("i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; echo 0123456789012345678901234567890123456789012345678901234567890123456789 >&2; i=$((i+1)); done").await;
    let run = desk.ask("why?").await;
    assert_eq!(
        (run.code, run.out.lines().count()),
        (0, 3000),
        "{}",
        run.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_takes_too_long_is_ended_with_all_it_started() {
    let stubborn = "trap '' TERM; echo half of it; sleep 600 & echo pid $! >&2; wait; sleep 600";
    for (limit, why) in [
        ("ask_seconds_max = 1\n", "gave no answer within 1 s"),
        ("ask_silence_seconds = 1\n", "printed nothing for 1 s"),
    ] {
        let desk = Desk::with(stubborn).await;
        desk.program.config("limits.toml", limit);
        let run = desk.ask("why?").await;
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
        // With what it had said until then.
        for part in [why, "half of it", limit.split(' ').next().unwrap()] {
            assert!(run.err.contains(part), "{part}: {}", run.err);
        }
        let pid = run.err.split("pid ").nth(1).unwrap();
        let pid = pid.split_whitespace().next().unwrap();
        assert!(pid.parse::<u32>().is_ok(), "{}", run.err);
        assert!(
            !PathBuf::from(format!("/proc/{pid}")).exists(),
            "{pid} still runs"
        );
        assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_goes_on_printing_has_the_whole_time() {
    let desk =
        Desk::with("for i in 1 2 3 4 5 6 7 8; do printf . >&2; sleep 0.4; done; echo done").await;
    desk.program
        .config("limits.toml", "ask_silence_seconds = 2\n");
    let run = desk.ask("why?").await;
    assert_eq!((run.code, run.out.as_str()), (0, "done\n"), "{}", run.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_end_is_kept_at_both_ends() {
    let desk = Desk::with("echo first; yes middle | head -c 5000000; echo last").await;
    desk.program
        .config("limits.toml", "answer_bytes_max = 1000\n");
    let run = desk.ask("why?").await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("first\n") && run.out.ends_with("last\n"));
    assert!(run.out.contains("bytes omitted]") && run.out.len() < 200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_questions_at_once_have_a_room_each() {
    let desk = Desk::with(r#"touch "own-$$"; sleep 1; ls; grep Which "$1""#).await;
    let (one, two) = tokio::join!(desk.ask("Which one?"), desk.ask("Which two?"));
    for (run, question) in [(one, "Which one?"), (two, "Which two?")] {
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.out.contains(question), "{}", run.out);
        assert_eq!(run.out.matches("own-").count(), 1, "{}", run.out);
    }
    assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_may_begin_with_dashes_and_have_lines_and_quotes() {
    let desk = Desk::with(r#"cat "$1""#).await;
    for question in ["--help", "-q", "- one\n- 'two' \"three\"\n\\four $(five)"] {
        let run = desk.ask(question).await;
        assert_eq!(run.code, 0, "{question}: {}", run.err);
        let expected = format!("# Question\n\n{question}\n");
        assert!(run.out.contains(&expected), "{}", run.out);
    }
}

/// What it leaves behind is removed, and nothing that it points to.
#[tokio::test(flavor = "multi_thread")]
async fn links_that_a_helper_makes_are_removed_and_not_followed() {
    let script = r#"
        outside="$(dirname "$(readlink readme)")"
        ln -s "$outside" out; mkdir -p deep; ln -s "$outside/my src" deep/src
        rm src; ln -s "$outside" src
        mkdir locked; touch locked/file; chmod 000 locked; echo done"#;
    let desk = Desk::with(script).await;
    let run = desk.ask("why?").await;
    assert_eq!(run.out, "done\n", "{}", run.err);
    assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
    for kept in ["README.md", "my src/tool.py"] {
        assert!(desk.things.path().join(kept).exists(), "{kept}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_changes_neither_sources_nor_what_is_around_them() {
    let script = r#"
        for f in src/tool.py src/new.py readme "$(readlink src)/tool.py"; do
            if echo x >> "$f"; then echo "wrote $f"; fi
        done 2>/dev/null
        rm -rf src/tool.py 2>/dev/null; cat "$(dirname "$(readlink readme)")/beside" >/dev/null 2>&1 && echo 'read beside'
        echo mine > mine.txt && cat mine.txt"#;
    let desk = Desk::with(script).await;
    fs::write(desk.things.path().join("beside"), "not asked about").unwrap();
    let run = desk.ask("why?").await;
    assert_eq!(run.out, "mine\n", "{}", run.err);
    let tool = desk.things.path().join("my src/tool.py");
    assert_eq!(fs::read_to_string(tool).unwrap(), "def make(): pass\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_inherits_is_named_for_it() {
    let desk = Desk::with("env").await;
    let agents = json!({"defaultAgent": "mine", "agents": {"mine": {
        "ask": "sh -c env", "chat": "sh", "env": ["MINE_API_KEY"]}}});
    desk.program.config("agents.json", &agents.to_string());
    let mut command = desk.command(&["ask", "-s", "src", "-q", "x"]);
    command
        .env("MINE_API_KEY", "key-of-mine")
        .env("OTHER_TOKEN", "token-of-others");
    let run = finish(command).await;
    assert!(run.out.contains("MINE_API_KEY=key-of-mine"), "{}", run.err);
    assert!(!run.out.contains("token-of-others"));
}

/// What it would say is for nobody then, and its time limit may be long.
#[tokio::test(flavor = "multi_thread")]
async fn a_helper_ends_with_a_killed_program_and_all_it_started_does() {
    let desk = Desk::with("sleep 600 & echo $! > other; echo $$ > ready; wait").await;
    let mut child = desk
        .command(&["ask", "-s", "src", "-q", "x"])
        .spawn()
        .unwrap();
    let began = Instant::now();
    let number = |name: &str| {
        let text = fs::read_to_string(desk.rooms().first()?.join(name)).ok()?;
        text.trim().parse::<u32>().ok()
    };
    let both = loop {
        if let (Some(one), Some(other)) = (number("ready"), number("other")) {
            break [one, other];
        }
        assert!(began.elapsed() < PATIENCE, "it did not begin");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    child.kill().await.unwrap();
    let lives = |id: &u32| PathBuf::from(format!("/proc/{id}")).exists();
    while both.iter().any(lives) {
        assert!(began.elapsed() < PATIENCE, "it goes on for nobody");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_goes_with_its_process_and_never_through_a_link() {
    let desk = Desk::with("echo > ready; sleep 600").await;
    let mut child = desk
        .command(&["ask", "-s", "src", "-q", "x"])
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    let is_ready = || {
        desk.rooms()
            .first()
            .is_some_and(|room| room.join("ready").exists())
    };
    while !is_ready() {
        assert!(Instant::now() < until, "no room");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let room = desk.rooms()[0].clone();
    // SIGTERM: its group ends, its room goes.
    let pid = nix::unistd::Pid::from_raw(child.id().unwrap().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((ended.code(), room.exists()), (Some(130), false));
    assert!(desk.things.path().join("my src/tool.py").exists());
    // One that a killed process left is held by nobody; a fresh one, a link and a stranger's stay.
    let name = |n: u8| {
        desk.temp
            .path()
            .join(format!("lctx-{n}0000000-0000-4000-8000-000000000000"))
    };
    for n in [1, 2] {
        fs::create_dir(name(n)).unwrap();
        symlink(desk.things.path().join("my src"), name(n).join("src")).unwrap();
    }
    symlink(desk.things.path(), name(3)).unwrap();
    fs::create_dir(desk.temp.path().join("lctx-mine")).unwrap();
    for old in [name(1), desk.temp.path().join("lctx-mine")] {
        let touched = std::process::Command::new("touch")
            .args(["-d", "1 hour ago"])
            .arg(&old)
            .status();
        assert!(touched.unwrap().success());
    }
    desk.agent("quick", "echo done");
    assert_eq!(desk.ask("x").await.out, "done\n");
    assert!(!name(1).exists() && name(2).exists() && name(3).is_symlink());
    assert!(desk.temp.path().join("lctx-mine").exists());
    assert!(desk.things.path().join("my src/tool.py").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_loop_reads_the_sources_and_nothing_else() {
    let script = vec![
        calls("list_files", json!({})),
        calls("search", json!({"pattern": "make|Read"})),
        calls(
            "search",
            json!({"pattern": "make", "path": "src", "glob": "*.py"}),
        ),
        calls(
            "read_lines",
            json!({"path": "src/tool.py", "start": 1, "end": 1}),
        ),
        calls(
            "read_lines",
            json!({"path": "readme", "start": 1, "end": 1}),
        ),
        calls("get_file_outline", json!({"path": "src/tool.py"})),
        calls(
            "read_lines",
            json!({"path": "src/../beside", "start": 1, "end": 1}),
        ),
        calls(
            "read_lines",
            json!({"path": "readme/../beside", "start": 1, "end": 1}),
        ),
        calls("write_file", json!({"path": "src/new.py", "content": "x"})),
        calls("run_command", json!({"command": "cat src/tool.py"})),
        says("`make` stands at src/tool.py:1."),
    ];
    let model = FakeModel::start(script, None).await;
    let desk = Desk::of(Program::new(&model.base_url)).await;
    fs::write(desk.things.path().join("beside"), "not asked about").unwrap();
    let run = desk.ask("Where is make?").await;
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "`make` stands at src/tool.py:1.\n"),
        "{}",
        run.err
    );
    let requests = model.requests();
    let last = requests.last().unwrap();
    let told: Vec<&str> = (last["messages"].as_array().unwrap().iter())
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert!(
        told[0].contains("src/tool.py") && told[0].contains("readme"),
        "{}",
        told[0]
    );
    assert!(
        told[1].contains("src/tool.py") && told[1].contains("Read me."),
        "{}",
        told[1]
    );
    assert!(
        told[2].contains("src/tool.py") && !told[2].contains("readme"),
        "{}",
        told[2]
    );
    assert!(told[3].contains("L1: def make(): pass"), "{}", told[3]);
    assert!(told[4].contains("L1: Read me."), "{}", told[4]);
    assert!(told[5].contains("make"), "{}", told[5]);
    for refused in &told[6..8] {
        assert!(!refused.contains("not asked about"), "{refused}");
    }
    assert!(
        !desk.things.path().join("my src/new.py").exists(),
        "{}",
        told[8]
    );
    assert!(!told[9].contains("def make"), "{}", told[9]);
    let offered = last["tools"].to_string();
    assert!(
        offered.contains("read_lines") && !offered.contains("run_command"),
        "{offered}"
    );
    let question = last["messages"][1]["content"].as_str().unwrap();
    assert!(
        question.contains("Where is make?") && question.contains("- ./src/"),
        "{question}"
    );
    assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn spawn_interactive_agent_with_this_terminal_and_no_prompt_file() {
    let desk = Desk::with("echo never").await;
    let mut command = desk.command(&["ask", "-s", "src", "--chat"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(b"ls -a; cat src/tool.py; echo x >> src/tool.py; exit 3\n")
        .await
        .unwrap();
    drop(keys);
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        out.contains(".mcp.json") && out.contains("def make(): pass"),
        "{out} {err}"
    );
    assert!(!out.contains("prompt.md"), "{out}");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err.contains("Permission denied") && err.contains("exit status: 3"),
        "{err}"
    );
    // Cleanup after chat exit.
    assert_eq!(desk.rooms(), Vec::<PathBuf>::new());
    let tool = desk.things.path().join("my src/tool.py");
    assert_eq!(fs::read_to_string(tool).unwrap(), "def make(): pass\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_git_source_is_copied_asked_about_fetched_anew_and_removed() {
    let forge = Forge::start().await;
    let desk = Desk::with("cat langchain/README.md").await;
    let work = desk.things.path().join("work");
    crate::support::make_repository(&work);
    let push = |text: &str| {
        fs::write(work.join("README.md"), text).unwrap();
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "-qm", "docs: say it"]);
        let bare = forge.repository().display().to_string();
        git(
            &work,
            &["push", "-q", "--force", &bare, "HEAD:refs/heads/trunk"],
        );
        git(
            &forge.repository(),
            &["symbolic-ref", "HEAD", "refs/heads/trunk"],
        );
    };
    push("first\n");
    let with_token = |args: &[&str]| {
        let mut command = desk.command(args);
        command
            .env("GITHUB_API_URL", forge.api())
            .env("GITHUB_TOKEN", crate::fake_forge::TOKEN);
        finish(command)
    };
    let url = forge.remote();
    let refused = desk
        .run(&["sources", "add", "git", "langchain", &url])
        .await;
    assert!(
        refused.code == 1 && refused.err.contains("does not let us in"),
        "{}",
        refused.err
    );
    let listed: Value =
        serde_json::from_str(&desk.run(&["sources", "list", "--json"]).await.out).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");

    let added = with_token(&["sources", "add", "git", "langchain", &url]).await;
    assert_eq!(added.code, 0, "{}", added.err);
    let ask = ["ask", "-s", "langchain", "-q", "x"];
    assert_eq!(desk.run(&ask).await.out, "first\n");
    push("second\n");
    assert_eq!(desk.run(&ask).await.out, "first\n");
    let synced = with_token(&["sources", "sync"]).await;
    assert_eq!(synced.code, 0, "{}", synced.err);
    assert_eq!(desk.run(&ask).await.out, "second\n");
    // A failed sync leaves the copy.
    assert_eq!(desk.run(&["sources", "sync", "langchain"]).await.code, 1);
    assert_eq!(desk.run(&ask).await.out, "second\n");
    let copy = desk.program.home().join("sources/git/langchain");
    let private = copy
        .parent()
        .unwrap()
        .metadata()
        .unwrap()
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(private, 0o700);
    assert!(
        copy.metadata().unwrap().is_dir()
            && copy.metadata().unwrap().uid() == nix::unistd::geteuid().as_raw()
    );

    assert_eq!(desk.run(&["sources", "remove", "langchain"]).await.code, 0);
    assert!(!copy.exists());
    assert_eq!(desk.run(&["sources", "remove", "readme"]).await.code, 0);
    assert!(desk.things.path().join("README.md").exists());
    let gone = desk.run(&ask).await;
    assert!(
        gone.code == 2 && gone.err.contains("was not found"),
        "{}",
        gone.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_that_cannot_be_are_refused_and_those_that_went_are_shown() {
    let desk = Desk::with("echo no").await;
    let things = desk.things.path().display().to_string();
    for (kind, name, place, why) in [
        ("file", "x", things.as_str(), "no regular file"),
        ("dir", "x", &format!("{things}/README.md"), "no folder"),
        ("dir", "../x", &things, "cannot name a source"),
        ("dir", "src", &things, "already"),
        ("file", "x", "/nonexistent/file", "No such file"),
        (
            "git",
            "x",
            "https://ana:secret@example.com/a/b",
            "credentials",
        ),
        (
            "git",
            "x",
            "https://ghp_0123456789abcdefghij0@example.com/a/b",
            "credentials",
        ),
        ("git", "x", "ext::sh%20-c%20touch%20ran", "it is a folder"),
        ("git", "x", "fd::7", "it is a folder"),
        ("git", "x", "file:///etc", "it is a folder"),
        ("git", "x", &things, "journeyman sources add dir x"),
        ("git", "x", "--upload-pack=touch ran", "blanks"),
        ("git", "x", "-oProxyCommand=touch:a/b", "it is a folder"),
        (
            "git",
            "a b",
            "https://example.com/a/b",
            "cannot name a source",
        ),
        (
            "git",
            "ñ",
            "https://example.com/a/b",
            "cannot name a source",
        ),
        ("dir", "..", &things, "cannot name a source"),
        ("dir", "-x", &things, "cannot name a source"),
        (
            "file",
            "CLAUDE.md",
            &format!("{things}/README.md"),
            "cannot name a source",
        ),
    ] {
        let run = desk.run(&["sources", "add", "--", kind, name, place]).await;
        assert!(!run.err.contains("secret"), "{}", run.err);
        assert!(
            run.code != 0 && run.err.contains(why),
            "{kind} {place}: {}",
            run.err
        );
    }
    fs::remove_file(desk.things.path().join("README.md")).unwrap();
    let listed = desk.run(&["sources", "list"]).await.out;
    assert!(listed.contains("is not at"), "{listed}");
    let run = desk.ask("x").await;
    assert!(
        run.code == 2 && run.err.contains("is not at"),
        "{}",
        run.err
    );
}

/// `sources sync` dies in the middle, or runs twice: what is there is whole, and nobody takes away what another one makes.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_whole_whoever_dies_over_it() {
    let forge = Forge::start().await;
    let desk = Desk::with("cat langchain/notes.txt").await;
    let bare = forge.repository();
    let work = desk.things.path().join("work");
    crate::support::make_repository(&work);
    git(
        &work,
        &[
            "push",
            "-q",
            "--force",
            &bare.display().to_string(),
            "HEAD:refs/heads/trunk",
        ],
    );
    git(&bare, &["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    let with_token = |args: &[&str]| {
        let mut command = desk.command(args);
        command
            .env("GITHUB_API_URL", forge.api())
            .env("GITHUB_TOKEN", crate::fake_forge::TOKEN);
        command
    };
    let url = forge.remote();
    let added = finish(with_token(&["sources", "add", "git", "langchain", &url])).await;
    assert_eq!(added.code, 0, "{}", added.err);
    // A remote that takes connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/a/b", silent.local_addr().unwrap());
    let list = desk.program.home().join("sources.toml");
    let known = fs::read_to_string(&list).unwrap();
    fs::write(&list, known.replace(&url, &nowhere)).unwrap();
    let mut first = desk.command(&["sources", "sync"]).spawn().unwrap();
    let copies = desk.program.home().join("sources/git");
    let staged = || {
        let folders = fs::read_dir(copies.join(".journeyman"));
        folders.into_iter().flatten().count()
    };
    let until = Instant::now() + PATIENCE;
    while staged() == 0 {
        assert!(Instant::now() < until, "it never began");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ask = ["ask", "-s", "langchain", "-q", "x"];
    let answer = "one\ntwo\nthree\n";
    assert_eq!(desk.run(&ask).await.out, answer);
    let second = desk.run(&["sources", "sync"]).await;
    assert!(
        second.code == 1 && second.err.contains("does another process fetch it"),
        "{}",
        second.err
    );
    assert_eq!(staged(), 1, "the first one works in it");
    first.kill().await.unwrap();
    assert_eq!(desk.run(&ask).await.out, answer);
    fs::write(&list, known).unwrap();
    let synced = finish(with_token(&["sources", "sync"])).await;
    assert_eq!(synced.code, 0, "{}", synced.err);
    assert_eq!((desk.run(&ask).await.out.as_str(), staged()), (answer, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_the_list_may_go_away() {
    let desk = Desk::with("echo no").await;
    let mut child = desk
        .command(&["sources", "list", "--json"])
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = output.unwrap().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.as_ref()), (Some(0), ""));
}
