//! A database that SQLite cannot read: set aside, never deleted, and made again.
//!
//! *Derived* tables come from the journals. *Owned* tables exist nowhere else: they are carried over into the new file,
//! and where that fails the start is refused. Nothing of theirs is ever lost in silence.

use super::{StoreError, open};
use rusqlite::{Connection, ErrorCode};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Tables that nothing can make again; [`open`] makes them where they are missing.
pub(super) const OWNED: &[&str] = &[
    "user_cron_jobs",
    "cron_runs",
    "cron_notices",
    "cron_changes",
    TRUST,
    PAIRING,
    PAIRED,
];

/// A database of before these has none of them.
const LATER: &[&str] = &[TRUST, PAIRING, PAIRED];
const TRUST: &str = "trusted_workspaces";
const PAIRING: &str = "pairing_codes";
const PAIRED: &str = "paired_numbers";

/// Damaged databases that are kept.
const KEPT_MAX: u32 = 1_000;

/// Opens the database; one that is damaged is set aside first. `thorough`: every page is looked at.
///
/// # Errors
/// [`StoreError`]; [`StoreError::Owned`] where an owned table cannot be carried over.
pub(super) fn open_sound(
    path: &Path,
    owned: &[&str],
    thorough: bool,
) -> Result<Connection, StoreError> {
    let opened = open(path).and_then(|db| {
        if thorough {
            check(&db)?;
        }
        Ok(db)
    });
    let fail = |source| StoreError::Sqlite {
        verb: "open",
        path: path.to_owned(),
        source,
    };
    match opened {
        Err(error) if is_damage(&error) => {
            carry_over(path, owned)?;
            let kept = set_aside(path).map_err(|source| StoreError::SetAside {
                path: path.to_owned(),
                source,
            })?;
            tracing::error!(%error, kept = %kept.display(), "the database is damaged: it is set aside and made again from the journals");
            open(path).map_err(fail)
        }
        opened => opened.map_err(fail),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn check(db: &Connection) -> rusqlite::Result<()> {
    let found: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match found.as_str() {
        "ok" => Ok(()),
        what => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
            Some(what.to_owned()),
        )),
    }
}

/// Copies the owned tables whole into a new file beside the damaged one; [`set_aside`] puts it in its place.
fn carry_over(path: &Path, owned: &[&str]) -> Result<(), StoreError> {
    if owned.is_empty() {
        return Ok(());
    }
    let fresh = fresh(path);
    let copied = match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
        _ => copy_tables(path, &fresh, owned).map_err(|error| error.to_string()),
    };
    match copied {
        Err(why) if owned_mark(path).exists() => Err(StoreError::Owned {
            path: path.to_owned(),
            tables: owned.join(", "),
            why,
        }),
        Err(_) => {
            // Nothing was ever put into them.
            let _ = fs::remove_file(&fresh);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Notes that owned tables hold something: on disk before the first row is, so that a database that cannot be read at all
/// is not taken for one that holds nothing of the kind.
pub(super) fn mark_owned(path: &Path) -> io::Result<()> {
    let mark = owned_mark(path);
    if mark.exists() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::File::create(&mark)?.sync_all()?;
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

pub(super) fn owned_mark(path: &Path) -> PathBuf {
    with_suffix(path, ".owned")
}

fn copy_tables(path: &Path, fresh: &Path, owned: &[&str]) -> rusqlite::Result<()> {
    let db = Connection::open(path)?;
    db.execute("ATTACH ?1 AS fresh", [fresh.to_string_lossy()])?;
    db.execute_batch("BEGIN")?;
    for table in owned {
        let found: rusqlite::Result<String> = db.query_row(
            "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?1",
            [table],
            |row| row.get(0),
        );
        let sql = match found {
            Err(rusqlite::Error::QueryReturnedNoRows) if LATER.contains(table) => continue,
            found => found?,
        };
        db.execute_batch(&sql.replacen("CREATE TABLE ", "CREATE TABLE fresh.", 1))?;
        db.execute_batch(&format!(
            "INSERT INTO fresh.\"{table}\" SELECT * FROM main.\"{table}\" NOT INDEXED"
        ))?;
    }
    db.execute_batch("COMMIT")
}

fn fresh(path: &Path) -> PathBuf {
    with_suffix(path, ".new")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Renames the database and what belongs to it, and puts the carried-over tables in its place if there are any.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let kept = (1..KEPT_MAX)
        .map(|n| with_suffix(path, &format!(".damaged-{n}")))
        .find(|kept| !kept.exists());
    let kept = kept.ok_or_else(|| io::Error::other("too many damaged databases are kept"))?;
    for part in ["-wal", "-shm", ""] {
        match fs::rename(with_suffix(path, part), with_suffix(&kept, part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let fresh = fresh(path);
    if fresh.exists() {
        fs::rename(&fresh, path)?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with an owned table, whose page that is named by `spoil` is overwritten.
    fn damaged(spoil: impl Fn(&mut [u8])) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journeyman.db");
        let db = open(&path).expect("a database");
        db.execute_batch(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO jobs (text) VALUES ('water the plants');",
        )
        .expect("an owned table");
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .expect("one file");
        drop(db);
        mark_owned(&path).expect("a mark");
        let mut bytes = fs::read(&path).expect("bytes");
        spoil(&mut bytes);
        fs::write(&path, bytes).expect("spoiled");
        (folder, path)
    }

    /// The root page of the table `sessions`, with its header overwritten.
    fn spoil_a_derived_table(bytes: &mut [u8]) {
        let page = 4096;
        bytes[page..page + 64].fill(0xee);
    }

    #[test]
    fn a_damaged_database_is_set_aside_and_made_again() {
        for spoil in [
            (|bytes: &mut [u8]| bytes[..64].fill(0)) as fn(&mut [u8]),
            spoil_a_derived_table,
        ] {
            let (folder, path) = damaged(spoil);
            let before = fs::read(&path).expect("bytes");
            let db = open_sound(&path, &[], true).expect("a new one");
            check(&db).expect("sound");
            let kept = folder.path().join("journeyman.db.damaged-1");
            assert_eq!(fs::read(kept).expect("kept"), before);
        }
    }

    #[test]
    fn owned_tables_are_carried_over() {
        let (_folder, path) = damaged(spoil_a_derived_table);
        let db = open_sound(&path, &["jobs"], true).expect("a new one");
        let text: String = db
            .query_row("SELECT text FROM jobs", [], |row| row.get(0))
            .expect("the row");
        assert_eq!(text, "water the plants");
        let sessions: i64 = db
            .query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))
            .expect("the derived tables are there, empty");
        assert_eq!(sessions, 0);
    }

    #[test]
    fn a_start_that_would_lose_owned_tables_is_refused() {
        let (folder, path) = damaged(|bytes| bytes[..64].fill(0));
        let before = fs::read(&path).expect("bytes");
        let refused = open_sound(&path, &["jobs"], true).expect_err("they cannot be read");
        assert!(
            refused.to_string().contains("jobs") && refused.to_string().contains("backup"),
            "{refused}"
        );
        assert_eq!(
            fs::read(&path).expect("bytes"),
            before,
            "nothing is touched"
        );
        assert!(!folder.path().join("journeyman.db.damaged-1").exists());
    }
}
