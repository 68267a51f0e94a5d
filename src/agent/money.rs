//! What is spent: tokens, and what they cost in whole millionths of a dollar. No fractions, no guesses: what has no
//! price is counted as having none, never as free.

use crate::agent::children;
use crate::agent::event::Usage;
use crate::agent::limits;
use crate::agent::state::State;
use crate::agent::step::Policy;
use serde::{Deserialize, Serialize};

/// Micro-dollars in a cent, the unit of the limits.
const CENT: u64 = 10_000;

/// What a million tokens cost, in micro-dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    pub input: u64,
    /// Of input that came from the provider's cache.
    pub cached_input: u64,
    pub output: u64,
}

impl Price {
    /// What an answer cost in micro-dollars, rounded up; `None` where the server did not count its tokens.
    pub fn cost(&self, usage: Usage) -> Option<u64> {
        let free = self.input == 0 && self.output == 0;
        if usage.total() == 0 && !free {
            return None;
        }
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let sum = part(usage.input_tokens - cached, self.input)
            + part(cached, self.cached_input)
            + part(usage.output_tokens, self.output);
        Some(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

/// Tokens and money of a turn, a session or a month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    #[serde(flatten)]
    pub usage: Usage,
    pub micros: u64,
    /// Answers whose cost nobody knows: no price, or no count of tokens.
    #[serde(default)]
    pub unpriced: u32,
}

impl Spend {
    /// Takes an answer; `cost` as [`Price::cost`] has it, `None` also where there is no price.
    pub fn answered(&mut self, usage: Usage, cost: Option<u64>) {
        self.add(Spend {
            usage,
            micros: cost.unwrap_or(0),
            unpriced: u32::from(cost.is_none()),
        });
    }

    pub fn add(&mut self, other: Spend) {
        self.usage.add(other.usage);
        self.micros = self.micros.saturating_add(other.micros);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
    }
}

/// Spoken messages that were heard, which is paid for by the minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hearing {
    pub count: u32,
    pub micros: u64,
    pub unpriced: u32,
}

impl Hearing {
    pub fn heard(&mut self, cost: Option<u64>) {
        self.count += 1;
        self.micros = self.micros.saturating_add(cost.unwrap_or(0));
        self.unpriced += u32::from(cost.is_none());
    }

    /// What `/cost` says of it; empty where nothing was heard.
    fn line(self, state: &State) -> String {
        let Hearing {
            count,
            micros,
            unpriced,
        } = self;
        if count == 0 {
            return String::new();
        }
        let money = match unpriced {
            0 => dollars(micros),
            all if all == count => state.texts.say("cost_heard_unknown", &[]),
            unpriced => {
                let values = [
                    ("known", &*dollars(micros)),
                    ("count", &unpriced.to_string()),
                ];
                state.texts.say("cost_heard_partly", &values)
            }
        };
        let values = [("count", &*count.to_string()), ("money", &money)];
        state.texts.say("cost_heard", &values)
    }
}

/// What a sound of so many seconds costs, in micro-dollars, rounded up.
pub fn hearing_cost(minute_micros: u64, seconds: u64) -> u64 {
    minute_micros.saturating_mul(seconds).div_ceil(60)
}

/// What the other sessions spent in a month, as it was last looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    pub month: String,
    /// `None`: it could not be looked up.
    pub spend: Option<Spend>,
    /// The journal's line that says so.
    pub seq: u64,
}

/// What the month has cost in all sessions. `None` where it must be looked up first: only the journal's last line is
/// fresh.
pub fn month(state: &State) -> Option<Result<Spend, ()>> {
    let now = state.now.month();
    let seen = state.elsewhere.as_ref()?;
    if seen.seq != state.seq || seen.month != now {
        return None;
    }
    let Some(mut spend) = seen.spend else {
        return Some(Err(()));
    };
    if let Some((_, own)) = state.month.as_ref().filter(|(month, _)| *month == now) {
        spend.add(*own);
    }
    Some(Ok(spend))
}

