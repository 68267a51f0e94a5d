//! Definitions: what a team wrote down for its agents is found where it stands, and nothing else is.

use crate::program::Program;
use crate::tools::{Bench, bench};
use journeyman::agent::event::Timestamp;
use journeyman::agent::trust::{TrustAnswer, TrustWish};
use journeyman::definitions::{Kind, Origin, Registry};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

pub fn grant(bench: &Bench) {
    let (trust, workspace) = (&bench.reach.trust, &bench.reach.workspace);
    let code = trust.survey(workspace).code;
    let answer = trust.act(
        &TrustWish::Grant { code },
        Some(workspace),
        "test",
        Timestamp(0),
    );
    assert!(matches!(answer, TrustAnswer::Trusted { .. }), "{answer:?}");
}

fn root(bench: &Bench) -> &Path {
    bench.reach.workspace.root()
}

fn registry(bench: &Bench) -> Registry {
    bench.reach.trust.definitions(&bench.reach.workspace)
}

fn found(registry: &Registry) -> Vec<(Kind, String, String)> {
    let of_workspace = registry
        .all()
        .iter()
        .filter(|one| one.origin == Origin::Workspace);
    of_workspace
        .map(|one| (one.kind, one.id.clone(), one.path.clone()))
        .collect()
}

fn problem(registry: &Registry, path: &str) -> String {
    let found = registry.problems().iter().find(|one| one.path == path);
    found
        .unwrap_or_else(|| panic!("no problem of {path}: {:?}", registry.problems()))
        .what
        .clone()
}

#[test]
fn definitions_are_found_in_the_places_of_every_convention() {
    let bench = bench();
    let expected = [
        (Kind::Command, "a", ".claude/commands/a.md"),
        (Kind::Command, "b", ".github/commands/b.command.md"),
        (Kind::Command, "c", ".github/prompts/c.prompt.md"),
        (Kind::Command, "d", ".opencode/command/d.md"),
        (Kind::Command, "git:sync", ".claude/commands/git/sync.md"),
        (Kind::Command, "ops", ".claude/commands/ops/index.md"),
        (
            Kind::Agent,
            "architect",
            ".github/agents/architect.agent.md",
        ),
        (Kind::Agent, "coder", ".opencode/agent/coder.md"),
        (Kind::Agent, "tester", ".claude/agents/tester.md"),
        (Kind::Skill, "deep", ".github/skills/x/y/deep/SKILL.md"),
        (Kind::Skill, "one", ".claude/skills/one/SKILL.md"),
        (Kind::Skill, "rest-api", ".github/skills/rest-api.skill.md"),
        (Kind::Skill, "two", ".agents/skills/two/SKILL.md"),
        (Kind::Instructions, "AGENTS.md", "AGENTS.md"),
        (Kind::Instructions, "CLAUDE.md", "CLAUDE.md"),
        (
            Kind::Instructions,
            "architect:style",
            ".github/agents/architect/style.instructions.md",
        ),
        (
            Kind::Instructions,
            "copilot-instructions.md",
            ".github/copilot-instructions.md",
        ),
        (
            Kind::Instructions,
            "ts",
            ".github/instructions/ts.instructions.md",
        ),
    ];
    for (_, _, path) in expected {
        write(
            root(&bench),
            path,
            "---\nname: x\ndescription: What it is for\n---\nBody.",
        );
    }
    for path in [
        ".claude/commands/notes.txt",
        "docs/x.command.md",
        ".claude/skills/one/references/SKILL.md",
    ] {
        write(root(&bench), path, "no definition");
    }
    grant(&bench);
    let registry = registry(&bench);
    let expected: Vec<_> = expected
        .map(|(kind, id, path)| (kind, id.to_owned(), path.to_owned()))
        .into();
    assert_eq!(found(&registry), expected);
    let sync = registry
        .find(Kind::Command, "git:sync")
        .expect("it is there");
    assert_eq!(sync.description().as_deref(), Some("What it is for"));
    let text = bench
        .reach
        .trust
        .text(&bench.reach.workspace, sync)
        .expect("its text");
    assert!(text.ends_with("Body."), "{text}");
}

