//! When a simulated process dies, and what is left of its files: the system calls of the journal, taken over.
//!
//! The functions at the end stand in front of libc's, in the test binary only. For a thread that watches a folder, each
//! write, fsync and truncation of a file in it, and where that is asked for of the database beside it, is a point where its process can die; everybody else's calls go straight
//! to the kernel. A dead process changes nothing any more: its calls fail, and nobody looks at what it makes of that.

use nix::libc::{self, c_char, c_int, c_void, off_t, size_t, ssize_t};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr};
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// How a process ends, or what its disk does to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Before the point: nothing of it happened. Every line that was written stands.
    Kill,
    /// In the middle of a write, after so many bytes.
    Torn(usize),
    /// The machine loses power: what was not synced is gone.
    Power,
    /// It goes on living, and the call fails after so many bytes; so does every later one until the disk is back.
    Full(usize),
}

/// The death at the point with this number, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    pub at: usize,
    pub how: How,
}

/// A place where a process can die.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    pub name: String,
    /// Of a write: how long it is.
    pub bytes: Option<usize>,
    pub sync: bool,
}

/// The disk of one history, and the fate of the process that lives now.
pub struct Fate {
    folder: PathBuf,
    /// What the names of the database's files begin with, where its calls are points as well.
    database: Option<PathBuf>,
    died: Notify,
    life: Mutex<Life>,
}

#[derive(Default)]
struct Life {
    points: Vec<Point>,
    death: Option<Death>,
    dead: bool,
    full: bool,
    /// Bytes of each file that a loss of power leaves, whoever wrote them.
    synced: BTreeMap<PathBuf, u64>,
    /// Files whose name is on disk as well.
    linked: BTreeSet<PathBuf>,
    /// Where a failed fsync has left bytes that no later fsync writes, unless they are cut off.
    unsure: BTreeMap<PathBuf, u64>,
    wrong: Vec<String>,
}

impl Fate {
    /// Of a folder that is there, and of the database beside it.
    pub fn new(folder: &Path, database: Option<&str>) -> Arc<Self> {
        let folder = folder.canonicalize().expect("the folder");
        let beside = |name| folder.parent().expect("it is in a folder").join(name);
        Arc::new(Self {
            database: database.map(beside),
            folder,
            died: Notify::new(),
            life: Mutex::default(),
        })
    }

