//! Commands that a team wrote down: the scenarios and edge cases of seed 000 by their names, and what must never happen.

use crate::program::Program;
use crate::support::git;
use journeyman::definitions::arguments::{Arguments, Count};
use journeyman::definitions::inline::{self, Allowed};
use journeyman::definitions::template::{Piece, read};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A trusted project with commands, and the real program.
pub struct Project(pub Program);

impl Project {
    pub fn new() -> Self {
        Self(Program::new(""))
    }

    pub fn root(&self) -> std::path::PathBuf {
        self.0.workspace()
    }

    pub fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
        self
    }

    /// A command in `.claude/commands`.
    pub fn command(&self, name: &str, text: &str) -> &Self {
        self.write(&format!(".claude/commands/{name}.md"), text)
    }

    /// What `commands load … --json` prints on stdout, in a workspace that is trusted as it is now.
    pub async fn load(&self, words: &[&str]) -> Value {
        let trusted = self.0.run(&["trust", "."]).await;
        assert_eq!(trusted.code, 0, "{}", trusted.err);
        self.load_untrusted(words).await
    }

    async fn load_untrusted(&self, words: &[&str]) -> Value {
        let words = [&["commands", "load", "--json"], words].concat();
        let run = self.0.run(&words).await;
        assert_eq!(run.code, 0, "{}", run.err);
        serde_json::from_str(&run.out).expect("JSON and nothing else")
    }

    /// What became of each inline command of a text.
    pub async fn bash(&self, commands: &[&str]) -> Vec<Value> {
        let text: String = commands
            .iter()
            .map(|command| format!("!`{command}`\n"))
            .collect();
        let loaded = self.command("inline", &text).load(&["inline"]).await;
        let found = loaded["expansions"]["bash"]
            .as_array()
            .expect("a list")
            .clone();
        let named: Vec<_> = found
            .iter()
            .map(|one| one["command"].as_str().expect("a text"))
            .collect();
        assert_eq!(named, commands);
        found
    }

    async fn content(&self, words: &[&str]) -> String {
        let loaded = self.load(words).await;
        loaded["command"]["content"]
            .as_str()
            .expect("content")
            .to_owned()
    }
}

pub fn is_refused(one: &Value) {
    assert_eq!(one["executed"], false, "{one}");
    assert!(
        one["error"]
            .as_str()
            .expect("an error")
            .contains("not allowed"),
        "{one}"
    );
    assert!(one.get("output").is_none(), "{one}");
}

