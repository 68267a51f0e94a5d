//! Every scripted session, ended at every point: the real hub and the real loop over a simulated world.
//!
//! A point is a write, an fsync or a truncation of a journal, a request to the model, its answer, the beginning and the
//! end of a tool and of a send. What goes wrong is printed with the deaths that led there; `JOURNEYMAN_CRASH` replays
//! one history: `JOURNEYMAN_CRASH='approval 17:kill 4:torn9' cargo test crash::simulation`.

use super::fate::{Death, Fate, How, Point};
use super::reality::{Reality, Stage};
use super::scripts::{NOW, OBJECTIVE, SCRIPTS, SLOT, Script};
use crate::support::{Rig, journals, says, texts};
use journeyman::agent::event::{Record, Timestamp, WorkspaceRef};
use journeyman::agent::limits::{DEFAULTS, Limits};
use journeyman::agent::mask::Masks;
use journeyman::agent::step::{Policy, Resume};
use journeyman::doors::Observers;
use journeyman::doors::schedule::Ticker;
use journeyman::gate::{BUILT_IN, GatePolicy, GateSettings};
use journeyman::history::inspect;
use journeyman::hub::Hub;
use journeyman::schedule::wish::Terms;
use journeyman::session::Surface;
use journeyman::world::store::Store;
use journeyman::world::store::cron::NewJob;
use journeyman::world::worktrees::Isolation;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const CHAT: &str = "whatsapp:ana";
const OWNER: &str = "ana";
/// A history without a clock takes milliseconds; one that takes this long waits for ever.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How long a disk stays broken while nobody notices.
const MENDED_AFTER: Duration = Duration::from_millis(20);
/// How often one process looks for something to do.
const TURNS_MAX: usize = 1_000;

/// A history: its folder, and what is outside of it.
struct History {
    script: &'static Script,
    folder: TempDir,
    fate: Arc<Fate>,
    reality: Arc<Reality>,
    /// In this life: what failed then may have failed for that.
    disk_failed: Cell<bool>,
    /// The schedules could not be looked at.
    again: Cell<bool>,
}

/// The deaths that led to something wrong, as they are given to `JOURNEYMAN_CRASH`.
fn spell(script: &Script, deaths: &[Death]) -> String {
    let one = |death: &Death| {
        let how = match death.how {
            How::Kill => "kill".to_owned(),
            How::Power => "power".to_owned(),
            How::Torn(bytes) => format!("torn{bytes}"),
            How::Full(bytes) => format!("full{bytes}"),
        };
        format!(" {}:{how}", death.at)
    };
    let deaths: String = deaths.iter().map(one).collect();
    format!("{}{deaths}", script.name)
}

fn read_spelled(text: &str) -> (&'static Script, Vec<Death>) {
    let mut words = text.split_whitespace();
    let name = words.next().expect("the name of a script");
    let script = SCRIPTS.iter().find(|script| script.name == name);
    let death = |word: &str| {
        let (at, how) = word.split_once(':').expect("NUMBER:HOW");
        let bytes = |word: &str| how.strip_prefix(word).and_then(|rest| rest.parse().ok());
        let how = match how {
            "kill" => How::Kill,
            "power" => How::Power,
            _ => (bytes("torn").map(How::Torn))
                .or_else(|| bytes("full").map(How::Full))
                .expect("kill, power, tornN or fullN"),
        };
        let at = at.parse().expect("a number");
        Death { at, how }
    };
    (script.expect("a script"), words.map(death).collect())
}

/// Lives a history to its end, one process after the other. What the last one passed, and how many lines there are.
fn live(script: &'static Script, deaths: &[Death]) -> Result<Vec<Point>, String> {
    let history = History::new(script);
    let mut lives = deaths.iter().copied().map(Some).collect::<Vec<_>>();
    if !deaths
        .last()
        .is_some_and(|last| matches!(last.how, How::Full(_)))
    {
        lives.push(None);
    }
    let wrong = |what: String| {
        let points = history.fate.points();
        let points = points.iter().enumerate();
        let points: Vec<_> = points
            .map(|(at, point)| format!("{at} {}", point.name))
            .collect();
        format!(
            "JOURNEYMAN_CRASH='{}': {what}\nthe last process passed {}\n{}",
            spell(script, deaths),
            points.join(", "),
            history.transcript()
        )
    };
    for death in lives {
        history.life(death).map_err(wrong)?;
    }
    match history.check() {
        wrongs if wrongs.is_empty() => Ok(history.fate.points()),
        wrongs => Err(wrong(wrongs.join("; "))),
    }
}