    /// The folder that is watched.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn watches(&self, path: &Path) -> bool {
        let name = path.as_os_str().as_bytes();
        let database = self.database.as_ref().map(|path| path.as_os_str());
        path.starts_with(&self.folder)
            || database.is_some_and(|database| name.starts_with(database.as_bytes()))
    }

    /// Another process, which dies there.
    pub fn begin(self: &Arc<Self>, death: Option<Death>) -> Watch {
        let mut life = self.life();
        (life.points, life.death, life.dead, life.full) = (Vec::new(), death, false, false);
        drop(life);
        WATCHED.with_borrow_mut(|watched| *watched = Some(self.clone()));
        Watch
    }

    /// The points that this process has passed.
    pub fn points(&self) -> Vec<Point> {
        self.life().points.clone()
    }

    pub fn is_dead(&self) -> bool {
        self.life().dead
    }

    /// Whether a file is removed: not by the dead. The loss of power itself removes files under the lock.
    fn remove(&self, path: &Path) -> bool {
        let Ok(mut life) = self.life.try_lock() else {
            return true;
        };
        if !life.dead {
            life.unsure.remove(path);
            life.synced.remove(path);
            life.linked.remove(path);
        }
        !life.dead
    }

    /// The disk has failed, and fails until [`Fate::mend`].
    pub fn is_full(&self) -> bool {
        self.life().full
    }

    pub fn mend(&self) {
        self.life().full = false;
    }

    /// Returns once the process is dead.
    pub async fn struck(&self) {
        while !self.is_dead() {
            self.died.notified().await;
        }
    }

    /// A point outside of the disk. `false`: the process is dead, and the effect does not happen.
    pub fn point(&self, name: String) -> bool {
        let point = Point {
            name,
            bytes: None,
            sync: false,
        };
        matches!(self.pass(point), Pass::Go)
    }

    /// What of a file a loss of power would leave.
    pub fn durable(&self, path: &Path) -> Vec<u8> {
        let synced = self.life().synced.get(path).copied().unwrap_or(0);
        let mut bytes = fs::read(path).unwrap_or_default();
        bytes.truncate(usize::try_from(synced).expect("it fits"));
        bytes
    }

    /// What no disk would have kept, although somebody relied on it.
    pub fn wrong(&self) -> Vec<String> {
        self.life().wrong.clone()
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().expect("nobody panics under it")
    }

    fn pass(&self, point: Point) -> Pass {
        let mut life = self.life();
        if life.dead || (life.full && point.is_disk()) {
            return Pass::Fail(0);
        }
        let number = life.points.len();
        let disk = point.is_disk();
        life.points.push(point);
        let Some(death) = life.death.filter(|death| death.at == number) else {
            return Pass::Go;
        };
        let after = match death.how {
            How::Kill => 0,
            How::Torn(bytes) => bytes,
            How::Power => {
                self.cut_power(&life);
                0
            }
            How::Full(_) if !disk => return Pass::Go,
            How::Full(bytes) => {
                life.full = true;
                return Pass::Fail(bytes);
            }
        };
        life.dead = true;
        self.died.notify_one();
        Pass::Fail(after)
    }

    /// What was never synced is gone, and what has no name on disk.
    fn cut_power(&self, life: &Life) {
        for entry in fs::read_dir(&self.folder).expect("the folder").flatten() {
            let path = entry.path();
            if !life.linked.contains(&path) {
                fs::remove_file(&path).expect("removed");
                continue;
            }
            let synced = life.synced.get(&path).copied().unwrap_or(0);
            let file = OpenOptions::new().write(true).open(&path).expect("a file");
            let length = file.metadata().expect("its length").len();
            cut(&file, synced.min(length));
        }
        self.cut_database(life);
    }

    /// SQLite writes behind what it has synced, and only there, until it moves all of it: what is lost is the end.
    fn cut_database(&self, life: &Life) {
        let Some(database) = &self.database else {
            return;
        };
        let mut path = database.clone().into_os_string();
        path.push("-wal");
        let path = PathBuf::from(path);
        if let Ok(file) = OpenOptions::new().write(true).open(&path) {
            let length = file.metadata().expect("its length").len();
            let synced = life.synced.get(&path).copied().unwrap_or(0);
            cut(&file, synced.min(length));
        }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Pass {
        let event = String::from_utf8_lossy(bytes);
        let event = event.split(r#""event":""#).nth(1).unwrap_or("?");
        let event = event.split('"').next().unwrap_or("?");
        let file = path.extension().unwrap_or_default().to_string_lossy();
        self.pass(Point {
            name: format!("write {event} to {file}"),
            bytes: Some(bytes.len()),
            sync: false,
        })
    }

    fn sync(&self, path: &Path) -> Pass {
        let folder = path == self.folder;
        let name = match folder {
            true => "sync the folder",
            false => "sync",
        };
        let passed = self.pass(Point {
            name: name.into(),
            bytes: None,
            sync: true,
        });
        let mut life = self.life();
        if !matches!(passed, Pass::Go) {
            let synced = life.synced.get(path).copied().unwrap_or(0);
            let length = fs::metadata(path).map_or(0, |meta| meta.len());
            // SQLite writes over what it failed to sync.
            if life.full && path.starts_with(&self.folder) && !folder && synced < length {
                life.unsure.entry(path.to_owned()).or_insert(synced);
            }
            return passed;
        }
        if folder {
            let entries = fs::read_dir(path).expect("the folder").flatten();
            life.linked.extend(entries.map(|entry| entry.path()));
        } else {
            let length = fs::metadata(path).map_or(0, |meta| meta.len());
            if life.unsure.get(path).is_some_and(|from| *from < length) {
                life.wrong
                    .push("it goes on from lines that a failed fsync left unsure".into());
            }
            life.synced.insert(path.to_owned(), length);
        }
        Pass::Go
    }

    fn truncate(&self, path: &Path, length: u64) -> Pass {
        let passed = self.pass(Point {
            name: "cut".into(),
            bytes: Some(0),
            sync: false,
        });
        if let Pass::Go = passed {
            let mut life = self.life();
            life.unsure
                .retain(|file, from| file != path || *from < length);
            if let Some(synced) = life.synced.get_mut(path) {
                *synced = length.min(*synced);
            }
        }
        passed
    }

    fn rename(&self, from: &Path, to: &Path) -> Pass {
        let passed = self.pass(Point {
            name: "rename".into(),
            bytes: Some(0),
            sync: false,
        });
        if let Pass::Go = passed {
            let mut life = self.life();
            life.unsure.remove(to);
            life.linked.remove(from);
            if let Some(synced) = life.synced.remove(from) {
                life.synced.insert(to.to_owned(), synced);
            }
        }
        passed
    }
}

impl Point {
    /// A write to one of the database's files.
    pub fn is_of_database(&self) -> bool {
        self.name.contains(" to db")
    }

    fn is_disk(&self) -> bool {
        self.sync || self.bytes.is_some()
    }
}

enum Pass {
    Go,
    /// After so many bytes.
    Fail(usize),
}

thread_local! {
    static WATCHED: RefCell<Option<Arc<Fate>>> = const { RefCell::new(None) };
}

/// Until this is dropped, the calls of this thread are watched.
pub struct Watch;

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.with_borrow_mut(|watched| *watched = None);
    }
}

