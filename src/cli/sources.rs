//! `journeyman sources`: what `journeyman ask` can be asked about.

use super::run::interrupted;
use super::{CliError, Exit, block_on, log_to_stderr};
use crate::config::Settings;
use crate::subagent::source::{Kind, Source};
use crate::world::process::{Live, Processes, safe_environment};
use crate::world::remote::open_address;
use crate::world::sources::Library;
use clap::{Args, Subcommand, ValueEnum};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const BAR_CHARS: usize = 30;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Name a repository, a file or a folder that questions can be about
    Add(Add),
    /// Show the sources
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a source; of a repository, the copy goes too, of files nothing
    Remove { name: String },
    /// Fetch repositories anew
    Sync {
        /// [default: all]
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindWord {
    Git,
    File,
    Dir,
}

#[derive(Debug, Args)]
pub struct Add {
    kind: KindWord,
    /// What it is called, here and in the agent's folder
    name: String,
    /// Address of the repository, or path
    place: String,
}

impl Command {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        log_to_stderr("warn");
        let library = Library::of(&settings.home);
        match self {
            Command::Add(add) => add.run(settings, &library),
            Command::List { json } => list(&library, json),
            Command::Remove { name } => remove(&library, &name),
            Command::Sync { names } => sync(settings, &library, &names),
        }
    }
}

impl Add {
    fn address(&self) -> Result<String, CliError> {
        let (name, place) = (&self.name, &self.place);
        if Path::new(place).is_dir() {
            let quoted = shlex::try_quote(place).unwrap_or(place.into());
            return Err(CliError::Use(format!(
                "{place} is a folder on this machine: journeyman sources add dir {name} {quoted}"
            )));
        }
        let address = open_address(place).map_err(CliError::Use)?;
        Ok(address.text)
    }

    fn run(self, settings: &Settings, library: &Library) -> Result<Exit, CliError> {
        let source = Source {
            kind: match self.kind {
                KindWord::Git => Kind::Git,
                KindWord::File => Kind::File,
                KindWord::Dir => Kind::Directory,
            },
            place: match self.kind {
                KindWord::Git => self.address()?,
                KindWord::File | KindWord::Dir => absolute(&self.place)?,
            },
            name: self.name,
        };
        // What cannot be looked at is not named; a repository is named first, so that no other has its place.
        if source.kind != Kind::Git {
            library.place(&source).map_err(|_| wrong_kind(&source))?;
        }
        library
            .change(|sources| sources.add(source.clone()))
            .map_err(CliError::Use)?;
        if source.kind == Kind::Git
            && let Err(error) = fetch_all(settings, library, std::slice::from_ref(&source))
        {
            let forgotten = library.change(|sources| Ok(sources.remove(&source.name)));
            return Err(forgotten.map_err(CliError::Failed).err().unwrap_or(error));
        }
        let name = &source.name;
        tell(&format!(
            "{name} can be asked about: journeyman ask -s {name} -q '…'"
        ));
        Ok(Exit::Done)
    }
}

