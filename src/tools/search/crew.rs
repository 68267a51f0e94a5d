//! Files searched side by side, their lines told in the order of the walk: what is found does not depend on how many
//! processors there are. Decides nothing about which files are searched, or what is shown of them.

use super::LINES_SHOWN_MAX;
use super::found::{Lines, SPARE};
use crate::tools::walk::Step;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

/// Files that are handed over at once.
const BATCH_FILES: usize = 64;
/// Batches that wait for a thread.
const WAITING_BATCHES_MAX: usize = 8;
const THREADS_MAX: usize = 4;

/// What came of one file: its lines; `None`: it cannot be opened.
pub type FileFound = Option<Lines>;

/// Searches one file; each thread has one of its own.
pub trait Seek: FnMut(&str) -> FileFound {}
impl<F: FnMut(&str) -> FileFound> Seek for F {}

type Batch = (usize, Vec<String>);
type Answer = (usize, Vec<FileFound>);

/// Runs `walk`, which hands over names, and tells `hear` of each file in that order until it says stop.
///
/// # Errors
/// Those of the walk.
pub fn search<S: Seek, T, E>(
    seeker: impl Fn() -> S + Sync,
    hear: impl FnMut(FileFound) -> Step,
    walk: impl FnOnce(&mut dyn FnMut(&str) -> Step) -> Result<T, E>,
) -> Result<T, E> {
    let over = AtomicBool::new(false);
    let (give, take) = sync_channel(WAITING_BATCHES_MAX);
    let take = Mutex::new(take);
    let (answer, answers) = channel();
    thread::scope(|scope| {
        let mut crew = Crew {
            batch: Vec::with_capacity(BATCH_FILES),
            given: 0,
            give,
            order: Order {
                next: 0,
                early: BTreeMap::new(),
                hear,
                over: &over,
            },
            answers,
        };
        let (take, over, seeker) = (&take, &over, &seeker);
        let walked = walk(&mut |path| {
            crew.batch.push(path.to_owned());
            if crew.batch.len() == BATCH_FILES {
                if crew.given == 0 {
                    start(scope, seeker, take, over, &answer);
                }
                crew.hand_over();
            }
            match over.load(Ordering::Relaxed) {
                true => Step::Stop,
                false => Step::On,
            }
        });
        // A few files are not worth a thread.
        if crew.given == 0 {
            let found = batch(&mut seeker(), (0, crew.batch), over);
            crew.order.take(found);
            return walked;
        }
        crew.hand_over();
        drop((crew.give, answer));
        while let Ok(found) = crew.answers.recv() {
            crew.order.take(found);
        }
        walked
    })
}

/// The side of whoever walks.
struct Crew<'a, H> {
    batch: Vec<String>,
    given: usize,
    give: SyncSender<Batch>,
    order: Order<'a, H>,
    answers: Receiver<Answer>,
}

impl<H: FnMut(FileFound) -> Step> Crew<'_, H> {
    fn hand_over(&mut self) {
        let files = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_FILES));
        // Threads end only after this side is gone.
        let _ = self.give.send((self.given, files));
        self.given += 1;
        while let Ok(found) = self.answers.try_recv() {
            self.order.take(found);
        }
    }
}

/// Puts answers back into their order.
struct Order<'a, H> {
    next: usize,
    early: BTreeMap<usize, Vec<FileFound>>,
    hear: H,
    over: &'a AtomicBool,
}

impl<H: FnMut(FileFound) -> Step> Order<'_, H> {
    fn take(&mut self, (number, found): Answer) {
        self.early.insert(number, found);
        while let Some(found) = self.early.remove(&self.next) {
            self.next += 1;
            for found in found {
                if self.over.load(Ordering::Relaxed) {
                    return;
                }
                if (self.hear)(found) == Step::Stop {
                    self.over.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

fn start<'scope, 'env: 'scope, S: Seek>(
    scope: &'scope Scope<'scope, 'env>,
    seeker: &'env (impl Fn() -> S + Sync),
    take: &'env Mutex<Receiver<Batch>>,
    over: &'env AtomicBool,
    answer: &Sender<Answer>,
) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..threads.min(THREADS_MAX) {
        let answer = answer.clone();
        scope.spawn(move || {
            let (mut seek, mut broken) = (seeker(), false);
            loop {
                let next = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(files) = next else {
                    assert!(!broken, "BUG: the search of a file broke");
                    return;
                };
                let found = catch_unwind(AssertUnwindSafe(|| batch(&mut seek, files, over)));
                let Ok(found) = found else {
                    // The walk must not wait for a thread that is gone: the rest is passed over.
                    over.store(true, Ordering::Relaxed);
                    broken = true;
                    continue;
                };
                let _ = answer.send(found);
            }
        });
    }
}

/// Only files with something to tell are told. Where more was found than is shown of a whole search, the rest of the
/// batch will not be heard.
fn batch(seek: &mut impl Seek, (number, files): Batch, over: &AtomicBool) -> Answer {
    let (mut found, mut lines) = (Vec::new(), 0);
    for path in files {
        if lines > LINES_SHOWN_MAX + SPARE || over.load(Ordering::Relaxed) {
            break;
        }
        match seek(&path) {
            Some(told) if told.says_nothing() => {}
            told => {
                lines += told.as_ref().map_or(0, Lines::len);
                found.push(told);
            }
        }
    }
    (number, found)
}
