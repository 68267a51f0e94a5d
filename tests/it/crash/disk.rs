//! `journeyman serve` on a disk that is full or fails: it says so, takes nothing that it cannot keep, damages nothing,
//! and works again once the disk does.
//!
//! Real system calls of the real program. A shim in front of libc (`failing_disk.c`) makes any one of them fail; a small
//! file system in memory is really full, where the kernel lets us mount one.

use super::person::{Job, Person};
use crate::serve::Served;
use crate::support::PATIENCE;
use nix::libc::{EIO, ENOSPC};
use nix::sys::signal::Signal;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

/// How long the disk stays broken after its first failure.
const BROKEN: Duration = Duration::from_millis(300);
/// A session that says nothing for so long is written to.
const SILENCE: Duration = Duration::from_secs(2);

/// The shim, compiled once; or why it cannot be.
static SHIM: LazyLock<Result<(TempDir, PathBuf), String>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let library = folder.path().join("failing_disk.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/crash/failing_disk.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .output()
        .map_err(|error| format!("no C compiler: {error}"))?;
    match built.status.success() {
        true => Ok((folder, library)),
        false => Err(String::from_utf8_lossy(&built.stderr).into_owned()),
    }
});

/// A session during which the disk fails with `errno`, after `skip` calls that still work.
async fn disk_fails(library: &Path, errno: i32, skip: usize) {
    let context = format!("errno {errno} after {skip} calls");
    let job = Job::new().await;
    let mut served = job.served().await;
    let switch = served.program.home().join("switch");
    let text = |path: &Path| path.display().to_string();
    fs::create_dir_all(served.program.data()).expect("a folder");
    let data = served
        .program
        .data()
        .canonicalize()
        .expect("the data folder");
    served.environment.extend([
        ("LD_PRELOAD".into(), text(library)),
        ("FAULT_FOLDER".into(), text(&data)),
        ("FAULT_SWITCH".into(), text(&switch)),
    ]);
    served.begin().await;
    served.answers().await;
    fs::write(&switch, format!("{skip} {errno}")).expect("switched on");
    let mut person = Person::new();
    let deadline = tokio::time::Instant::now() + PATIENCE * 2;
    loop {
        let taken = person.speaks(&served).await;
        let hit = switch.with_extension("hit").exists();
        if hit && switch.exists() {
            tokio::time::sleep(BROKEN).await;
            fs::remove_file(&switch).expect("the disk works again");
            continue;
        }
        let log = || served.log.lock().expect("no panic").clone();
        assert!(taken.is_some(), "{context}: the server is gone\n{}", log());
        assert!(
            taken == Some(200) || hit,
            "{context}: {taken:?} without a reason"
        );
        tokio::select! {
            sent = served.graph.sent.recv() => {
                let sent = sent.expect("the stand-in is there");
                if person.reads(&sent, &job, &served.program).await {
                    break;
                }
            }
            () = tokio::time::sleep(SILENCE) => person.says("/agent"),
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{context}: it never ends\n{}",
            log()
        );
    }
    let _ = fs::remove_file(&switch);
    let hit = switch.with_extension("hit").exists();
    served.signal(Signal::SIGTERM);
    assert_eq!(served.ended().await, Some(0), "{context}");
    person.check(&job, &served.program, &context);
    let verified = served.program.run(&["audit", "verify"]).await;
    assert_eq!(verified.code, 0, "{context}: {}", verified.out);
    let log = served.log.lock().expect("no panic").clone();
    let said = ["WARN", "ERROR"].iter().any(|word| log.contains(word));
    assert!(said || !hit, "{context}: it failed in silence\n{log}");
}

async fn fails_at(skips: impl Iterator<Item = usize>) {
    let library = match &*SHIM {
        Ok((_, library)) => library,
        Err(why) => return println!("skipped: the shim cannot be built here: {why}"),
    };
    for skip in skips {
        let errno = [ENOSPC, EIO][skip % 2];
        disk_fails(library, errno, skip).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_loses_nothing_and_works_again() {
    fails_at([0, 1, 2, 3, 7, 12, 25, 40, 66].into_iter()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: by .ci/full"]
async fn long_a_disk_that_fails_at_any_call_loses_nothing() {
    // Every call with both errors: an even and an odd number of calls before it.
    fails_at(0..120).await;
}

/// A file system of its own for the data folder, 4 MB small; `None` where the kernel refuses.
async fn on_a_small_disk(served: &mut Served) -> Option<PathBuf> {
    let data = served.program.data();
    fs::create_dir_all(&data).expect("a folder");
    let may = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "none"])
        .arg(&data)
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        println!("skipped: the kernel lets nobody mount a small disk here (unshare -rm, tmpfs)");
        return None;
    }
    let mut command = tokio::process::Command::new("unshare");
    let program = served.program.command(&["serve"]);
    let program = program.as_std();
    let script = format!(
        "mount -t tmpfs -o size=4m none '{}' && exec '{}' serve",
        data.display(),
        program.get_program().to_string_lossy()
    );
    command
        .args(["-rm", "sh", "-c", &script])
        .current_dir(served.program.workspace())
        .env_clear()
        .envs(
            program
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    served.begin_as(command).await;
    // What the server sees there, seen from here.
    Some(PathBuf::from(format!(
        "/proc/{}/root{}",
        served.pid(),
        data.display()
    )))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_messages_until_there_is_room_again() {
    let mut served = Job::new().await.served().await;
    let Some(data) = on_a_small_disk(&mut served).await else {
        return;
    };
    assert_eq!(served.says("wamid.first", "/help").await, 200);
    let filler = data.join("filler");
    let mut file = File::create(&filler).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
    // What is left of a page may still take a line or two.
    let mut refused = None;
    for number in 0..60 {
        let id = format!("wamid.{number}");
        let status = served.says(&id, "/help").await;
        if status != 200 {
            assert_eq!(status, 503);
            refused = Some(id);
            break;
        }
    }
    let refused = refused.expect("a full disk takes no messages");
    let log = served.log.lock().expect("no panic").clone();
    assert!(log.contains("No space left on device"), "{log}");
    assert!(log.contains("free the disk"), "{log}");
    drop(file);
    fs::remove_file(&filler).expect("room again");
    assert_eq!(served.says(&refused, "/help").await, 200);
    let journals: Vec<_> = fs::read_dir(data.join("agent_sessions"))
        .expect("the journals")
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "jsonl"))
        .collect();
    assert_eq!(journals.len(), 1);
    crate::support::records(&journals[0].path()); // it verifies
    served.signal(Signal::SIGTERM);
    assert_eq!(served.ended().await, Some(0));
}
