//! Texts that depend on a decision: what a model reads when a call does not run, and what a person is asked.

/// About agents.
mod agents;
/// About schedules.
mod cron;
/// About plans.
mod graphs;
/// About trust.
mod trust;

pub use agents::agent_answer;
pub use cron::{cron_answer, cron_fires, cron_unclear, reminder};
pub use graphs::{
    graph_for_model, graph_rows, graph_shown, planned, planned_for_model, ran, reasons_after,
    reasons_before, run_question,
};
pub use trust::{trust_answer, trust_items};

use crate::agent::event::{
    By, Call, CallId, EndReason, Event, Outcome, Probe, Status, Via, WorkspaceRef,
};
use crate::agent::forms::{ServerQuestion, Wants};
use crate::agent::loops::{Found, Pattern};
use crate::agent::mcp;
use crate::agent::state::{Stage, State};
use crate::agent::step::Policy;
use crate::agent::texts::Texts;
use crate::agent::worktrees;
use crate::definitions::hidden::is_hidden;
use crate::gate::{self, Verdict};
use crate::tools;

/// What becomes of a call that a stopped turn leaves behind.
pub fn stopped_call(by_limit: bool, may_have_run: bool) -> Outcome {
    let why = match by_limit {
        true => "the turn reached a limit.",
        false => "the person stopped the turn.",
    };
    match may_have_run {
        true => left_in_doubt(&format!("Then {why}")),
        false => Outcome::new(Status::Cancelled, format!("Not run: {why}")),
    }
}

/// The word of the configuration, where it decides in the person's place.
pub fn configuration() -> By {
    By {
        who: "configuration".into(),
        via: Via::Flag,
        message: None,
    }
}

/// What a person who has never been here is told.
pub fn welcome(texts: &Texts, workspace: &WorkspaceRef) -> String {
    texts.say("welcome", &[("workspace", &workspace.name)])
}

/// How a turn ended, for the person.
pub fn ended(texts: &Texts, reason: EndReason) -> String {
    let name = match reason {
        EndReason::Done => "ended_done",
        EndReason::Failed => "ended_failed",
        EndReason::Limit => "ended_limit",
        EndReason::Cancelled => "ended_cancelled",
    };
    texts.say(name, &[])
}

/// Where the session works, for the person: with the branch, where that is not the person's own folder.
pub fn place(state: &State) -> String {
    let name = &state.workspace.name;
    match worktrees::here(state) {
        None => name.clone(),
        Some(tree) => {
            let values = [
                ("name", name.as_str()),
                ("branch", &tree.branch),
                ("path", &tree.workspace.path),
            ];
            state.texts.say("worktree_place", &values)
        }
    }
}

/// What the model reads when it went to another workspace.
pub fn moved(to: &WorkspaceRef, from: &WorkspaceRef) -> String {
    format!(
        "The workspace is now {} ({}). Paths are relative to it, commands run in it. What you read and changed before was in {}.",
        to.name, to.path, from.name
    )
}

/// The same when the person sent it there.
pub fn moved_by_person(to: &WorkspaceRef, from: &WorkspaceRef) -> String {
    format!("[The person switched the workspace. {}]", moved(to, from))
}

/// What the model reads where lines of the journal are gone.
pub fn lines_lost(lines: u64) -> String {
    format!(
        "[The journal of this session was damaged: {lines} lines after this point are gone. What they recorded may have \
         happened: files may be changed, commands may have run, the person may have said more. Look at the workspace \
         before you do anything again.]"
    )
}

/// What remains to be said of a call that a dead process left behind, and that nobody will run again.
pub fn left_in_doubt(why: &str) -> Outcome {
    let text = format!(
        "Interrupted; it may or may not have run. {why} Check its effects before you rely on them."
    );
    Outcome::new(Status::Unknown, text)
}

/// What the model reads with the result of a call that gets it nowhere.
pub fn loop_warning(found: &Found) -> String {
    let what = match found.pattern {
        Pattern::Repeat { times } => {
            format!("This was the same call {times} times ({})", found.calls)
        }
        Pattern::Cycle { passes, .. } => {
            format!("These calls came {passes} times in a row ({})", found.calls)
        }
    };
    format!(
        "\n[Warning: {what}, and neither the results nor the files in the workspace changed. Going on like this ends the turn. Do something else, or say what you would need.]"
    )
}

/// What the chat reads when a loop ends the turn.
pub fn loop_stop(texts: &Texts, found: &Found) -> String {
    let (name, count) = match found.pattern {
        Pattern::Repeat { times } => ("limit_loop_repeat", times),
        Pattern::Cycle { passes, .. } => ("limit_loop_cycle", passes),
    };
    texts.say(
        name,
        &[("calls", &found.calls), ("count", &count.to_string())],
    )
}