/// `/cost`: turn, session and month, and the limits that are set.
pub fn report(state: &State, policy: &Policy) -> String {
    let turn = state
        .turn
        .as_ref()
        .map_or(state.last_turn, |turn| turn.spend);
    let month = month(state).and_then(Result::ok);
    let month = month.map_or_else(
        || state.texts.say("cost_unknown", &[]),
        |month| line(state, month),
    );
    let limits = &policy.limits;
    let set = [
        ("cost_limit_turn", limits.turn_cents_max),
        ("cost_limit_session", limits.session_cents_max),
        ("cost_limit_month", limits.month_cents_max),
    ];
    let set: Vec<String> = set
        .iter()
        .filter(|(_, cents)| *cents > 0)
        .map(|(name, cents)| {
            let max = dollars(micros(*cents));
            state.texts.say(name, &[("max", &max)])
        })
        .collect();
    let limits = match set.is_empty() {
        true => String::new(),
        false => state
            .texts
            .say("cost_limits", &[("limits", &set.join(", "))]),
    };
    let unpriced = match policy.price {
        Some(_) => String::new(),
        None => state
            .texts
            .say("cost_no_price", &[("model", &policy.model)]),
    };
    let values = [
        ("turn", line(state, turn)),
        ("session", line(state, state.spend)),
        ("name", state.now.month()),
        ("month", month),
        ("heard", state.hearing.line(state)),
        ("limits", limits),
        ("unpriced", unpriced),
    ];
    let values = values
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    state.texts.say("cost", &values)
}

/// `12,345 tokens (8,000 cached) · $0.0123`.
pub fn line(state: &State, spend: Spend) -> String {
    let cached = match spend.usage.cached_tokens {
        0 => String::new(),
        cached => state
            .texts
            .say("cost_cached", &[("tokens", &grouped(cached))]),
    };
    let money = match (spend.micros, spend.unpriced) {
        (micros, 0) => dollars(micros),
        (0, _) => state.texts.say("cost_unknown", &[]),
        (micros, unpriced) => {
            let values = [("known", dollars(micros)), ("rounds", unpriced.to_string())];
            let values = values
                .each_ref()
                .map(|(name, value)| (*name, value.as_str()));
            state.texts.say("cost_partly", &values)
        }
    };
    let tokens = grouped(spend.usage.total());
    let values = [
        ("tokens", tokens.as_str()),
        ("cached", &cached),
        ("money", &money),
    ];
    state.texts.say("cost_line", &values)
}

/// The money limit that stops the turn, by name, and the text for the chat.
///
/// With a limit set, nothing is asked whose cost cannot be counted.
pub fn reached(state: &State, policy: &Policy, turn: Spend) -> Option<(&'static str, String)> {
    let limits = &children::limits(state, &policy.limits);
    let of_job = limits::cents_of_job(state);
    if of_job.is_none() && !limits::in_money(limits) {
        return None;
    }
    let say =
        |name: &'static str, values: &[(&str, &str)]| Some((name, state.texts.say(name, values)));
    if policy.price.is_none() {
        return say("limit_no_price", &[("model", &policy.model)]);
    }
    if turn.unpriced > 0 {
        return say("limit_no_count", &[("model", &policy.model)]);
    }
    let month = match (limits.month_cents_max, month(state)) {
        (0, _) | (_, None) => 0,
        (_, Some(Ok(spend))) => spend.micros,
        (_, Some(Err(()))) => return say("limit_no_month", &[]),
    };
    let scopes = [
        ("limit_money_job", of_job.unwrap_or_default(), turn.micros),
        ("limit_money_turn", limits.turn_cents_max, turn.micros),
        (
            "limit_money_session",
            limits.session_cents_max,
            state.spend.micros,
        ),
        ("limit_money_month", limits.month_cents_max, month),
    ];
    let (name, max, used) = scopes
        .into_iter()
        .find(|(_, cents, used)| *cents > 0 && *used >= micros(*cents))?;
    say(
        name,
        &[("max", &dollars(micros(max))), ("used", &dollars(used))],
    )
}

