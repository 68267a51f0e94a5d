//! What the tools promise to the model and to the person behind it. Real files, real git, real processes.

use journeyman::agent::event::{Call, CallId, EffectClass, Outcome, Status};
use journeyman::agent::limits;
use journeyman::agent::mask::Masks;
use journeyman::agent::plan::Plan;
use journeyman::config::Settings;
use journeyman::gate::{
    self, Approved, BUILT_IN, Circumstances, Facts, GatePolicy, GateSettings, PathFact, Place,
    ProgramFact, Ticket, Touch,
};
use journeyman::tools::{self, Action, Kit, Reach, Tool};
use journeyman::world::outputs::Outputs;
use journeyman::world::process::{Processes, safe_environment};
use journeyman::world::shelf::Shelf;
use journeyman::world::store::Store;
use journeyman::world::trust::Trust;
use journeyman::world::workspace::{Open, Workspace, WorkspaceError, digest_of};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A workspace with its reach; the folder lives as long as this.
pub struct Bench {
    folder: TempDir,
    pub reach: Arc<Reach>,
}

/// The gate's approval of a call, by facts that say that every path is inside and every program is the system's: what
/// is looked at here is what holds behind the gate.
fn approved(call: Call, touches: &[Touch]) -> Approved<Call> {
    let settings = GateSettings {
        allowlist: Vec::new(),
        write_enabled: true,
        protected_branches: Vec::new(),
    };
    let policy = GatePolicy::load(&[("built-in", BUILT_IN)], settings).unwrap();
    let wants = gate::wants(&policy, touches);
    let inside = |path: &String| {
        let fact = PathFact {
            resolved: format!("/w/{path}"),
            place: Place::Workspace,
            exists: true,
        };
        (path.clone(), fact)
    };
    let system = |name: &String| {
        let fact = ProgramFact::System {
            path: format!("/usr/bin/{name}"),
        };
        (name.clone(), fact)
    };
    let facts = Facts {
        paths: wants.paths.iter().map(inside).collect(),
        programs: wants.programs.iter().map(system).collect(),
        ..Facts::default()
    };
    let circumstances = Circumstances {
        cwd: "/w",
        owner: "ana",
    };
    let verdict = gate::judge(&policy, touches, &facts);
    let ticket = Ticket {
        digest: gate::digest(&call, "/w", "ana", &verdict),
    };
    gate::admit(
        &policy,
        &[],
        &call,
        touches,
        &facts,
        circumstances,
        Some(&ticket),
    )
    .unwrap_or_else(|verdict| panic!("the gate refuses {call:?}: {verdict:?}"))
}

fn processes(workspace: &Path) -> Processes {
    let environment = safe_environment(&[]);
    let settings = Settings::demo(&workspace.join("nowhere"), crate::support::no_whatsapp());
    let sandbox = settings.sandbox(&environment);
    Processes::new(
        Arc::new(environment),
        sandbox,
        workspace,
        CancellationToken::new(),
    )
}

/// Kept in `data` below the folder.
pub fn trust(folder: &Path) -> Trust {
    Trust {
        store: Arc::new(Store::new(&folder.join("data"))),
        masks: Masks::new([]),
        run_hooks: true,
        shelf: Shelf::new(folder.join("home"), limits::built_in().definitions()),
    }
}

pub fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::at(folder.path()).unwrap();
    let reach = Arc::new(Reach {
        workspace,
        processes: processes(folder.path()),
        session: "s-1".into(),
        outputs: Outputs::of(&folder.path().join("data"), "s-1"),
        hosting: Arc::default(),
        trust: trust(folder.path()),
        own: Arc::default(),
        projects: None,
        expect: None,
        outline: limits::built_in().outline(),
        agent: None,
        mcp: None,
        helpers: None,
        asks: None,
    });
    Bench { folder, reach }
}

impl Bench {
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.root().join(path)).unwrap()
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.read(path)).unwrap()
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.run(tool, arguments).await
    }

    async fn run(&self, tool: &str, arguments: Value) -> Outcome {
        let tool = tools::find(tool).unwrap();
        tools::validate(tool, &arguments).unwrap();
        // The gate would refuse some of these before the tool; here the tool must hold by itself.
        let touches = match tool.name {
            "run_command" => (tool.touches)(&arguments).unwrap(),
            _ => vec![Touch::Read("anything".into())],
        };
        let call = Call {
            id: CallId("3.1".into()),
            wire_id: "w".into(),
            tool: tool.name.into(),
            arguments: arguments.to_string(),
        };
        let Action::World { run, .. } = tool.action else {
            panic!("{} does not work in the world", tool.name)
        };
        let outcome = run(approved(call, &touches), self.reach.clone()).await;
        assert_eq!(
            outcome.consequential,
            tool.class != EffectClass::Pure,
            "{}",
            tool.name
        );
        outcome
    }

    pub async fn done(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.call(tool, arguments).await;
        assert_eq!(outcome.status, Status::Done, "{}", outcome.output);
        outcome.output
    }

    pub async fn failed(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.call(tool, arguments).await;
        assert_eq!(outcome.status, Status::Failed, "{}", outcome.output);
        outcome.output
    }

    async fn command(&self, text: &str) -> Outcome {
        self.call("run_command", json!({"command": text})).await
    }

    pub fn git(&self, args: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .args(args)
            .current_dir(self.root())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// A repository with one commit of what is there.
    pub fn repository(&self) -> &Self {
        self.git(&["init", "-q", "-b", "main"]);
        self.git(&["config", "user.name", "Ada"]);
        self.git(&["config", "user.email", "ada@example.org"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "chore: start", "--allow-empty"]);
        self
    }
}

pub fn edit(path: &str, search: &str, replace: &str) -> Value {
    json!({"path": path, "search": search, "replace": replace})
}

pub fn edits(edits: &[Value]) -> Value {
    json!({"edits": edits})
}

fn tool(name: &str) -> &'static Tool {
    tools::find(name).unwrap()
}

fn misfit(name: &str, arguments: Value) -> String {
    tools::validate(tool(name), &arguments).unwrap_err()
}

// --- the table -----------------------------------------------------------------------------------------------------

fn kit(write: bool, github: bool) -> Kit {
    Kit {
        write,
        github,
        ..Kit::default()
    }
}