pub fn too_many_calls(max: usize) -> String {
    format!("Not run: only {max} calls a round. Call it again in the next round.")
}

pub fn unknown_tool(name: &str) -> String {
    let names: Vec<&str> = tools::all().iter().map(|tool| tool.name).collect();
    format!("There is no tool {name:?}. Tools: {}.", names.join(", "))
}

pub fn malformed_arguments(tool: &str, error: &serde_json::Error) -> String {
    format!("The arguments of {tool} are not valid JSON: {error}. Call it again with valid JSON.")
}

/// A refusal says what, which rule, what would make it allowed, and what not to do.
pub fn denied(verdict: &Verdict) -> String {
    format!("Not run. {}\nDo not try the same again.", reasons(verdict))
}

/// A second identical call is answered from the first: nothing is judged or asked again.
pub fn refused_before(answer: &str) -> String {
    const MARK: &str = "Refused before, and nothing has changed since. ";
    match answer.starts_with(MARK) {
        true => answer.to_owned(),
        false => format!("{MARK}{answer}"),
    }
}

/// Why a call in doubt is not run again.
pub fn not_again(verdict: &Verdict) -> String {
    format!("It is not run again: {}", reasons(verdict))
}

pub fn approval_void(verdict: &Verdict) -> String {
    format!(
        "Not run: what would run now is not what the person approved. {}",
        reasons(verdict)
    )
}

pub const NONE: &str = "none";
pub const CUT: &str = "\n[the rest is left out]";

/// What stands for a result that was left out.
pub fn reference(call: &CallId, result: &str) -> String {
    let (characters, lines) = (result.chars().count(), result.lines().count());
    format!(
        "[left out to make room: {characters} characters, {lines} lines; read_output(\"{call}\", 1, 200) shows them]"
    )
}

/// A message of the person, in a digest.
pub fn said(objective: bool, text: &str) -> String {
    match objective {
        true => format!("Objective: {text}"),
        false => format!("Message: {text}"),
    }
}

pub fn said_more(messages: usize) -> String {
    format!("[{messages} older messages are left out]")
}

pub fn more_files(files: usize) -> String {
    format!("\n[and {files} more]")
}

/// In the place of notes that the model did not make.
pub fn no_notes(before: &str, left_out: usize, calls: &str) -> String {
    let left_out = match left_out {
        0 => String::new(),
        calls => format!("[{calls} older calls are left out]\n"),
    };
    format!("{before}\n[there are no notes about the following calls; look again before you rely on anything]\n{left_out}{calls}")
        .trim_start()
        .to_owned()
}

