//! *Always this session*: the pattern that a person could grant for a plain command. Whether anything else speaks against it
//! is the judgement's business.

use crate::gate::Pattern;
use crate::gate::options::read_words;
use crate::gate::policy::GatePolicy;
use crate::gate::words::Word;

/// What *always this session* would grant for a plain command, if nothing else speaks against it.
pub fn pattern_of(policy: &GatePolicy, words: &[Word]) -> Option<Pattern> {
    let reading = read_words(policy, words);
    let program = reading.path.first()?.clone();
    let runs_others = !reading.commands.is_empty() || !reading.texts.is_empty();
    if policy.interpreters.contains(&program) || runs_others {
        return None;
    }
    let has_subcommands = policy.with_subcommands.contains(&program)
        || reading.specs.first().is_some_and(|spec| spec.subcommands);
    let subcommand = match reading.path.get(1) {
        Some(known) => Some(known.clone()),
        None if !reading.specs.is_empty() && !has_subcommands => None,
        None => words
            .get(1)
            .map(|word| word.text.clone())
            .filter(|word| looks_like_subcommand(word)),
    };
    if has_subcommands && subcommand.is_none() {
        return None;
    }
    Some(Pattern {
        program,
        subcommand,
    })
}

/// `test`, `add-remote`; not `./x`, `-f`, `README`.
fn looks_like_subcommand(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}
