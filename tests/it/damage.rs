//! Damaged journals and databases: found, told, kept whole; the good part is used only after a person agreed.

use crate::fake_model::{FakeModel, Next, calls, says};
use crate::program::Program;
use crate::support::{Rig, journals, records, says as answer_of, texts};
use journeyman::agent::event::{Event, OutgoingKind, Via};
use journeyman::agent::state::Stage;
use journeyman::history::{good_part, keep_good_part};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

fn shell(command: &str) -> Next {
    calls("run_command", json!({"command": command}))
}

/// Where each line of a file begins.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut starts: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    starts.insert(0, 0);
    starts.pop();
    starts
}

/// Flips a bit in the middle of the first line that `wanted` takes; the line's number.
fn flip(path: &Path, wanted: impl Fn(&Event) -> bool) -> u64 {
    let line = records(path)
        .iter()
        .find(|record| wanted(&record.event))
        .expect("such a line")
        .seq;
    flip_line(path, line);
    line
}

fn flip_line(path: &Path, line: u64) {
    let mut bytes = fs::read(path).expect("bytes");
    let at = starts(&bytes)[usize::try_from(line - 1).expect("small")];
    bytes[at + 30] ^= 0x01;
    fs::write(path, bytes).expect("damaged");
}

fn id(path: &Path) -> String {
    let name = path.file_stem().expect("a name");
    name.to_string_lossy().into_owned()
}

fn kept(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("agent_sessions")).expect("the folder");
    let paths = entries.flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().contains(".damaged-"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_good_part_becomes_the_journal_only_after_the_person_agreed() {
    let model = FakeModel::recorded(vec![
        shell("echo one >> log.txt"),
        shell("echo two >> log.txt"),
        says("Done."),
    ])
    .await;
    let program = Program::new(&model.base_url);
    assert_eq!(program.run(&["run", "go", "--yes"]).await.code, 0);
    let path = journals(&program.data())[0].clone();
    // The second command is allowed, and that it ran is lost.
    let second =
        |event: &Event| matches!(event, Event::ToolStarted { call, .. } if call.0 == "2.1");
    let line = flip(&path, second);
    let damaged = fs::read(&path).expect("bytes");
    let id = id(&path);

    let refused = program.run(&["resume", &id, "--yes"]).await;
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains(&format!("damaged at line {line}"))
            && refused.err.contains("--from-good-prefix"),
        "{}",
        refused.err
    );
    assert_eq!(
        fs::read(&path).expect("bytes"),
        damaged,
        "nothing was changed"
    );

    let doubt = program
        .run(&["resume", &id, "--yes", "--from-good-prefix"])
        .await;
    assert_eq!(doubt.code, 3, "--yes does not say it again: {}", doubt.err);
    assert!(
        doubt.err.contains("may or may not have happened") && doubt.err.contains("echo two"),
        "{}",
        doubt.err
    );
    let aside = kept(&program.data());
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read(&aside[0]).expect("kept whole"), damaged);
    let good = starts(&damaged)[usize::try_from(line - 1).expect("small")];
    let written = fs::read(&path).expect("bytes");
    assert_eq!(
        written[..good],
        damaged[..good],
        "the good lines, byte for byte"
    );
    let said = records(&path)[usize::try_from(line - 1).expect("small")]
        .event
        .clone();
    let Event::TailSetAside {
        lines,
        bytes,
        digest,
        file,
        ..
    } = said
    else {
        panic!("the next line says so: {said:?}");
    };
    assert_eq!(lines as usize, starts(&damaged).len() + 1 - line as usize);
    assert_eq!(bytes as usize, damaged.len() - good);
    assert_eq!(digest, hex::encode(Sha256::digest(&damaged[good..])));
    assert_eq!(
        Some(file.as_str()),
        aside[0].file_name().and_then(|name| name.to_str())
    );

    let ended = program.run(&["resume", &id, "--yes", "--go-on"]).await;
    assert_eq!(
        (ended.code, ended.out.trim().lines().last()),
        (0, Some("Done.")),
        "{}",
        ended.err
    );
    let log = fs::read_to_string(program.workspace().join("log.txt")).expect("the log");
    assert_eq!(log, "one\ntwo\n", "nothing ran twice");
    let told = model.requests().last().expect("a request")["messages"].to_string();
    assert!(
        told.contains("journal of this session was damaged"),
        "{told}"
    );
    let verified = program.run(&["audit", "verify", "--json"]).await;
    assert_eq!(verified.code, 0, "{}", verified.out);
}