impl History {
    fn new(script: &'static Script) -> Self {
        // In memory where that can be had: thousands of histories need no disk.
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => TempDir::new_in(memory),
            false => TempDir::new(),
        };
        let folder = folder.expect("a folder");
        fs::create_dir_all(folder.path().join("agent_sessions")).expect("a folder");
        fs::create_dir_all(folder.path().join("other")).expect("a folder");
        let database = script.scheduled.then_some("journeyman.db");
        let fate = Fate::new(&folder.path().join("agent_sessions"), database);
        let reality = Reality::new(script, fate.clone());
        if script.scheduled {
            schedule(folder.path());
        }
        Self {
            script,
            folder,
            fate,
            reality,
            disk_failed: Cell::new(false),
            again: Cell::new(false),
        }
    }

    /// One process, from its start to its death or until nobody has anything left to do.
    fn life(&self, death: Option<Death>) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let watch = self.fate.begin(death);
        self.disk_failed.set(false);
        let ended = runtime.block_on(async {
            tokio::select! {
                biased; // a word that was given before the death was given
                ended = self.process() => ended,
                () = self.fate.struck() => Ok(()),
                () = tokio::time::sleep(STUCK_AFTER) => Err("it waits for ever".into()),
            }
        });
        drop(runtime); // and everything that the process was doing
        drop(watch);
        if let Some(death) = death.filter(|death| death.how == How::Power) {
            self.reality.reboot();
            // Derived, and nobody promises that a loss of power leaves it whole, or that it leaves nothing.
            if death.at % 2 == 0 && !self.script.scheduled {
                self.remove_database();
            }
        }
        ended
    }

    fn remove_database(&self) {
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.folder.path().join(format!("journeyman.db{end}")));
        }
    }

    /// Whether the disk has failed in this life; it works again then.
    fn disk_failed(&self) -> bool {
        if self.fate.is_full() {
            self.disk_failed.set(true);
            self.fate.mend();
        }
        self.disk_failed.get()
    }

    async fn process(&self) -> Result<(), String> {
        let mut hub = self.hub()?;
        while let Err(error) = hub.recover() {
            match self.disk_failed() {
                true => hub = self.hub()?, // the program says why and ends; somebody starts it again
                false => return self.dead_or(error.to_string()).await,
            }
        }
        let mut ticker = Ticker::new(hub.clone());
        for _ in 0..TURNS_MAX {
            if self.fate.is_dead() {
                std::future::pending::<()>().await;
            }
            if self.script.scheduled {
                self.tick(&mut ticker).await?;
            }
            while let Some((id, text)) = self.reality.to_say() {
                let message = self.reality.inbound(id.clone(), text);
                let delivered = hub.deliver(CHAT, message).await;
                if delivered.is_ok() {
                    // This word may have been on its way before whatever ended the process.
                    self.reality.acknowledged(&id);
                }
                if self.fate.is_dead() {
                    std::future::pending::<()>().await;
                }
                match delivered {
                    Ok(_) => {}
                    // Not answered with 200, hence sent again.
                    Err(_) if self.disk_failed() => tokio::task::yield_now().await,
                    Err(error) => return Err(error.to_string()),
                }
            }
            tokio::select! {
                biased;
                () = self.reality.speaks.notified() => {}
                // Derived rows wait a second before they are tried again.
                () = self.breaks() => {
                    self.disk_failed();
                }
                () = hub.rest() => {
                    let silent = self.reality.to_say().is_none();
                    if silent && !self.goes_on(&hub).await? {
                        return Ok(());
                    }
                }
            }
        }
        Err("it goes round in circles".into())
    }

    /// Returns when the disk has been broken for a while.
    async fn breaks(&self) {
        loop {
            tokio::time::sleep(MENDED_AFTER).await;
            if self.fate.is_full() {
                return;
            }
        }
    }

    /// Whether there is something left to do once all is quiet: by the clock, or since the disk works again.
    async fn goes_on(&self, hub: &Arc<Hub>) -> Result<bool, String> {
        if self.again.take() || self.disk_failed() && hub.revive().await > 0 {
            return Ok(true);
        }
        if !self.script.scheduled {
            return Ok(false);
        }
        let open = hub.surface().store.open_runs();
        match open {
            Ok(open) => Ok(!open.is_empty()),
            Err(error) if self.disk_failed() => {
                tracing::debug!(%error, "asked again");
                Ok(true)
            }
            Err(error) => self.dead_or(error.to_string()).await.map(|()| false),
        }
    }

    async fn tick(&self, ticker: &mut Ticker) -> Result<(), String> {
        match ticker.tick(at(NOW)).await {
            Ok(()) => Ok(()),
            Err(_) if self.disk_failed() => {
                self.again.set(true);
                Ok(())
            }
            Err(error) => self.dead_or(error.to_string()).await,
        }
    }

    /// Nothing that a dead process says reaches anybody; a living one must not fail.
    async fn dead_or(&self, error: String) -> Result<(), String> {
        if self.fate.is_dead() {
            std::future::pending::<()>().await;
        }
        Err(error)
    }

    fn hub(&self) -> Result<Arc<Hub>, String> {
        let stage = Stage {
            reality: self.reality.clone(),
            folder: self.sessions(),
        };
        let surface = Surface {
            outside: Arc::new(stage),
            policy: policy(self.script),
            store: Arc::new(Store::new(self.folder.path())),
            observers: Observers::default(),
            isolation: match self.script.own {
                true => Isolation::Own,
                false => Isolation::Shared,
            },
            shutdown: CancellationToken::new(),
            ..SURFACE.clone()
        };
        let workspace = WorkspaceRef {
            name: "shop".into(),
            path: self.folder.path().display().to_string(),
        };
        let pick = Box::new(move |_: &dyn Fn() -> Option<String>| Ok(workspace.clone().into()));
        let hub = Hub::new(surface, texts(), self.folder.path(), pick);
        hub.map_err(|error| error.to_string())
    }

    fn sessions(&self) -> PathBuf {
        let folder = self.folder.path().join("agent_sessions");
        folder.canonicalize().expect("the folder")
    }

    fn check(&self) -> Vec<String> {
        let mut wrong = self.fate.wrong();
        let mut last = None;
        for path in journals(self.folder.path()) {
            let mut records: Vec<Record> = Vec::new();
            match inspect(&path, &texts(), |record| records.push(record.clone())) {
                Ok((_, end)) if end.torn > 0 => wrong.push("a torn end was left".into()),
                Ok((state, _)) if last.is_none() => last = Some((state, records)),
                Ok((state, _)) => wrong.push(format!("a second session {}", state.opening.session)),
                Err(error) => wrong.push(error.to_string()),
            }
        }
        match last {
            Some((state, records)) => wrong.extend(self.reality.settle(&state, &records)),
            None => wrong.push("there is no session".into()),
        }
        if self.script.scheduled {
            let runs = Store::new(self.folder.path()).runs(None, 10);
            let runs = runs.expect("the history of the schedule");
            let outcomes: Vec<_> = runs.iter().map(|run| run.outcome.as_str()).collect();
            if !matches!(outcomes[..], ["done" | "interrupted"]) {
                wrong.push(format!("the schedule's history says {outcomes:?}"));
            }
        }
        wrong
    }

    fn transcript(&self) -> String {
        let files = fs::read_dir(self.sessions()).expect("the folder").flatten();
        let read = |entry: fs::DirEntry| {
            let text = fs::read(entry.path()).unwrap_or_default();
            let short = |line: &str| line.chars().take(220).collect::<String>() + "\n";
            let text: String = String::from_utf8_lossy(&text).lines().map(short).collect();
            format!("{}\n{text}", entry.path().display())
        };
        files.map(read).collect()
    }
}

