//! Questions about sources: which sources are meant, who answers, in which words it is asked, and the asking.
//!
//! Whether a program of others may be asked, the gate said before. An answer is data: it comes back within an element.

use super::Waits;
use super::children::{Children, Ended, Place, Wanted, waits_of};
use super::clean_room::CleanRoom;
use super::clock;
use super::process::{Exit, Finished};
use super::projects::reference;
use super::sources::Library;
use super::visit::{Host, Visit};
use crate::agent::brief::without_tag;
use crate::agent::children::{self, Share};
use crate::agent::event::{CallId, EndReason, Opening, Outcome, Status, WorkspaceRef};
use crate::agent::roles::Role;
use crate::gate::{Answerer, Destination};
use crate::subagent::answer;
use crate::subagent::backend::{Backends, OURS, Paths, Way};
use crate::subagent::source::Source;
use crate::subagent::template::{self, Template};
use crate::tools::head_and_tail;
use std::env;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of what an agent complained of, in characters.
const STDERR_CHARS_MAX: usize = 4_000;

/// Who can be asked about what: as the configuration folder says at the moment.
#[derive(Clone)]
pub struct Inquiries {
    pub home: PathBuf,
    pub children: Arc<Children>,
}

/// A source, and where it is.
pub type Placed = (Source, PathBuf);

/// One question.
pub struct Question<'a> {
    pub sources: &'a [String],
    pub text: &'a str,
    /// Who answers, as it was approved.
    pub agent: &'a str,
    pub call: &'a CallId,
}

/// In whose name it is asked, and what that may cost.
pub struct Asker<'a> {
    pub opening: &'a Arc<Opening>,
    pub role: Option<&'a Role>,
    pub share: Share,
    pub host: Host,
    /// Says whether what a call began waits for a person.
    pub waits: Waits,
}

impl Inquiries {
    /// The sources that were named, each once, with where they are.
    ///
    /// # Errors
    /// One is not known, or is not there; which ones there are.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<Placed>, String> {
        let library = Library::of(&self.home);
        let known = library.read()?;
        let mut chosen: Vec<Placed> = Vec::new();
        for name in names {
            if chosen.iter().any(|(source, _)| source.name == *name) {
                continue;
            }
            let source = known.find(name)?;
            let place = library.place(&source)?;
            chosen.push((source, place));
        }
        Ok(chosen)
    }

    /// Whether there is anything to ask about.
    pub fn has_sources(&self) -> bool {
        let known = Library::of(&self.home).read();
        known.is_ok_and(|known| known.all().next().is_some())
    }

    /// # Errors
    /// What is wrong with `agents.json`.
    pub fn backends(&self) -> Result<Backends, String> {
        let path = self.home.join("config/agents.json");
        let own = match fs::read_to_string(&path) {
            Ok(own) => Some(own),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        Backends::parse(own.as_deref()).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// The question in the owner's template; where there is none yet, it becomes ours.
    ///
    /// # Errors
    /// What is wrong with `prompt_template.md`.
    pub fn prompt(&self, question: &str, sources: &[Placed]) -> Result<String, String> {
        let path = self.home.join("config/prompt_template.md");
        let at = |error: io::Error| format!("{}: {error}", path.display());
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                write_new(&path, template::DEFAULT).map_err(at)?;
                template::DEFAULT.to_owned()
            }
            read => read.map_err(at)?,
        };
        let template = Template::parse(text);
        let template = template.map_err(|missing| format!("{missing} ({})", path.display()))?;
        let sources: Vec<Source> = sources.iter().map(|(source, _)| source.clone()).collect();
        Ok(template.prompt(question, &sources))
    }

    /// Who would answer a question about these, for the gate.
    pub fn answerer(&self, names: &[String]) -> Destination<Answerer> {
        let found = || {
            self.chosen(names)?;
            let backends = self.backends()?;
            let agent = backends.default.clone();
            let paths = Paths {
                room: ".",
                prompt_file: "prompt.md",
                mcp_config: ".mcp.json",
            };
            let command =
                |backend: &crate::subagent::backend::Backend| backend.command(Way::Ask, paths);
            let argv = backends.find(&agent)?.map(command).transpose()?;
            Ok(Answerer {
                agent,
                argv: argv.unwrap_or_default(),
            })
        };
        match found() {
            Ok(answerer) => Destination::Known(Box::new(answerer)),
            Err(why) => Destination::Nowhere { why },
        }
    }

    /// Asks it; what the model reads. It changes nothing, here or elsewhere.
    pub async fn ask(&self, question: Question<'_>, asker: Asker<'_>) -> Outcome {
        match self.answer(&question, asker).await {
            Ok(outcome) => outcome,
            Err(why) => Outcome::failed(format!("Nobody was asked: {why}.")),
        }
    }

    async fn answer(&self, question: &Question<'_>, asker: Asker<'_>) -> Result<Outcome, String> {
        let sources = self.chosen(question.sources)?;
        let prompt = self.prompt(question.text, &sources)?;
        let backends = self.backends()?;
        let room = room(&sources)?;
        let Some(backend) = backends.find(question.agent)? else {
            return Ok(self.ours(question, asker, &sources, prompt, room).await);
        };
        let places: Vec<PathBuf> = sources.into_iter().map(|(_, place)| place).collect();
        let visit = Visit::prepare(&asker.host, backend, room, &places, Some(&prompt))?;
        let program = visit.program().to_owned();
        let finished = visit.ask(question.call).await;
        let duration_ms = finished.duration_ms;
        let outcome = match said(&program, &asker.host, &finished) {
            Said::Answer(text) => told(question.agent, &text),
            Said::Stopped => Outcome::new(Status::Cancelled, "Stopped before there was an answer."),
            Said::Nothing { why, had } => failed(question.agent, &why, &had),
        };
        Ok(Outcome {
            duration_ms,
            ..outcome
        })
    }

    /// Our own loop, in a session of its own that reads and does nothing else.
    async fn ours(
        &self,
        question: &Question<'_>,
        asker: Asker<'_>,
        sources: &[Placed],
        prompt: String,
        room: CleanRoom,
    ) -> Outcome {
        let name = "ask".to_owned();
        let wanted = Wanted {
            role: children::reader(&name, asker.role),
            name,
            // Asked again after a crash, another one answers: the room of the first is gone.
            session: children::id(&clock::session_id(), &question.call.0),
            about: question.call.0.clone(),
            parent: asker.opening.clone(),
            objective: prompt,
            place: Place::Sources {
                room: reference(room.folder()),
                sources: sources.iter().map(placed).collect(),
            },
            share: Share {
                seconds_max: asker.share.seconds_max.min(asker.host.bounds.seconds_max),
                ..asker.share
            },
            waits: waits_of(&asker.waits, question.call),
            cancel: asker.host.cancel,
        };
        let ended = self.children.begin(wanted).await;
        drop(room);
        answered(&ended)
    }
}

