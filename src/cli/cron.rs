//! `journeyman cron`: schedules and what they mean.

use super::{CliError, Exit};
use crate::config::{ConfigError, Settings};
use crate::schedule::Schedule;
use crate::world::clock;
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use clap::{Args, Subcommand};

/// Firings that are shown at once.
const COUNT_MAX: u16 = 1_000;

#[derive(Debug, Subcommand)]
pub enum Cron {
    /// Show when a schedule fires next
    Next(Next),
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
            None => default_zone(&settings()?)?,
        };
        let after = self.after.as_deref().map_or_else(|| Ok(now()), instant)?;
        let times = Schedule::parse(&self.expression, &zone)
            .and_then(|schedule| schedule.upcoming(after, usize::from(self.count)))
            .map_err(|error| CliError::Use(error.to_string()))?;
        let times: Vec<String> = times.iter().map(DateTime::<Tz>::to_rfc3339).collect();
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

/// The zone of a schedule that names none. Never UTC by itself: it would be hours off without a word.
fn default_zone(settings: &Settings) -> Result<String, CliError> {
    match settings.file.timezone.as_str() {
        "" => Err(CliError::Use(
            "zone: none is given; accepted: an IANA name such as Europe/Madrid, by --tz or as `timezone` in config/settings.toml".into(),
        )),
        zone => Ok(zone.to_owned()),
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
