//! What can be wanted of schedules, and what comes of it. Data, and the words in which a chat says it; pure.
//!
//! Whether a schedule and its zone are ones is found out where it is kept.

use super::misfire::Misfire;
use super::read_zone;
use chrono::DateTime;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One thing that a person or a model wants done about schedules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Wish {
    Add(Box<Order>),
    List,
    Delete { id: i64 },
    Run { id: i64 },
    Pause { id: i64 },
    Resume { id: i64 },
}

impl Wish {
    /// Whether anything is different afterwards.
    pub fn changes(&self) -> bool {
        !matches!(self, Wish::List)
    }

    /// The schedule that it is about, where that exists already.
    pub fn id(&self) -> Option<i64> {
        match self {
            Wish::Add(_) | Wish::List => None,
            Wish::Delete { id } | Wish::Run { id } | Wish::Pause { id } | Wish::Resume { id } => {
                Some(*id)
            }
        }
    }

    /// What is done, in a word.
    pub fn verb(&self) -> &'static str {
        match self {
            Wish::Add(_) => "add",
            Wish::List => "list",
            Wish::Delete { .. } => "delete",
            Wish::Run { .. } => "run",
            Wish::Pause { .. } => "pause",
            Wish::Resume { .. } => "resume",
        }
    }
}

/// A new schedule, as it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub schedule: String,
    pub message: String,
    /// IANA name; `None`: the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(default)]
    pub terms: Terms,
}

/// How a job's runs go, where it says something else than the configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Terms {
    /// What becomes of times when no server ran: none, the last one, or each
    #[arg(long, value_enum, default_value_t)]
    pub misfire: Misfire,
    /// Minutes after which a missed time is left [default: cron_late_minutes in config/limits.toml]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(2..=20_160))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_minutes: Option<u32>,
    /// Minutes over which the starts are spread: each begins at its time or up to so much later
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=60))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<u32>,
    /// What becomes of a run that a dead process left: told to the chat, or gone on with where nothing is in doubt
    /// [default: `resume` in config/settings.toml]
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<Interrupted>,
    /// Rounds of one run, where that is less than rounds_max
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Minutes of work of one run, where that is less than turn_seconds_max
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// US cents that one run may cost, where that is less than turn_cents_max
    #[arg(long, value_name = "CENTS", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cents: Option<u32>,
}

/// What becomes of a run whose process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Interrupted {
    /// The chat is told, and says how to go on.
    Report,
    /// It goes on by itself, where nothing is in doubt.
    Resume,
}

impl Interrupted {
    pub fn word(self) -> &'static str {
        match self {
            Interrupted::Report => "report",
            Interrupted::Resume => "resume",
        }
    }

    pub fn read(word: &str) -> Option<Self> {
        [Interrupted::Report, Interrupted::Resume]
            .into_iter()
            .find(|interrupted| interrupted.word() == word)
    }
}

/// What came of a wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Answer {
    Added {
        id: i64,
        schedule: String,
        message: String,
        timezone: String,
        /// The next firings, RFC 3339 in the schedule's own zone.
        next: Vec<String>,
    },
    Listed {
        jobs: Vec<Listed>,
    },
    Done {
        id: i64,
    },
    /// The owner has none of this number that this could be done to.
    Missing {
        id: i64,
    },
    Refused {
        why: String,
    },
}

/// One schedule in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub id: i64,
    pub schedule: String,
    pub timezone: String,
    pub message: String,
    /// Why it rests; empty while it is active.
    pub paused: String,
    /// RFC 3339 in its own zone; `None` while it rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What came of its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
}

/// An instant as a person reads it: `Mon 2026-11-23 09:00 (+01:00)`.
pub fn shown_time(rfc3339: &str) -> String {
    DateTime::parse_from_rfc3339(rfc3339).map_or_else(
        |_| rfc3339.to_owned(),
        |time| time.format("%a %Y-%m-%d %H:%M (%:z)").to_string(),
    )
}

/// The same for milliseconds since 1970, as the clock of a zone shows them.
pub fn shown_in(zone: &str, at_ms: i64) -> String {
    let time = DateTime::from_timestamp_millis(at_ms).unwrap_or_default();
    match read_zone(zone) {
        Ok(zone) => shown_time(&time.with_timezone(&zone).to_rfc3339()),
        Err(_) => shown_time(&time.to_rfc3339()),
    }
}

/// Why a chat's words about schedules say nothing that could be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unclear {
    Verb(String),
    Id(String),
    Schedule,
    Message,
    Term(String),
}

/// Reads what stands behind `/cron`.
///
/// # Errors
/// [`Unclear`], for a person.
pub fn read(said: &str) -> Result<Wish, Unclear> {
    let (verb, rest) = first_word(said);
    let id = || rest.parse().map_err(|_| Unclear::Id(rest.to_owned()));
    match verb.to_lowercase().as_str() {
        "" | "list" => Ok(Wish::List),
        "add" => Ok(Wish::Add(Box::new(order(rest)?))),
        "delete" => Ok(Wish::Delete { id: id()? }),
        "run" => Ok(Wish::Run { id: id()? }),
        "pause" => Ok(Wish::Pause { id: id()? }),
        "resume" => Ok(Wish::Resume { id: id()? }),
        _ => Err(Unclear::Verb(verb.to_owned())),
    }
}

