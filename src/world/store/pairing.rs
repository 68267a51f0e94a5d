//! Numbers that were paired, and the code that pairs the next one: *owned* tables, which exist nowhere else.
//!
//! One code at a time: it is kept as a hash, ends by itself, and after so many wrong tries it is void. A wrong try changes one
//! number in one row: strangers make nothing grow.

use super::{Store, StoreError};
use crate::agent::event::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How long a code is good.
pub const CODE_MINUTES: u64 = 10;
/// Wrong tries that make a code void: with 40 bits, nobody is lucky that often.
const WRONG_TRIES_MAX: u32 = 20;
const CODE_LETTERS: usize = 8;
/// Letters and digits without those that look alike.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Made where they are missing, never dropped.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS pairing_codes (
        one INTEGER PRIMARY KEY CHECK (one = 1), salt BLOB NOT NULL, hash BLOB NOT NULL, expires_at INTEGER NOT NULL,
        wrong_tries INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS paired_numbers (
        number TEXT PRIMARY KEY, message TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;";

pub(super) fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(SCHEMA)
}

/// A number that is served since it sent a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Paired {
    pub number: String,
    pub at: Timestamp,
    /// The message that held the code.
    #[serde(skip)]
    pub message: String,
}

/// A code as it is kept in nobody's hands: normal form, `K7QM3XWF`.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// Eight letters of random bytes.
    pub fn of(random: [u8; CODE_LETTERS]) -> Self {
        let letter = |byte: u8| char::from(ALPHABET[usize::from(byte % 32)]);
        Self(random.map(letter).iter().collect())
    }

    /// What a message says, if it is exactly a code: case, blanks and hyphens do not matter.
    pub fn read(text: &str) -> Option<Self> {
        // Whatever else it is, it is not looked at.
        if text.len() > 4 * CODE_LETTERS {
            return None;
        }
        let letters = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
        let code: String = letters.map(|c| c.to_ascii_uppercase()).collect();
        let is_one = code.len() == CODE_LETTERS && code.bytes().all(|c| ALPHABET.contains(&c));
        is_one.then_some(Self(code))
    }

    /// As people read it: `K7QM-3XWF`.
    pub fn shown(&self) -> String {
        let (one, two) = self.0.split_at(CODE_LETTERS / 2);
        format!("{one}-{two}")
    }

    fn hash(&self, salt: &[u8]) -> Vec<u8> {
        let digest = Sha256::new_with_prefix(salt).chain_update(&self.0);
        digest.finalize().to_vec()
    }
}

struct Kept {
    salt: Vec<u8>,
    hash: Vec<u8>,
    expires_at: i64,
    wrong_tries: u32,
}

impl Store {
    /// Keeps a code in the place of the one before.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn offer_code(
        &self,
        code: &Code,
        salt: [u8; 16],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.mark_owned()?;
        let expires_at = now.plus_ms(CODE_MINUTES * 60_000);
        self.durably("keep a code in", |db| {
            let sql = "INSERT OR REPLACE INTO pairing_codes (one, salt, hash, expires_at, wrong_tries) VALUES (1, ?1, ?2, ?3, 0)";
            db.execute(sql, params![salt, code.hash(&salt), expires_at.0]).map(drop)
        })
    }

    /// Adds the number where this is the code, which is gone with that; `false`: it is not. `message` is the one that said it.
    ///
    /// # Errors
    /// [`StoreError`]: nothing has changed.
    pub fn redeem_code(
        &self,
        code: &Code,
        number: &str,
        message: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        if self.is_absent() {
            return Ok(false);
        }
        self.durably("look for a code in", |db| {
            let Some(kept) = kept(db)? else {
                return Ok(false);
            };
            if now.0 > kept.expires_at || kept.wrong_tries >= WRONG_TRIES_MAX {
                return Ok(false);
            }
            if !bool::from(code.hash(&kept.salt).ct_eq(&kept.hash)) {
                db.execute("UPDATE pairing_codes SET wrong_tries = wrong_tries + 1", [])?;
                return Ok(false);
            }
            db.execute("DELETE FROM pairing_codes", [])?;
            let sql =
                "INSERT OR REPLACE INTO paired_numbers (number, message, at) VALUES (?1, ?2, ?3)";
            db.execute(sql, params![number, message, now.0])?;
            Ok(true)
        })
    }

    /// The number as it was paired, if it was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn paired(&self, number: &str) -> Result<Option<Paired>, StoreError> {
        if self.is_absent() {
            return Ok(None);
        }
        self.owned("look up a number in", |db| {
            let sql = "SELECT number, message, at FROM paired_numbers WHERE number = ?1";
            db.prepare_cached(sql)?.query_row([number], read).optional()
        })
    }

    /// Every number that was paired.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn all_paired(&self) -> Result<Vec<Paired>, StoreError> {
        if self.is_absent() {
            return Ok(Vec::new());
        }
        self.owned("list the paired numbers in", |db| {
            let sql = "SELECT number, message, at FROM paired_numbers ORDER BY at, number";
            db.prepare(sql)?.query_map([], read)?.collect()
        })
    }

    /// Takes a number back; `false` where it was not paired.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn unpair(&self, number: &str) -> Result<bool, StoreError> {
        if self.is_absent() {
            return Ok(false);
        }
        self.durably("take a number out of", |db| {
            let gone = db.execute("DELETE FROM paired_numbers WHERE number = ?1", [number])?;
            Ok(gone > 0)
        })
    }
}

