//! The journal is never wrong about what happened: chained, torn tails set aside, damage found with its line.

use crate::support::{journals, texts};
use journeyman::agent::event::{Event, Inbound, Opening, Timestamp, WorkspaceRef};
use journeyman::history::{inspect, load};
use journeyman::world::journal::{FORMAT, Journal, JournalError};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn opening() -> Event {
    Event::SessionStarted(Box::new(Opening {
        sandbox: "off".into(),
        format: FORMAT,
        program: "journeyman test".into(),
        session: "s".into(),
        chat: "terminal:test".into(),
        owner: "ana".into(),
        workspace: WorkspaceRef {
            name: "w".into(),
            path: "/w".into(),
        },
        system: "You are a test.".into(),
        prompt_digest: String::new(),
        policy_digest: String::new(),
        model: "m".into(),
        brief: None,
        mcp: false,
        scheduled: None,
        sources: Vec::new(),
        worktrees: None,
        language: Default::default(),
        welcome: false,
        together_ms: 0,
        fork: None,
        child: None,
    }))
}

fn message(n: u64) -> Event {
    Event::MessageReceived {
        message: Inbound::text(
            format!("m{n}"),
            "ana",
            format!("/help {n} ñ 👍\n\"quoted\""),
        ),
    }
}

/// A journal with a first line and `messages` more.
fn journal_of(messages: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    let (mut journal, _) = Journal::create(&path, Timestamp(1_000), opening()).expect("a journal");
    for n in 0..messages {
        journal
            .append(journal.next(Timestamp(2_000), message(n)))
            .expect("a line");
    }
    journal.sync().expect("on disk");
    (folder, path)
}

fn lines(path: &Path) -> u64 {
    inspect(path, &texts(), |_| {}).expect("intact").1.seq
}

#[test]
fn what_was_written_is_what_is_read() {
    let (_folder, path) = journal_of(3);
    let mut read = Vec::new();
    let (state, end) =
        inspect(&path, &texts(), |record| read.push(record.clone())).expect("intact");
    assert_eq!((end.seq, end.torn, read.len()), (4, 0, 4));
    assert_eq!(read[2].event, message(1));
    assert_eq!((state.seq, &state.head), (4, &end.head));
    let first = fs::read_to_string(&path)
        .expect("text")
        .lines()
        .next()
        .expect("a line")
        .to_owned();
    assert!(
        first.starts_with(r#"{"seq":1,"at":"1970-01-01T00:00:01.000Z","event":"session_started""#),
        "{first}"
    );
}

#[test]
fn every_flipped_byte_is_found_with_its_line() {
    let (_folder, path) = journal_of(2);
    let good = fs::read(&path).expect("bytes");
    let line_of = |at: usize| good[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        fs::write(&path, &bad).expect("written");
        match inspect(&path, &texts(), |_| {}) {
            Err(JournalError::Damaged { line, .. }) => assert_eq!(line, line_of(at), "byte {at}"),
            // The newline of the last line: then that line counts as torn, and never happened.
            Ok((_, end)) => assert!(
                at == good.len() - 1 && end.torn > 0,
                "byte {at} goes unnoticed"
            ),
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
}

#[test]
fn every_torn_tail_is_set_aside_and_kept() {
    let (folder, path) = journal_of(2);
    let whole = fs::read(&path).expect("bytes");
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .expect("a line before")
        + 1;
    for length in last + 1..whole.len() {
        fs::write(&path, &whole[..length]).expect("written");
        let (state, mut journal) = load(&path, &texts(), |_| {}).expect("the intact part");
        assert_eq!(state.seq, 2, "cut at {length}");
        journal
            .append(journal.next(Timestamp(3_000), message(9)))
            .expect("goes on");
        drop(journal);
        assert_eq!(lines(&path), 3);
        let aside = match length - last - 1 {
            0 => format!("s.torn-{last}"),
            again => format!("s.torn-{last}-{again}"),
        };
        let aside = folder.path().join(aside);
        assert_eq!(fs::read(&aside).expect("kept"), &whole[last..length]);
    }
}

#[test]
fn looking_at_a_torn_journal_changes_nothing() {
    let (_folder, path) = journal_of(2);
    let whole = fs::read(&path).expect("bytes");
    fs::write(&path, &whole[..whole.len() - 5]).expect("written");
    let end = inspect(&path, &texts(), |_| {}).expect("intact so far").1;
    assert_eq!(end.seq, 2);
    assert_eq!(fs::read(&path).expect("bytes").len(), whole.len() - 5);
}

#[test]
fn an_event_that_cannot_have_happened_is_an_error() {
    let (_folder, path) = journal_of(0);
    let (_, mut journal) = load(&path, &texts(), |_| {}).expect("intact");
    journal
        .append(journal.next(Timestamp(3_000), Event::StopAsked))
        .expect("the file takes anything");
    drop(journal);
    let error = inspect(&path, &texts(), |_| {}).expect_err("no turn is active");
    assert!(
        error.to_string().contains("line 2") && error.to_string().contains("no turn is active"),
        "{error}"
    );
}

#[test]
fn a_missing_or_doubled_line_is_found() {
    let (_folder, path) = journal_of(3);
    let text = fs::read_to_string(&path).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    for wrong in [
        [lines[0], lines[2], lines[3]],
        [lines[0], lines[1], lines[1]],
        [lines[0], lines[2], lines[1]],
    ] {
        fs::write(&path, wrong.join("\n") + "\n").expect("written");
        assert!(matches!(
            inspect(&path, &texts(), |_| {}),
            Err(JournalError::Damaged { line: 2..=3, .. })
        ));
    }
}

#[test]
fn nothing_but_journals_counts_as_one() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("agent_sessions")).expect("a folder");
    fs::write(folder.path().join("agent_sessions/x.jsonl"), "").expect("a file");
    let path = &journals(folder.path())[0];
    assert!(matches!(
        inspect(path, &texts(), |_| {}),
        Err(JournalError::Empty { .. })
    ));
}