/// The parts of a program that no history touches.
static SURFACE: LazyLock<Surface> = LazyLock::new(|| {
    let mut rig = Rig::new(&[says("unused")]);
    let assembly = rig.assembly.take().expect("it runs");
    assembly.hub.surface().clone()
});

/// A job whose one slot is due.
fn schedule(folder: &Path) {
    let job = NewJob {
        chat: CHAT.into(),
        owner: OWNER.into(),
        schedule: "0 9 * * *".into(),
        message: OBJECTIVE.into(),
        timezone: "UTC".into(),
        terms: Terms {
            late_minutes: Some(600),
            ..Terms::default()
        },
    };
    let added = Store::new(folder).add_job(&job, 1, Timestamp(at(SLOT).0 - 60_000));
    added.expect("kept").expect("there is room");
}

fn at(text: &str) -> Timestamp {
    serde_json::from_value(text.into()).expect("an instant")
}

fn policy(script: &Script) -> Arc<Policy> {
    static POLICIES: Mutex<BTreeMap<(u32, u64, u64), Arc<Policy>>> = Mutex::new(BTreeMap::new());
    static LIMITS: LazyLock<Limits> =
        LazyLock::new(|| toml::from_str(DEFAULTS).expect("the limits"));
    let limits = LIMITS.clone();
    let rounds_max = script.rounds_max;
    let context_tokens = script.window.unwrap_or(limits.context_tokens);
    // As short as a death: in some histories it is over before the last piece comes.
    let together_ms = if script.pieces.is_empty() { 0 } else { 30 };
    let mut policies = POLICIES.lock().expect("nobody panics under it");
    let load = || {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect();
        let settings = GateSettings {
            allowlist: names("echo ls cat git"),
            write_enabled: true,
            protected_branches: names("main"),
        };
        Arc::new(Policy {
            gate: GatePolicy::load(&[("built in", BUILT_IN)], settings).expect("the policy"),
            limits: Limits {
                rounds_max,
                context_tokens,
                together_ms,
                ..limits
            },
            resume: Resume::Ask,
            model: "m".into(),
            price: None,
            aliases: Default::default(),
            masks: Masks::default(),
        })
    };
    let key = (rounds_max, context_tokens, together_ms);
    policies.entry(key).or_insert_with(load).clone()
}

