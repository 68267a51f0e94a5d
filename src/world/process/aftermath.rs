//! What is left to do when a command has ended: git's settings are put back, the temporary folder goes.
//!
//! For a command that may outlive this server it is written down beside its spool, so that another one can do it.

use super::private::is_private;
use crate::agent::event::CallId;
use crate::world::confine::Temp;
use crate::world::git_guard::{GitGuard, next_field, put_field};
use crate::world::outputs::Outputs;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Aftermath {
    temp: Temp,
    guard: Option<Arc<GitGuard>>,
    record: Option<PathBuf>,
}

impl Aftermath {
    pub fn new(temp: Temp, guard: Option<Arc<GitGuard>>) -> Self {
        Self {
            temp,
            guard,
            record: None,
        }
    }

    /// From here on the command may outlive this server, and with it its folder.
    ///
    /// # Errors
    /// Where that cannot be written down; nothing must start then.
    pub fn outlive(&mut self, record: PathBuf) -> io::Result<()> {
        let mut bytes = Vec::new();
        put_field(&mut bytes, self.temp.path().as_os_str().as_encoded_bytes());
        if let Some(guard) = &self.guard {
            guard.write_into(&mut bytes);
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&record)?.write_all(&bytes)?;
        self.temp.outlive(true);
        self.record = Some(record);
        Ok(())
    }

    pub fn temp(&self) -> &Temp {
        &self.temp
    }

    pub fn outlives(&self) -> bool {
        self.record.is_some()
    }

    /// What became of git's settings, if that is worth a word.
    pub async fn settle(mut self) -> Option<String> {
        let remark = self.guard.take().and_then(|guard| put_back(&guard));
        // What a build left there can be much; most commands leave nothing.
        match fs::read_dir(self.temp.path()).is_ok_and(|mut left| left.next().is_none()) {
            true => self.discard(),
            false => drop(tokio::task::spawn_blocking(move || self.discard()).await),
        }
        remark
    }

    /// Nothing ran, or all is done.
    pub fn discard(mut self) {
        self.temp.outlive(false);
        if let Some(record) = &self.record {
            let _ = fs::remove_file(record); // done twice it does no harm
        }
    }
}

/// Does what a command of an earlier server left to do, once nothing of it runs any more; what is to be said of it.
pub fn settle_left(outputs: &Outputs, call: &CallId) -> Option<String> {
    // Whoever comes second finds it done, and the remark in the spool.
    static SETTLING: Mutex<()> = Mutex::new(());
    let _settling = SETTLING.lock().unwrap_or_else(PoisonError::into_inner);
    let spool = outputs.spool(call).ok();
    let record = outputs.aftermath(call);
    let Ok(bytes) = fs::read(&record) else {
        return spool?.remark();
    };
    let mut rest = bytes.as_slice();
    let temp = next_field(&mut rest).map(|path| PathBuf::from(&*String::from_utf8_lossy(path)));
    let remark = match (&temp, rest) {
        (Some(_), []) => None,
        (Some(_), rest) => match GitGuard::read_from(rest) {
            Some(guard) => put_back(&guard),
            None => told(Err("what .git was like before is not known".into())),
        },
        // Torn by a power cut.
        (None, _) => told(Err("what .git was like before is not known".into())),
    };
    if let (Some(remark), Some(spool)) = (&remark, &spool) {
        let _ = spool.set_remark(remark); // it is handed on below
    }
    if let Some(temp) = temp.as_deref().filter(|temp| is_ours(temp)) {
        let _ = fs::remove_dir_all(temp); // or swept later
        let _ = temp.parent().map(fs::remove_dir); // where it was the last one
    }
    let _ = fs::remove_file(record);
    remark
}

/// The record is our own file; that it names one of our folders is looked at all the same before that is removed.
fn is_ours(temp: &Path) -> bool {
    is_private(temp) && temp.parent().is_some_and(is_private)
}

/// Puts git's settings back; what is to be said of that.
pub fn put_back(guard: &GitGuard) -> Option<String> {
    told(guard.put_back())
}

/// What became of git's settings.
fn told(put_back: Result<Vec<String>, String>) -> Option<String> {
    match put_back {
        Ok(changed) if changed.is_empty() => None,
        Ok(changed) => Some(format!(
            "Put back as before, because they run programs outside of the sandbox: {}. Only git itself, approved by the person, may change them.",
            changed.join(", ")
        )),
        Err(why) => Some(format!(
            "Attention, tell the person before git is used here: {why}."
        )),
    }
}