// --- scenarios of seed 000, section 6 ----------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn scenario_cargar_command_simple_sin_expansiones() {
    let project = Project::new();
    let loaded = project
        .command("simple", "Hello world")
        .load(&["/simple"])
        .await;
    assert_eq!(loaded["success"], true);
    assert_eq!(loaded["command"]["content"], "Hello world");
    assert_eq!(loaded["expansions"], json!({"files": [], "bash": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_cargar_command_con_file_reference() {
    let project = Project::new();
    project
        .command("with-ref", "@.claude/docs/test.md")
        .write(".claude/docs/test.md", "Test content");
    let loaded = project.load(&["/with-ref"]).await;
    assert_eq!(loaded["success"], true);
    let content = loaded["command"]["content"].as_str().expect("content");
    assert_eq!(
        content,
        "## test.md (from .claude/docs/test.md)\n\nTest content"
    );
    assert_eq!(
        loaded["expansions"]["files"],
        json!([{"reference": "@.claude/docs/test.md", "resolved": true, "content": "Test content"}])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_cargar_command_con_bash_inline() {
    let project = Project::new();
    let loaded = project
        .command("with-bash", "Status: !`git status`")
        .load(&["/with-bash"])
        .await;
    assert_eq!(loaded["success"], true);
    let bash = &loaded["expansions"]["bash"][0];
    assert_eq!(
        (&bash["command"], &bash["executed"]),
        (&json!("git status"), &json!(true)),
        "{bash}"
    );
    let output = bash["output"].as_str().expect("output");
    assert!(output.starts_with("On branch main"), "{output}");
    assert_eq!(
        loaded["command"]["content"],
        format!("Status:\n\n```\n{output}\n```")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_command_no_existe() {
    let loaded = Project::new().load(&["/nonexistent"]).await;
    assert_eq!(loaded["success"], false);
    assert_eq!(loaded["error"]["code"], "COMMAND_NOT_FOUND");
    assert_eq!(
        loaded["error"]["message"],
        "Command '/nonexistent' not found"
    );
    assert_eq!(
        loaded["error"]["searchedPaths"][0],
        ".claude/commands/nonexistent.md"
    );
    assert_eq!(
        loaded["error"]["searchedPaths"][1],
        ".claude/commands/nonexistent/index.md"
    );
    assert!(loaded.get("command").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_file_reference_no_existe() {
    let project = Project::new();
    let loaded = project
        .command("broken-ref", "@.claude/nonexistent.md")
        .load(&["/broken-ref"])
        .await;
    assert_eq!(loaded["success"], true);
    let file = &loaded["expansions"]["files"][0];
    assert_eq!(file["resolved"], false);
    assert!(
        file["error"]
            .as_str()
            .expect("an error")
            .contains("not found"),
        "{file}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_bash_command_no_permitido() {
    let project = Project::new();
    let loaded = project
        .command("dangerous", "!`rm -rf /`")
        .load(&["/dangerous"])
        .await;
    assert_eq!(loaded["success"], true);
    is_refused(&loaded["expansions"]["bash"][0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_frontmatter_parsing() {
    let project = Project::new();
    let text = "---\ndescription: Load security patterns\nallowed-tools: Read, Bash(git:*)\n---\n\n## Patterns\n";
    let loaded = project
        .command("with-meta", text)
        .load(&["/with-meta"])
        .await;
    let front = &loaded["command"]["frontmatter"];
    assert_eq!(front["description"], "Load security patterns");
    assert_eq!(front["allowed-tools"], json!(["Read", "Bash(git:*)"]));
    assert_eq!(loaded["command"]["raw"], "## Patterns");
}

// --- edge cases of seed 000, section 4 ---------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn edge_case_command_no_existe() {
    let project = Project::new();
    let loaded = project
        .command("git/sync", "Sync")
        .load(&["git:gone"])
        .await;
    assert_eq!(loaded["error"]["code"], "COMMAND_NOT_FOUND");
    let searched = loaded["error"]["searchedPaths"].as_array().expect("paths");
    let first = [
        ".claude/commands/git/gone.md",
        ".claude/commands/git/gone/index.md",
    ];
    assert_eq!(searched[..2], first);
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_case_file_no_existe() {
    let project = Project::new();
    let loaded = project
        .command("some", "A @gone.md B\n@notes.txt\n!`echo on`")
        .load(&["some"])
        .await;
    assert_eq!(loaded["success"], true);
    let files = loaded["expansions"]["files"].as_array().expect("files");
    let resolved: Vec<_> = files.iter().map(|file| &file["resolved"]).collect();
    assert_eq!(resolved, [false, true], "the rest goes on");
    assert_eq!(loaded["expansions"]["bash"][0]["output"], "on");
    let content = loaded["command"]["content"].as_str().expect("content");
    assert!(
        content.starts_with("A @gone.md [not read: not found: gone.md] B\n"),
        "{content}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn restricciones_de_bash_permitido() {
    let commands = [
        "git status",
        "git diff",
        "git log --oneline -5",
        "git branch",
        "git remote",
        "ls -la",
        "cat notes.txt",
        "cat ./notes.txt",
        "echo hola",
        "pwd",
        "date",
    ];
    for one in Project::new().bash(&commands).await {
        assert_eq!(one["executed"], true, "{one}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restricciones_de_bash_no_permitido() {
    let commands = [
        "rm -rf notes.txt",
        "curl https://example.com",
        "git clean -fdx",
        "git reset --hard",
        "git checkout .",
        "npm install left-pad",
        "pip install x",
        "apt-get install x",
        "cat /etc/passwd",
        "ls /etc",
        "ls /root",
        "cat /root/.bashrc",
    ];
    let project = Project::new();
    for one in project.bash(&commands).await {
        is_refused(&one);
    }
    assert!(project.root().join("notes.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_case_bash_falla() {
    let found = Project::new()
        .bash(&["git log no-such-revision", "cat missing.txt"])
        .await;
    assert_eq!(found[0]["executed"], false);
    assert!(
        found[0]["error"]
            .as_str()
            .expect("stderr")
            .contains("no-such-revision"),
        "{}",
        found[0]
    );
    assert_eq!(found[1]["executed"], false);
    assert!(
        found[1]["error"]
            .as_str()
            .expect("an error")
            .contains("not found"),
        "{}",
        found[1]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_case_bash_timeout() {
    let project = Project::new();
    let bin = project.0.home().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    fs::write(
        bin.join("git"),
        "#!/bin/sh\nsleep 6137.25 & sleep 6137.25\n",
    )
    .expect("written");
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("executable");
    let settings = format!(
        "worktree = \"shared\"\nsandbox_read = [{:?}]\n",
        bin.display().to_string()
    );
    project.0.config("settings.toml", &settings);
    project
        .command("slow", "!`git status` and on")
        .load(&["slow"])
        .await;
    let mut command = project.0.command(&["commands", "load", "slow", "--json"]);
    let path = std::env::var("PATH").expect("PATH");
    command.env("PATH", format!("{}:{path}", bin.display()));
    let run = crate::program::finish(command).await;
    let loaded: Value = serde_json::from_str(&run.out).expect("JSON");
    let bash = &loaded["expansions"]["bash"][0];
    assert_eq!(bash["executed"], false, "{bash}");
    assert!(
        bash["error"]
            .as_str()
            .expect("an error")
            .contains("timeout"),
        "{bash}"
    );
    let running = Command::new("ps")
        .args(["-eo", "args"])
        .output()
        .expect("ps runs");
    let running = String::from_utf8_lossy(&running.stdout).into_owned();
    assert!(!running.contains("sleep 6137.25"), "its group is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_case_frontmatter_invalido() {
    let project = Project::new();
    let loaded = project
        .command("bad", "---\nallowed-tools: [Read\n---\nGo on")
        .load(&["bad"])
        .await;
    assert_eq!(loaded["success"], true);
    assert_eq!(loaded["command"]["frontmatter"], json!({}));
    assert_eq!(loaded["command"]["content"], "Go on");
    let warning = loaded["metadata"]["warnings"][0]
        .as_str()
        .expect("a warning");
    assert!(warning.contains("front matter is not read"), "{warning}");
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_case_archivo_vacio() {
    let project = Project::new();
    let loaded = project.command("empty", "").load(&["empty"]).await;
    assert_eq!(
        (&loaded["success"], &loaded["command"]["content"]),
        (&json!(true), &json!(""))
    );
    assert_eq!(loaded["metadata"]["totalTokensEstimate"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn edge_case_referencias_circulares() {
    let project = Project::new();
    project
        .command("ring", "@a.md")
        .write("a.md", "@docs/b.md")
        .write("docs/b.md", "x\n@a.md");
    let loaded = project.load(&["ring"]).await;
    assert_eq!(loaded["success"], false);
    assert_eq!(loaded["error"]["code"], "CIRCULAR_REFERENCE");
    assert_eq!(
        loaded["error"]["chain"],
        json!(["a.md", "docs/b.md", "a.md"])
    );
    let loaded = project
        .command("self", "@.claude/commands/self.md")
        .load(&["self"])
        .await;
    let own = ".claude/commands/self.md";
    assert_eq!(loaded["error"]["chain"], json!([own, own]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diamond_is_no_circle() {
    let project = Project::new();
    project
        .command("diamond", "@a.md @b.md")
        .write("a.md", "@c.md")
        .write("b.md", "@c.md")
        .write("c.md", "deep");
    let loaded = project.load(&["diamond"]).await;
    assert_eq!(loaded["success"], true, "{loaded}");
    assert_eq!(
        loaded["command"]["content"]
            .as_str()
            .expect("content")
            .matches("deep")
            .count(),
        2
    );
}

// --- what it is called, and what it is given ---------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn its_name_its_slash_and_its_path_mean_the_same() {
    let project = Project::new();
    project
        .command("load-security", "Patterns")
        .command("git/sync", "Sync")
        .command("deep/index", "Deep");
    project.write(
        ".github/commands/review-pr.command.md",
        "Review $1 of $ARGUMENTS",
    );
    let mut answers = Vec::new();
    for name in [
        "/load-security",
        "load-security",
        ".claude/commands/load-security.md",
        "./.claude/commands/load-security.md",
    ] {
        let mut loaded = project.load(&[name]).await;
        loaded["metadata"]["expandedAt"] = json!(null);
        answers.push(loaded);
    }
    assert_eq!(answers[0]["command"]["name"], "load-security");
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    for name in [
        "git:sync",
        "/git:sync",
        "git/sync",
        ".claude/commands/git/sync.md",
    ] {
        assert_eq!(project.load(&[name]).await["command"]["name"], "git:sync");
    }
    assert_eq!(
        project.load(&["deep"]).await["command"]["path"],
        ".claude/commands/deep/index.md"
    );
    assert_eq!(
        project.content(&["review-pr", "7 now"]).await,
        "Review 7 of 7 now"
    );
    for name in [
        "../../etc/passwd",
        "/etc/passwd",
        "",
        "a b",
        ".claude/commands/../../notes.md",
    ] {
        let loaded = project.load(&[name]).await;
        assert_eq!(loaded["error"]["code"], "COMMAND_NOT_FOUND", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_filled_in_counted_as_their_format_counts() {
    let project = Project::new();
    project
        .command("fix", "Fix $0 ($1): $ARGUMENTS $7")
        .command("plain", "Fix it");
    assert_eq!(
        project.content(&["fix", "12 'high prio'"]).await,
        "Fix 12 (high prio): 12 'high prio' $7"
    );
    assert_eq!(
        project.content(&["fix", "12", "high prio"]).await,
        "Fix 12 (high prio): 12 high prio $7"
    );
    assert_eq!(
        project.content(&["plain", "now"]).await,
        "Fix it\n\nARGUMENTS: now"
    );
    assert_eq!(project.content(&["plain"]).await, "Fix it");
    let metadata = &project.load(&["plain"]).await["metadata"];
    let at = metadata["expandedAt"].as_str().expect("a time");
    assert!(at.len() == 20 && at.ends_with('Z'), "{at}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_workspace_is_not_loaded_and_it_is_said_how() {
    let project = Project::new();
    project.command("with-bash", "!`git status` @notes.txt");
    let loaded = project.load_untrusted(&["with-bash"]).await;
    assert_eq!(loaded["error"]["code"], "WORKSPACE_NOT_TRUSTED");
    let message = loaded["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains("journeyman trust") && !loaded.to_string().contains("one"),
        "{message}"
    );
    // What comes with the program loads, and sees nothing of the workspace.
    let loaded = project.load_untrusted(&["review"]).await;
    assert_eq!(loaded["success"], true, "{loaded}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_json_the_text_is_on_stdout_and_what_is_wrong_on_stderr() {
    let project = Project::new();
    project
        .command("mixed", "Read @gone.md")
        .load(&["mixed"])
        .await;
    let run = project.0.run(&["commands", "load", "mixed"]).await;
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "Read @gone.md [not read: not found: gone.md]\n")
    );
    assert_eq!(run.err.trim(), "@gone.md: not found: gone.md");
    let run = project.0.run(&["commands", "load", "none"]).await;
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("Command '/none' not found"), "{}", run.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_example_is_what_happens() {
    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md"))
        .expect("the page");
    let section = docs
        .split("## Commands of your own")
        .nth(1)
        .expect("the section");
    let block = |fence: &str| {
        let text = section
            .split(&format!("{fence}\n"))
            .nth(1)
            .expect("the block");
        text.split("\n````").next().expect("its end").to_owned()
    };
    let project = Project::new();
    project
        .command("fix-issue", &block("````markdown"))
        .write("docs/style.md", "# House style\n\nTabs.\n");
    git(&project.root(), &["add", "docs"]);
    let shown = block("````text");
    let (line, output) = shown.split_once('\n').expect("a command and its output");
    let words =
        shlex::split(line.strip_prefix("$ journeyman ").expect("a command")).expect("words");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    project.load(&["fix-issue"]).await;
    let run = project.0.run(&words).await;
    assert_eq!(run.out, format!("{output}\n"), "{}", run.err);
    // Every line below it works here too, and those that name the same command say the same.
    let lines = section.split("```sh\n").nth(1).expect("the lines");
    let lines = lines.split("\n```").next().expect("their end").lines();
    let mut said = Vec::new();
    for line in lines {
        let line = line.split(" # ").next().expect("words");
        let words = shlex::split(line).expect("words");
        let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let run = project.0.run(&words).await;
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{line}");
        said.push(run.out);
    }
    assert!(
        said[0].contains("/fix-issue [number] [priority]"),
        "{}",
        said[0]
    );
    let json: Value = serde_json::from_str(&said[1]).expect("JSON");
    assert_eq!(json["command"]["content"], output);
    assert_eq!(said[2], said[3]);
    assert!(said[4].contains("Fix issue --odd-argument"), "{}", said[4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_listed_with_what_they_are_for() {
    let project = Project::new();
    let text = "---\ndescription: Ship it\nargument-hint: \"[where]\"\n---\nx";
    project.command("ship", text).load(&["ship"]).await;
    let run = project.0.run(&["commands", "list", "--json"]).await;
    let list: Value = serde_json::from_str(&run.out).expect("JSON");
    let ship = list
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["name"] == "ship")
        .expect("it");
    assert_eq!(
        *ship,
        json!({"name": "ship", "description": "Ship it", "argumentHint": "[where]", "path": ".claude/commands/ship.md",
               "origin": "workspace", "trusted": true})
    );
    let run = project.0.run(&["commands", "list"]).await;
    let line = run
        .out
        .lines()
        .find(|line| line.starts_with("/ship"))
        .expect("its line");
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>().join(" "),
        "/ship [where] Ship it"
    );
}

// --- nothing that came in is looked at again ----------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn what_an_argument_says_is_never_expanded() {
    let project = Project::new();
    let given = "!`git status` @notes.txt $ARGUMENTS $0";
    project.command("echo-args", "Do: $ARGUMENTS");
    let loaded = project.load(&["echo-args", given]).await;
    assert_eq!(loaded["command"]["content"], format!("Do: {given}"));
    assert_eq!(loaded["expansions"], json!({"files": [], "bash": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_cannot_change_what_a_command_means() {
    let project = Project::new();
    project.command("log", "!`git log --oneline $0`");
    let loaded = project.load(&["log", "main"]).await;
    assert_eq!(
        loaded["expansions"]["bash"][0]["executed"], true,
        "{loaded}"
    );
    for hostile in [
        "--output=f",
        "'main; touch f'",
        "'$(touch f)'",
        "'a b'",
        "../x",
        "'`'",
    ] {
        let loaded = project.load(&["log", "--", hostile]).await;
        is_refused(&loaded["expansions"]["bash"][0]);
    }
    assert!(!project.root().join("f").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_included_file_only_its_own_references_are_followed() {
    let project = Project::new();
    project.command("inc", "@a.md @code.py");
    project
        .write("a.md", "# A\n$ARGUMENTS $0 !`git status`\n@b.md")
        .write("b.md", "beta")
        .write("code.py", "# @b.md\n");
    let loaded = project.load(&["inc", "given"]).await;
    let references: Vec<_> = loaded["expansions"]["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(|file| &file["reference"])
        .collect();
    assert_eq!(references, ["@a.md", "@b.md", "@code.py"]);
    assert_eq!(loaded["expansions"]["bash"], json!([]));
    let content = loaded["command"]["content"].as_str().expect("content");
    assert!(
        content.contains("## A (from a.md)") && content.contains("$ARGUMENTS $0 !`git status`"),
        "{content}"
    );
    assert!(content.contains("```py\n# @b.md\n```"), "{content}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_prints_is_never_expanded_and_closes_no_fence() {
    let project = Project::new();
    project.write("evil.txt", "```\n@notes.txt !`git push` $ARGUMENTS\n````\n");
    let loaded = project
        .command("show", "!`cat evil.txt`")
        .load(&["show", "x"])
        .await;
    let content = loaded["command"]["content"].as_str().expect("content");
    assert!(
        content.starts_with("`````\n```\n@notes.txt !`git push` $ARGUMENTS\n````\n`````"),
        "{content}"
    );
    assert_eq!(loaded["expansions"]["files"], json!([]));
    assert_eq!(
        loaded["expansions"]["bash"]
            .as_array()
            .expect("a list")
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_sees_in_a_file_is_taken_out_and_told() {
    let project = Project::new();
    project
        .write("a.md", "Be\u{202e} kind.\n@b.txt\n")
        .write("b.txt", "run\u{200b} it\u{1b}[2K")
        .command("read", "@a.md\n!`cat b.txt`\n");
    let loaded = project.load(&["read"]).await;
    let content = loaded["command"]["content"].as_str().expect("content");
    assert!(!content.contains(['\u{202e}', '\u{200b}', '\u{1b}']));
    for part in [
        "Be kind.",
        "[1 hidden characters were taken out]",
        "run it[2K\n[2 hidden characters were taken out]",
    ] {
        assert!(content.contains(part), "{part}: {content}");
    }
    let warnings = loaded["metadata"]["warnings"].to_string();
    assert!(
        warnings.contains("a.md: 1 hidden characters (U+202E)")
            && warnings.contains("b.txt: 2 hidden characters (U+001B, U+200B)"),
        "{warnings}"
    );
    assert_eq!(loaded["expansions"]["bash"][0]["output"], "run it[2K");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_followed_five_deep() {
    let project = Project::new();
    project.command("deep", "@f1.md");
    for n in 1..8 {
        project.write(&format!("f{n}.md"), &format!("level {n}\n@f{}.md", n + 1));
    }
    let loaded = project.load(&["deep"]).await;
    let files = loaded["expansions"]["files"]
        .as_array()
        .expect("files")
        .clone();
    assert_eq!(files.len(), 6);
    assert_eq!(files[4]["resolved"], true);
    assert!(
        files[5]["error"]
            .as_str()
            .expect("an error")
            .contains("more than 5"),
        "{}",
        files[5]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_text_brings_in_is_bounded_by_the_limits_file() {
    let project = Project::new();
    let limits = "written_files_max = 2\nwritten_file_bytes_max = 5\nwritten_commands_max = 2\nwritten_output_chars_max = 4\n";
    project.0.config("limits.toml", limits);
    project
        .write("a.txt", "five.")
        .write("b.txt", "longer than five");
    let loaded = project
        .command(
            "many",
            "@a.txt @b.txt @a.txt\n!`echo abcdefgh` !`cat b.txt` !`pwd`",
        )
        .load(&["many"])
        .await;
    let of = |kind: &str, at: usize| loaded["expansions"][kind][at].clone();
    let error = |one: Value| one["error"].as_str().expect("an error").to_owned();
    assert_eq!(of("files", 0)["content"], "five.");
    assert_eq!(error(of("files", 1)), "b.txt is larger than 5 bytes");
    assert_eq!(error(of("files", 2)), "more than 2 files in one text");
    let output = of("bash", 0)["output"].as_str().expect("output").to_owned();
    assert!(
        output.starts_with("abcd") && !output.contains("abcde"),
        "{output}"
    );
    assert_eq!(error(of("bash", 1)), "b.txt is larger than 5 bytes");
    assert_eq!(
        error(of("bash", 2)),
        "not allowed: more than 2 commands in one text"
    );
}

// --- files that are none of a text's business ---------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_plain_files_of_the_project_is_read() {
    let project = Project::new();
    let root = project.root();
    project
        .write(".env", "KEY=hunter22")
        .write("sub/id_rsa", "hunter22")
        .write("big.md", &"x".repeat(300_000));
    fs::write(root.join("bin.dat"), b"a\0hunter22").expect("written");
    symlink("/etc/hostname", root.join("host.md")).expect("a link");
    symlink(".env", root.join("env.md")).expect("a link");
    symlink(".git/config", root.join("config.md")).expect("a link");
    nix::unistd::mkfifo(
        &root.join("pipe.md"),
        nix::sys::stat::Mode::from_bits_truncate(0o600),
    )
    .expect("a FIFO");
    fs::write(
        root.parent().expect("a folder").join("outside.md"),
        "hunter22",
    )
    .expect("written");
    let paths = [
        "/etc/hostname",
        "./../outside.md",
        "sub/../../outside.md",
        "~/.bashrc",
        ".env",
        "sub/id_rsa",
        "env.md",
        ".git/config",
        "config.md",
        ".GIT/config",
        "host.md",
        "pipe.md",
        "/dev/zero",
        "/proc/self/environ",
        "big.md",
        "bin.dat",
        "sub",
    ];
    let text: String = paths
        .iter()
        .map(|path| format!("@{path}\n!`cat {path}`\n"))
        .collect();
    let loaded = project.command("all", &text).load(&["all"]).await;
    for file in loaded["expansions"]["files"].as_array().expect("files") {
        assert_eq!(file["resolved"], false, "{file}");
    }
    let bash = loaded["expansions"]["bash"].as_array().expect("bash");
    assert!(bash.iter().all(|one| one["executed"] == false), "{bash:?}");
    let hostname = fs::read_to_string("/etc/hostname").unwrap_or_default();
    let content = loaded["command"]["content"].as_str().expect("content");
    assert!(!loaded.to_string().contains("hunter22"));
    assert!(
        hostname.trim().is_empty() || !content.contains(&format!("\n{hostname}")),
        "{content}"
    );
}

// --- commands that are none of a text's business ------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_the_list_runs_without_asking() {
    let project = Project::new();
    project
        .write("src/a.txt", "alpha\n")
        .write("b.txt", "beta\n");
    let commands = [
        "echo 'a  b'",
        "pwd",
        "date +%Y",
        "cat b.txt src/a.txt",
        "ls",
        "ls -la src",
        "git branch",
        "git log --oneline -5",
    ];
    let found = project.bash(&commands).await;
    assert!(found.iter().all(|one| one["executed"] == true), "{found:?}");
    let output = |at: usize| found[at]["output"].as_str().expect("output");
    let root = project.root().canonicalize().expect("a path");
    assert_eq!(
        (output(0), output(1)),
        ("a  b", root.to_str().expect("UTF-8"))
    );
    assert!(output(2).len() == 4 && output(2).starts_with("20"));
    assert_eq!(
        (output(3), output(4)),
        ("beta\nalpha", "b.txt\nnotes.txt\nsrc")
    );
    assert!(
        output(5).starts_with("-rw") && output(5).ends_with(" a.txt"),
        "{}",
        output(5)
    );
    assert_eq!(output(6), "* main");
    assert!(output(7).ends_with("feat: begin"), "{}", output(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn traps_are_not_allowed() {
    let project = Project::new();
    let before = git(&project.root(), &["rev-parse", "HEAD"]);
    let traps = [
        "cat ./../../etc/passwd",
        "cat /etc/passwd",
        "ls /etc",
        "ls ..",
        "ls ~",
        "git diff --output=f",
        "git diff --no-index /etc/passwd b",
        "git diff /etc/passwd /etc/hostname",
        "git difftool -x sh",
        "git branch -D main",
        "git branch made",
    ];
    for one in project.bash(&traps).await {
        is_refused(&one);
    }
    let traps = [
        "ls | sh",
        "ls; touch f",
        "echo $(touch f)",
        "echo a > f",
        "cat < notes.txt",
        "echo a\ntouch f",
        "X=1 git status",
        "GIT_EXTERNAL_DIFF=sh git diff",
        "git -c core.pager=sh log",
        "'gi't push",
        "ls && touch f",
        "touch f",
        "env ls",
        "/bin/ls",
    ];
    for one in project.bash(&traps).await {
        is_refused(&one);
    }
    assert!(!project.root().join("f").exists());
    assert_eq!(git(&project.root(), &["rev-parse", "HEAD"]), before);
    assert_eq!(
        git(&project.root(), &["branch", "--format=%(refname:short)"]),
        "main\n"
    );
}

/// A repository in which everything that git could run leaves a mark.
#[tokio::test(flavor = "multi_thread")]
async fn git_runs_nothing_that_the_repository_configures() {
    let project = Project::new();
    let root = project.root();
    let mark = root.join("ran");
    // Outside of the sandbox nothing runs either: what is proven here must not rest on it.
    project.0.config(
        "settings.toml",
        "worktree = \"shared\"\nsandbox = \"off\"\n",
    );
    let runs = format!("touch {}; cat", mark.display());
    fs::write(root.join("trap.sh"), format!("#!/bin/sh\n{runs}\n")).expect("written");
    fs::set_permissions(root.join("trap.sh"), fs::Permissions::from_mode(0o755))
        .expect("executable");
    let script = root.join("trap.sh").display().to_string();
    let settings = [
        ("core.fsmonitor", script.as_str()),
        ("diff.external", &script),
        ("core.pager", &script),
        ("diff.trap.command", &script),
        ("diff.trap.textconv", &script),
        ("filter.trap.clean", &script),
        ("filter.trap.smudge", &script),
        ("filter.trap.process", &script),
        ("filter.trap.required", "true"),
        ("filter.a=b.clean", &script),
        ("log.showSignature", "true"),
        ("gpg.program", &script),
        ("format.pretty", "%G?"),
        ("core.sshCommand", &script),
        ("core.hooksPath", "."),
        ("diff.submodule", "log"),
        ("status.submoduleSummary", "true"),
        ("pager.log", &script),
        ("interactive.diffFilter", &script),
        ("core.editor", &script),
    ];
    for (name, value) in settings {
        git(&root, &["config", name, value]);
    }
    fs::create_dir_all(root.join(".git/info")).expect("a folder");
    fs::write(
        root.join(".git/info/attributes"),
        "*.txt diff=trap filter=trap\n*.md filter=a=b\n",
    )
    .expect("written");
    for hook in [
        "post-index-change",
        "fsmonitor-watchman",
        "reference-transaction",
    ] {
        fs::copy(root.join("trap.sh"), root.join(hook)).expect("a hook");
    }
    fs::write(root.join("notes.txt"), "changed\n").expect("written");
    let commands = [
        "git status",
        "git diff",
        "git diff --stat HEAD",
        "git log -p -3",
        "git log",
        "git branch -vv",
        "git remote -v",
        "git diff --cached",
    ];
    let found = project.bash(&commands).await;
    assert!(found.iter().all(|one| one["executed"] == true), "{found:?}");
    assert!(
        found[1]["output"]
            .as_str()
            .expect("a diff")
            .contains("+changed"),
        "{}",
        found[1]
    );
    assert!(!mark.exists(), "something ran: {found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_only_looks_like_a_repository_is_none() {
    let project = Project::new();
    let root = project.root();
    let mark = root.join("ran");
    fs::remove_dir_all(root.join(".git")).expect("removed");
    git(&root, &["init", "--quiet", "--bare", "."]);
    git(&root, &["config", "core.bare", "false"]);
    git(&root, &["config", "core.worktree", "/etc"]);
    git(
        &root,
        &[
            "config",
            "core.fsmonitor",
            &format!("touch {}", mark.display()),
        ],
    );
    for one in project.bash(&["git status", "git log", "git diff"]).await {
        assert_eq!(one["executed"], false, "{one}");
        assert!(
            one["error"]
                .as_str()
                .expect("an error")
                .contains("no git repository of its own"),
            "{one}"
        );
    }
    // One around the project is none of its own either, and one that is elsewhere no more.
    let elsewhere = root.parent().expect("a folder").join("elsewhere");
    crate::support::make_repository(&elsewhere);
    fs::write(
        root.join(".git"),
        format!("gitdir: {}/.git\n", elsewhere.display()),
    )
    .expect("written");
    for one in project.bash(&["git log", "git status"]).await {
        is_refused(&one);
    }
    assert!(!mark.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn git_shows_the_project_whatever_it_is_told_its_folder_is() {
    let project = Project::new();
    git(&project.root(), &["config", "core.worktree", "/etc"]);
    let found = project.bash(&["git status", "git diff"]).await;
    assert!(
        found[0]["output"]
            .as_str()
            .is_some_and(|text| !text.contains("passwd")),
        "{}",
        found[0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_does_not_show_secrets() {
    let project = Project::new();
    let root = project.root();
    project
        .write(".env", "KEY=before\n")
        .write("plain.txt", "a\n");
    git(&root, &["add", "--force", ".env", "plain.txt"]);
    git(&root, &["commit", "--quiet", "--message", "add"]);
    project
        .write(".env", "KEY=hunter22\n")
        .write("plain.txt", "b\n");
    git(&root, &["config", "diff.noprefix", "true"]);
    let found = project
        .bash(&["git diff", "git log -p", "git diff HEAD~1"])
        .await;
    for one in &found {
        let text = one["output"].as_str().expect("a diff");
        assert!(
            !text.contains("KEY=") && text.contains("a secret file is not shown"),
            "{text}"
        );
        assert!(text.contains("plain.txt"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn git_cannot_write_the_project() {
    let project = Project::new();
    let root = project.root();
    let index = fs::read(root.join(".git/index")).expect("an index");
    fs::write(root.join("notes.txt"), "one\ntwo\nthree\n").expect("touched");
    project.bash(&["git status", "git diff"]).await;
    assert_eq!(fs::read(root.join(".git/index")).expect("an index"), index);
    assert!(!Path::new(&root.join(".git/index.lock")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typical_command_takes_no_time_worth_naming() {
    let project = Project::new();
    project
        .command("typical", "Patterns:\n@notes.txt\n!`ls`\n$ARGUMENTS")
        .load(&["typical"])
        .await;
    // Neither a data folder nor a database is made for it.
    fs::remove_dir_all(project.0.data()).expect("removed");
    let loaded = project.load_untrusted(&["typical"]).await;
    assert_eq!(loaded["error"]["code"], "WORKSPACE_NOT_TRUSTED");
    assert!(!project.0.data().exists());
}

// --- whatever is written -----------------------------------------------------------------------------------------------

/// Texts of what matters to the reader, and of what does not.
fn scraps(most: usize) -> impl Strategy<Value = String> {
    let scraps = [
        "@",
        "!",
        "`",
        "```",
        "~~~",
        "\n",
        "\n\n",
        " ",
        "a",
        "é",
        "$",
        "$ARGUMENTS",
        "$0",
        "$1",
        "[0]",
        "@a.md",
        "!`git status`",
        "!`",
        "\"",
        "'",
        "/",
        "..",
        ".",
        "\\",
        "(",
        ")",
        "notes.txt",
        "\u{202e}",
        "{",
        "|",
        ";",
        "--output=f",
        "-",
        "git log ",
        "cat ",
        "#",
        ":",
    ];
    prop::collection::vec(prop::sample::select(scraps.to_vec()), 0..most)
        .prop_map(|parts| parts.concat())
}

/// How many files and commands a text asks for.
fn asked(text: &str, given: &str) -> (usize, usize) {
    let pieces = read(text, &Arguments::read(given), Count::FromOne);
    let files = pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::File(_)));
    let commands = pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::Command(_)));
    (files.count(), commands.count())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn arguments_never_ask_for_anything(text in scraps(24), given in scraps(12)) {
        prop_assert_eq!(asked(&text, &format!("x{given}")), asked(&text, "x"));
    }

    #[test]
    fn only_what_is_understood_runs(text in scraps(10)) {
        if let Ok(Allowed::Git(words)) = inline::read(&text) {
            let is_known = ["status", "diff", "log", "branch", "remote"].contains(&words[0].as_str());
            prop_assert!(is_known && !words.iter().any(|word| word.starts_with("--output")), "{:?}", words);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_of_the_project_is_ever_read() {
    let project = Project::new();
    let root = project.root();
    let outside = root.parent().expect("a folder");
    fs::write(outside.join("secret.md"), "hunter22").expect("written");
    fs::create_dir_all(root.join("sub")).expect("a folder");
    for (to, name) in [
        ("..", "up.md"),
        ("../..", "sub/up.md"),
        ("/", "top.md"),
        ("secret.md", "../link.md"),
        ("../link.md", "far.md"),
    ] {
        symlink(to, root.join(name)).expect("a link");
    }
    let parts = [
        "..",
        ".",
        "sub",
        "up.md",
        "top.md",
        "far.md",
        "secret.md",
        "link.md",
        "projects",
        "shop",
        "notes.txt",
        "etc",
        "hostname",
        "",
        "~",
    ];
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let paths = prop::collection::vec(prop::sample::select(parts.to_vec()), 1..7)
        .prop_map(|parts| parts.join("/"));
    let mut text = String::new();
    let mut begin = outside.display().to_string();
    for at in 0..60 {
        let path = paths.new_tree(&mut runner).expect("a path").current();
        begin = match at % 20 {
            0 => begin,
            _ => String::new(),
        };
        text.push_str(&format!("@{begin}/{path}.md @./{path} @{path}/secret.md\n"));
        begin = outside.display().to_string();
    }
    for (at, part) in text
        .split_inclusive('\n')
        .collect::<Vec<_>>()
        .chunks(20)
        .enumerate()
    {
        project.command(&format!("random{at}"), &part.concat());
    }
    for at in 0..3 {
        let loaded = project.load(&[&format!("random{at}")]).await;
        assert_eq!(loaded["success"], true);
        assert!(!loaded.to_string().contains("hunter22"), "{loaded}");
        let files = loaded["expansions"]["files"].as_array().expect("files");
        assert!(files.len() > 20, "the test still finds references");
        let inside =
            |file: &Value| file["resolved"] == false || file["content"] == "one\ntwo\nthree\n";
        assert!(files.iter().all(inside), "{files:?}");
    }
}
