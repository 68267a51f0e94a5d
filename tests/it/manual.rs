//! docs/skills.md and docs/mcp.md: their examples are written where they say, and are what the pages say of them.

use crate::definitions::write;
use crate::mcp::Peer;
use crate::program::Program;
use crate::skills::{newest, trust};
use crate::support::{Rig, call, calls, says};
use journeyman::agent::event::OutgoingKind;
use journeyman::agent::step::toolset;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const SKILLS: &str = include_str!("../../docs/skills.md");
const MCP: &str = include_str!("../../docs/mcp.md");

/// The examples of a page in one language.
fn examples(page: &'static str, language: &str) -> impl Iterator<Item = &'static str> {
    let fence = format!("```{language}\n");
    let starts: Vec<usize> = page.match_indices(&fence).map(|(at, _)| at).collect();
    let rest = starts.into_iter().map(move |at| &page[at + fence.len()..]);
    rest.filter_map(|rest| rest.split("\n```").next())
}

fn blocks() -> impl Iterator<Item = &'static str> {
    examples(SKILLS, "text")
}

/// Path and text of each example that is a file.
fn files() -> Vec<(&'static str, &'static str)> {
    let files = blocks().filter_map(|block| block.split_once('\n'));
    let files: Vec<_> = files.filter(|(path, _)| path.ends_with(".md")).collect();
    assert_eq!(files.len(), 3, "a skill, instructions and an agent");
    files
}

fn said(rig: &Rig) -> String {
    let state = newest(rig);
    let messages = state.conversation.messages().iter();
    messages.map(|message| message.get()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manuals_skill_instructions_and_agent_work_as_it_says() {
    let replies = [
        calls(&[call("load_skill", json!({"skillId": "rest-api"}))]),
        calls(&[call("read_lines", json!({"path": "a.ts"}))]),
        says("Planned."),
    ];
    let mut rig = Rig::new(&replies);
    for (path, text) in files() {
        write(&rig.workspace(), path, text);
    }
    write(&rig.workspace(), "a.ts", "let a = 1\n");
    trust(&mut rig).await;
    rig.say("/agents use architect").await;
    rig.message(OutgoingKind::Notice).await;
    rig.say("plan it").await;
    assert_eq!(rig.answer().await, "Planned.");
    let said = said(&rig);
    for words in ["You are the Architect agent.", "Use nouns.", "No `any`."] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let offered = toolset(&newest(&rig), &rig.settings.policy().expect("a policy"));
    assert!(offered.forbids("run_command") && offered.forbids("write_file"));
    assert!(!offered.forbids("read_lines"));
}

#[tokio::test]
async fn a_check_says_what_the_manual_shows() {
    let shown = blocks().find_map(|block| block.strip_prefix("$ journeyman defs check\n"));
    let program = Program::new("");
    let broken = "---\na: [\n---\nShip it.\n";
    write(&program.workspace(), ".claude/commands/deploy.md", broken);
    assert_eq!(program.run(&["trust"]).await.code, 0);
    let run = program.run(&["defs", "check"]).await;
    assert_eq!(Some(run.out.trim_end()), shown);
    assert_eq!(run.code, 1);
}

// --- docs/mcp.md -------------------------------------------------------------------------------------------------------

/// What the page calls `./tools/docs-server`, for shells.
const DOCS_SERVER: &str = r#"#!/bin/sh
[ "$1" = --stdio ] || exit 2
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case "$line" in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"docs","version":"1.0"}}' ;;
    *'"method":"tools/list"'*) say '{"tools":[{"name":"search","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"prompts/list"'*) say '{"prompts":[{"name":"review","description":"Reviews a file by the house rules","arguments":[{"name":"file","required":true},{"name":"tone"}]}]}' ;;
    *'"method":"prompts/get"'*'"file":"src/shop.py"'*'"tone":"friendly"'*) say '{"messages":[{"role":"user","content":{"type":"text","text":"Review it, and be nice."}}]}' ;;
    *'"method":"resources/list"'*) say '{"resources":[{"uri":"docs://house-rules","name":"rules","description":"What holds for every change"}]}' ;;
    *'"method":"resources/read"'*) say '{"contents":[{"uri":"docs://house-rules","text":"Run the tests."}]}' ;;
    *'"method":"notifications/'*) ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not known"}}\n' "$id" ;;
  esac
