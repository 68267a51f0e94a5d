//! `journeyman outline FILE`: what the model would see of a file. Needs no configuration.

use super::{CliError, Exit};
use crate::agent::limits;
use crate::outline::{outline, render};
use crate::tools::encoding::decode;
use crate::world::workspace::TEXT_BYTES_MAX;
use clap::Args;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// More than the model gets: a person scrolls.
const CHARS_MAX: usize = 100_000;

#[derive(Debug, Args)]
pub struct Outline {
    /// The file to look at
    file: PathBuf,
    /// Every item as JSON, nothing folded
    #[arg(long)]
    json: bool,
}

impl Outline {
    pub fn run(self) -> Result<Exit, CliError> {
        let name = self.file.display().to_string();
        let bytes = read(&self.file).map_err(|e| CliError::Use(format!("read {name}: {e}")))?;
        let (text, _) = decode(&name, &bytes).map_err(CliError::Use)?;
        let limits = limits::built_in().outline();
        let started = Instant::now();
        let is_over = || started.elapsed() > Duration::from_millis(limits.ms_max);
        let found = outline(&name, &text, limits.bytes_max, &is_over);
        match self.json {
            true => println!("{}", serde_json::json!(found)),
            false => println!("{}", render(&found, CHARS_MAX)),
        }
        Ok(Exit::Done)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Asked before it is opened: a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?
        .take(TEXT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > TEXT_BYTES_MAX {
        true => Err(io::Error::other(format!(
            "it has more than {TEXT_BYTES_MAX} bytes"
        ))),
        false => Ok(bytes),
    }
}
