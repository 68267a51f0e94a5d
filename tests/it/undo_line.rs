//! `journeyman diff`, `undo` and `redo` do what the chat's commands do, without a model.

use crate::fake_model::{FakeModel, calls, says};
use crate::program::Program;
use crate::support::{journals, records};
use journeyman::agent::event::Event;
use serde_json::json;
use std::fs;

async fn worked() -> (Program, FakeModel) {
    let write = |path: &str| calls("write_file", json!({"path": path, "content": "new\n"}));
    let replies = vec![write("one.txt"), write("two.txt"), says("Done.")];
    let model = FakeModel::recorded(replies).await;
    let program = Program::new(&model.base_url);
    let ended = program.run(&["run", "do it", "--yes"]).await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    (program, model)
}

fn id(program: &Program) -> String {
    let path = journals(&program.data())[0].clone();
    let name = path.file_stem().expect("a name");
    name.to_string_lossy().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_changed_is_shown_put_back_and_brought_back_by_its_id_or_by_the_folder() {
    let (program, model) = worked().await;
    let asked = model.bodies().len();
    let id = id(&program);
    let (one, two) = (
        program.workspace().join("one.txt"),
        program.workspace().join("two.txt"),
    );
    for args in [&["diff"][..], &["diff", &id]] {
        let shown = program.run(args).await;
        assert_eq!(shown.code, 0, "{}", shown.err);
        assert!(
            shown.out.trim_start().starts_with("2 files changed")
                && shown.out.contains("+++ b/one.txt")
                && shown.out.contains("+++ b/two.txt"),
            "{}",
            shown.out
        );
    }
    let undone = program.run(&["undo"]).await;
    assert!(
        undone.code == 0 && undone.out.contains("two.txt"),
        "{}",
        undone.err
    );
    assert!(one.exists() && !two.exists());
    let redone = program.run(&["redo", &id[..17]]).await;
    assert!(
        redone.code == 0 && redone.out.contains("two.txt"),
        "{}",
        redone.out
    );
    assert!(one.exists() && two.exists());
    let undone = program.run(&["undo", "2"]).await;
    assert_eq!(undone.code, 0, "{}", undone.err);
    assert!(!one.exists() && !two.exists());
    let shown = program.run(&["diff"]).await;
    assert!(
        shown.code == 0 && shown.out.contains("Nothing is different"),
        "{}",
        shown.out
    );
    let nothing = program.run(&["undo"]).await;
    assert!(
        nothing.code == 1 && nothing.out.contains("nothing to undo"),
        "{}",
        nothing.out
    );
    assert_eq!(model.bodies().len(), asked, "no model is asked");
    let journal = records(&journals(&program.data())[0]);
    let put = |event: &Event| matches!(event, Event::PutBack { .. });
    assert_eq!(journal.iter().filter(|r| put(&r.event)).count(), 3);
    let audit = program.run(&["audit", "verify"]).await;
    assert_eq!(audit.code, 0, "{}", audit.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_person_changed_since_is_overwritten_by_force_only() {
    let (program, _model) = worked().await;
    let two = program.workspace().join("two.txt");
    fs::write(&two, "mine\n").expect("a change");
    let stopped = program.run(&["undo", &id(&program), "1"]).await;
    assert!(
        stopped.code == 1 && stopped.out.contains("two.txt"),
        "{}",
        stopped.out
    );
    assert_eq!(fs::read_to_string(&two).expect("it is there"), "mine\n");
    let undone = program.run(&["undo", "--force"]).await;
    assert_eq!(undone.code, 0, "{}", undone.out);
    assert!(!two.exists());
    let redone = program.run(&["redo"]).await;
    assert_eq!(redone.code, 0, "{}", redone.out);
    assert_eq!(fs::read_to_string(&two).expect("it is back"), "mine\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn says_which_session_it_cannot_find_and_leaves_one_that_waits_as_it_is() {
    let run = calls("run_command", json!({"command": "echo ran > proof.txt"}));
    let model = FakeModel::recorded(vec![run, says("Done.")]).await;
    let program = Program::new(&model.base_url);
    let none = program.run(&["diff"]).await;
    assert!(
        none.code == 2 && none.err.contains("no session worked in"),
        "{}",
        none.err
    );
    let waits = program.run(&["run", "prove it"]).await;
    assert_eq!(waits.code, 3, "{}", waits.err);
    let wrong = program.run(&["undo", "20200101", "1"]).await;
    assert!(
        wrong.code == 2 && wrong.err.contains("there is no session"),
        "{}",
        wrong.err
    );
    let shown = program.run(&["diff"]).await;
    assert!(
        shown.code == 0 && shown.out.contains("Nothing is different"),
        "{}",
        shown.out
    );
    let busy = program.run(&["undo"]).await;
    assert!(
        busy.code == 1 && busy.out.contains("/cancel first"),
        "{}",
        busy.out
    );
    let resumed = program.run(&["resume", &id(&program), "--yes"]).await;
    assert_eq!(
        (resumed.code, resumed.out.trim()),
        (0, "Done."),
        "{}",
        resumed.err
    );
}