done
"#;

/// The page's `.mcp.json`, and the server that it names.
fn docs_server(workspace: &Path) {
    let example = examples(MCP, "json").find(|example| example.contains("./tools/docs-server"));
    write(workspace, ".mcp.json", example.expect("the page shows one"));
    write(workspace, "tools/docs-server", DOCS_SERVER);
    let script = workspace.join("tools/docs-server");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("executable");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_and_resources_are_called_as_the_manual_says() {
    let find = |start: &str| {
        let found = examples(MCP, "text").find(|example| example.starts_with(start));
        found.unwrap_or_else(|| panic!("the page has {start}"))
    };
    let called: Vec<&str> = find("/mcp.docs").lines().collect();
    let [list, prompt, resource] = called[..] else {
        panic!("{called:?}");
    };
    let mut rig = Rig::with(&[says("Nice."), says("Test it.")], |settings| {
        settings.limits.mcp_offer_seconds = 30; // a loaded machine starts shells slowly
    });
    docs_server(&rig.workspace());
    trust(&mut rig).await;
    rig.say(list).await;
    assert_eq!(
        rig.message(OutgoingKind::Notice).await,
        find("🔌 docs has:")
    );
    for (called, answer, became) in [
        (prompt, "Nice.", "Review it, and be nice."),
        (resource, "Test it.", "Run the tests."),
    ] {
        rig.say(called).await;
        assert_eq!(rig.answer().await, answer);
        let said = said(&rig);
        assert!(said.contains(&format!("[{called}: ")), "{said}");
        assert!(said.contains(became), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_listed_as_the_manual_shows() {
    let shown: Vec<&str> = examples(MCP, "text")
        .filter_map(|block| block.strip_prefix("$ journeyman mcp list\n"))
        .collect();
    let [trusted, untrusted] = shown[..] else {
        panic!("{shown:?}");
    };
    let program = Program::new("");
    docs_server(&program.workspace());
    let run = program.run(&["mcp", "list"]).await;
    assert_eq!(
        (run.out.trim_end(), run.code),
        (untrusted, 1),
        "{}",
        run.err
    );
    assert_eq!(program.run(&["trust"]).await.code, 0);
    let run = program.run(&["mcp", "list"]).await;
    assert_eq!((run.out.trim_end(), run.code), (trusted, 0), "{}", run.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_is_configured_as_the_manual_says() {
    let example = examples(MCP, "json").find(|example| example.contains("\"serve\""));
    let config: Value = serde_json::from_str(example.expect("the page shows it")).expect("JSON");
    let own = &config["mcpServers"]["journeyman"];
    assert_eq!(own["command"], "journeyman");
    let program = Program::new("");
    let folder = program.workspace().display().to_string();
    let args = own["args"].as_array().expect("arguments").iter();
    let args: Vec<&str> = args.filter_map(Value::as_str).collect();
    let args: Vec<&str> = (args.iter())
        .map(|arg| if arg.starts_with('/') { &folder } else { *arg })
        .collect();
    assert!(args.contains(&folder.as_str()), "{args:?}");
    let (_, section) = MCP
        .split_once("## Journeyman as a server")
        .expect("it is there");
    let (section, _) = section.split_once("\n## ").expect("another one follows");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let shown: Vec<&str> = rows
        .filter_map(|row| Some(row.split_once('`')?.0))
        .collect();
    assert_eq!(Peer::of(&program, &args).await.tools().await, shown);
}