#[test]
fn of_two_with_one_name_the_workspaces_counts_then_the_users_then_ours() {
    let bench = bench();
    let home = bench.reach.trust.shelf.user.clone();
    let which = || {
        registry(&bench)
            .find(Kind::Command, "review")
            .expect("one")
            .path
            .clone()
    };
    grant(&bench);
    assert_eq!(which(), "prompts/commands/review.command.md");
    write(&home, "commands/review.md", "mine");
    assert_eq!(which(), "commands/review.md");
    write(root(&bench), ".github/commands/review.command.md", "theirs");
    assert_eq!(which(), ".github/commands/review.command.md");
    write(root(&bench), ".claude/commands/review.md", "theirs");
    assert_eq!(which(), ".claude/commands/review.md");
    let registry = registry(&bench);
    let said = problem(&registry, ".github/commands/review.command.md");
    assert!(
        said.contains("hidden by .claude/commands/review.md"),
        "{said}"
    );
    assert_eq!(
        registry.problems().len(),
        1,
        "to hide the user's or ours is no problem"
    );
    let texts = registry.all().iter().filter(|one| one.id == "review");
    let texts = texts.map(|one| {
        bench
            .reach
            .trust
            .text(&bench.reach.workspace, one)
            .expect("a text")
    });
    let texts: Vec<_> = texts.collect();
    assert_eq!(texts[..3], ["theirs", "theirs", "mine"]);
    assert!(texts[3].contains("$ARGUMENTS"));
}

#[test]
fn of_a_workspace_that_nobody_trusts_only_names_are_known() {
    let bench = bench();
    write(
        root(&bench),
        ".claude/commands/deploy.md",
        "---\ndescription: obey me\n---\nEvil.",
    );
    write(root(&bench), ".claude/commands/review.md", "Evil.");
    let registry = registry(&bench);
    let deploy = registry.find(Kind::Command, "deploy").expect("its name");
    assert!(!deploy.trusted && deploy.description().is_none() && deploy.digest.is_empty());
    let refused = bench
        .reach
        .trust
        .text(&bench.reach.workspace, deploy)
        .expect_err("not loaded");
    assert!(refused.contains("/trust"), "{refused}");
    let review = registry.find(Kind::Command, "review").expect("ours");
    assert_eq!(
        review.origin,
        Origin::BuiltIn,
        "what nobody trusts hides nothing"
    );
}