// --- every point -----------------------------------------------------------------------------------------------------

/// How thoroughly the ways to die at a point are tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// One of each kind.
    Usual,
    /// Every byte of every write.
    EveryByte,
    /// Nobody dies: the disk fails, and works again.
    Disk,
}

/// The ways to die at a point. What a loss of power leaves changes with an fsync only.
fn ways(at: usize, point: &Point, care: Care) -> Vec<Death> {
    let death = |how| Death { at, how };
    if care == Care::Disk {
        let after = [0, point.bytes.unwrap_or(0) / 2];
        let ways = if after[1] > 0 {
            &after[..]
        } else {
            &after[..1]
        };
        // The database is SQLite's business, and waits for seconds before it tries again: a few are enough.
        let is_tried = !point.is_of_database() || at.is_multiple_of(5);
        let ways = ways
            .iter()
            .filter(|_| is_tried && (point.sync || point.bytes.is_some()));
        return ways.map(|bytes| death(How::Full(*bytes))).collect();
    }
    let mut ways = vec![How::Kill];
    match point.bytes {
        Some(bytes) if care == Care::EveryByte => ways.extend((1..bytes).map(How::Torn)),
        // Somewhere in it, and all but its end.
        Some(bytes @ 2..) => ways.extend([1 + (at * 37) % (bytes - 1), bytes - 1].map(How::Torn)),
        _ => {}
    }
    if point.sync {
        ways.push(How::Power);
    }
    ways.into_iter().map(death).collect()
}

/// Lives every history with one more death than `before`; says what went wrong, and how many there were.
fn each_death(
    script: &'static Script,
    before: &[Death],
    care: Care,
    mut each: impl FnMut(&[Death]),
) -> (usize, Vec<String>) {
    let (mut histories, mut wrong) = (0, Vec::new());
    let points = match live(script, before) {
        Ok(points) => points,
        Err(what) => return (1, vec![what]),
    };
    for (at, point) in points.iter().enumerate() {
        for death in ways(at, point, care) {
            let deaths = [before, &[death]].concat();
            histories += 1;
            match live(script, &deaths) {
                Ok(_) => each(&deaths),
                Err(what) => wrong.push(what),
            }
        }
    }
    (histories, wrong)
}

/// `JOURNEYMAN_CRASH` asks for one history only; whether it did, and of this script.
fn replayed(name: &str) -> bool {
    let Ok(spelled) = std::env::var("JOURNEYMAN_CRASH") else {
        return false;
    };
    let (script, deaths) = read_spelled(&spelled);
    if script.name == name {
        live(script, &deaths).unwrap_or_else(|what| panic!("{what}"));
    }
    true
}

fn none_is_wrong(name: &str, (histories, wrong): (usize, Vec<String>)) {
    println!("{name}: {histories} histories, {} wrong", wrong.len());
    if let Some(first) = wrong.first() {
        panic!("{} of {histories} histories: {first}", wrong.len());
    }
}

fn survives_every_death(name: &str) {
    if replayed(name) {
        return;
    }
    let script = SCRIPTS.iter().find(|script| script.name == name);
    let script = script.expect("a script");
    none_is_wrong(name, each_death(script, &[], Care::Usual, |_| {}));
}

/// A full or failing disk at every write and fsync: nothing is lost, nothing is damaged, and it works again.
#[test]
fn every_session_survives_a_disk_that_fails_anywhere() {
    for script in SCRIPTS {
        if !replayed(script.name) {
            none_is_wrong(script.name, each_death(script, &[], Care::Disk, |_| {}));
        }
    }
}

/// Every byte of every line is a place to die: of a session without and of one with a command.
#[test]
#[ignore = "long: by .ci/full"]
fn long_every_byte_of_every_line_is_a_place_to_die() {
    for name in ["answer", "approval"] {
        let script = SCRIPTS.iter().find(|script| script.name == name);
        let script = script.expect("a script");
        none_is_wrong(name, each_death(script, &[], Care::EveryByte, |_| {}));
    }
}

