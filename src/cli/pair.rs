//! `journeyman pair`: a one-time code that lets a number in, and the numbers that came in by one.
//!
//! Written to the database beside a running server, which looks there whenever a number that it does not know writes.

use super::assemble::make_private;
use super::{CliError, Exit};
use crate::config::Settings;
use crate::world::clock;
use crate::world::store::pairing::{CODE_MINUTES, Code, Paired};
use crate::world::store::{Store, StoreError};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct Pair {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The numbers that are served
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Serve a paired number no longer
    Remove {
        /// Digits with country code
        number: String,
    },
}

impl Pair {
    pub fn run(self, settings: &Settings) -> Result<Exit, CliError> {
        let Some(whatsapp) = &settings.whatsapp else {
            return Err(CliError::Use(
                "WhatsApp is not configured: `journeyman init` does that, or set the WHATSAPP_ variables (see .env.example)"
                    .into(),
            ));
        };
        make_private(&settings.data_dir)?;
        let store = Store::new(&settings.data_dir);
        match self.action {
            None => offer(&store),
            Some(Action::List { json }) => list(&store, &whatsapp.allowed, json),
            Some(Action::Remove { number }) => remove(&store, &whatsapp.allowed, &number),
        }
    }
}

fn offer(store: &Store) -> Result<Exit, CliError> {
    let code = Code::of(clock::random());
    let kept = store.offer_code(&code, clock::random(), clock::now());
    kept.map_err(failed)?;
    println!("{}", code.shown());
    eprintln!(
        "Send this, and nothing else, to the bot from the phone that is to be served, within {CODE_MINUTES} minutes. It works \
         once; `journeyman serve` must be running."
    );
    Ok(Exit::Done)
}

fn list(store: &Store, allowed: &[String], json: bool) -> Result<Exit, CliError> {
    let paired = store.all_paired().map_err(failed)?;
    if json {
        let all = serde_json::json!({"settings": allowed, "paired": paired});
        println!("{all:#}");
        return Ok(Exit::Done);
    }
    if allowed.is_empty() && paired.is_empty() {
        eprintln!("No number is served. `journeyman pair` prints a code that lets one in.");
    }
    for number in allowed {
        println!("{number}  ALLOWED_PHONE_NUMBERS");
    }
    for Paired { number, at, .. } in paired {
        println!("{number}  paired {at}");
    }
    Ok(Exit::Done)
}

fn remove(store: &Store, allowed: &[String], number: &str) -> Result<Exit, CliError> {
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let gone = store.unpair(&digits).map_err(failed)?;
    if allowed.contains(&digits) {
        return Err(CliError::Use(format!(
            "{digits} is in ALLOWED_PHONE_NUMBERS: take it out there, and start `serve` again"
        )));
    }
    if !gone {
        return Err(CliError::Use(format!(
            "{digits} is not paired; `journeyman pair list` shows the numbers"
        )));
    }
    println!("{digits} is not served any more.");
    Ok(Exit::Done)
}

fn failed(error: StoreError) -> CliError {
    CliError::Failed(error.to_string())
}