fn order(said: &str) -> Result<Order, Unclear> {
    let (schedule, mut rest) = schedule(said).ok_or(Unclear::Schedule)?;
    let mut order = Order {
        schedule: schedule.to_owned(),
        ..Order::default()
    };
    loop {
        let (word, after) = first_word(rest);
        let Some((name, value)) = word.split_once('=') else {
            break;
        };
        match term(&mut order, name, value) {
            None => break,
            Some(false) => return Err(Unclear::Term(word.to_owned())),
            Some(true) => rest = after,
        }
    }
    if rest.is_empty() {
        return Err(Unclear::Message);
    }
    order.message = rest.to_owned();
    Ok(order)
}

/// `None`: there is no such term, so the message begins here. `false`: its value does not fit.
fn term(order: &mut Order, name: &str, value: &str) -> Option<bool> {
    let number = || value.parse().ok().filter(|number: &u32| *number > 0);
    let terms = &mut order.terms;
    let fits = match name {
        "tz" => {
            order.timezone = Some(value.to_owned());
            !value.is_empty()
        }
        "misfire" => {
            let misfire = Misfire::read(value);
            terms.misfire = misfire.unwrap_or_default();
            misfire.is_some()
        }
        "interrupted" => {
            terms.interrupted = Interrupted::read(value);
            terms.interrupted.is_some()
        }
        "late" => {
            terms.late_minutes = number().filter(|late| (2..=20_160).contains(late));
            terms.late_minutes.is_some()
        }
        "jitter" => {
            terms.jitter = number().filter(|jitter| *jitter <= 60);
            terms.jitter.is_some()
        }
        "rounds" => {
            terms.rounds = number();
            terms.rounds.is_some()
        }
        "minutes" => {
            terms.minutes = number();
            terms.minutes.is_some()
        }
        "cents" => {
            terms.cents = number();
            terms.cents.is_some()
        }
        _ => return None,
    };
    Some(fits)
}

/// The schedule, in whatever quotes a phone makes or in none, and what stands behind it.
fn schedule(said: &str) -> Option<(&str, &str)> {
    const QUOTES: [char; 9] = ['"', '\'', '`', '“', '”', '„', '‘', '’', '«'];
    const ENDS: [char; 7] = ['"', '\'', '`', '“', '”', '’', '»'];
    if let Some(quoted) = said.strip_prefix(QUOTES) {
        let (inside, rest) = quoted.split_once(ENDS)?;
        return Some((inside.trim(), rest.trim_start()));
    }
    let words = match first_word(said).0 {
        "" => return None,
        "every" => 2,
        "at" => 3,
        name if name.starts_with('@') => 1,
        _ => 5,
    };
    let mut rest = said;
    for _ in 0..words {
        rest = first_word(rest).1;
    }
    Some((said[..said.len() - rest.len()].trim_end(), rest))
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(said: &str) -> Order {
        match read(said) {
            Ok(Wish::Add(order)) => *order,
            other => panic!("{said:?}: {other:?}"),
        }
    }

    #[test]
    fn a_schedule_stands_in_any_quotes_or_in_none() {
        for (said, schedule, message) in [
            (
                "add \"0 9 * * 1-5\" run the tests",
                "0 9 * * 1-5",
                "run the tests",
            ),
            (
                "add “0 9 * * 1-5” run the tests",
                "0 9 * * 1-5",
                "run the tests",
            ),
            (
                "ADD 'at 2026-12-01 09:00' /cost",
                "at 2026-12-01 09:00",
                "/cost",
            ),
            ("add every 30m look: a = b", "every 30m", "look: a = b"),
            (
                "add at 2026-12-01 09:00 look",
                "at 2026-12-01 09:00",
                "look",
            ),
            ("add 0 9 * * 1-5 two\nlines", "0 9 * * 1-5", "two\nlines"),
            ("add @daily x=1 is wrong", "@daily", "x=1 is wrong"),
        ] {
            let order = added(said);
            assert_eq!((&*order.schedule, &*order.message), (schedule, message));
            assert_eq!((order.timezone, order.terms), (None, Terms::default()));
        }
    }

    #[test]
    fn terms_stand_between_schedule_and_message() {
        let order = added(
            "add @daily tz=Europe/Madrid misfire=all late=60 jitter=15 rounds=5 minutes=10 cents=50 interrupted=resume do it",
        );
        assert_eq!(order.timezone.as_deref(), Some("Europe/Madrid"));
        let expected = Terms {
            misfire: Misfire::All,
            late_minutes: Some(60),
            jitter: Some(15),
            interrupted: Some(Interrupted::Resume),
            rounds: Some(5),
            minutes: Some(10),
            cents: Some(50),
        };
        assert_eq!((order.terms, &*order.message), (expected, "do it"));
    }

    #[test]
    fn what_is_unclear_is_named() {
        for (said, unclear) in [
            ("water", Unclear::Verb("water".into())),
            ("delete", Unclear::Id(String::new())),
            ("run two", Unclear::Id("two".into())),
            ("add", Unclear::Schedule),
            ("add \"0 9 * * *", Unclear::Schedule),
            ("add @daily", Unclear::Message),
            ("add @daily tz=UTC", Unclear::Message),
            ("add @daily rounds=0 x", Unclear::Term("rounds=0".into())),
            ("add @daily jitter=61 x", Unclear::Term("jitter=61".into())),
            (
                "add @daily misfire=never x",
                Unclear::Term("misfire=never".into()),
            ),
        ] {
            assert_eq!(read(said), Err(unclear), "{said:?}");
        }
        assert_eq!(read(" "), Ok(Wish::List));
        assert_eq!(read("pause 3"), Ok(Wish::Pause { id: 3 }));
    }
}
