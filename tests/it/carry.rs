//! What goes between the person's folder and a session's worktree: their uncommitted changes in by /bring, its commits out by
//! /merge. Neither ever costs the person a change of theirs.

use crate::fake_model::{self, FakeModel};
use crate::serve::Served;
use crate::support::{Rig, call, calls, git, run_command, says};
use crate::worktrees::{
    ANA, commit, killer, notice, projects, rig, say, standing, state, tree, write,
};
use journeyman::agent::event::{Event, OutgoingKind};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn edit(path: &str, content: &str) -> Value {
    let arguments = json!({"path": path, "content": content, "overwrite": true});
    call("write_file", arguments)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Says a command, and hears what comes of it: the last thing that is said.
async fn told(rig: &mut Rig, id: &str, text: &str) -> String {
    say(rig, ANA, id, text).await;
    notice(rig).await
}

/// A session that has committed `new.txt`, with the person's folder.
async fn committed(replies: &[Value]) -> (Rig, PathBuf, String) {
    let first = [
        calls(&[write("new.txt")]),
        calls(&[commit()]),
        says("Done."),
    ];
    let mut rig = rig(&[&first, replies].concat());
    let session = say(&rig, ANA, "a1", "do it").await;
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    let shop = projects(&rig).join("shop");
    (rig, shop, session)
}

// --- /merge ------------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_brings_the_branch_into_the_persons_and_twice_is_once() {
    let (mut rig, shop, session) = committed(&[]).await;
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change elsewhere");
    let said = told(&mut rig, "a2", "/merge").await;
    let branch = format!("journeyman/{session}");
    assert!(
        said.contains(&branch) && said.contains("into main of shop") && said.contains("1 commits"),
        "{said}"
    );
    assert_eq!(read(&shop.join("new.txt")), "new\n");
    assert_eq!(
        read(&shop.join("notes.txt")),
        "mine\n",
        "the person's stays"
    );
    assert_eq!(git(&shop, &["status", "--porcelain"]), " M notes.txt\n");
    let (head, tip) = (["rev-parse", "main"], ["rev-parse", &*branch]);
    assert_eq!(git(&shop, &head), git(&shop, &tip), "a fast-forward");
    let reflog = git(&shop, &["reflog", "-1", "--format=%gs"]);
    assert!(reflog.contains(&branch), "{reflog}");
    let before = standing(&shop);
    let said = told(&mut rig, "a3", "/merge").await;
    assert!(said.contains("Nothing to merge"), "{said}");
    assert_eq!(standing(&shop), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_both_went_on_a_merge_commit_has_both() {
    let (mut rig, shop, session) = committed(&[]).await;
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
    git(
        &shop,
        &["commit", "--quiet", "--all", "--message", "fix: mine"],
    );
    let said = told(&mut rig, "a2", "/merge").await;
    assert!(said.contains("is merged into main"), "{said}");
    assert_eq!(read(&shop.join("new.txt")), "new\n");
    assert_eq!(read(&shop.join("notes.txt")), "mine\n");
    assert_eq!(git(&shop, &["status", "--porcelain"]), "");
    let last = git(&shop, &["log", "-1", "--format=%an %p|%s"]);
    assert!(
        last.starts_with("Ana ")
            && last.ends_with(&format!("|Merge branch 'journeyman/{session}' into main\n"))
            && last
                .split('|')
                .next()
                .is_some_and(|of| of.split(' ').count() == 3),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_changes_nothing_and_names_the_files() {
    let mut rig = rig(&[
        calls(&[edit("notes.txt", "theirs\n"), write("new.txt")]),
        calls(&[commit()]),
        says("Done."),
    ]);
    say(&rig, ANA, "a1", "do it").await;
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    let shop = projects(&rig).join("shop");
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
    git(
        &shop,
        &["commit", "--quiet", "--all", "--message", "fix: mine"],
    );
    let before = standing(&shop);
    let said = told(&mut rig, "a2", "/merge").await;
    assert!(
        said.contains("Nothing was merged") && said.contains("\nnotes.txt"),
        "{said}"
    );
    assert!(!said.contains("new.txt"), "{said}");
    assert_eq!(standing(&shop), before);
    assert_eq!(read(&shop.join("notes.txt")), "mine\n");
}

/// Staged, not staged, new, ignored: none of them is overwritten.
#[tokio::test(flavor = "multi_thread")]
async fn no_change_of_the_persons_is_overwritten() {
    let mut rig = rig(&[
        calls(&[
            edit("notes.txt", "theirs\n"),
            write("new.txt"),
            write("built.log"),
        ]),
        run_command("git add --force built.log"),
        calls(&[commit()]),
        says("Done."),
    ]);
    say(&rig, ANA, "a1", "do it").await;
    rig.question().await;
    say(&rig, ANA, "yes", "yes").await;
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    let shop = projects(&rig).join("shop");
    fs::write(shop.join(".git/info/exclude"), "*.log\n").expect("rules");
    for (number, prepare) in [
        &(|| fs::write(shop.join("notes.txt"), "mine\n").expect("a change")) as &dyn Fn(),
        &|| drop(git(&shop, &["add", "notes.txt"])),
        &|| {
            git(&shop, &["reset", "--quiet", "--hard"]);
            fs::write(shop.join("new.txt"), "mine\n").expect("a new file");
        },
        &|| {
            fs::remove_file(shop.join("new.txt")).expect("it was there");
            fs::write(shop.join("built.log"), "mine\n").expect("an ignored file");
        },
        &|| {
            fs::remove_file(shop.join("built.log")).expect("it was there");
            fs::remove_file(shop.join("notes.txt")).expect("it was there");
        },
        // Staged as the merge has it, and something else by now.
        &|| {
            fs::write(shop.join("notes.txt"), "theirs\n").expect("a change");
            git(&shop, &["add", "notes.txt"]);
            fs::write(shop.join("notes.txt"), "more\n").expect("a change");
        },
    ]
    .iter()
    .enumerate()
    {
        prepare();
        let before = standing(&shop);
        let said = told(&mut rig, &format!("m{number}"), "/merge").await;
        let name = [
            "notes.txt",
            "notes.txt",
            "new.txt",
            "built.log",
            "notes.txt",
            "notes.txt",
        ];
        assert!(
            said.contains("Nothing was merged") && said.ends_with(&format!("\n{}", name[number])),
            "{number}: {said}"
        );
        assert_eq!(standing(&shop), before, "{number}");
    }
    git(&shop, &["reset", "--quiet", "--hard"]);
    let said = told(&mut rig, "last", "/merge").await;
    assert!(said.contains("is merged into main"), "{said}");
    assert_eq!(read(&shop.join("built.log")), "new\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_session_did_not_commit_stops_a_merge_until_the_person_leaves_it_out() {
    let (mut rig, shop, session) = committed(&[
        calls(&[write("more.txt"), edit("notes.txt", "theirs\n")]),
        says("More."),
    ])
    .await;
    say(&rig, ANA, "a2", "go on").await;
    rig.answer().await;
    let before = standing(&shop);
    let said = told(&mut rig, "a3", "/merge").await;
    assert!(
        said.contains("not committed") && said.contains("more.txt\nnotes.txt"),
        "{said}"
    );
    assert_eq!(standing(&shop), before);
    let said = told(&mut rig, "a4", "/merge committed").await;
    assert!(said.contains("is merged into main"), "{said}");
    assert!(shop.join("new.txt").exists() && !shop.join("more.txt").exists());
    assert_eq!(
        read(&tree(&rig, &session, "shop").join("notes.txt")),
        "theirs\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_says_why_there_is_nothing_to_merge_or_nothing_to_merge_into() {
    let mut first = rig(&[says("Done.")]);
    let said = told(&mut first, "a1", "/merge").await;
    assert!(
        said.contains("this session has done nothing in shop"),
        "{said}"
    );
    let (mut rig, shop, _) = committed(&[]).await;
    git(&shop, &["checkout", "--quiet", "--detach"]);
    let before = standing(&shop);
    let said = told(&mut rig, "a2", "/merge").await;
    assert!(said.contains("no branch is checked out"), "{said}");
    git(&shop, &["checkout", "--quiet", "main"]);
    fs::write(
        shop.join(".git/MERGE_HEAD"),
        git(&shop, &["rev-parse", "HEAD"]),
    )
    .expect("a merge");
    let said = told(&mut rig, "a3", "/merge").await;
    assert!(said.contains("a merge is under way"), "{said}");
    fs::remove_file(shop.join(".git/MERGE_HEAD")).expect("it is over");
    assert_eq!(before.0, standing(&shop).0);
    let mut shared = Rig::new(&[says("Done.")]);
    shared.say("/merge").await;
    let said = shared.message(OutgoingKind::Notice).await;
    assert!(said.contains("in your folder shop itself"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_waits_for_no_work_and_a_schedule_cannot_ask_for_one() {
    let mut rig = rig(&[run_command("echo ran > proof.txt"), says("Done.")]);
    say(&rig, ANA, "a1", "do it").await;
    rig.message(OutgoingKind::Question).await;
    let said = told(&mut rig, "a2", "/merge").await;
    assert!(said.contains("I am at work"), "{said}");
    let mut message = journeyman::agent::event::Inbound::text("c1", ANA, "/merge");
    message.via = journeyman::agent::event::Via::Schedule;
    let hub = &rig.assembly.as_ref().expect("it runs").hub;
    hub.deliver(ANA, message).await.expect("it is taken");
    let said = notice(&mut rig).await;
    assert!(said.contains("Only a person"), "{said}");
}

// --- /bring ------------------------------------------------------------------------------------------------------------

/// Every kind of change that a folder can have.
fn change(shop: &Path) {
    for (name, content) in [("gone.txt", "gone\n"), ("run.sh", "run\n"), ("a", "a\n")] {
        fs::write(shop.join(name), content).expect("a file");
    }
    fs::write(shop.join(".gitignore"), "*.log\n").expect("rules");
    git(shop, &["add", "--all"]);
    git(shop, &["commit", "--quiet", "--message", "feat: more"]);
    fs::remove_file(shop.join("gone.txt")).expect("it is there");
    fs::remove_file(shop.join("a")).expect("it is there");
    fs::create_dir(shop.join("a")).expect("a folder");
    fs::write(shop.join("a/b"), [0, 159, 146, 150, b'\r', b'\n']).expect("a file");
    fs::set_permissions(shop.join("run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::write(shop.join("notes.txt"), "mine\r\n").expect("a change");
    fs::write(shop.join("staged.txt"), "staged\n").expect("a new file");
    git(shop, &["add", "staged.txt"]);
    symlink("notes.txt", shop.join("link")).expect("a link");
    fs::write(shop.join("built.log"), "x").expect("an ignored file");
    fs::write(shop.join(".env"), "KEY=1").expect("a secret file");
}

#[tokio::test(flavor = "multi_thread")]
async fn uncommitted_changes_come_along_when_the_person_says_so_and_the_folder_stays_as_it_is() {
    let mut rig = rig(&[says("Hello."), calls(&[write("new.txt")]), says("Done.")]);
    let shop = projects(&rig).join("shop");
    change(&shop);
    let before = standing(&shop);
    let session = say(&rig, ANA, "a1", "hello").await;
    notice(&mut rig).await;
    let offer = notice(&mut rig).await;
    assert!(
        offer.contains("7 uncommitted changes") && offer.contains("/bring"),
        "{offer}"
    );
    rig.answer().await;
    let own = tree(&rig, &session, "shop");
    assert_eq!(read(&own.join("notes.txt")), "one\ntwo\nthree\n");
    let said = told(&mut rig, "a2", "/bring").await;
    assert!(
        said.contains("Taken along from shop") && said.contains("a/b") && said.contains("gone.txt"),
        "{said}"
    );
    let left = notice(&mut rig).await;
    assert!(left.contains(".env (secret)"), "{left}");
    assert_eq!(read(&own.join("notes.txt")), "mine\r\n");
    assert_eq!(
        fs::read(own.join("a/b")).expect("a file"),
        [0, 159, 146, 150, b'\r', b'\n']
    );
    assert_eq!(read(&own.join("staged.txt")), "staged\n");
    assert_eq!(
        fs::read_link(own.join("link")).expect("a link"),
        Path::new("notes.txt")
    );
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode(&own.join("run.sh")) & 0o111, 0o111);
    for absent in ["gone.txt", "built.log", ".env"] {
        assert!(!own.join(absent).exists(), "{absent}");
    }
    assert_eq!(standing(&shop), before, "the person's folder is as it was");
    // The model hears of it, and an undo of what it does then does not take the person's changes away.
    let told_model = state(&rig, &session).conversation.messages().to_vec();
    let last = told_model.last().expect("a message").get();
    assert!(
        last.contains("took their uncommitted changes along"),
        "{last}"
    );
    say(&rig, ANA, "a3", "go on").await;
    assert_eq!(rig.answer().await, "Done.");
    let said = told(&mut rig, "a4", "/undo").await;
    assert!(
        said.contains("new.txt") && !said.contains("notes.txt"),
        "{said}"
    );
    assert_eq!(read(&own.join("notes.txt")), "mine\r\n");
    // Once more is once.
    let said = told(&mut rig, "a5", "/bring").await;
    assert!(said.contains("Taken along"), "{said}");
    assert_eq!(standing(&shop), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn can_come_along_before_anything_else_is_said_and_in_the_middle_of_work() {
    let mut rig = rig(&[
        run_command("cat notes.txt > proof.txt"),
        run_command("cat notes.txt > proof.txt"),
        says("Done."),
    ]);
    let shop = projects(&rig).join("shop");
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
    let session = say(&rig, ANA, "a1", "/bring").await;
    for part in ["I work beside your folder", "1 uncommitted", "Taken along"] {
        let said = notice(&mut rig).await;
        assert!(said.contains(part), "{part}: {said}");
    }
    let own = tree(&rig, &session, "shop");
    assert_eq!(read(&own.join("notes.txt")), "mine\n");
    say(&rig, ANA, "a2", "do it").await;
    rig.message(OutgoingKind::Question).await;
    // A round is under way: after it. A file that changed again is one of the session's by now.
    fs::write(shop.join("more.txt"), "more\n").expect("a new file");
    let said = told(&mut rig, "a3", "/bring").await;
    assert!(said.contains("as soon as this round is over"), "{said}");
    assert!(!own.join("more.txt").exists());
    let said = told(&mut rig, "a4", "/bring").await;
    assert!(said.contains("One thing after the other"), "{said}");
    say(&rig, ANA, "a5", "yes").await;
    let said = notice(&mut rig).await;
    assert!(said.contains("Approved"), "{said}");
    let said = notice(&mut rig).await;
    assert!(said.contains("Taken along"), "{said}");
    assert_eq!(read(&own.join("more.txt")), "more\n");
    assert_eq!(
        read(&own.join("proof.txt")),
        "mine\n",
        "{}",
        rig.transcript()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_session_has_in_another_version_is_not_overwritten() {
    let mut rig = rig(&[
        calls(&[edit("notes.txt", "theirs\n"), write("new.txt")]),
        says("Done."),
        calls(&[commit()]),
        says("Committed."),
    ]);
    let session = say(&rig, ANA, "a1", "do it").await;
    rig.answer().await;
    let shop = projects(&rig).join("shop");
    let own = tree(&rig, &session, "shop");
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
    fs::write(shop.join("draft.txt"), "mine\n").expect("a new file");
    for id in ["a2", "a4"] {
        let said = told(&mut rig, id, "/bring").await;
        assert!(
            said.contains("Nothing was taken along") && said.ends_with("\nnotes.txt"),
            "{said}"
        );
        assert_eq!(read(&own.join("notes.txt")), "theirs\n");
        assert!(!own.join("draft.txt").exists(), "all or nothing");
        if id == "a2" {
            say(&rig, ANA, "a3", "commit it").await;
            assert_eq!(rig.answer().await, "Committed.");
        }
    }
    // An ignored file in the way is one of nobody's knowledge.
    git(&shop, &["checkout", "--quiet", "notes.txt"]);
    fs::write(shop.join(".git/info/exclude"), "*.log\n").expect("rules");
    fs::write(own.join("x.log"), "ignored\n").expect("a file");
    fs::write(shop.join("x.log"), "mine\n").expect("a file");
    git(&shop, &["add", "--force", "x.log"]);
    let said = told(&mut rig, "a5", "/bring").await;
    assert!(said.contains("Nothing was taken along"), "{said}");
    assert_eq!(read(&own.join("x.log")), "ignored\n");
}

/// What came along is in the session's commit: as it lies in the person's folder, it is not in the way of the merge.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_along_and_was_committed_goes_home_by_a_merge() {
    let mut rig = rig(&[
        calls(&[edit("added.txt", "more\n")]),
        calls(&[commit()]),
        says("Done."),
    ]);
    let shop = projects(&rig).join("shop");
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
    fs::write(shop.join("added.txt"), "mine\n").expect("a new file");
    say(&rig, ANA, "a1", "/bring").await;
    for _ in 0..3 {
        notice(&mut rig).await;
    }
    say(&rig, ANA, "a2", "do it").await;
    assert_eq!(rig.answer().await, "Done.", "{}", rig.transcript());
    let said = told(&mut rig, "a3", "/merge").await;
    assert!(
        said.ends_with("added.txt") && said.contains("Nothing was merged"),
        "{said}"
    );
    git(
        &shop,
        &[
            "stash",
            "push",
            "--quiet",
            "--include-untracked",
            "added.txt",
        ],
    );
    assert_eq!(git(&shop, &["status", "--porcelain"]), " M notes.txt\n");
    let said = told(&mut rig, "a4", "/merge").await;
    assert!(said.contains("is merged into main"), "{said}");
    assert_eq!(git(&shop, &["status", "--porcelain"]), "");
    assert_eq!(read(&shop.join("notes.txt")), "mine\n");
    assert_eq!(read(&shop.join("added.txt")), "more\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_are_said_in_spanish_too() {
    let mut rig = rig(&[says("Listo.")]);
    let shop = projects(&rig).join("shop");
    fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
    say(&rig, ANA, "a1", "Hola, ¿qué hay en esta carpeta?").await;
    assert_eq!(rig.answer().await, "Listo.");
    let said = told(&mut rig, "b1", "/bring").await;
    assert!(said.contains("Traído de shop"), "{said}");
    let said = told(&mut rig, "a2", "/merge").await;
    assert!(
        said.contains("No fusioné nada")
            && said.ends_with(
                "notes.txt\nHay que pedirme el commit, o /merge committed los deja afuera."
            ),
        "{said}"
    );
}

// --- killed --------------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn both_happen_once_however_often_the_server_is_killed_over_them() {
    dies_over_them(3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: by .ci/full"]
async fn long_both_happen_once_wherever_the_server_is_killed_over_them() {
    dies_over_them(1).await;
}

/// The server dies over a `/bring` and a `/merge`, at each so-manieth process that these start, before it or after it.
async fn dies_over_them(stride: usize) {
    let tools = tempfile::tempdir().expect("a folder");
    let Some(library) = killer(tools.path()) else {
        return;
    };
    let mut deaths: usize = 0;
    for at in (1..).step_by(stride) {
        let replies = vec![
            fake_model::calls("write_file", json!({"path": "new.txt", "content": "new\n"})),
            fake_model::calls("git_commit", json!({"message": "feat: more"})),
            fake_model::says("Done."),
        ];
        let model = FakeModel::recorded(replies).await;
        let mut served = Served::new(&model).await;
        served
            .program
            .config("settings.toml", "worktree = \"own\"\nresume = \"auto\"\n");
        let shop = served.program.workspace();
        fs::write(shop.join("notes.txt"), "mine\n").expect("a change");
        served.begin().await;
        served.says("wamid.1", "do it").await;
        until(&mut served, "Done.").await;
        served.signal(Signal::SIGTERM);
        served.ended().await;
        let mut command = served.program.command(&["serve"]);
        command
            .env("LD_PRELOAD", &library)
            .env("KILL_AT", at.to_string());
        if deaths.is_multiple_of(2) {
            command.env("KILL_AFTER", "1");
        }
        served.begin_as(command).await;
        let done = |event: &Event| matches!(event, Event::Carried { .. });
        let mut is_dead = false;
        for (number, text) in ["/bring", "/merge committed"].iter().enumerate() {
            let id = format!("wamid.c{number}");
            if !is_dead {
                served.tries_to_say(&id, text).await;
            }
            while !is_dead && served.happened(done) <= number {
                tokio::time::sleep(Duration::from_millis(10)).await;
                is_dead = served.has_ended();
            }
            if is_dead {
                served.ended().await;
                served.begin().await;
                served.says(&id, text).await;
                while served.happened(done) <= number {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                if number == 0 {
                    served.says("wamid.c1", "/merge committed").await;
                    while served.happened(done) <= 1 {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
                break;
            }
        }
        assert_eq!(served.happened(done), 2, "step {at}");
        assert_eq!(
            git(&shop, &["status", "--porcelain"]),
            " M notes.txt\n",
            "step {at}"
        );
        assert_eq!(
            git(&shop, &["log", "--format=%s"]),
            "feat: more\nfeat: begin\n",
            "step {at}"
        );
        assert_eq!(read(&shop.join("new.txt")), "new\n", "step {at}");
        let trees = served.program.projects().join(".journeyman/worktrees");
        let own = fs::read_dir(trees)
            .expect("one")
            .flatten()
            .next()
            .expect("one");
        assert_eq!(
            read(&own.path().join("shop/notes.txt")),
            "mine\n",
            "step {at}"
        );
        served.signal(Signal::SIGKILL);
        served.ended().await;
        deaths += usize::from(is_dead);
        if !is_dead {
            break;
        }
    }
    assert!(deaths * stride >= 15, "only {deaths} steps");
}

async fn until(served: &mut Served, end: &str) {
    while !served.hears().await.text.ends_with(end) {}
}