/// Whoever reads it may go away first (`| head`): that stops nothing.
fn tell(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn wrong_kind(source: &Source) -> CliError {
    let kind = match source.is_folder() {
        true => "folder",
        false => "regular file",
    };
    CliError::Use(format!("{} is no {kind}", source.place))
}

fn absolute(place: &str) -> Result<String, CliError> {
    let real = Path::new(place)
        .canonicalize()
        .map_err(|error| CliError::Use(format!("{place}: {error}")))?;
    let text = real.into_os_string().into_string();
    text.map_err(|_| CliError::Use(format!("{place}: the path is not UTF-8")))
}

fn list(library: &Library, json: bool) -> Result<Exit, CliError> {
    let sources = library.read().map_err(CliError::Use)?;
    let all: Vec<_> = (sources.all())
        .map(|source| {
            let problem = library.place(&source).err();
            (source, problem)
        })
        .collect();
    if json {
        let all = all.iter().map(|(source, problem)| {
            serde_json::json!({"name": source.name, "kind": source.kind, "place": source.place, "problem": problem})
        });
        tell(&format!("{:#}", serde_json::Value::from_iter(all)));
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        eprintln!(
            "There are no sources. `journeyman sources add git NAME ADDRESS` names one (or file, dir)."
        );
    }
    for (source, problem) in all {
        let kind = match source.kind {
            Kind::Git => "git",
            Kind::File => "file",
            Kind::Directory => "dir",
        };
        let problem = problem.map(|why| format!("  ({why})")).unwrap_or_default();
        tell(&format!(
            "{}  {kind}  {}{problem}",
            source.name, source.place
        ));
    }
    Ok(Exit::Done)
}

fn remove(library: &Library, name: &str) -> Result<Exit, CliError> {
    let source = library
        .change(|sources| {
            let source = sources.find(name)?;
            sources.remove(name);
            Ok(source)
        })
        .map_err(CliError::Use)?;
    if source.kind == Kind::Git {
        library.forget(name).map_err(CliError::Failed)?;
    }
    tell(&format!("{name} is no source any more."));
    Ok(Exit::Done)
}

fn sync(settings: &Settings, library: &Library, names: &[String]) -> Result<Exit, CliError> {
    let sources = library.read().map_err(CliError::Use)?;
    let wanted = match names.is_empty() {
        true => sources.all().collect(),
        false => (names.iter())
            .map(|name| sources.find(name))
            .collect::<Result<Vec<_>, _>>()
            .map_err(CliError::Use)?,
    };
    let (copies, here): (Vec<_>, Vec<_>) =
        (wanted.into_iter()).partition(|source| source.kind == Kind::Git);
    for source in here {
        eprintln!("{} is on this machine: nothing to fetch.", source.name);
    }
    fetch_all(settings, library, &copies)?;
    Ok(Exit::Done)
}

fn fetch_all(settings: &Settings, library: &Library, sources: &[Source]) -> Result<(), CliError> {
    block_on(async {
        let cancel = CancellationToken::new();
        let processes = processes(settings, &cancel);
        let mut failed = Vec::new();
        for source in sources {
            let shown = processes.clone().shown(progress(&source.name));
            let fetched = tokio::select! {
                fetched = library.fetch(source, &shown, &settings.github) => fetched,
                () = interrupted() => {
                    return Err(CliError::Failed(format!("stopped; what was there of {} is left", source.name)));
                }
            };
            end_line();
            match fetched {
                Ok(()) => eprintln!("{}: fetched", source.name),
                Err(why) => failed.push(format!("{}: {why}", source.name)),
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(CliError::Failed(failed.join("\n"))),
        }
    })?
}

fn processes(settings: &Settings, cancel: &CancellationToken) -> Processes {
    let environment = safe_environment(&settings.file.environment);
    let sandbox = settings.sandbox(&environment);
    Processes::new(
        Arc::new(environment),
        sandbox,
        &settings.home,
        cancel.clone(),
    )
}

/// A bar in the terminal, by what git says; nothing where nobody looks.
fn progress(name: &str) -> Live {
    let name = name.to_owned();
    Live::progress(move |lines| {
        let newest = lines.lines().rev().find_map(step);
        if let Some((what, percent)) = newest.filter(|_| io::stderr().is_terminal()) {
            let done = BAR_CHARS * percent / 100;
            let bar = format!("{}{}", "█".repeat(done), "░".repeat(BAR_CHARS - done));
            let _ = write!(io::stderr(), "\r\x1b[K{name}  {bar} {percent:>3} %  {what}");
            let _ = io::stderr().flush();
        }
    })
}

fn end_line() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// `Receiving objects:  45% (…)`: what, and how far.
fn step(line: &str) -> Option<(&str, usize)> {
    let (what, rest) = line.trim_start_matches("remote: ").split_once(':')?;
    let (percent, _) = rest.split_once('%')?;
    let percent = percent
        .trim()
        .parse()
        .ok()
        .filter(|percent| *percent <= 100)?;
    Some((what.trim(), percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_how_far_git_is() {
        assert_eq!(
            step("Receiving objects:  45% (9/20)"),
            Some(("Receiving objects", 45))
        );
        assert_eq!(
            step("remote: Counting objects: 100% (3/3), done."),
            Some(("Counting objects", 100))
        );
        for line in ["", "Cloning into 'x'...", "a: b% c", "x: 300% y"] {
            assert_eq!(step(line), None, "{line}");
        }
    }
}
