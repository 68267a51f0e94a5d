//! `journeyman cron`: schedules, what they mean, and what came of them.
//!
//! Jobs are written to the database beside a running server, which looks at it several times a minute.

use super::assemble::{desk, make_private};
use super::{CliError, Exit};
use crate::config::{ConfigError, Settings};
use crate::schedule::wish::{Answer, Order, Terms, Wish};
use crate::schedule::{Schedule, Zone};
use crate::world::clock;
use crate::world::schedules::Customer;
use crate::world::store::cron::{Change, Job, JobState, Run};
use crate::world::store::{Store, StoreError};
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde::Serialize;

/// Firings that are shown at once.
const COUNT_MAX: u16 = 1_000;

#[derive(Debug, Subcommand)]
pub enum Cron {
    /// Show when a schedule fires next
    Next(Next),
    /// Send a message to the agent on a schedule; the answer goes to a chat
    Add(Add),
    /// List the schedules
    List {
        /// Only those of this number
        #[arg(long, value_name = "NUMBER")]
        to: Option<String>,
        /// Print a JSON list on stdout
        #[arg(long)]
        json: bool,
    },
    /// Take a schedule out; its history stays
    Delete { id: i64 },
    /// Run a schedule's message now, once
    Run { id: i64 },
    /// Let a schedule rest
    Pause { id: i64 },
    /// Go on with a paused schedule; what fell into the pause is left
    Resume { id: i64 },
    /// Show the last runs, the latest first
    History {
        /// Only those of this schedule
        id: Option<i64>,
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        count: u32,
        /// Print a JSON list on stdout
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct Add {
    /// Five fields, `every 30m`, `at 2026-12-01 09:00`, or @daily and friends
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    expression: String,
    /// What the agent is told then, slash commands too
    message: String,
    /// IANA name of the zone [default: `timezone` in config/settings.toml]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Whose schedule it is, and where the answer goes [default: the only one in ALLOWED_PHONE_NUMBERS]
    #[arg(long, value_name = "NUMBER")]
    to: Option<String>,
    #[command(flatten)]
    terms: Terms,
    /// Print a JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Cron {
    pub fn run(self, settings: Settings) -> Result<Exit, CliError> {
        make_private(&settings.data_dir)?;
        let store = Store::new(&settings.data_dir);
        match self {
            Cron::Next(next) => next.run(|| Ok(settings)),
            Cron::Add(add) => add.run(&settings, &store),
            Cron::List { to, json } => {
                let jobs = store.jobs(to.as_deref()).map_err(failed)?;
                show(&jobs, json, job_line)
            }
            Cron::Delete { id } => change(&store, id, JobState::Deleted, "deleted"),
            Cron::Pause { id } => {
                let paused = JobState::Paused("by hand".into());
                change(&store, id, paused, "paused")
            }
            Cron::Resume { id } => change(&store, id, JobState::Active, "active again"),
            Cron::Run { id } => run_now(&store, id),
            Cron::History { id, count, json } => {
                let runs = store.runs(id, count).map_err(failed)?;
                show(&runs, json, run_line)
            }
        }
    }
}

impl Add {
    fn run(self, settings: &Settings, store: &Store) -> Result<Exit, CliError> {
        let order = Order {
            schedule: self.expression,
            message: self.message,
            timezone: self.tz,
            terms: self.terms,
        };
        let customer = Customer::number(&owner(settings, store, self.to)?);
        let wish = Wish::Add(Box::new(order));
        // Whoever says it again means it again.
        let key = format!("command line {}", clock::message_id());
        let answer = desk(settings).act(store, &key, &wish, &customer, clock::now());
        match answer {
            Answer::Added { id, next, .. } if self.json => {
                print_json(&serde_json::json!({"id": id, "next": next}))?;
            }
            Answer::Added { id, next, .. } => {
                println!("schedule {id}; next: {}", next.join(", "));
            }
            Answer::Refused { why } => return Err(CliError::Use(why)),
            Answer::Listed { .. } | Answer::Done { .. } | Answer::Missing { .. } => {}
        }
        Ok(Exit::Done)
    }
}

/// Whose schedule it is: only who is served can have one.
fn owner(settings: &Settings, store: &Store, to: Option<String>) -> Result<String, CliError> {
    let allowed: &[String] = settings
        .whatsapp
        .as_ref()
        .map_or(&[], |whatsapp| &whatsapp.allowed);
    let is_paired = |to: &str| matches!(store.paired(to), Ok(Some(_)));
    match (to, allowed) {
        (Some(to), _) if allowed.contains(&to) || is_paired(&to) => Ok(to),
        (None, [only]) => Ok(only.clone()),
        (Some(to), _) => Err(CliError::Use(format!(
            "--to: {to:?} is not served; accepted: a number in ALLOWED_PHONE_NUMBERS, or one that was paired"
        ))),
        (None, _) => Err(CliError::Use(
            "--to: whose schedule is it? accepted: a number in ALLOWED_PHONE_NUMBERS".into(),
        )),
    }
}

fn change(store: &Store, id: i64, state: JobState, word: &str) -> Result<Exit, CliError> {
    let changed = store.set_job_state(id, None, state, clock::now());
    match changed.map_err(failed)? {
        true => {
            println!("schedule {id} is {word}");
            Ok(Exit::Done)
        }
        false => Err(CliError::Use(format!(
            "there is no schedule {id} that this could be done to; `journeyman cron list` shows all"
        ))),
    }
}

fn run_now(store: &Store, id: i64) -> Result<Exit, CliError> {
    let key = format!("command line {}", clock::message_id());
    let run = Change::Run { id, owner: None };
    match store
        .change_once(&key, &run, clock::now())
        .map_err(failed)?
    {
        Answer::Done { .. } => {
            println!("schedule {id} runs as soon as a server runs and its last run ended");
            Ok(Exit::Done)
        }
        _ => Err(CliError::Use(format!(
            "there is no schedule {id}; `journeyman cron list` shows all"
        ))),
    }
}

fn show<T: Serialize>(
    rows: &[T],
    json: bool,
    line: impl Fn(&T) -> String,
) -> Result<Exit, CliError> {
    match json {
        true => print_json(&rows)?,
        false => rows.iter().for_each(|row| println!("{}", line(row))),
    }
    Ok(Exit::Done)
}

fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(value).map_err(|error| CliError::Failed(error.to_string()))?;
    println!("{text}");
    Ok(())
}

fn job_line(job: &Job) -> String {
    let what = &job.what;
    let state = match job.why.as_str() {
        "" => job.state.clone(),
        why => format!("{} ({why})", job.state),
    };
    format!(
        "{}  {}  {}  {}  {state}  {:?}",
        job.id, what.owner, what.schedule, what.timezone, what.message
    )
}

fn run_line(run: &Run) -> String {
    let duration = run.duration_ms.map_or(String::new(), |ms| {
        format!("  {}.{} s", ms / 1_000, ms % 1_000 / 100)
    });
    let session = run.session.as_deref().unwrap_or_default();
    let died = match run.interruptions {
        0 => String::new(),
        times => format!(" (interrupted {times} times)"),
    };
    format!(
        "{}  {}  {}{died}{duration}  {session}",
        run.job, run.slot, run.outcome
    )
}

fn failed(error: StoreError) -> CliError {
    CliError::Failed(error.to_string())
}

#[derive(Debug, Args)]
pub struct Next {
    /// Five fields, `every 30m`, `at 2026-12-01 09:00`, or @daily and friends
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    expression: String,
    /// IANA name of the zone [default: `timezone` in config/settings.toml]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Only firings after this instant, in RFC 3339 [default: now]
    #[arg(long, value_name = "INSTANT")]
    after: Option<String>,
    /// How many
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=i64::from(COUNT_MAX)))]
    count: u16,
    /// Print a JSON list of instants, with the offset of the zone
    #[arg(long)]
    json: bool,
}