/// For the model.
fn reasons(verdict: &Verdict) -> String {
    let one = |reason: &gate::Reason| match !reason.fix.is_empty() {
        true => format!(
            "{} (rule {}). Instead: {}",
            reason.text, reason.rule, reason.fix
        ),
        false => format!("{} ({})", reason.text, reason.rule),
    };
    verdict
        .reasons
        .iter()
        .map(one)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The same for the person, in their language.
fn asked_because(texts: &Texts, verdict: &Verdict) -> String {
    let one = |reason: &gate::Reason| {
        let text = texts.reason(&reason.rule).unwrap_or(&reason.text);
        format!("{text} ({})", reason.rule)
    };
    let all: Vec<String> = verdict.reasons.iter().map(one).collect();
    all.join("\n")
}

/// The event that opens a question about `call`; it shows everything that would run.
pub fn approval_question(
    state: &State,
    policy: &Policy,
    call: &Call,
    verdict: &Verdict,
    in_doubt: bool,
) -> Event {
    let workspace = &state.workspace;
    let digest = gate::digest(call, &workspace.path, &state.opening.owner, verdict);
    let code = short_code(state, &digest);
    // Whoever looks whether it happened must know where.
    let place = match in_doubt {
        true => &workspace.path,
        false => &workspace.name,
    };
    let what = what_would_run(&state.texts, call, verdict);
    let pattern = verdict.pattern.as_ref().filter(|_| !in_doubt);
    let always = match pattern {
        Some(pattern) => state.texts.say(
            "always",
            &[("code", &code), ("pattern", &pattern.to_string())],
        ),
        None => String::new(),
    };
    let (began, known) = what_is_known(state, call);
    let question = state.texts.say(
        if in_doubt { "in_doubt" } else { "question" },
        &[
            ("began", &began),
            ("known", &known),
            ("what", &what),
            ("why", &asked_because(&state.texts, verdict)),
            ("workspace", place),
            ("code", &code),
            ("always", &always),
            ("minutes", &policy.limits.approval_minutes.to_string()),
        ],
    );
    Event::ApprovalAsked {
        approval: code,
        call: call.id.clone(),
        digest,
        question: policy.masks.apply(question),
        expires_at: state.now.plus_ms(policy.limits.approval_minutes * 60_000),
        pattern: pattern.cloned(),
    }
}

/// When a call in doubt began, and what a probe found out about it.
fn what_is_known(state: &State, call: &Call) -> (String, String) {
    let pending = state.pending(&call.id);
    let began = pending.and_then(|pending| pending.began);
    let began = match began {
        Some(at) => at.to_string(),
        None => state.texts.say("doubt_unknown_start", &[]),
    };
    let known = match pending.map(|pending| &pending.stage) {
        Some(Stage::InDoubt(_, Some(Probe::Unclear { why }))) if !why.is_empty() => why.clone(),
        _ => state.texts.say("doubt_nothing_known", &[]),
    };
    (began, known)
}

/// The whole command, or the whole call, never cut.
fn what_would_run(texts: &Texts, call: &Call, verdict: &Verdict) -> String {
    if verdict.commands.is_empty() {
        return quoted(&format!("{} {}", call.tool, call.arguments));
    }
    if mcp::is_one(&call.tool) {
        // Whatever an argument is called: all of them are shown.
        return quoted(&format!(
            "{} {}",
            verdict.commands[0].program, call.arguments
        ));
    }
    let arguments = call.json().unwrap_or_default();
    match arguments
        .get("command")
        .and_then(|command| command.as_str())
    {
        Some(command) if arguments.get("background") == Some(&true.into()) => {
            texts.say("in_background", &[("command", &quoted(command))])
        }
        Some(command) => quoted(command),
        None => quoted(&format!(
            "{} {}\n{}",
            call.tool,
            call.arguments,
            commands(verdict)
        )),
    }
}

/// What an MCP server asks, as its own words and nobody else's.
pub fn server_question(texts: &Texts, question: &ServerQuestion, minutes: u64) -> String {
    let said = quoted(&question.message);
    let minutes = minutes.to_string();
    let lines = question.lines();
    // A server's word, also this one.
    let field = question.only_field().map(|name| one_line(name, 60));
    let (name, more) = match (&question.wants, field.as_deref()) {
        (Wants::Page { url, host }, _) => ("server_page", [("url", url.as_str()), ("host", host)]),
        (Wants::Form { .. }, Some(name)) => {
            ("server_field", [("fields", lines.as_str()), ("name", name)])
        }
        (Wants::Form { .. }, None) if lines.is_empty() => {
            ("server_yes", [("fields", ""), ("name", "")])
        }
        (Wants::Form { .. }, None) => ("server_form", [("fields", lines.as_str()), ("name", "")]),
    };
    let server = question.server.as_str();
    let values = [
        ("server", server),
        ("message", &said),
        ("minutes", &minutes),
    ];
    let values: Vec<(&str, &str)> = values.into_iter().chain(more).collect();
    texts.say(name, &values)
}

/// What a question is about, on one line: enough to tell it from another one.
pub fn in_a_line(call: &Call) -> String {
    const CHARS_MAX: usize = 120;
    let command = call
        .json()
        .ok()
        .filter(|_| !mcp::is_one(&call.tool))
        .and_then(|arguments| Some(arguments.get("command")?.as_str()?.to_owned()));
    let what = command.unwrap_or_else(|| format!("{} {}", call.tool, call.arguments));
    one_line(&what, CHARS_MAX)
}

/// A text on one line, cut where it is long.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let line = visible(&text.replace(['\n', '\t'], " "));
    match line.char_indices().nth(chars_max) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// What the call comes to, where its arguments do not say it: where a push goes.
fn commands(verdict: &Verdict) -> String {
    let words = |argv: &[String]| {
        let one = |word: &String| match shlex::try_quote(word) {
            Ok(quoted) => quoted.into_owned(),
            Err(_) => word.clone(),
        };
        argv.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    let lines = verdict.commands.iter().map(|one| words(&one.argv));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text as something that is quoted, and that nothing in it can end, hide or turn around: what the person reads is
/// what they approve.
fn quoted(text: &str) -> String {
    let text = visible(text);
    if !text.contains("```") {
        return format!("```\n{text}\n```");
    }
    let lines = text.lines().map(|line| format!("│ {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Control characters, and those that show nothing or change the direction, as `\u{1b}`.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_hidden(c) || c == '\r' => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Four letters and digits, without those that look alike. Derived, so that a replay asks with the same code.
/// No question has the code of another one: the session and the journal's line are part of it.
fn short_code(state: &State, digest: &str) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    use sha2::{Digest, Sha256};
    let bytes = Sha256::digest(format!("{} {} {digest}", state.opening.session, state.seq));
    bytes
        .iter()
        .take(4)
        .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]))
        .collect()
}
