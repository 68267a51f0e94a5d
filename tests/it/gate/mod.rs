//! The gate: verdicts on the shared vectors, on our own, and on the policy's examples; what may be granted and minted.

mod corpus;
mod cost;
mod oracle;

use journeyman::agent::event::{Call, CallId};
use journeyman::gate::*;

/// A world with the workspace at /w, system programs by bare name, and nothing else.
fn resolve(wants: &Wants) -> Facts {
    let mut facts = Facts::default();
    for path in &wants.paths {
        facts.paths.insert(path.clone(), place(path));
    }
    for program in &wants.programs {
        facts
            .programs
            .insert(program.clone(), program_fact(program));
    }
    facts
}

fn place(path: &str) -> PathFact {
    let absolute = match path {
        _ if path.starts_with('~') => path.replacen('~', "/home/p", 1),
        _ if path.starts_with('/') => path.to_owned(),
        _ => format!("/w/{path}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in absolute
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    let resolved = format!("/{}", parts.join("/"));
    let place = match resolved.as_str() {
        "/w/link-out" => Place::Outside,
        "/w/data" => Place::OwnData,
        _ if resolved == "/w/.git" || resolved.starts_with("/w/.git/") => Place::GitInternals,
        _ if resolved == "/w" || resolved.starts_with("/w/") => Place::Workspace,
        _ => Place::Outside,
    };
    let resolved = if resolved == "/w/link-env" {
        "/w/.env".to_owned()
    } else {
        resolved
    };
    PathFact {
        exists: resolved == "/w/notes.txt",
        resolved,
        place,
    }
}

fn program_fact(program: &str) -> ProgramFact {
    match program {
        "planted" => ProgramFact::Untrusted {
            path: "/w/bin/planted".into(),
        },
        "linked" => ProgramFact::System {
            path: "/usr/bin/rm".into(),
        },
        _ if program.starts_with("/usr/bin/") || program.starts_with("/bin/") => {
            ProgramFact::System {
                path: program.into(),
            }
        }
        _ if program.contains('/') => ProgramFact::Untrusted {
            path: program.into(),
        },
        _ if program.contains("missing") => ProgramFact::Missing,
        _ => ProgramFact::System {
            path: format!("/usr/bin/{program}"),
        },
    }
}

const SEED_ALLOWLIST: &str =
    "pytest ruff mypy make npm pip git cat head tail wc ls find grep echo python node";

fn settings(extra: &str) -> GateSettings {
    GateSettings {
        allowlist: SEED_ALLOWLIST
            .split(' ')
            .chain(extra.split_whitespace())
            .map(str::to_owned)
            .collect(),
        write_enabled: true,
        protected_branches: vec!["main".into(), "master".into()],
    }
}

fn policy() -> GatePolicy {
    GatePolicy::load(&[], settings("")).unwrap()
}

fn verdict_with(policy: &GatePolicy, touches: &[Touch]) -> Verdict {
    judge(policy, touches, &resolve(&wants(policy, touches)))
}

fn verdict(command: &str) -> Verdict {
    verdict_with(&policy(), &[Touch::Command(command.into())])
}

fn name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

/// Every line of a vector file: expectations, text.
fn vectors(text: &'static str) -> impl Iterator<Item = (Vec<&'static str>, String)> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| {
        let (expected, input) = line.split_once('\t').unwrap();
        (
            expected.split('|').collect(),
            input
                .replace("\\n", "\n")
                .replace("\\r", "\r")
                .replace("\\0", "\0"),
        )
    })
}

