//! `journeyman completions` and `journeyman man`: what the command line takes, for shells and for `man`.
//!
//! Both are made from the command line's own description, so they cannot fall behind it. They need no settings.

use super::{CliError, Exit};
use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// `journeyman completions SHELL`.
#[derive(Debug, Args)]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self, mut program: Command) -> Result<Exit, CliError> {
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        print(&script)
    }
}

/// `journeyman man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Write a page for the program and one for each subcommand into this folder; it is made where it is missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub fn run(self, program: Command) -> Result<Exit, CliError> {
        match self.dir {
            Some(folder) => write_all(program, &folder),
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(program)
                    .render(&mut page)
                    .map_err(|error| CliError::Failed(format!("make the page: {error}")))?;
                print(&page)
            }
        }
    }
}

fn write_all(program: Command, folder: &Path) -> Result<Exit, CliError> {
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(program, folder));
    written
        .map(|()| Exit::Done)
        .map_err(|error| CliError::Failed(format!("write pages to {}: {error}", folder.display())))
}

fn print(text: &[u8]) -> Result<Exit, CliError> {
    io::stdout()
        .write_all(text)
        .map(|()| Exit::Done)
        .map_err(|error| CliError::Failed(format!("print: {error}")))
}