#[test]
fn offers_the_same_short_text_to_every_model() {
    let offered = tools::offered(kit(true, false));
    assert!(serde_json::to_string(&offered).unwrap().len() < 6_900);
    let lines: Vec<String> = offered.iter().map(Value::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let more = tools::offered(kit(true, true));
    let is_new = |offer: &&Value| !offered.contains(offer);
    let lines: Vec<String> = more.iter().filter(is_new).map(Value::to_string).collect();
    insta::assert_snapshot!(
        "offers_pull_requests_to_a_project_on_github",
        lines.join("\n")
    );
    let more = tools::offered(Kit {
        workspaces: true,
        ..kit(true, false)
    });
    let lines: Vec<String> = more.iter().filter(is_new).map(Value::to_string).collect();
    insta::assert_snapshot!(
        "offers_other_workspaces_where_there_are_some",
        lines.join("\n")
    );
}

#[test]
fn offers_helpers_and_plans_once_the_work_has_several_steps() {
    let offered = tools::offered(kit(true, false));
    let more = tools::offered(Kit {
        helpers: true,
        steps: true,
        ..kit(true, false)
    });
    let lines = more.iter().filter(|offer| !offered.contains(offer));
    let lines: Vec<String> = lines.map(Value::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn offers_schedules_where_they_can_be_made() {
    let offer = |schedules| {
        tools::offered(Kit {
            schedules,
            ..kit(true, false)
        })
    };
    let (few, more) = (offer(false), offer(true));
    let lines = more.iter().filter(|offer| !few.contains(offer));
    let lines: Vec<String> = lines.map(Value::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let size = |offers: &[Value]| serde_json::to_string(offers).unwrap().len();
    assert!(
        size(&more) - size(&few) < 680,
        "{} and {}",
        size(&few),
        size(&more)
    );
}

#[test]
fn offers_nothing_that_writes_or_executes_without_the_write_switch() {
    let offered: Vec<Value> = tools::offered(kit(false, true));
    let names: Vec<&str> = offered
        .iter()
        .map(|offer| offer["function"]["name"].as_str().unwrap())
        .collect();
    for name in [
        "write_file",
        "apply_patch",
        "run_command",
        "manage_process",
        "git_commit",
    ] {
        assert!(!names.contains(&name), "{name}");
    }
    assert!(names.contains(&"preview_patch") && names.contains(&"create_task_plan"));
}

#[test]
fn tells_everything_that_is_wrong_with_arguments_at_once() {
    let text = misfit("read_lines", json!({"path": 7, "start": 0, "stop": 3}));
    insta::assert_snapshot!(text, @r#"
    The arguments of read_lines do not fit:
    /end: missing, but required
    /path: expected string, got 7
    /start: expected at least 1, got 0
    /stop: unknown; expected only end, path, start
    "#);
    let text = misfit(
        "apply_patch",
        json!({"edits": [{"path": "a", "search": "", "replace": "b", "old": 1}]}),
    );
    insta::assert_snapshot!(text, @r#"
    The arguments of apply_patch do not fit:
    /edits/0/search: expected a text that is not empty
    /edits/0/old: unknown; expected only path, replace, search
    "#);
    insta::assert_snapshot!(misfit("run_command", json!({"command": "x", "detached": true, "timeout": 301})), @r#"
    The arguments of run_command do not fit:
    /timeout: expected at most 300, got 301
    /detached: unknown; expected only background, command, timeout
    "#);
    insta::assert_snapshot!(misfit("update_task_status", json!({"step": 1, "status": "finished"})), @r#"
    The arguments of update_task_status do not fit:
    /status: expected one of ["pending","in_progress","done","skipped"], got "finished"
    "#);
    insta::assert_snapshot!(misfit("get_task_plan", json!([1])), @r#"
    The arguments of get_task_plan do not fit:
    the arguments: expected object, got [1]
    "#);
}

#[test]
fn takes_null_for_an_optional_argument_that_was_not_given() {
    assert!(tools::validate(tool("list_files"), &json!({"path": null, "glob": null})).is_ok());
    assert!(
        tools::validate(
            tool("read_lines"),
            &json!({"path": null, "start": 1, "end": 2})
        )
        .is_err()
    );
}

#[test]
fn declares_every_file_that_a_call_touches() {
    let touches = |name: &str, arguments: Value| (tool(name).touches)(&arguments).unwrap();
    let two = edits(&[edit("a", "x", "y"), edit("b/c", "x", "y")]);
    assert_eq!(
        touches("apply_patch", two.clone()),
        [Touch::Write("a".into()), Touch::Write("b/c".into())]
    );
    assert_eq!(
        touches("preview_patch", two),
        [Touch::Read("a".into()), Touch::Read("b/c".into())]
    );
    assert_eq!(
        touches("search", json!({"pattern": "x"})),
        [Touch::Read(".".into())]
    );
    assert_eq!(
        touches("run_command", json!({"command": "ls -l"})),
        [Touch::Command("ls -l".into())]
    );
    assert_eq!(
        touches("git_diff", json!({"path": "a"})),
        [Touch::RepositoryRead, Touch::Read("a".into())]
    );
    assert_eq!(
        touches("git_commit", json!({"message": "fix: x"})),
        [Touch::RepositoryWrite]
    );
}

// --- the workspace -------------------------------------------------------------------------------------------------

#[test]
fn opens_nothing_that_leads_out_of_the_workspace() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    let bench = bench();
    symlink(
        outside.path().join("secret"),
        bench.root().join("file-link"),
    )
    .unwrap();
    symlink(outside.path(), bench.root().join("folder-link")).unwrap();
    symlink("..", bench.root().join("up")).unwrap();
    symlink("loop", bench.root().join("loop")).unwrap();
    let workspace = &bench.reach.workspace;
    let absolute = outside.path().join("secret");
    let sneaky = format!("{}/../{}", bench.root().display(), "x");
    let names = [
        "file-link",
        "folder-link/secret",
        "up/x",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "loop",
        &sneaky,
    ];
    for path in names.into_iter().chain(absolute.to_str()) {
        for result in [
            workspace.open(path, Open::Read).map(drop),
            workspace.write_atomic(path, b"x"),
        ] {
            let error = result.unwrap_err();
            // `a` does not exist, so the kernel may stop there already.
            assert!(
                matches!(
                    error,
                    WorkspaceError::Leaves { .. } | WorkspaceError::NotFound { .. }
                ),
                "{path}: {error}"
            );
        }
        assert_eq!(workspace.digest(path), None, "{path}");
    }
    assert_eq!(fs::read_to_string(absolute).unwrap(), "s");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn never_waits_for_a_fifo_or_opens_a_device() {
    let bench = bench();
    let fifo = bench.root().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.root().join("socket")).unwrap();
    // Only root can make a device; elsewhere the link to one is refused as leading outside.
    let device = nix::sys::stat::makedev(1, 3);
    let _ = nix::sys::stat::mknod(
        &bench.root().join("device"),
        nix::sys::stat::SFlag::S_IFCHR,
        nix::sys::stat::Mode::S_IRWXU,
        device,
    );
    symlink("/dev/zero", bench.root().join("zero")).unwrap();
    fs::create_dir(bench.root().join("folder")).unwrap();
    for path in ["fifo", "socket", "device", "zero", "folder"] {
        let error = bench.reach.workspace.read_text(path).unwrap_err();
        assert!(
            !matches!(error, WorkspaceError::Io { .. }),
            "{path}: {error}"
        );
        bench.reach.workspace.write_atomic(path, b"x").unwrap_err();
    }
    let error = bench
        .reach
        .workspace
        .read_text("fifo")
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "fifo is a FIFO; only regular files can be read or written"
    );
}

#[test]
fn replaces_a_file_as_a_whole_and_keeps_its_mode() {
    let bench = bench();
    bench.write("run.sh", "old");
    fs::set_permissions(
        bench.root().join("run.sh"),
        fs::Permissions::from_mode(0o751),
    )
    .unwrap();
    symlink("run.sh", bench.root().join("link")).unwrap();
    let workspace = &bench.reach.workspace;
    workspace.write_atomic("link", b"new").unwrap();
    assert_eq!(bench.text("run.sh"), "new");
    assert_eq!(
        fs::metadata(bench.root().join("run.sh"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777,
        0o751
    );
    assert!(
        fs::symlink_metadata(bench.root().join("link"))
            .unwrap()
            .is_symlink()
    );
    workspace.write_atomic("new/deep/file", b"x").unwrap();
    let absolute = bench.root().canonicalize().unwrap().join("new/deep/file");
    assert_eq!(
        workspace.read_text(absolute.to_str().unwrap()).unwrap(),
        "x"
    );
    assert_eq!(workspace.digest("new/deep/file"), Some(digest_of(b"x")));
    let names: Vec<_> = fs::read_dir(bench.root())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn writes_nothing_below_git() {
    let bench = bench();
    bench.write(".git/config", "").write("a", "");
    symlink(".git", bench.root().join("innocent")).unwrap();
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        "innocent/hooks/x",
        "innocent/config",
        "sub/.GIT/x",
    ] {
        let error = bench.reach.workspace.write_atomic(path, b"x").unwrap_err();
        assert!(
            matches!(error, WorkspaceError::GitInternals { .. }),
            "{path}: {error}"
        );
    }
    assert!(!bench.root().join("sub").exists());
}

// --- looking -------------------------------------------------------------------------------------------------------

fn zoo() -> Bench {
    let bench = bench();
    bench
        .write(".gitignore", "target/\n*.log\n")
        .write("target/x.rs", "needle")
        .write("a.log", "needle");
    bench
        .write(".env", "needle")
        .write(".git/config", "needle")
        .write("deploy.pem", "needle");
    bench
        .write("src/main.rs", "fn main() {}\n// needle\n")
        .write("src/deep/lib.rs", "needle")
        .write("README.md", "needle");
    bench
        .write("logo.png", b"\x89PNG\0needle")
        .write(".github/ci.yml", "needle")
        .write("tokenizer_key.py", "needle");
    bench
}

#[tokio::test]
async fn lists_what_a_person_would_look_at() {
    let bench = zoo();
    let all = bench.done("list_files", json!({})).await;
    assert_eq!(
        all,
        "README.md\ndeploy.pem\nlogo.png\nsrc/deep/lib.rs\nsrc/main.rs\ntokenizer_key.py"
    );
    assert_eq!(
        bench.done("list_files", json!({"glob": "*.rs"})).await,
        "src/deep/lib.rs\nsrc/main.rs"
    );
    assert_eq!(
        bench
            .done("list_files", json!({"path": "src", "glob": "deep/*"}))
            .await,
        "src/deep/lib.rs"
    );
    assert_eq!(
        bench.done("list_files", json!({"path": ".github"})).await,
        ".github/ci.yml"
    );
    assert!(
        bench
            .done("list_files", json!({"path": "target"}))
            .await
            .starts_with("No files")
    );
    assert!(
        bench
            .failed("list_files", json!({"path": "nowhere"}))
            .await
            .contains("no such file")
    );
    assert!(
        bench
            .failed("list_files", json!({"path": ".git"}))
            .await
            .contains("below .git")
    );
    assert!(
        bench
            .failed("list_files", json!({"path": "../"}))
            .await
            .contains("outside")
    );
    assert!(
        bench
            .failed("list_files", json!({"glob": "{a"}))
            .await
            .contains("glob")
    );
}

#[tokio::test]
async fn counts_the_files_that_it_does_not_list() {
    let bench = bench();
    for i in 0..130 {
        bench.write(&format!("many/f{i:03}"), "");
    }
    let text = bench.done("list_files", json!({})).await;
    assert_eq!(text.lines().count(), 101);
    assert!(
        text.ends_with("[30 more files omitted; narrow it by path or glob: many/ 30]"),
        "{text}"
    );
}

#[tokio::test]
async fn searches_no_secret_ignored_hidden_or_binary_file() {
    let bench = zoo();
    let text = bench.done("search", json!({"pattern": "need.e"})).await;
    let expected = "README.md:1: needle\nsrc/deep/lib.rs:1: needle\nsrc/main.rs:2: // needle\ntokenizer_key.py:1: needle";
    assert_eq!(text, expected);
    assert_eq!(
        bench
            .done("search", json!({"pattern": "main", "path": "src/main.rs"}))
            .await,
        "src/main.rs:1: fn main() {}"
    );
    assert!(
        bench
            .done("search", json!({"pattern": "needle", "path": ".env"}))
            .await
            .starts_with("No matches")
    );
    assert!(
        bench
            .failed("search", json!({"pattern": "main("}))
            .await
            .contains("regular expression")
    );
}

#[tokio::test]
async fn searches_for_plain_text_in_any_case_and_in_files_of_a_type() {
    let bench = bench();
    bench
        .write("a.rs", "call(x)\nCALL(y)\ncall x\n")
        .write("b.py", "call(x)\n")
        .write("c.weird", "call(x)\n");
    let search = async |arguments: Value| bench.done("search", arguments).await;
    assert_eq!(
        search(json!({"pattern": "call(", "literal": true})).await,
        "a.rs:1: call(x)\nb.py:1: call(x)\nc.weird:1: call(x)"
    );
    assert_eq!(
        search(json!({"pattern": "call\\(", "ignore_case": true, "type": "rust"})).await,
        "a.rs:1: call(x)\na.rs:2: CALL(y)"
    );
    assert_eq!(
        search(json!({"pattern": "call.x", "type": "py"})).await,
        "b.py:1: call(x)"
    );
    let all = search(json!({"pattern": "x", "type": "all", "glob": "*.weird"})).await;
    assert_eq!(all, "c.weird:1: call(x)");
    let text = bench
        .failed("search", json!({"pattern": "x", "type": "weird"}))
        .await;
    assert!(text.contains("glob, such as *.weird"), "{text}");
    let text = bench.failed("search", json!({"pattern": "call("})).await;
    assert!(text.contains("literal: true"), "{text}");
    let two = json!({"pattern": "a\nb", "literal": true});
    let text = bench.failed("search", two).await;
    assert!(text.contains("line by line"), "{text}");
    assert!(misfit("search", json!({"pattern": "x", "context": 11})).contains("at most 10"));
}

#[tokio::test]
async fn shows_the_lines_around_a_match_once_and_in_bounds() {
    let bench = bench();
    let lines: String = (1..=12).map(|n| format!("line {n}\n")).collect();
    bench.write("a.txt", &lines).write("b.txt", "x\nline 2\n");
    let around = json!({"pattern": "line (2|4|10|12)$", "context": 1});
    insta::assert_snapshot!(bench.done("search", around).await, @"
    a.txt-1- line 1
    a.txt:2: line 2
    a.txt-3- line 3
    a.txt:4: line 4
    a.txt-5- line 5
    --
    a.txt-9- line 9
    a.txt:10: line 10
    a.txt-11- line 11
    a.txt:12: line 12
    --
    b.txt-1- x
    b.txt:2: line 2
    ");
    let many: String = (0..2000).map(|n| format!("{}\n", n % 20 == 10)).collect();
    bench.write("many.txt", many);
    let all = json!({"pattern": "true", "path": "many.txt", "context": 10});
    let text = bench.done("search", all).await;
    assert!(
        text.ends_with("[more than 400 lines; narrow it by pattern, path, glob or type]"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 401);
    bench.write("many.txt", format!("true\n{}", "b\ntrue\n".repeat(100)));
    let all = json!({"pattern": "true", "path": "many.txt", "context": 1});
    let text = bench.done("search", all).await;
    let last = text.lines().rev().take(2).collect::<Vec<_>>();
    assert_eq!(
        last,
        [
            "[more than 100 matches; narrow it by pattern, path, glob or type]",
            "many.txt-200- b"
        ]
    );
}

#[tokio::test]
async fn says_that_there_are_more_matches_than_shown() {
    let bench = bench();
    bench.write("a.txt", "x\n".repeat(150));
    let text = bench.done("search", json!({"pattern": "x"})).await;
    assert!(
        text.ends_with("[more than 100 matches; narrow it by pattern, path, glob or type]"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 101);
    bench.write("a.txt", "x\n".repeat(100));
    assert_eq!(
        bench
            .done("search", json!({"pattern": "x"}))
            .await
            .lines()
            .count(),
        100
    );
}

#[tokio::test]
async fn finds_the_same_in_the_same_order_however_many_files_there_are() {
    let bench = bench();
    for n in 0..900 {
        let text = match n % 3 {
            0 => format!("one\nneedle {n}\nthree\n"),
            _ => "hay\n".repeat(n),
        };
        bench.write(&format!("d{}/f{n:03}.txt", n % 7), text);
    }
    let pattern = |pattern: &str| json!({"pattern": pattern, "context": 1});
    // Few of many files: all of them, by their paths.
    let found = bench.done("search", pattern("needle [0-9]*[05]0$")).await;
    let shown: Vec<&str> = found.lines().filter(|line| line.contains(":2:")).collect();
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    assert_eq!(shown.len(), 5, "{found}");
    assert_eq!(shown, sorted);
    assert_eq!(found.matches("\n--\n").count(), 4);
    // Too many: the first hundred, and always the same ones.
    let first = bench.done("search", json!({"pattern": "needle"})).await;
    assert_eq!(first.lines().count(), 101);
    assert!(
        first.starts_with("d0/f000.txt:2: needle 0\nd0/f021.txt"),
        "{first}"
    );
    assert!(first.contains("[more than 100 matches"), "{first}");
    for _ in 0..10 {
        assert_eq!(
            bench.done("search", json!({"pattern": "needle"})).await,
            first
        );
    }
}

#[tokio::test]
async fn reads_exactly_the_lines_asked_for() {
    let bench = bench();
    let numbered: String = (1..=300).map(|n| format!("line {n}\r\n")).collect();
    bench
        .write("a.txt", format!("\u{feff}{numbered}"))
        .write("empty", "")
        .write("bad", b"ok\n\xff\xfe")
        .write("bin", "a\0b");
    let read = |start: i64, end: i64| json!({"path": "a.txt", "start": start, "end": end});
    assert_eq!(
        bench.done("read_lines", read(1, 2)).await,
        "L1: line 1\nL2: line 2"
    );
    assert_eq!(
        bench.done("read_lines", read(300, 400)).await,
        "L300: line 300\n[end of file: 300 lines]"
    );
    assert!(
        bench
            .failed("read_lines", read(1, 201))
            .await
            .contains("more than 200 lines")
    );
    assert!(
        bench
            .failed("read_lines", read(5, 4))
            .await
            .contains("before start")
    );
    assert!(
        bench
            .failed("read_lines", read(301, 302))
            .await
            .contains("past the end")
    );
    assert!(misfit("read_lines", read(0, 4)).contains("/start: expected at least 1"));
    let at = |path: &str| json!({"path": path, "start": 1, "end": 9});
    assert_eq!(
        bench.done("read_lines", at("empty")).await,
        "empty is empty."
    );
    assert!(
        bench
            .done("read_lines", json!({"path": "bad", "start": 1, "end": 2}))
            .await
            .contains("L2: \u{ff}\u{fe}\n[end of file: 2 lines]\n[not UTF-8; read as Latin-1]")
    );
    assert!(
        bench
            .failed("read_lines", at("bin"))
            .await
            .contains("NUL at byte 1")
    );
    assert!(
        bench
            .failed("read_lines", at("no"))
            .await
            .contains("no such file")
    );
}

// --- changing ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn writes_new_files_and_replaces_only_what_it_was_told_to() {
    let bench = bench();
    let write = |content: &str, overwrite: bool| json!({"path": "a/b.txt", "content": content, "overwrite": overwrite});
    let outcome = bench.call("write_file", write("one\ntwo\n", false)).await;
    assert_eq!(outcome.output, "Created a/b.txt: 2 lines.");
    assert_eq!(
        outcome.changes[0].diff,
        "--- /dev/null\n+++ b/a/b.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    );
    assert!(
        bench
            .failed("write_file", write("three\n", false))
            .await
            .contains("overwrite: true")
    );
    // Run again after a crash: the same, not an error.
    assert!(
        bench
            .done("write_file", write("one\ntwo\n", false))
            .await
            .contains("already")
    );
    assert_eq!(
        bench.done("write_file", write("three\n", true)).await,
        "Replaced a/b.txt: 1 line."
    );
    bench.write("a/b.txt", "by the person");
    assert!(
        bench
            .failed("write_file", write("four", true))
            .await
            .contains("changed by somebody else")
    );
    bench
        .done(
            "read_lines",
            json!({"path": "a/b.txt", "start": 1, "end": 1}),
        )
        .await;
    bench.done("write_file", write("four", true)).await;
    assert_eq!(bench.text("a/b.txt"), "four");
}

#[tokio::test]
async fn patches_several_places_in_several_files() {
    let bench = bench();
    bench.write("a.rs", "one\ntwo\nthree\n").write("b.rs", "x");
    let patch = edits(&[
        edit("a.rs", "two", "2"),
        edit("b.rs", "x", "y"),
        edit("./a.rs", "2\nthree", "2\n3"),
    ]);
    let preview = bench.done("preview_patch", patch.clone()).await;
    assert_eq!(bench.text("a.rs"), "one\ntwo\nthree\n");
    insta::assert_snapshot!(preview, @r#"
    --- a/a.rs
    +++ b/a.rs
    @@ -1,3 +1,3 @@
     one
    -two
    -three
    +2
    +3
    --- a/b.rs
    +++ b/b.rs
    @@ -1 +1 @@
    -x
    \ No newline at end of file
    +y
    \ No newline at end of file
    "#);
    let expect = |tool: &Tool| match tool.action {
        Action::World {
            expect: Some(expect),
            ..
        } => expect(&patch, &bench.reach.workspace).unwrap(),
        _ => panic!("not probeable"),
    };
    let expected = expect(tool("apply_patch"));
    let outcome = bench.call("apply_patch", patch.clone()).await;
    assert_eq!(outcome.output, "Patched a.rs (+2 -2), b.rs (+1 -1).");
    assert_eq!(
        (bench.text("a.rs").as_str(), bench.text("b.rs").as_str()),
        ("one\n2\n3\n", "y")
    );
    for file in expected.files {
        assert_ne!(file.before, file.after);
        assert_eq!(bench.reach.workspace.digest(&file.path), file.after);
    }
    assert_eq!(outcome.changes.len(), 2);
}

#[tokio::test]
async fn patches_all_files_or_none() {
    let bench = bench();
    bench.write("a", "one\n").write("b", "two\n");
    let text = bench
        .failed(
            "apply_patch",
            edits(&[edit("a", "one", "1"), edit("b", "three", "3")]),
        )
        .await;
    assert!(
        text.starts_with("Nothing was changed, in no file. Edit 2 (b): search was not found"),
        "{text}"
    );
    assert_eq!(
        (bench.text("a").as_str(), bench.text("b").as_str()),
        ("one\n", "two\n")
    );
    // Also where the writing fails, after `a` was written.
    bench.write(".git/config", "x");
    let text = bench
        .failed(
            "apply_patch",
            edits(&[edit("a", "one", "1"), edit(".git/config", "x", "y")]),
        )
        .await;
    assert!(
        text.starts_with("Nothing was changed, in no file. .git/config is below .git"),
        "{text}"
    );
    assert_eq!(bench.text("a"), "one\n");
    fs::create_dir(bench.root().join("c")).unwrap();
    bench
        .failed(
            "apply_patch",
            edits(&[edit("a", "one", "1"), edit("c", "x", "y")]),
        )
        .await;
    bench
        .failed(
            "apply_patch",
            edits(&[edit("a", "one", "1"), edit("../b", "x", "y")]),
        )
        .await;
    assert_eq!(bench.text("a"), "one\n");
}

#[tokio::test]
async fn keeps_line_ends_byte_order_mark_final_newline_and_mode() {
    let check = async |before: &str, search: &str, replace: &str, after: &str| {
        let bench = bench();
        bench.write("f", before);
        fs::set_permissions(bench.root().join("f"), fs::Permissions::from_mode(0o755)).unwrap();
        bench
            .done("apply_patch", edits(&[edit("f", search, replace)]))
            .await;
        assert_eq!(bench.text("f"), after);
        assert_eq!(
            fs::metadata(bench.root().join("f"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o755
        );
    };
    check(
        "a\r\nb\r\nc\r\n",
        "a\nb\n",
        "A\nnew\nB\n",
        "A\r\nnew\r\nB\r\nc\r\n",
    )
    .await;
    check("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n").await;
    check("a\nb\r\nc\nd\n", "b\nc", "B\nC", "a\nB\r\nC\nd\n").await;
    check("\u{feff}a\nb\n", "a\n", "x\n", "\u{feff}x\nb\n").await;
    check("a\nb", "b", "c", "a\nc").await;
    check("a\nb", "b\n", "c\nd\n", "a\nc\nd").await;
    check("a\r\nb", "a\r\nb", "c", "c").await;
    check("á\r\né\r\n", "é", "ü", "á\r\nü\r\n").await;
    check("a\nb\n", "a\n", "", "b\n").await;
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, ..crate::support::generated() })]

    /// Whatever line ends a file mixes, an edit leaves every byte outside of its place alone.
    #[test]
    fn touches_no_byte_outside_of_the_edited_place(
        lines in proptest::collection::vec(("[a-zé ]{0,6}", proptest::bool::ANY), 1..12),
        final_newline: bool,
        bom: bool,
        place: (proptest::sample::Index, proptest::sample::Index),
    ) {
        let mut whole: Vec<String> = Vec::new();
        for (i, (text, crlf)) in lines.iter().enumerate() {
            whole.push(format!("{i}{text}#{i}{}", if *crlf { "\r\n" } else { "\n" }));
        }
        if !final_newline {
            let last = whole.pop().unwrap_or_default();
            whole.push(last.trim_end_matches(['\r', '\n']).to_owned());
        }
        let (a, b) = (place.0.index(whole.len()), place.1.index(whole.len()));
        let (from, to) = (a.min(b), a.max(b) + 1);
        let mark = if bom { "\u{feff}" } else { "" };
        let (before, old, after) = (whole[..from].concat(), whole[from..to].concat(), whole[to..].concat());
        // As the model sees it: without carriage returns, and without the end of the last line.
        let seen = old.replace('\r', "");
        let search = seen.trim_end_matches('\n');
        let bench = bench();
        bench.write("f", format!("{mark}{before}{old}{after}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(bench.done("apply_patch", edits(&[edit("f", search, "NEW\nTEXT")])));
        let text = bench.text("f");
        let end = &old[old.trim_end_matches(['\r', '\n']).len()..];
        let middle = text.strip_prefix(&format!("{mark}{before}")).and_then(|rest| rest.strip_suffix(&format!("{end}{after}")));
        proptest::prop_assert!(matches!(middle, Some("NEW\nTEXT" | "NEW\r\nTEXT")), "{text:?}");
    }
}

#[tokio::test]
async fn shows_where_a_patch_that_does_not_fit_should_have_gone() {
    let bench = bench();
    bench.write("f.py", "def total(xs):\n    sum = 0\n    return sum\n\ndef mean(xs):\n    sum = 0\n    return sum\n");
    let patch = |search: &str, replace: &str| edits(&[edit("f.py", search, replace)]);
    insta::assert_snapshot!(bench.failed("apply_patch", patch("    sum = 0", "    sum = 1")).await, @r#"
    Nothing was changed, in no file. Edit 1 (f.py): search stands 2 times in the file; add lines around it until it fits one place:
    L2:     sum = 0
    --
    L6:     sum = 0
    "#);
    insta::assert_snapshot!(bench.failed("apply_patch", patch("def mean(xs):\n  sum = 0\n", "x")).await, @r#"
    Nothing was changed, in no file. Edit 1 (f.py): search was not found; read_lines shows the file as it is now. Most alike; the first differs only in blanks or indentation:
    L5: def mean(xs):
    L6:     sum = 0
    --
    L1: def total(xs):
    L2:     sum = 0
    "#);
    insta::assert_snapshot!(bench.failed("apply_patch", patch("def mean(values):", "x")).await, @r#"
    Nothing was changed, in no file. Edit 1 (f.py): search was not found; read_lines shows the file as it is now. Most alike:
    L5: def mean(xs):
    --
    L1: def total(xs):
    "#);
    insta::assert_snapshot!(bench.failed("apply_patch", patch("zzz", "def mean(xs):")).await, @"Nothing was changed, in no file. Edit 1 (f.py): search was not found, but replace already stands at L5: the edit may be done already");
    insta::assert_snapshot!(bench.failed("apply_patch", patch("zzz", "yyy")).await, @"Nothing was changed, in no file. Edit 1 (f.py): search was not found; read_lines shows the file as it is now. No line of the file is like it.");
    insta::assert_snapshot!(bench.failed("preview_patch", patch("def mean", "def mean")).await, @"Nothing was changed, in no file. f.py: the edits change nothing; what is put in is the same as what is there");
    assert!(
        misfit("apply_patch", patch("", "x"))
            .contains("/edits/0/search: expected a text that is not empty")
    );
    assert!(misfit("apply_patch", edits(&[])).contains("/edits: expected at least 1"));
    assert!(
        bench
            .failed("apply_patch", edits(&[edit("new", "a", "b")]))
            .await
            .contains("write_file")
    );
}

#[tokio::test]
async fn bounds_the_diff_of_a_change() {
    let bench = bench();
    let content = "a fairly long line of text\n".repeat(500);
    let outcome = bench
        .call("write_file", json!({"path": "big", "content": content}))
        .await;
    let change = &outcome.changes[0];
    assert_eq!((change.added, change.removed), (500, 0));
    assert!(change.diff.chars().count() < 3_100, "{}", change.diff.len());
    assert!(change.diff.ends_with(" lines omitted]"), "{}", change.diff);
}

// --- running -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn runs_plain_commands_without_a_shell() {
    let bench = bench();
    let outcome = bench.command("echo '$HOME; ls | wc'").await;
    let (head, rest) = outcome.output.split_once('\n').unwrap();
    assert!(
        head.starts_with("Exit code: 0 | Duration: ") && head.ends_with("ms"),
        "{head}"
    );
    assert_eq!(
        (rest, outcome.exit_code, outcome.status),
        ("stdout:\n$HOME; ls | wc", Some(0), Status::Done)
    );
    let outcome = bench
        .command("echo out; echo err >&2; pwd | wc -l; exit 3")
        .await;
    assert!(
        outcome.output.starts_with("Exit code: 3 | "),
        "{}",
        outcome.output
    );
    assert!(
        outcome.output.ends_with("\nstdout:\nout\n1\nstderr:\nerr"),
        "{}",
        outcome.output
    );
    assert_eq!(
        (outcome.exit_code, outcome.status),
        (Some(3), Status::Failed)
    );
}

#[tokio::test]
async fn says_how_a_command_ended_that_did_not_exit() {
    let bench = bench();
    let outcome = bench.command("no-such-program").await;
    assert!(
        outcome.output.starts_with("Exit code: none | "),
        "{}",
        outcome.output
    );
    assert!(
        outcome.output.contains("not found: no-such-program"),
        "{}",
        outcome.output
    );
    let outcome = bench.command("kill -9 $$").await;
    assert!(
        outcome.output.contains("Killed by signal 9"),
        "{}",
        outcome.output
    );
    let outcome = bench
        .call("run_command", json!({"command": "sleep 60", "timeout": 1}))
        .await;
    assert!(
        outcome.output.contains("Stopped after 1 s"),
        "{}",
        outcome.output
    );
}

#[tokio::test]
async fn keeps_head_and_tail_of_long_output() {
    let bench = bench();
    let outcome = bench.command("seq 1 5000; echo problem >&2").await;
    let chars = outcome.output.chars().count();
    assert!((3_900..4_300).contains(&chars), "{chars}");
    assert!(
        outcome.output.contains("\nstdout:\n1\n2\n")
            && outcome.output.contains("\n5000\nstderr:\nproblem")
    );
    assert!(outcome.output.contains(" characters omitted]"));
    assert!(outcome.digest.is_some());
}

// --- the repository ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn commits_the_sessions_work_and_says_what_it_left() {
    let bench = bench();
    bench
        .write("a.txt", "one\n")
        .write("gone.txt", "x")
        .write(".gitignore", "*.tmp\n")
        .repository();
    bench
        .write("a.txt", "two\n")
        .write("theirs.txt", "t")
        .write(".env", "KEY=1")
        .write("x.tmp", "i");
    fs::remove_file(bench.root().join("gone.txt")).unwrap();
    bench.git(&["rm", "-q", "--cached", "gone.txt"]);
    bench
        .done(
            "write_file",
            json!({"path": "odd [name]*.txt", "content": "n"}),
        )
        .await;
    bench
        .done("write_file", json!({"path": "server.key", "content": "k"}))
        .await;
    let text = bench
        .done(
            "git_commit",
            json!({"message": "fix(cart): round the discount\n\nBecause of cents."}),
        )
        .await;
    assert!(
        text.contains("fix(cart): round the discount\n3 files changed"),
        "{text}"
    );
    assert!(text.contains("3 files: "), "{text}");
    for left in [
        ".env (secret)",
        "server.key (secret)",
        "theirs.txt (not written by this session)",
    ] {
        assert!(text.contains(left), "{text}");
    }
    let message = bench.git(&["log", "-1", "--format=%B"]);
    let expected =
        "fix(cart): round the discount\n\nBecause of cents.\n\nJourneyman-Effect: s-1/3.1";
    assert_eq!(message.trim(), expected);
    assert_eq!(
        bench.git(&["ls-files"]),
        ".gitignore\na.txt\nodd [name]*.txt\n"
    );
    let text = bench
        .failed("git_commit", json!({"message": "fix: again"}))
        .await;
    assert!(
        text.starts_with(
            "there is nothing to commit: no tracked file changed.\nLeft out, 3 files: "
        ),
        "{text}"
    );
}

#[tokio::test]
async fn commits_its_new_files_also_after_a_restart() {
    let bench = bench();
    bench
        .repository()
        .write("new/mine.txt", "m")
        .write("new/theirs.txt", "t");
    bench
        .reach
        .workspace
        .notes()
        .wrote_before(["new/mine.txt".to_owned()]);
    let text = bench
        .done("git_commit", json!({"message": "feat: mine"}))
        .await;
    assert!(
        text.contains("new/theirs.txt (not written by this session)"),
        "{text}"
    );
    assert_eq!(bench.git(&["ls-files"]), "new/mine.txt\n");
}

#[tokio::test]
async fn answers_in_time_about_a_patch_of_a_monotonous_file() {
    let bench = bench();
    bench.write("a", "aa aa aa aa aa aa aa aa aa aa\n".repeat(10_000));
    let started = std::time::Instant::now();
    let text = bench
        .failed(
            "apply_patch",
            edits(&[edit("a", &"aa ".repeat(50_000), "b")]),
        )
        .await;
    assert!(text.len() < 1_000, "{}", text.len());
    let text = bench
        .failed("apply_patch", edits(&[edit("a", "aa", "b")]))
        .await;
    assert!(
        text.contains("stands 1000 times or more") && text.contains("[995 more places]"),
        "{text}"
    );
    assert!(started.elapsed().as_secs() < 20);
}

#[tokio::test]
async fn shows_history_without_secrets() {
    let bench = bench();
    bench.write("a.txt", "one\n");
    bench.repository();
    bench.write("a.txt", "two\n").write(".env", "KEY=hush\n");
    bench.git(&["add", "--force", "--all"]);
    bench.git(&["commit", "--quiet", "--message", "fix: count"]);
    let log = bench.done("git_log", json!({})).await;
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(
        log.lines()
            .next()
            .is_some_and(|line| line.ends_with(": fix: count")),
        "{log}"
    );
    let show = bench.done("git_log", json!({"what": "show"})).await;
    assert!(show.contains("+two") && !show.contains("hush"), "{show}");
    let blame = bench
        .done("git_log", json!({"what": "blame", "path": "a.txt"}))
        .await;
    assert!(blame.ends_with(") two"), "{blame}");
    let branches = bench.done("git_log", json!({"what": "branches"})).await;
    assert!(branches.starts_with("* "), "{branches}");
    for (arguments, expected) in [
        (json!({"what": "blame"}), "/path: missing"),
        (json!({"rev": "--output=x"}), "is no commit"),
        (json!({"what": "show", "rev": "HEAD:.env"}), "is no commit"),
        (json!({"rev": "nothing"}), "git log ended with"),
    ] {
        let text = bench.failed("git_log", arguments.clone()).await;
        assert!(text.contains(expected), "{arguments}: {text}");
    }
}

#[tokio::test]
async fn makes_a_branch_once_and_switches_to_one_that_is_there() {
    let bench = bench();
    bench.write("a.txt", "one\n");
    bench.repository();
    for how in [
        "new branch fix/it, at ",
        "branch fix/it, which was there, at ",
    ] {
        let text = bench
            .done("git_create_branch", json!({"name": "fix/it"}))
            .await;
        assert!(text.starts_with(&format!("On the {how}")), "{text}");
    }
    bench.write("a.txt", "two\n");
    bench.git(&["commit", "--quiet", "--all", "--message", "fix: it"]);
    bench.git(&["branch", "old", "HEAD~1"]);
    bench.write("a.txt", "three\n");
    let text = bench
        .failed("git_create_branch", json!({"name": "old"}))
        .await;
    assert!(
        text.contains("a.txt") && text.contains("git_stash"),
        "{text}"
    );
    bench.git(&["restore", "a.txt"]);
    let text = bench
        .done("git_create_branch", json!({"name": "old"}))
        .await;
    assert!(text.contains("read them again"), "{text}");
    assert_eq!(bench.read("a.txt"), b"one\n");
    for name in ["-f", "a..b", "a b"] {
        let text = bench
            .failed("git_create_branch", json!({"name": name}))
            .await;
        assert!(text.contains("is no name of a branch"), "{text}");
    }
}

#[tokio::test]
async fn puts_changes_aside_and_takes_back_its_own_only() {
    let bench = bench();
    bench.write("a.txt", "one\n").write("b.txt", "one\n");
    bench.repository();
    let push = || bench.done("git_stash", json!({"action": "push"}));
    let pop = json!({"action": "pop"});
    let text = bench.failed("git_stash", pop.clone()).await;
    assert!(text.contains("has put nothing aside"), "{text}");
    let text = bench.failed("git_stash", json!({"action": "push"})).await;
    assert!(text.contains("nothing to put aside"), "{text}");
    bench.write("a.txt", "two\n").write("new.txt", "new\n");
    let text = push().await;
    assert!(
        text.starts_with("Put aside: a.txt.")
            && text.ends_with("New files stay where they are: 1."),
        "{text}"
    );
    assert_eq!(bench.read("a.txt"), b"one\n");
    assert!(bench.root().join("new.txt").exists());
    // The person's own, which is newer, stays.
    bench.write("b.txt", "theirs\n");
    bench.git(&["stash", "push", "--quiet", "--message", "mine"]);
    let text = bench.done("git_stash", pop.clone()).await;
    assert!(text.starts_with("Taken back.\n M a.txt"), "{text}");
    assert_eq!(bench.read("b.txt"), b"one\n");
    assert!(bench.git(&["stash", "list"]).contains("mine"));
    let text = bench.failed("git_stash", pop.clone()).await;
    assert!(text.contains("has put nothing aside"), "{text}");
    // What does not fit any more is kept.
    push().await;
    bench.write("a.txt", "other\n");
    bench.git(&["commit", "--quiet", "--all", "--message", "fix: other"]);
    let text = bench.failed("git_stash", pop).await;
    assert!(text.contains("still put aside, as stash@{0}"), "{text}");
    assert!(bench.git(&["stash", "list"]).contains("journeyman s-1/"));
}

#[tokio::test]
async fn commits_no_secret_even_if_it_was_staged() {
    let bench = bench();
    bench
        .write("a.txt", "one\n")
        .repository()
        .write(".env", "KEY=1")
        .write("a.txt", "two\n");
    bench.git(&["add", "-f", ".env"]);
    let text = bench
        .failed("git_commit", json!({"message": "fix: x"}))
        .await;
    assert!(text.contains("git restore --staged .env"), "{text}");
    assert_eq!(bench.git(&["log", "--format=%s"]), "chore: start\n");
}

#[tokio::test]
async fn takes_only_conventional_messages() {
    let bench = bench();
    bench.write("a", "1").repository().write("a", "2");
    for message in [
        "fixed it",
        "Fix: it",
        "fix it: now",
        "fix(: x",
        "fix():  x",
        "fix: ",
        "fix:x",
        "feat(a)b: c",
    ] {
        let text = bench
            .failed("git_commit", json!({"message": message}))
            .await;
        assert!(text.contains("conventional"), "{message}: {text}");
    }
    bench
        .done(
            "git_commit",
            json!({"message": "feat(api)!: drop v1\n\nReviewed-by: Bo"}),
        )
        .await;
    let message = bench.git(&["log", "-1", "--format=%B"]);
    assert_eq!(
        message.trim(),
        "feat(api)!: drop v1\n\nReviewed-by: Bo\nJourneyman-Effect: s-1/3.1"
    );
}

#[tokio::test]
async fn says_why_git_can_not_be_used() {
    let bench = bench();
    for (tool, arguments) in [
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_commit", json!({"message": "fix: x"})),
    ] {
        assert!(
            bench
                .failed(tool, arguments)
                .await
                .contains("no git repository")
        );
    }
    bench.write("sub/a", "1").repository();
    bench.git(&["config", "user.email", ""]);
    let text = bench
        .failed("git_commit", json!({"message": "fix: x"}))
        .await;
    assert!(
        text.contains("user.email is not set") && text.contains("git config user.email"),
        "{text}"
    );
    let workspace = Workspace::at(&bench.root().join("sub")).unwrap();
    let reach = Arc::new(Reach {
        workspace,
        processes: processes(bench.root()),
        session: "s-2".into(),
        outputs: Outputs::of(bench.root(), "s-2"),
        hosting: Arc::default(),
        trust: trust(bench.root()),
        own: Arc::default(),
        projects: None,
        expect: None,
        outline: limits::built_in().outline(),
        agent: None,
        mcp: None,
        helpers: None,
        asks: None,
    });
    let inner = Bench {
        folder: tempfile::tempdir().unwrap(),
        reach,
    };
    assert!(
        inner
            .failed("git_commit", json!({"message": "fix: x"}))
            .await
            .contains("it lies in that of")
    );
}

#[tokio::test]
async fn shows_status_and_diff_without_secrets() {
    let bench = bench();
    bench.git(&["init", "-q", "-b", "main"]);
    bench.write("a.txt", "one\n").write(".env", "KEY=hunter1\n");
    bench.git(&["add", "-f", "."]);
    let first = bench.done("git_diff", json!({})).await;
    assert!(
        first.contains("+one") && !first.contains("hunter"),
        "{first}"
    );
    bench.repository();
    assert!(
        bench
            .done("git_status", json!({}))
            .await
            .starts_with("## main\nNothing changed")
    );
    bench
        .write("a.txt", "two\n")
        .write(".env", "KEY=hunter2\n")
        .write("new.txt", "n");
    assert_eq!(
        bench.done("git_status", json!({})).await,
        "## main\n M .env\n M a.txt\n?? new.txt"
    );
    let diff = bench.done("git_diff", json!({})).await;
    assert!(
        diff.contains("-one\n+two") && !diff.contains("hunter"),
        "{diff}"
    );
    let end = "1 untracked file not in the diff: new.txt\n1 secret file not in the diff: .env";
    assert!(diff.ends_with(end), "{diff}");
    assert!(
        bench
            .done("git_diff", json!({"path": "new.txt"}))
            .await
            .starts_with("No tracked file changed")
    );
}

// --- the plan ------------------------------------------------------------------------------------------------------

#[test]
fn keeps_a_plan_as_a_checklist() {
    let run = |name: &str, plan: &Plan, arguments: Value| match tool(name).action {
        Action::Plan(run) => run(plan, &arguments),
        _ => panic!("{name} is no plan tool"),
    };
    let none = Plan::default();
    assert!(
        run("get_task_plan", &none, json!({}))
            .unwrap()
            .1
            .contains("no plan yet")
    );
    assert!(
        run(
            "update_task_status",
            &none,
            json!({"step": 1, "status": "done"})
        )
        .is_err()
    );
    assert!(run("create_task_plan", &none, json!({"steps": ["a", " "]})).is_err());
    let (plan, _) = run(
        "create_task_plan",
        &none,
        json!({"steps": ["look\nclosely", "fix"]}),
    )
    .unwrap();
    let (plan, text) = run(
        "update_task_status",
        &plan.unwrap(),
        json!({"step": 1, "status": "done"}),
    )
    .unwrap();
    assert_eq!(text, "1. [x] look closely\n2. [ ] fix");
    let plan = plan.unwrap();
    assert!(
        run(
            "update_task_status",
            &plan,
            json!({"step": 3, "status": "done"})
        )
        .unwrap_err()
        .contains("steps 1 to 2")
    );
    assert_eq!(
        run("get_task_plan", &plan, json!({})).unwrap(),
        (None, text)
    );
    let Action::Question(ask) = tool("request_user_approval").action else {
        panic!("asks nothing")
    };
    assert_eq!(ask(&json!({"question": "Which branch?"})), "Which branch?");
}
