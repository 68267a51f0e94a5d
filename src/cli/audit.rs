//! `journeyman audit verify`: checks journals against their hash chains.

use super::find::{journal, journals};
use super::{CliError, Exit};
use crate::agent::texts::Catalogues;
use crate::config::Settings;
use crate::history::good_part;
use crate::world::journal::JournalError;
use clap::Subcommand;
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check every line's hash, and that each event can follow the one before
    #[command(
        after_help = "Exit code 0: all verify; 1: at least one does not. A torn last line never counted, and is no damage."
    )]
    Verify {
        /// Only this session: its id, or the beginning of it [default: all]
        session: Option<String>,
        /// Print a JSON list on stdout
        #[arg(long)]
        json: bool,
    },
}

/// What is found about one journal.
#[derive(Debug, Serialize)]
pub struct Finding {
    session: String,
    verifies: bool,
    /// Intact lines, and the hash of the last one.
    lines: u64,
    head: String,
    /// Bytes of a torn last line, which never counted.
    torn_bytes: u64,
    /// The first line that is damaged, and what is wrong.
    damaged_line: Option<u64>,
    damage: Option<String>,
}

impl Audit {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let Audit::Verify { session, json } = self;
        let paths = match session {
            Some(session) => vec![journal(&settings.data_dir, &session)?],
            None => journals(&settings.data_dir)?,
        };
        let texts = &settings.texts;
        let findings: Vec<Finding> = paths.iter().map(|path| verify(path, texts)).collect();
        let intact = findings.iter().filter(|finding| finding.verifies).count();
        if json {
            let text = serde_json::to_string_pretty(&findings)
                .map_err(|error| CliError::Failed(error.to_string()))?;
            println!("{text}");
        } else {
            findings.iter().for_each(print);
            println!("{intact} of {} journals verify", paths.len());
        }
        Ok(if intact == paths.len() {
            Exit::Done
        } else {
            Exit::Failed
        })
    }
}

/// Reads a journal to its end, or to the first damage.
pub fn verify(path: &Path, texts: &Catalogues) -> Finding {
    let session = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let past = good_part(path, texts, |_| {});
    let nothing = |line, what: String| Finding {
        session: session.clone(),
        verifies: false,
        lines: 0,
        head: String::new(),
        torn_bytes: 0,
        damaged_line: line,
        damage: Some(what),
    };
    match past {
        Ok(past) => Finding {
            session: session.clone(),
            verifies: past.damage.is_none(),
            lines: past.end.seq,
            head: past.end.head,
            torn_bytes: past.end.torn,
            damaged_line: past.damage.is_some().then_some(past.end.seq + 1),
            damage: past.damage,
        },
        Err(JournalError::Damaged { line, what, .. }) => nothing(Some(line), what),
        Err(error) => nothing(None, error.to_string()),
    }
}

/// One line for a person.
pub fn print(finding: &Finding) {
    let Finding {
        session,
        lines,
        head,
        torn_bytes,
        ..
    } = finding;
    let torn = match torn_bytes {
        0 => String::new(),
        bytes => format!(" (plus {bytes} bytes of a torn last line, which never counted)"),
    };
    match (&finding.damage, finding.damaged_line) {
        (None, _) => println!("ok    {session}  {lines} lines, head {head}{torn}"),
        (Some(what), Some(line)) => println!(
            "BAD   {session}  damaged at line {line}: {what}. {lines} lines before it are intact; \
             `journeyman resume {session} --from-good-prefix` goes on from there"
        ),
        (Some(what), None) => println!("BAD   {session}  {what}"),
    }
}