/// Whatever line is damaged: no call that had begun by then is anything but in doubt or at its end.
#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_damage_is_no_open_call_counts_as_not_run() {
    let model = FakeModel::recorded(vec![shell("echo one >> log.txt"), says("Done.")]).await;
    let program = Program::new(&model.base_url);
    assert_eq!(program.run(&["run", "go", "--yes"]).await.code, 0);
    let path = journals(&program.data())[0].clone();
    let whole = fs::read(&path).expect("bytes");
    for line in 2..=starts(&whole).len() as u64 {
        fs::write(&path, &whole).expect("whole again");
        flip_line(&path, line);
        let tail = keep_good_part(&path, &texts()).expect("the good part");
        assert!(tail.is_some());
        let past = good_part(&path, &texts(), |_| {}).expect("a journal");
        assert!(past.damage.is_none(), "{:?}", past.damage);
        assert_eq!(past.end.seq, line);
        for pending in past.state.calls() {
            assert!(
                matches!(pending.stage, Stage::InDoubt(..) | Stage::Finished(_))
                    && pending.ticket.is_none(),
                "line {line}: {pending:?}"
            );
        }
        assert!(keep_good_part(&path, &texts()).expect("intact").is_none());
    }
    fs::write(&path, &whole).expect("whole again");
    flip_line(&path, 1);
    assert!(
        keep_good_part(&path, &texts()).is_err(),
        "there is no good part"
    );
    let listed = program.run(&["sessions"]).await;
    assert_eq!(listed.code, 0, "{}", listed.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_told_of_a_damaged_journal_and_goes_on_elsewhere() {
    let replies = ["One.", "Two.", "Three."].map(answer_of);
    let mut rig = Rig::new(&replies);
    rig.say("first").await;
    rig.answer().await;
    rig.stop().await;
    let path = rig.journals()[0].clone();
    let old = id(&path);
    let line = flip(&path, |event| matches!(event, Event::ModelAnswered { .. }));
    let damaged = fs::read(&path).expect("bytes");
    rig.restart_beside_damage().await;
    let first = rig.say("hello again").await.session;
    assert_ne!(first, old);
    let told = rig.message(OutgoingKind::Notice).await;
    assert!(
        told.contains(&old)
            && told.contains(&format!("line {line}"))
            && told.contains("good-prefix"),
        "{told}"
    );
    rig.answer().await;
    assert_eq!(
        rig.say("and again").await.session,
        first,
        "told once, in one session"
    );
    assert_eq!(
        fs::read(&path).expect("bytes"),
        damaged,
        "nothing was changed"
    );

    // Somebody else's word is none.
    let stranger = rig
        .try_say(
            &format!("/agent-resume {old} good-prefix"),
            "eve",
            Via::Text,
        )
        .await;
    assert!(stranger.is_ok());
    assert_eq!(
        fs::read(&path).expect("bytes"),
        damaged,
        "nothing was changed"
    );
    let resumed = rig.say(&format!("/agent-resume {old} good-prefix")).await;
    assert_eq!(resumed.session, old);
    assert!(
        good_part(&path, &texts(), |_| {})
            .expect("a journal")
            .damage
            .is_none()
    );
    assert_eq!(kept(&rig.settings.data_dir).len(), 1);
    assert_eq!(
        rig.say("go on").await.session,
        old,
        "the chat is back in it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_in_the_chat_reads_the_file_again() {
    let mut rig = Rig::new(&[answer_of("Hello.")]);
    rig.say("hello").await;
    rig.answer().await;
    rig.say("/audit").await;
    let good = rig.message(OutgoingKind::Notice).await;
    assert!(
        good.contains("verifies") && good.contains("Head: "),
        "{good}"
    );
    flip_line(&rig.journals()[0], 2);
    rig.say("/audit").await;
    let bad = rig.message(OutgoingKind::Notice).await;
    // A session that fell asleep meanwhile is not woken on it: then its chat is told by another one.
    assert!(
        (bad.contains("does not verify") || bad.contains("is damaged")) && bad.contains("line 2"),
        "{bad}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_set_aside_and_made_again() {
    let model = FakeModel::recorded(vec![shell("echo one > log.txt"), says("Done.")]).await;
    let program = Program::new(&model.base_url);
    assert_eq!(program.run(&["run", "go"]).await.code, 3);
    let id = id(&journals(&program.data())[0]);
    let db = program.data().join("journeyman.db");
    fs::write(&db, "this is no database, whatever it is").expect("damaged");
    for part in ["journeyman.db-wal", "journeyman.db-shm"] {
        let _ = fs::remove_file(program.data().join(part));
    }
    let resumed = program.run(&["resume", &id, "--yes"]).await;
    assert_eq!(
        (resumed.code, resumed.out.trim()),
        (0, "Done."),
        "{}",
        resumed.err
    );
    let kept = fs::read_to_string(program.data().join("journeyman.db.damaged-1"));
    assert!(kept.expect("kept").starts_with("this is no database"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_can_be_shortened_and_unknown_ones_get_advice() {
    let model = FakeModel::recorded(vec![says("Done.")]).await;
    let program = Program::new(&model.base_url);
    program.run(&["run", "go"]).await;
    let id = id(&journals(&program.data())[0]);
    for command in [
        &["show", "--json"][..],
        &["replay", "--json"],
        &["audit", "verify", "--json"],
        &["fork", "--json"],
    ] {
        let with = |id: &str| -> Vec<String> {
            let mut all: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            all.push(id.to_owned());
            all
        };
        let words = with("20269999-nowhere");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let unknown = program.run(&words).await;
        assert_eq!(unknown.code, 2, "{words:?}: {}", unknown.err);
        assert!(
            unknown.err.contains("journeyman sessions"),
            "{}",
            unknown.err
        );
        let words = with(&id[..id.len() - 2]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let found = program.run(&words).await;
        assert_eq!(found.code, 0, "{words:?}: {} {}", found.out, found.err);
        let lines = found.out.lines().next().unwrap_or_default();
        assert!(
            lines.starts_with('{') || lines.starts_with('['),
            "{}",
            found.out
        );
    }
    let typo = program.run(&["show", &id.replace('-', "_")]).await;
    assert!(typo.err.contains(&format!("nearest: {id}")), "{}", typo.err);
}