/// What came of a session that was asked.
fn answered(ended: &Ended) -> Outcome {
    let outcome = match ended.reason {
        Some(EndReason::Done) => told(OURS, &ended.text),
        Some(EndReason::Cancelled) => {
            Outcome::new(Status::Cancelled, "Stopped before there was an answer.")
        }
        Some(EndReason::Failed | EndReason::Limit) | None => {
            Outcome::failed(format!("There is no answer: {}", ended.text))
        }
    };
    let output = format!("{}\n(session {})", outcome.output, ended.session);
    Outcome {
        output,
        spent: Some(Box::new(ended.spend)),
        ..outcome
    }
}

/// An answer, for a model: data that cannot leave its element.
fn told(agent: &str, text: &str) -> Outcome {
    let told = answer::told(agent, text);
    Outcome {
        whole: told.whole,
        ..Outcome::done(told.output)
    }
}

/// What a program of others came to.
pub enum Said {
    Answer(String),
    Stopped,
    /// Why there is no answer, and what there was of one.
    Nothing {
        why: String,
        had: String,
    },
}

/// What there is of an answer.
pub fn said(program: &str, host: &Host, finished: &Finished) -> Said {
    let stderr = finished.stderr.text();
    let stderr = match stderr.trim() {
        "" => "it said nothing on stderr".to_owned(),
        said => head_and_tail(said, STDERR_CHARS_MAX),
    };
    let why = match &finished.exit {
        Exit::Code(0) => return Said::Answer(finished.stdout.text()),
        _ if finished.silent => format!(
            "{program} printed nothing for {} s and was ended (ask_silence_seconds in config/limits.toml): {stderr}",
            host.bounds.silence_seconds
        ),
        Exit::Cancelled => return Said::Stopped,
        Exit::Code(code) => format!("{program} ended with {code}: {stderr}"),
        Exit::Signal(signal) => format!("{program} was killed by signal {signal}: {stderr}"),
        Exit::TimedOut => format!(
            "{program} gave no answer within {} s and was ended (ask_seconds_max in config/limits.toml): {stderr}",
            host.bounds.seconds_max
        ),
        Exit::NotStarted(why) => format!("{program} did not start: {why}"),
        Exit::Lost => format!("{program} went away: {stderr}"),
    };
    let had = finished.stdout.text().trim().to_owned();
    Said::Nothing { why, had }
}

/// No answer, for a model: what there was of one is data like an answer.
fn failed(agent: &str, why: &str, had: &str) -> Outcome {
    let why = without_tag(why, answer::TAG);
    if had.is_empty() {
        return Outcome::failed(why);
    }
    let told = answer::told(agent, had);
    let output = format!("{why}\nUntil then it had said this:\n{}", told.output);
    Outcome {
        whole: told.whole,
        ..Outcome::failed(output)
    }
}

/// A room with links to the sources.
///
/// # Errors
/// It cannot be made.
pub fn room(sources: &[Placed]) -> Result<CleanRoom, String> {
    let links: Vec<(String, PathBuf)> = (sources.iter())
        .map(|(source, place)| (source.name.clone(), place.clone()))
        .collect();
    CleanRoom::make(&env::temp_dir(), &links)
        .map_err(|error| format!("no clean room can be made: {error}"))
}

/// As a session names a source.
pub fn placed((source, place): &Placed) -> WorkspaceRef {
    WorkspaceRef {
        name: source.name.clone(),
        path: place.to_string_lossy().into_owned(),
    }
}

/// Whole or not at all; whoever else makes it at the same time makes the same.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != ErrorKind::AlreadyExists => Err(error.error),
        Ok(_) | Err(_) => Ok(()),
    }
}