/// The fate that a file's calls belong to.
fn watched(fd: c_int) -> Option<(Arc<Fate>, PathBuf)> {
    let fate = WATCHED.try_with(|watched| watched.try_borrow().ok()?.clone());
    let fate = fate.ok().flatten()?;
    let path = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    fate.watches(&path).then_some((fate, path))
}

fn broken() -> c_int {
    nix::errno::Errno::EIO.set();
    -1
}

fn cut(file: &File, length: u64) {
    use std::os::fd::AsRawFd;
    // SAFETY: a file that is open.
    let done = unsafe { libc::syscall(libc::SYS_ftruncate, file.as_raw_fd(), length) };
    assert_eq!(done, 0);
}

/// # Safety
/// As `write(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller promises `length` readable bytes.
    let written = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
    write_by(fd, written, |length| {
        // SAFETY: what the caller promises, for no more bytes than that.
        unsafe { libc::syscall(libc::SYS_write, fd, bytes, length) as ssize_t }
    })
}

/// # Safety
/// As `pwrite(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    fd: c_int,
    bytes: *const c_void,
    length: size_t,
    from: off_t,
) -> ssize_t {
    // SAFETY: the caller promises `length` readable bytes.
    let written = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
    write_by(fd, written, |length| {
        // SAFETY: what the caller promises, for no more bytes than that.
        unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, length, from) as ssize_t }
    })
}

fn write_by(fd: c_int, bytes: &[u8], raw: impl Fn(size_t) -> ssize_t) -> ssize_t {
    let Some((fate, path)) = watched(fd) else {
        return raw(bytes.len());
    };
    match fate.write(&path, bytes) {
        Pass::Go => raw(bytes.len()),
        Pass::Fail(after) => {
            if after > 0 {
                raw(after.min(bytes.len()));
            }
            broken() as ssize_t
        }
    }
}

fn sync(fd: c_int, call: libc::c_long) -> c_int {
    match watched(fd) {
        // What is on disk is decided by the fate; the kernel need not be waited for.
        Some((fate, path)) => match fate.sync(&path) {
            Pass::Go => 0,
            Pass::Fail(_) => broken(),
        },
        // SAFETY: a call without memory.
        None => unsafe { libc::syscall(call, fd) as c_int },
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fsync)
}

#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fdatasync)
}

#[unsafe(no_mangle)]
pub extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    if let Some((fate, path)) = watched(fd)
        && let Pass::Fail(_) = fate.truncate(&path, length.unsigned_abs())
    {
        return broken();
    }
    // SAFETY: a call without memory.
    unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) as c_int }
}

/// # Safety
/// As `rename(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller promises two C strings.
    let (old, new) = unsafe { (CStr::from_ptr(from), CStr::from_ptr(to)) };
    let path = |name: &CStr| Path::new(OsStr::from_bytes(name.to_bytes())).to_owned();
    let fate = WATCHED.try_with(|watched| watched.try_borrow().ok()?.clone());
    if let Some(fate) = fate.ok().flatten()
        && fate.watches(&path(old))
        && let Pass::Fail(_) = fate.rename(&path(old), &path(new))
    {
        return broken();
    }
    // SAFETY: what the caller promises.
    unsafe { libc::syscall(libc::SYS_renameat, libc::AT_FDCWD, from, libc::AT_FDCWD, to) as c_int }
}

/// # Safety
/// As `unlink(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller promises a C string.
    let path = Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(name) }.to_bytes(),
    ));
    let fate = WATCHED.try_with(|watched| watched.try_borrow().ok()?.clone());
    if let Some(fate) = fate.ok().flatten()
        && fate.watches(path)
        && !fate.remove(path)
    {
        return broken();
    }
    // SAFETY: what the caller promises.
    unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, name, 0) as c_int }
}

#[test]
fn the_calls_of_a_file_in_a_watched_folder_are_taken_over() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let fate = Fate::new(folder.path(), None);
    let at = |at, how| Some(Death { at, how });
    let path = folder.path().join("a.jsonl").canonicalize();
    let path = path.unwrap_or_else(|_| fate.folder.join("a.jsonl"));
    let lives = |death| {
        let watch = fate.begin(death);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .expect("a file");
        let ended = file
            .write_all(b"0123456789")
            .and_then(|()| file.sync_data())
            .and_then(|()| File::open(&fate.folder)?.sync_all())
            .and_then(|()| file.set_len(5));
        drop(watch);
        ended
    };
    assert!(lives(at(0, How::Torn(3))).is_err());
    assert_eq!(fs::read(&path).expect("a file"), b"012");
    assert!(lives(None).is_ok());
    assert_eq!(fate.points().len(), 4, "{:?}", fate.points());
    assert_eq!(fate.durable(&path), b"01201");
    assert!(lives(at(1, How::Power)).is_err());
    assert_eq!(fs::read(&path).expect("a file"), b"01201");
    fs::write(&path, "not watched").expect("anybody else writes");
}
