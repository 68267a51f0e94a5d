//! `journeyman audit verify`: checks journals against their hash chains.

use super::sessions::{journal, journals};
use super::{CliError, Exit};
use crate::agent::texts::Texts;
use crate::config::Settings;
use crate::history::inspect;
use clap::Subcommand;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check every line's hash, and that each event can follow the one before
    Verify {
        /// Only this session [default: all]
        session: Option<String>,
    },
}

impl Audit {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let Audit::Verify { session } = self;
        let paths = match session {
            Some(session) => vec![journal(&settings.data_dir, &session)?],
            None => journals(&settings.data_dir)?,
        };
        let texts = Arc::new(settings.texts.clone());
        let intact = paths.iter().filter(|path| verify(path, &texts)).count();
        println!("{intact} of {} journals verify", paths.len());
        Ok(if intact == paths.len() {
            Exit::Done
        } else {
            Exit::Failed
        })
    }
}

/// Prints what it finds; `true` where the chain verifies.
pub fn verify(path: &Path, texts: &Arc<Texts>) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    match inspect(path, texts, |_| {}) {
        Ok((_, end)) if end.torn > 0 => {
            println!(
                "ok    {name}  {} lines, head {} (plus {} bytes of a torn last line, which never counted)",
                end.seq, end.head, end.torn
            );
            true
        }
        Ok((_, end)) => {
            println!("ok    {name}  {} lines, head {}", end.seq, end.head);
            true
        }
        Err(error) => {
            println!("BAD   {name}  {error}");
            false
        }
    }
}
