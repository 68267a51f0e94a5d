//! Scheduled prompts run once a slot, whatever dies or jumps in between, and nobody's conversation is disturbed.

use crate::support::{CHAT, OWNER, Rig};
use journeyman::agent::event::Timestamp;
use journeyman::schedule::misfire::Misfire;
use journeyman::world::store::Store;
use journeyman::world::store::cron::{JobState, NewJob};
use serde_json::json;
use std::sync::Arc;

fn at(text: &str) -> Timestamp {
    serde_json::from_value(json!(text)).expect("an instant")
}

fn store(rig: &Rig) -> Arc<Store> {
    let assembly = rig.assembly.as_ref().expect("it runs");
    assembly.hub.surface().store.clone()
}

fn daily_at_nine(message: &str) -> NewJob {
    NewJob {
        chat: CHAT.into(),
        owner: OWNER.into(),
        schedule: "0 9 * * *".into(),
        message: message.into(),
        timezone: "Europe/Madrid".into(),
        misfire: Misfire::Once,
        late_minutes: 600,
    }
}

fn add(rig: &Rig, job: &NewJob) -> i64 {
    let added = store(rig).add_job(job, 20, at("2026-11-22T12:00:00Z"));
    added.expect("kept").expect("there is room")
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_and_change_their_own_schedules_only_and_have_twenty() {
    let rig = Rig::new(&[]);
    let mine = add(&rig, &daily_at_nine("mine"));
    let other = NewJob {
        owner: "bruno".into(),
        ..daily_at_nine("his")
    };
    let his = add(&rig, &other);
    let (store, now) = (store(&rig), at("2026-11-22T13:00:00Z"));
    let jobs = |owner| store.jobs(owner).expect("the jobs").len();
    assert_eq!(
        (jobs(Some(OWNER)), jobs(Some("bruno")), jobs(None)),
        (1, 1, 2)
    );
    let delete = |id| store.set_job_state(id, Some(OWNER), JobState::Deleted, now);
    assert!(!delete(his).expect("asked"));
    assert!(delete(mine).expect("asked"));
    assert!(!delete(mine).expect("asked"), "once");
    let kept = store.job(mine).expect("looked up").expect("kept");
    assert_eq!(kept.state, "deleted");
    for _ in 0..20 {
        let added = store.add_job(&daily_at_nine("mine"), 20, now);
        assert!(added.expect("asked").is_some());
    }
    let added = store.add_job(&daily_at_nine("mine"), 20, now);
    assert_eq!(
        added.expect("asked"),
        None,
        "deleted ones do not count, twenty do"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_claimed_once_and_a_rebuilt_index_leaves_jobs_and_runs_alone() {
    let rig = Rig::new(&[]);
    let (id, slot) = (
        add(&rig, &daily_at_nine("look")),
        at("2026-11-23T08:00:00Z"),
    );
    let claim = || store(&rig).claim(id, &[slot], "claimed", slot, slot);
    assert_eq!(claim().expect("claimed"), [slot]);
    assert_eq!(claim().expect("asked"), []);
    let before = (store(&rig).jobs(None), store(&rig).runs(None, 9));
    store(&rig).forget_derived().expect("emptied");
    let after = (store(&rig).jobs(None), store(&rig).runs(None, 9));
    assert_eq!(before.0.expect("jobs"), after.0.expect("jobs"));
    assert_eq!(before.1.expect("runs"), after.1.expect("runs"));
}