/// The micro-dollars that this turn can still spend. `None`: no limit is set.
pub fn left(state: &State, policy: &Policy, turn: Spend) -> Option<u64> {
    let limits = &children::limits(state, &policy.limits);
    let month = month(state).and_then(Result::ok).unwrap_or_default();
    let scopes = [
        (limits::cents_of_job(state).unwrap_or_default(), turn.micros),
        (limits.turn_cents_max, turn.micros),
        (limits.session_cents_max, state.spend.micros),
        (limits.month_cents_max, month.micros),
    ];
    let set = scopes.into_iter().filter(|(cents, _)| *cents > 0);
    set.map(|(cents, used)| micros(cents).saturating_sub(used))
        .min()
}

fn micros(cents: u64) -> u64 {
    cents.saturating_mul(CENT)
}

/// `$0.0123`, `$12.35`: rounded to what a person reads, never a spent amount to nothing.
pub fn dollars(micros: u64) -> String {
    match micros {
        0 => "$0.00".into(),
        1..100 => "<$0.0001".into(),
        100..1_000_000 => format!("$0.{:04}", ((micros + 50) / 100).min(9_999)),
        _ => {
            let cents = micros.saturating_add(CENT / 2) / CENT;
            format!("${}.{:02}", grouped(cents / 100), cents % 100)
        }
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input_tokens: u64, cached_tokens: u64, output_tokens: u64) -> Usage {
        Usage {
            input_tokens,
            output_tokens,
            cached_tokens,
        }
    }

    const PRICE: Price = Price {
        input: 2_000_000,
        cached_input: 100_000,
        output: 10_000_000,
    };

    #[test]
    fn cached_tokens_cost_their_own_price_and_are_counted_once() {
        assert_eq!(PRICE.cost(usage(1_000_000, 0, 0)), Some(2_000_000));
        assert_eq!(PRICE.cost(usage(1_000_000, 400_000, 0)), Some(1_240_000));
        assert_eq!(PRICE.cost(usage(0, 0, 1_000)), Some(10_000));
        // More cached than read is the server's mistake, not a refund.
        assert_eq!(PRICE.cost(usage(10, 1_000_000, 0)), Some(1));
    }

    #[test]
    fn a_part_of_a_micro_dollar_is_a_whole_one() {
        let dust = Price {
            input: 1,
            cached_input: 1,
            output: 1,
        };
        assert_eq!(dust.cost(usage(1, 0, 0)), Some(1));
        assert_eq!(dust.cost(usage(1_000_000, 0, 1)), Some(2));
        assert_eq!(
            PRICE.cost(usage(u64::MAX / 2, 0, u64::MAX / 2)),
            Some(u64::MAX)
        );
    }

    #[test]
    fn an_answer_without_a_count_of_tokens_has_no_cost_unless_all_is_free() {
        let free = Price {
            input: 0,
            cached_input: 0,
            output: 0,
        };
        assert_eq!(PRICE.cost(usage(0, 0, 0)), None);
        assert_eq!(free.cost(usage(0, 0, 0)), Some(0));
        assert_eq!(free.cost(usage(5, 0, 5)), Some(0));
    }

    #[test]
    fn money_is_shown_as_people_read_it() {
        let shown = [0, 1, 149, 12_345, 999_999, 1_005_000, 1_234_567_890_000];
        let shown = shown.map(dollars);
        let wanted = [
            "$0.00",
            "<$0.0001",
            "$0.0001",
            "$0.0123",
            "$0.9999",
            "$1.01",
            "$1,234,567.89",
        ];
        assert_eq!(shown, wanted);
    }
}