fn check_vectors(text: &'static str, policy: &GatePolicy) {
    let mut wrong = Vec::new();
    for (expected, command) in vectors(text) {
        let verdict = verdict_with(policy, &[Touch::Command(command.clone())]);
        if !expected.contains(&name(verdict.decision)) {
            let rules: Vec<_> = verdict
                .reasons
                .iter()
                .map(|reason| format!("{}: {}", reason.rule, reason.text))
                .collect();
            wrong.push(format!(
                "{command:?}: {} instead of {expected:?} because of {rules:?}",
                name(verdict.decision)
            ));
        }
        for reason in &verdict.reasons {
            assert!(
                !reason.rule.is_empty() && !reason.text.is_empty() && !reason.fix.is_empty(),
                "{command:?}: {reason:?}"
            );
        }
        assert_eq!(
            verdict.reasons.is_empty(),
            verdict.decision == Decision::Allow,
            "{command:?}: reasons belong to what is not allowed"
        );
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn judges_the_shared_vectors() {
    check_vectors(include_str!("../../vectors/gate.tsv"), &policy());
}

#[test]
fn judges_bypasses() {
    check_vectors(include_str!("../../vectors/gate_bypasses.tsv"), &policy());
}

#[test]
fn denies_no_ordinary_command() {
    check_vectors(
        include_str!("../../vectors/gate_ordinary.tsv"),
        &GatePolicy::load(&[], settings("cargo")).unwrap(),
    );
}

#[test]
fn every_example_of_the_policy_comes_out_as_it_says() {
    let policy = policy();
    let mut wrong = Vec::new();
    for (program, expected, command) in policy.examples() {
        let verdict = verdict_with(&policy, &[Touch::Command(command.clone())]);
        if verdict.decision != expected {
            let rules: Vec<_> = verdict
                .reasons
                .iter()
                .map(|reason| format!("{}: {}", reason.rule, reason.text))
                .collect();
            wrong.push(format!(
                "{program}: {command}: {} instead of {} because of {rules:?}",
                name(verdict.decision),
                name(expected)
            ));
        }
    }
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(policy.broken_rule_examples(), Vec::new());
}

#[test]
fn reads_yes_and_no() {
    let lines = include_str!("../../vectors/replies.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'));
    for (text, expected) in lines.filter_map(|line| line.split_once('\t')) {
        let read = match read_reply(text) {
            Some(Reply::Yes) => "approve",
            Some(Reply::No) => "deny",
            None => "neither",
        };
        assert_eq!(read, expected, "{text:?}");
    }
}

fn ask_of(command: &str) -> Verdict {
    let verdict = verdict(command);
    assert_eq!(verdict.decision, Decision::Ask, "{command}");
    verdict
}

#[test]
fn grants_a_program_and_its_subcommand_and_nothing_wider() {
    let granted = |command: &str| {
        ask_of(command)
            .pattern
            .map(|pattern| (pattern.program, pattern.subcommand))
    };
    let pattern =
        |program: &str, subcommand: &str| Some((program.to_owned(), Some(subcommand.to_owned())));
    assert_eq!(granted("cargo test"), pattern("cargo", "test"));
    assert_eq!(
        granted("cargo test --release -p x"),
        pattern("cargo", "test")
    );
    assert_eq!(granted("cargo --offline test"), pattern("cargo", "test"));
    assert_eq!(granted("git push origin topic"), pattern("git", "push"));
    assert_eq!(granted("npm install left-pad"), pattern("npm", "install"));
    assert_eq!(granted("npm i left-pad"), pattern("npm", "install"));
    assert_eq!(
        granted("npm uninstall left-pad"),
        pattern("npm", "uninstall")
    );
    assert_eq!(granted("git merge topic"), pattern("git", "merge"));
    assert_eq!(
        granted("git clone https://example.com/x"),
        pattern("git", "clone")
    );
    assert_eq!(
        granted("myweirdtool --flag"),
        Some(("myweirdtool".into(), None))
    );
    assert_eq!(
        granted("curl https://example.com"),
        Some(("curl".into(), None))
    );
    for refused in [
        "bash x.sh",
        "perl x.pl",
        "env pytest",
        "git -c a=b status",
        "git -C sub status",
        "cargo test | tee x",
        "cargo test 2>/dev/null",
        "A=1 cargo test",
        "python -c 'print(1)'",
        "node -e 1",
        "./run.sh test",
        "planted test",
        "xargs cargo test",
        "timeout 5 cargo test",
        "git push --force origin topic",
        "find . -delete",
        "cargo test $X",
        "cd src",
        "npx cowsay",
        "ssh host",
        "docker run x",
        "awk '{print}' a",
        "make SHELL=x",
        "nohup cargo test",
    ] {
        assert_eq!(granted(refused), None, "{refused}");
    }
}

#[test]
fn runs_without_a_shell_exactly_what_was_judged() {
    let cases: &[(&str, &[&str])] = &[
        ("cat pass''wd", &["cat", "passwd"]),
        (
            "c\\at 'a b' \"c\\\"d\" e\\ f",
            &["cat", "a b", "c\"d", "e f"],
        ),
        ("echo $'a\\tb\\x41\\u00e9'", &["echo", "a\tbAé"]),
        ("echo '' \"\"", &["echo", "", ""]),
        ("git show stash@{0}", &["git", "show", "stash@{0}"]),
        ("  ls\\\n -la \n", &["ls", "-la"]),
        ("echo \"a\\nb\" 'c\\d'", &["echo", "a\\nb", "c\\d"]),
        ("git show HEAD~1 HEAD^", &["git", "show", "HEAD~1", "HEAD^"]),
        ("echo a#b", &["echo", "a#b"]),
    ];
    for (text, argv) in cases {
        let verdict = verdict(text);
        assert!(!verdict.shell, "{text}");
        assert_eq!(verdict.commands[0].argv, *argv, "{text}");
    }
    for text in [
        "ls *.rs",
        "echo {a,b}",
        "echo {1..3}",
        "cat ~/x",
        "echo $X",
        "ls # x",
        "echo `id`",
        "a=1 ls",
        "ls\r\n",
        "! ls",
        "echo a=~",
        "cd src",
        "time ls",
    ] {
        assert!(verdict(text).shell, "{text}");
    }
}

#[test]
fn finds_every_command_in_the_text() {
    let programs = |text: &str| {
        verdict(text)
            .commands
            .into_iter()
            .map(|command| command.program)
            .collect::<Vec<_>>()
    };
    assert_eq!(programs("if a; then b; else c; fi"), ["a", "b", "c"]);
    assert_eq!(programs("for x in 1 2; do d $x; done | e"), ["d", "e"]);
    assert_eq!(programs("f() { g; }; f"), ["g", "f"]);
    assert_eq!(programs("cat <(h) > >(i)"), ["cat", "h", "i"]);
    assert_eq!(programs("cat <<EOF\n$(j)\nEOF"), ["cat", "j"]);
    assert_eq!(
        programs("echo \"$(k)\" ${x:-$(l)} $((1 + $(m)))"),
        ["echo", "k", "l", "m"]
    );
    assert_eq!(
        programs("case x in a) n;; esac; while o; do p; done"),
        ["n", "o", "p"]
    );
    assert_eq!(programs(">out q r"), ["q"]);
    assert_eq!(
        programs("bash -c 'find . -exec s {} +'"),
        ["bash", "find", "s"]
    );
}

fn call(command: &str) -> Call {
    let arguments = serde_json::json!({ "command": command }).to_string();
    Call {
        id: CallId("1.1".into()),
        wire_id: "x".into(),
        tool: "run_command".into(),
        arguments,
    }
}

fn admitted(
    command: &str,
    grants: &[Pattern],
    ticket: Option<&Ticket>,
    cwd: &str,
) -> Result<Approved<Call>, Verdict> {
    let touches = [Touch::Command(command.into())];
    let policy = policy();
    let facts = resolve(&wants(&policy, &touches));
    admit(
        &policy,
        grants,
        &call(command),
        &touches,
        &facts,
        Circumstances { cwd, owner: "me" },
        ticket,
    )
}

#[test]
fn admits_what_was_approved_and_only_that() {
    let pipe = "ls | wc -l";
    assert!(admitted(pipe, &[], None, "/w").is_err());
    let ticket = Ticket {
        digest: digest(&call(pipe), "/w", "me", &verdict(pipe)),
    };
    let approved = admitted(pipe, &[], Some(&ticket), "/w").unwrap();
    assert_eq!(approved.runnable(), Some(&Runnable::Shell(pipe.into())));
    assert!(
        admitted("ls | wc -c", &[], Some(&ticket), "/w").is_err(),
        "another text"
    );
    assert!(
        admitted(pipe, &[], Some(&ticket), "/elsewhere").is_err(),
        "another folder"
    );

    let denied = Ticket {
        digest: digest(&call("rm x"), "/w", "me", &verdict("rm x")),
    };
    assert_eq!(
        admitted("rm x", &[], Some(&denied), "/w")
            .unwrap_err()
            .decision,
        Decision::Deny,
        "a denial stands"
    );

    let grant = Pattern {
        program: "cargo".into(),
        subcommand: Some("test".into()),
    };
    let granted = admitted("cargo test -q", std::slice::from_ref(&grant), None, "/w").unwrap();
    assert_eq!(
        granted.runnable(),
        Some(&Runnable::Argv(vec![
            "cargo".into(),
            "test".into(),
            "-q".into()
        ]))
    );
    for other in [
        "cargo build",
        "cargo test | sh",
        "cargo test > x",
        "cargo --config x test",
        "X=1 cargo test",
        "cargo install x",
    ] {
        assert!(
            admitted(other, std::slice::from_ref(&grant), None, "/w").is_err(),
            "{other}"
        );
    }
}

#[test]
fn gives_tools_typed_arguments_with_what_may_run() {
    #[derive(serde::Deserialize)]
    struct Args {
        command: String,
    }
    let approved = admitted("git status", &[], None, "/w")
        .unwrap()
        .typed::<Args>()
        .unwrap();
    assert_eq!(approved.get().command, "git status");
    assert_eq!(
        approved.runnable(),
        Some(&Runnable::Argv(vec!["git".into(), "status".into()]))
    );
    assert!(
        admitted("git status", &[], None, "/w")
            .unwrap()
            .typed::<Vec<u8>>()
            .is_err()
    );
}

#[test]
fn the_digest_does_not_depend_on_the_order_of_arguments() {
    let with = |arguments: &str| Call {
        arguments: arguments.into(),
        ..call("")
    };
    let verdict = verdict("ls | wc");
    let of = |arguments: &str| digest(&with(arguments), "/w", "me", &verdict);
    assert_eq!(
        of(r#"{"a":1,"b":{"c":2,"d":3}}"#),
        of(r#"{ "b": {"d":3,"c":2}, "a":1 }"#)
    );
    assert_ne!(of(r#"{"a":1}"#), of(r#"{"a":2}"#));
    assert_ne!(
        digest(&call("x"), "/w", "me", &verdict),
        digest(&call("x"), "/w", "you", &verdict)
    );
}

#[test]
fn refuses_all_that_writes_while_the_switch_is_off() {
    let policy = GatePolicy::load(
        &[],
        GateSettings {
            write_enabled: false,
            ..settings("")
        },
    )
    .unwrap();
    for touch in [
        Touch::Command("ls".into()),
        Touch::Write("a".into()),
        Touch::RepositoryWrite,
    ] {
        let verdict = verdict_with(&policy, &[touch]);
        assert_eq!(
            (verdict.decision, verdict.reasons[0].rule.as_str()),
            (Decision::Deny, "write-switch")
        );
    }
    for touch in [Touch::Read("a".into()), Touch::RepositoryRead] {
        assert_eq!(verdict_with(&policy, &[touch]).decision, Decision::Allow);
    }
}

#[test]
fn judges_the_paths_of_tools_like_those_of_commands() {
    for (path, expected) in [
        ("src/main.rs", None),
        ("tokenizer.py", None),
        ("new/file.txt", None),
        (".env.example", None),
        (".gitignore", None),
        (".env", Some("secret")),
        ("a/.env.production", Some("secret")),
        ("link-env", Some("secret")),
        ("key.PEM", Some("secret")),
        ("/etc/passwd", Some("outside-workspace")),
        ("../x", Some("outside-workspace")),
        ("link-out", Some("outside-workspace")),
        (".git/config", Some("git-internals")),
        ("sub/.git/hooks/x", Some("git-internals")),
        ("data", Some("own-data")),
    ] {
        for touch in [Touch::Read(path.into()), Touch::Write(path.into())] {
            let rule = verdict_with(&policy(), &[touch])
                .reasons
                .first()
                .map(|reason| reason.rule.clone());
            assert_eq!(rule.as_deref(), expected, "{path}");
        }
    }
}

#[test]
fn a_missing_fact_never_ends_in_allow() {
    let policy = policy();
    for touch in [
        Touch::Read("a".into()),
        Touch::Write("a".into()),
        Touch::Command("cat a".into()),
        Touch::Command("ls".into()),
    ] {
        assert_eq!(
            judge(&policy, &[touch], &Facts::default()).decision,
            Decision::Ask
        );
    }
}

#[test]
fn refuses_what_it_cannot_read_and_stays_quick() {
    for text in [
        String::new(),
        " \n".into(),
        "ls \0".into(),
        "echo 'x".into(),
        "x".repeat(70_000),
        "(".repeat(30_000),
        "x=(".repeat(20_000),
        "a;".repeat(30_000),
        "ls | ".repeat(12_000) + "ls",
        "echo $(".repeat(5_000),
        format!("echo {}", "$(echo ".repeat(300) + &")".repeat(300)),
    ] {
        assert_eq!(
            verdict(&text).decision,
            Decision::Deny,
            "{}",
            &text[..text.len().min(40)]
        );
    }
    let nested = (0..12).fold("ls".to_owned(), |inner, _| format!("env {inner}"));
    assert_eq!(verdict(&nested).decision, Decision::Deny);
}

/// The grammar's scanner reads out of bounds for them: it ended the process.
#[test]
fn characters_beyond_ascii_reach_no_c_code() {
    for c in ['\u{a0}', 'é', '€', '日', '😀', '\u{10fff0}'] {
        for text in [
            "{C",
            "{1C..2}",
            "echo {C,a}",
            "[[ a =~ C ]]",
            "${C",
            "$C x",
            "C=1 ls; a",
            "cat <<C\nx\nC",
            "@(C|a)",
            "a<C",
            "${x@C}",
            "${xC}",
        ] {
            let text = text.replace('C', &c.to_string());
            assert_ne!(verdict(&text).decision, Decision::Allow, "{text}");
        }
    }
    assert_eq!(
        verdict("echo é {a,b} 'ü'; ls").commands[0].argv,
        ["echo", "é", "{a,b}", "ü"]
    );
}

#[test]
fn a_bad_policy_file_stops_with_file_line_and_rule() {
    let load = |text: &str| {
        GatePolicy::load(&[("extra.toml", text)], settings(""))
            .unwrap_err()
            .to_string()
    };
    let rule = |change: &str| {
        let text = "\n[[rule]]\nid = 'tf'\nprogram = 'terraform apply'\ndecision = 'deny'\nreason = 'r'\nfix = 'f'\nmatches = ['terraform apply']\nmisses = ['terraform plan']\n";
        let (from, to) = change.split_once(" -> ").unwrap();
        assert!(text.contains(from));
        text.replace(from, to)
    };
    assert!(
        load("x = 1").starts_with("extra.toml:1: -: unknown field"),
        "{}",
        load("x = 1")
    );
    assert_eq!(
        load(&rule(
            "matches = ['terraform apply'] -> matches = ['terraform plan']"
        )),
        "extra.toml:2: tf: its own example does not come out as it says: terraform plan"
    );
    assert!(load(&rule("'deny' -> 'allow'")).contains("extra.toml:2: tf: can only ask or deny"));
    assert!(load(&rule("reason = 'r' -> reason = ''")).contains("needs a reason"));
    assert!(
        load("[[program]]\nname = 'git'\n").contains("extra.toml:1: git: the built-in definitions")
    );

    let text = rule("'deny' -> 'deny'");
    let policy = GatePolicy::load(&[("extra.toml", &text)], settings("terraform")).unwrap();
    assert_eq!(
        verdict_with(
            &policy,
            &[Touch::Command("terraform apply -auto-approve".into())]
        )
        .decision,
        Decision::Deny
    );
    assert_eq!(
        verdict_with(&policy, &[Touch::Command("terraform plan".into())]).decision,
        Decision::Allow
    );
    let plain = GatePolicy::load(&[], settings("terraform")).unwrap();
    assert_ne!(policy.digest(), plain.digest());
    assert_eq!(
        plain.digest(),
        GatePolicy::load(&[("config/policy.toml", BUILT_IN)], settings("terraform"))
            .unwrap()
            .digest()
    );
    assert_eq!(plain.digest().len(), 64);
}

#[test]
fn a_long_here_document_is_still_judged() {
    let body = "print(f\"line {x} (more), and [more]\")\n".repeat(1200);
    let text = format!("cat > gen.py <<'EOF'\n{body}EOF\n");
    let verdict = verdict(&text);
    assert_eq!(verdict.decision, Decision::Ask, "{:?}", verdict.reasons);
    assert_eq!(verdict.commands.len(), 1);
}