fn kept(db: &Connection) -> rusqlite::Result<Option<Kept>> {
    let sql = "SELECT salt, hash, expires_at, wrong_tries FROM pairing_codes";
    let row = |row: &Row<'_>| {
        Ok(Kept {
            salt: row.get(0)?,
            hash: row.get(1)?,
            expires_at: row.get(2)?,
            wrong_tries: row.get(3)?,
        })
    };
    db.query_row(sql, [], row).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Paired> {
    Ok(Paired {
        number: row.get(0)?,
        message: row.get(1)?,
        at: Timestamp(row.get(2)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_790_000_000_000);

    fn code(text: &str) -> Code {
        Code::read(text).expect("a code")
    }

    fn store_with(offered: &str) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::new(folder.path());
        store
            .offer_code(&code(offered), [7; 16], NOW)
            .expect("kept");
        (folder, store)
    }

    #[test]
    fn a_code_is_read_as_people_type_it_and_nothing_else_is_one() {
        let made = Code::of([0, 1, 2, 255, 33, 64, 31, 8]);
        assert_eq!(made.shown(), "ABC9-BA9J");
        for text in ["ABC9-BA9J", "abc9ba9j", " abc9 ba9j\n"] {
            assert!(Code::read(text) == Some(made.clone()), "{text}");
        }
        for text in [
            "",
            "ABC9-BA9",
            "ABC9-BA9JJ",
            "the code is ABC9-BA9J",
            "ABC0-BA9J",
            "ÄBC9BA9J",
        ] {
            assert!(Code::read(text).is_none(), "{text}");
        }
        let long = "A".repeat(100_000);
        assert!(Code::read(&long).is_none());
    }

    #[test]
    fn a_code_adds_one_number_once() {
        let (_folder, store) = store_with("ABCDEFGH");
        let redeem = |text, number| store.redeem_code(&code(text), number, "m1", NOW);
        assert!(!redeem("ABCDEFGJ", "111111").expect("looked up"));
        assert!(redeem("ABCDEFGH", "222222").expect("looked up"));
        assert!(!redeem("ABCDEFGH", "333333").expect("looked up"));
        let numbers = |store: &Store| {
            let all = store.all_paired().expect("listed").into_iter();
            all.map(|paired| paired.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&store), ["222222"]);
        assert!(store.unpair("222222").expect("taken out"));
        assert!(!store.unpair("222222").expect("looked up"));
        assert_eq!(store.paired("222222").expect("looked up"), None);
    }

    #[test]
    fn a_code_ends_after_its_time_and_after_wrong_tries() {
        let (_folder, store) = store_with("ABCDEFGH");
        let right = code("ABCDEFGH");
        let late = NOW.plus_ms(CODE_MINUTES * 60_000 + 1);
        assert!(
            !store
                .redeem_code(&right, "222222", "m1", late)
                .expect("looked up")
        );
        for _ in 0..WRONG_TRIES_MAX {
            store
                .redeem_code(&code("ZZZZZZZZ"), "333333", "m2", NOW)
                .expect("looked up");
        }
        assert!(
            !store
                .redeem_code(&right, "222222", "m3", NOW)
                .expect("looked up")
        );
        // A new one takes its place.
        store.offer_code(&right, [8; 16], NOW).expect("kept");
        assert!(
            store
                .redeem_code(&right, "222222", "m4", NOW)
                .expect("looked up")
        );
    }

    #[test]
    fn nobody_who_reads_the_database_reads_the_code() {
        let (folder, store) = store_with("ABCDEFGH");
        drop(store);
        for file in std::fs::read_dir(folder.path())
            .expect("the folder")
            .flatten()
        {
            let bytes = std::fs::read(file.path()).expect("bytes");
            assert!(
                !bytes.windows(8).any(|part| part == b"ABCDEFGH"),
                "{file:?}"
            );
        }
    }
}
