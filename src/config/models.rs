//! `config/models.toml`: what models cost, and how much they can read.

use super::{ConfigError, read_optional};
use crate::agent::money::Price;
use crate::agent::step::Alias;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

const BUILT_IN: &str = include_str!("../../config/models.toml");

/// Micro-dollars in a dollar.
const DOLLAR: f64 = 1_000_000.0;
/// Nobody sells tokens at this price: it is a slip of the keyboard.
const DOLLARS_MAX: f64 = 1_000_000.0;

/// Every model that is known, those of the configuration folder first.
#[derive(Debug, Clone)]
pub struct Models {
    entries: Vec<ModelEntry>,
    /// What agents' definitions call models, and what is meant.
    aliases: BTreeMap<String, String>,
}

/// What is known of a model.
#[derive(Debug, Clone)]
pub struct ModelEntry {
    names: Vec<String>,
    /// Tokens that a conversation may grow to.
    pub context_tokens: Option<u64>,
    pub price: Option<Price>,
    /// It can be shown pictures.
    pub images: bool,
    /// Of one that hears: what a minute costs, in micro-dollars.
    pub minute_micros: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    model: Vec<Entry>,
    #[serde(default)]
    alias: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    names: Vec<String>,
    context_tokens: Option<u64>,
    input_usd: Option<f64>,
    cached_input_usd: Option<f64>,
    output_usd: Option<f64>,
    minute_usd: Option<f64>,
    #[serde(default)]
    images: bool,
    #[serde(rename = "checked")]
    _checked: Option<String>,
}

impl Models {
    /// # Errors
    /// [`ConfigError::File`]: the file, and what is wrong with it.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join("config/models.toml");
        let own = read_optional(&path)?.filter(|text| text != BUILT_IN);
        let built_in = parse(BUILT_IN).expect("BUG: the compiled-in models parse, a test says so");
        let (mut entries, mut aliases) = (Vec::new(), built_in.1);
        if let Some(text) = own {
            let (read, own) = parse(&text).map_err(|message| ConfigError::File {
                path: path.display().to_string(),
                message,
            })?;
            entries.extend(read);
            aliases.extend(own);
        }
        entries.extend(built_in.0);
        Ok(Self { entries, aliases })
    }

    /// Names that mean a model of this program's provider; an empty one means the configured model.
    pub fn aliases(&self) -> BTreeMap<String, Alias> {
        let meant = self.aliases.iter().filter(|(_, model)| !model.is_empty());
        let alias = |(name, model): (&String, &String)| {
            let entry = self.find(model);
            let alias = Alias {
                model: model.clone(),
                price: entry.and_then(|entry| entry.price),
                context_tokens: entry.and_then(|entry| entry.context_tokens),
            };
            (name.to_ascii_lowercase(), alias)
        };
        meant.map(alias).collect()
    }

    /// The model of exactly this name.
    pub fn find(&self, name: &str) -> Option<&ModelEntry> {
        let is_it = |entry: &&ModelEntry| entry.names.iter().any(|known| known == name);
        self.entries.iter().find(is_it)
    }
}

fn parse(text: &str) -> Result<(Vec<ModelEntry>, BTreeMap<String, String>), String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let entries: Result<Vec<ModelEntry>, String> = file.model.into_iter().map(entry).collect();
    Ok((entries?, file.alias))
}

fn entry(entry: Entry) -> Result<ModelEntry, String> {
    let name = entry
        .names
        .first()
        .ok_or("a model without a name: names = [\"…\"]")?;
    let micros = |usd: f64| match usd {
        usd if (0.0..=DOLLARS_MAX).contains(&usd) => Ok((usd * DOLLAR).round() as u64),
        usd => Err(format!("model {name}: {usd} is no price in dollars")),
    };
    let price = match (entry.input_usd, entry.output_usd) {
        (Some(input), Some(output)) => Some(Price {
            input: micros(input)?,
            cached_input: micros(entry.cached_input_usd.unwrap_or(input))?,
            output: micros(output)?,
        }),
        (None, None) if entry.cached_input_usd.is_none() => None,
        _ => {
            return Err(format!(
                "model {name}: a price needs both input_usd and output_usd"
            ));
        }
    };
    Ok(ModelEntry {
        context_tokens: entry.context_tokens.filter(|tokens| *tokens > 0),
        price,
        images: entry.images,
        minute_micros: entry.minute_usd.map(micros).transpose()?,
        names: entry.names,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_models_parse_and_no_name_stands_twice() {
        let (entries, _) = parse(BUILT_IN).expect("the models");
        let mut names: Vec<_> = entries.iter().flat_map(|entry| &entry.names).collect();
        assert!(names.len() > 8);
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn prices_are_exact_to_the_micro_dollar() {
        let text = "[[model]]\nnames = [\"m\"]\ninput_usd = 0.075\noutput_usd = 4.5";
        let price = parse(text).expect("a model").0[0].price.expect("a price");
        let (input, cached, output) = (price.input, price.cached_input, price.output);
        assert_eq!((input, cached, output), (75_000, 75_000, 4_500_000));
    }

    #[test]
    fn what_is_wrong_with_a_price_is_said_with_the_name_of_the_model() {
        for bad in [
            "input_usd = 1",
            "input_usd = -1\noutput_usd = 1",
            "input_usd = nan\noutput_usd = 1",
            "cached_input_usd = 1",
        ] {
            let error = parse(&format!("[[model]]\nnames = [\"m-1\"]\n{bad}")).expect_err(bad);
            assert!(error.contains("m-1"), "{error}");
        }
        assert!(parse("[[model]]\nnames = []").is_err());
        assert!(parse("[[model]]\nnames = [\"m\"]\nprice = 1").is_err());
    }
}
