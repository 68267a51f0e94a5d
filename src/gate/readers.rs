//! Which commands only read, so that nothing needs to be kept before them.

use crate::gate::policy::GatePolicy;
use crate::gate::{Decision, Verdict};

/// Whether a command line that was judged so changes no file: all its programs are on the policy's list, nothing about
/// it made the gate ask, and no shell is involved.
pub fn only_reads(policy: &GatePolicy, verdict: &Verdict) -> bool {
    let reads = |argv: &[String]| {
        let Some(program) = argv.first() else {
            return false;
        };
        let named = |words: &str| policy.readers.contains(words);
        let subcommand = argv.get(1).map(|word| format!("{program} {word}"));
        named(program) || subcommand.is_some_and(|words| named(&words))
    };
    verdict.decision == Decision::Allow
        && !verdict.shell
        && !verdict.commands.is_empty()
        && verdict.commands.iter().all(|command| reads(&command.argv))
}