impl Next {
    /// `settings` are read only where the command line does not say it all.
    pub fn run(
        self,
        settings: impl FnOnce() -> Result<Settings, ConfigError>,
    ) -> Result<Exit, CliError> {
        let zone = match self.tz {
            Some(zone) => zone,
            None => desk(&settings()?).zone(None).map_err(CliError::Use)?,
        };
        let after = self.after.as_deref().map_or_else(|| Ok(now()), instant)?;
        let times = Schedule::parse(&self.expression, &zone)
            .and_then(|schedule| schedule.upcoming(after, usize::from(self.count)))
            .map_err(|error| CliError::Use(error.to_string()))?;
        let times: Vec<String> = times.iter().map(DateTime::<Zone>::to_rfc3339).collect();
        if self.json {
            let text = serde_json::to_string(&times)
                .map_err(|error| CliError::Failed(error.to_string()))?;
            println!("{text}");
        } else {
            times.iter().for_each(|time| println!("{time}"));
        }
        Ok(Exit::Done)
    }
}

fn instant(said: &str) -> Result<DateTime<Utc>, CliError> {
    DateTime::parse_from_rfc3339(said)
        .map(|instant| instant.to_utc())
        .map_err(|_| {
            CliError::Use(format!(
                "--after: {said:?} is no instant; accepted: RFC 3339, such as 2026-11-21T08:00:00Z"
            ))
        })
}

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(clock::now().0).unwrap_or_default()
}