/// Killed, started again, and killed again: every pair of places.
fn survives_every_pair(name: &str) {
    let script = SCRIPTS.iter().find(|script| script.name == name);
    let script = script.expect("a script");
    assert!(
        script.pairs,
        "{name} is not among those that are short enough"
    );
    let mut firsts = Vec::new();
    let one = each_death(script, &[], Care::Usual, |deaths| {
        firsts.push(deaths.to_vec())
    });
    none_is_wrong(name, one);
    let mut pairs = 0;
    for first in firsts {
        let (histories, wrong) = each_death(script, &first, Care::Usual, |_| {});
        pairs += histories;
        if let Some(first) = wrong.first() {
            panic!("{} of {histories} histories: {first}", wrong.len());
        }
    }
    println!("{name}: {pairs} pairs");
}

/// A few pairs at least with every test.
#[test]
fn an_answer_survives_every_pair_of_deaths() {
    let script = &SCRIPTS[0];
    let mut firsts = Vec::new();
    each_death(script, &[], Care::Usual, |deaths| {
        firsts.push(deaths.to_vec())
    });
    assert!(firsts.len() > 20);
    for first in firsts.iter().step_by(5) {
        none_is_wrong(script.name, each_death(script, first, Care::Usual, |_| {}));
    }
}

macro_rules! survives_pairs {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            #[ignore = "long: by .ci/full"]
            fn $test() {
                survives_every_pair($name);
            }
        )*

        #[test]
        fn every_short_script_is_tried_in_pairs() {
            let short = SCRIPTS.iter().filter(|script| script.pairs);
            let short: Vec<_> = short.map(|script| script.name).collect();
            assert_eq!([$($name),*].to_vec(), short);
        }
    };
}

survives_pairs! {
    long_an_answer_survives_every_pair: "answer",
    long_a_patch_survives_every_pair: "patch",
    long_an_approval_survives_every_pair: "approval",
    long_a_refusal_survives_every_pair: "refusal",
    long_a_cancel_survives_every_pair: "cancel",
    long_a_question_survives_every_pair: "question",
    long_a_worktree_survives_every_pair: "own-worktree",
    long_a_plan_survives_every_pair: "plan",
    long_a_question_about_sources_survives_every_pair: "ask",
}

macro_rules! survives {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                survives_every_death($name);
            }
        )*

        #[test]
        fn every_script_is_tried() {
            let tried = [$($name),*];
            let named: Vec<_> = SCRIPTS.iter().map(|script| script.name).collect();
            assert_eq!(tried.to_vec(), named);
        }
    };
}

survives! {
    an_answer_survives_every_death: "answer",
    a_patch_survives_every_death: "patch",
    a_commit_survives_every_death: "commit",
    an_approval_survives_every_death: "approval",
    two_approvals_survive_every_death: "two-approvals",
    a_refusal_survives_every_death: "refusal",
    steering_survives_every_death: "steer",
    a_written_command_survives_every_death: "written-command",
    a_chosen_agent_survives_every_death: "agent-chosen",
    a_cancel_survives_every_death: "cancel",
    a_cancelled_command_survives_every_death: "cancel-command",
    a_limit_survives_every_death: "limit",
    a_send_that_fails_survives_every_death: "retry",
    a_send_that_waits_for_the_person_survives_every_death: "held",
    a_question_and_its_answer_survive_every_death: "question",
    a_switch_of_the_workspace_survives_every_death: "switch",
    a_worktree_of_its_own_survives_every_death: "own-worktree",
    a_second_worktree_survives_every_death: "own-worktrees",
    a_switch_that_the_person_wants_survives_every_death: "sent-elsewhere",
    what_the_person_brings_along_survives_every_death: "brought",
    a_push_survives_every_death: "push",
    a_pull_request_survives_every_death: "pull-request",
    a_kept_command_survives_every_death: "kept",
    a_scheduled_session_survives_every_death: "cron",
    a_compaction_survives_every_death: "compaction",
    a_voice_message_survives_every_death: "voice",
    a_document_survives_every_death: "document",
    a_picture_survives_every_death: "picture",
    an_objective_in_pieces_survives_every_death: "pieces",
    a_plan_survives_every_death: "plan",
    a_plan_with_a_kept_command_survives_every_death: "plan-kept",
    a_plan_whose_tasks_run_side_by_side_survives_every_death: "plan-beside",
    two_helpers_survive_every_death: "delegate",
    a_question_about_sources_survives_every_death: "ask",
}