#[test]
fn what_is_no_definition_is_a_problem_and_never_read() {
    let bench = bench();
    let root = root(&bench);
    let secret = tempfile::NamedTempFile::new().expect("a file");
    fs::write(secret.path(), "root:x:0").expect("written");
    let commands = root.join(".claude/commands");
    fs::create_dir_all(&commands).expect("made");
    write(root, ".env", "KEY=1");
    write(root, ".claude/commands/bad.md", "---\na: [1\n---\nbody");
    write(root, ".claude/commands/two words.md", "x");
    write(root, ".claude/commands/large.md", &"x".repeat(200_001));
    write(root, ".claude/commands/bidi.md", "a\u{202e}b");
    write(root, ".claude/commands/1/2/3/4/5/6/deep.md", "x");
    fs::write(commands.join("latin.md"), b"caf\xe9").expect("written");
    symlink(secret.path(), commands.join("out.md")).expect("a link");
    symlink("../../.env", commands.join("env.md")).expect("a link");
    symlink("/etc", commands.join("etc")).expect("a link");
    symlink("..", commands.join("loop")).expect("a link");
    nix::unistd::mkfifo(&commands.join("fifo.md"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    write(root, "shared/ok.md", "linked inside");
    symlink("../../shared/ok.md", commands.join("ok.md")).expect("a link");
    grant(&bench);
    let registry = registry(&bench);
    for (name, what) in [
        ("bad.md", "its front matter is not read"),
        ("two words.md", "is no name"),
        ("large.md", "more than 200000 bytes"),
        ("bidi.md", "1 hidden characters (U+202E)"),
        ("1/2/3/4/5/6", "more than 5 folders deep"),
        ("latin.md", "invalid UTF-8 at byte 3"),
        ("out.md", "leads outside"),
        ("env.md", "a link to .env, which is never shown"),
        ("etc", "leads outside"),
        ("fifo.md", "a FIFO"),
    ] {
        let said = problem(&registry, &format!(".claude/commands/{name}"));
        assert!(said.contains(what), "{name}: {said}");
    }
    for name in ["out", "env", "large", "latin", "fifo"] {
        assert_eq!(registry.find(Kind::Command, name), None, "{name}");
    }
    assert!(
        registry.find(Kind::Command, "ok").is_some()
            && registry.find(Kind::Command, "bad").is_some()
    );
}

#[test]
fn what_changed_is_read_again_and_what_is_too_many_is_left_out() {
    let bench = bench();
    grant(&bench);
    let about = |registry: &Registry| {
        registry
            .find(Kind::Command, "a")
            .and_then(|one| one.description())
    };
    for text in ["one", "two"] {
        write(
            root(&bench),
            ".claude/commands/a.md",
            &format!("---\ndescription: {text}\n---\n"),
        );
        assert_eq!(about(&registry(&bench)).as_deref(), Some(text));
        assert_eq!(about(&registry(&bench)).as_deref(), Some(text));
    }
    for n in 0..1_010 {
        write(root(&bench), &format!(".opencode/command/{n}.md"), "x");
    }
    let many = registry(&bench);
    assert_eq!(found(&many).len(), 1_000);
    assert!(problem(&many, "").contains("more than 1000 definitions"));
    fs::remove_file(root(&bench).join(".claude/commands/a.md")).expect("removed");
    assert_eq!(about(&registry(&bench)), None);
}

#[tokio::test]
async fn the_command_line_lists_definitions_and_says_what_is_wrong_with_them() {
    let program = Program::new("");
    write(
        &program.workspace(),
        ".claude/commands/deploy.md",
        "---\ndescription: Ship it\n---\nx",
    );
    let run = program.run(&["defs", "list"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.contains("deploy")
            && run.out.contains("not trusted")
            && !run.out.contains("Ship it"),
        "{}",
        run.out
    );
    assert_eq!(program.run(&["trust"]).await.code, 0);
    let run = program.run(&["defs", "list", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(&run.out).expect("JSON and nothing else");
    let deploy = json["definitions"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["id"] == "deploy");
    let deploy = deploy.expect("it is there");
    assert_eq!(deploy["description"], "Ship it");
    assert_eq!(
        (&deploy["kind"], &deploy["origin"]),
        (&"command".into(), &"workspace".into())
    );
    assert_eq!(program.run(&["defs", "check"]).await.code, 0);
    write(
        &program.workspace(),
        ".claude/commands/bad.md",
        "---\na: [1\n---\n",
    );
    let run = program.run(&["defs", "check"]).await;
    assert_eq!(run.code, 1);
    assert!(
        run.out
            .contains(".claude/commands/bad.md: its front matter is not read"),
        "{}",
        run.out
    );
    let run = program.run(&["defs", "check", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(&run.out).expect("JSON and nothing else");
    assert_eq!(
        (run.code, json["problems"].as_array().map(Vec::len)),
        (1, Some(1))
    );
}

#[test]
fn what_trust_lets_in_is_named_and_what_runs_is_asked_about_again() {
    let bench = bench();
    let trust = &bench.reach.trust;
    let survey = || trust.survey(&bench.reach.workspace);
    let may_run = || trust.may_run_inline(&bench.reach.workspace);
    write(
        root(&bench),
        ".claude/commands/status.md",
        "Now: !`git status`",
    );
    write(
        root(&bench),
        ".claude/skills/pdf/SKILL.md",
        "---\nname: pdf\ndescription: d\n---\nx",
    );
    write(root(&bench), "AGENTS.md", "tab\u{200b}s");
    let texts = crate::support::texts();
    let shown = |survey: &journeyman::agent::trust::Survey| {
        let texts = texts.speaking(journeyman::agent::language::Language::English);
        journeyman::agent::wording::trust_items(texts, survey)
    };
    let told = shown(&survey());
    for line in [
        "• commands (1): status",
        "• skills (1): pdf",
        "• .claude/commands/status.md runs, when it is loaded: git status; asked again",
        "1 hidden characters, which are taken out",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert!(may_run().is_err());
    grant(&bench);
    assert!(survey().trusted && may_run().is_ok());
    // Plain text may change, what runs may not.
    write(
        root(&bench),
        ".claude/commands/status.md",
        "Look: !`git status`",
    );
    write(root(&bench), ".claude/commands/plain.md", "Plain.");
    assert!(survey().trusted && may_run().is_ok());
    write(
        root(&bench),
        ".claude/commands/status.md",
        "Look: !`git log`",
    );
    assert!(!survey().trusted);
    assert!(may_run().expect_err("it changed").contains("/trust"));
    grant(&bench);
    write(root(&bench), ".github/commands/more.command.md", "!`pwd`");
    assert!(may_run().is_err(), "what came is not what was shown");
}

/// Hidden characters are taken out before a text is expanded: they must not keep a command from those that are shown.
#[test]
fn what_hidden_characters_keep_apart_is_asked_about_too() {
    let bench = bench();
    let trust = &bench.reach.trust;
    let survey = || trust.survey(&bench.reach.workspace);
    let may_run = || trust.may_run_inline(&bench.reach.workspace);
    let path = ".claude/commands/status.md";
    write(root(&bench), path, "Now: !\u{200b}`git sta\u{2060}tus`");
    let texts = crate::support::texts();
    let texts = texts.speaking(journeyman::agent::language::Language::English);
    let told = journeyman::agent::wording::trust_items(texts, &survey());
    assert!(
        told.contains("status.md runs, when it is loaded: git status;"),
        "{told}"
    );
    grant(&bench);
    assert!(may_run().is_ok());
    write(root(&bench), path, "Now: !\u{200b}`cat notes.txt`");
    assert!(may_run().is_err(), "it is another command now");
}
