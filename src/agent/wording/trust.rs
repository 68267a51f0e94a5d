//! Texts about trust in a workspace.

use crate::agent::texts::Texts;
use crate::agent::trust::{Survey, TrustAnswer, TrustItem};
use crate::agent::wording::one_line;
use crate::definitions::Kind;

/// Names of definitions of one kind.
const NAMES_MAX: usize = 40;
const COMMAND_CHARS_MAX: usize = 200;

/// What came of a wish about trust.
pub fn trust_answer(texts: &Texts, answer: &TrustAnswer) -> String {
    match answer {
        TrustAnswer::Shown { survey } => {
            let name = match survey.trusted {
                true => "trust_given",
                false => "trust_question",
            };
            about(texts, name, survey)
        }
        TrustAnswer::Differs { survey } => about(texts, "trust_differs", survey),
        TrustAnswer::Trusted { survey } => about(texts, "trusted", survey),
        TrustAnswer::Revoked { name } => texts.say("trust_revoked", &[("name", name)]),
        TrustAnswer::NotTrusted { name } => texts.say("trust_none", &[("name", name)]),
        TrustAnswer::Refused { why } => texts.say("trust_refused", &[("why", why)]),
    }
}

/// What is trusted with a workspace, one line each.
pub fn trust_items(texts: &Texts, survey: &Survey) -> String {
    if survey.items.is_empty() {
        return texts.say("trust_nothing", &[]);
    }
    let lines = survey.items.iter().map(|item| line(texts, item));
    lines.collect::<Vec<_>>().join("\n")
}

fn about(texts: &Texts, text: &str, survey: &Survey) -> String {
    let values = [
        ("name", survey.name.as_str()),
        ("path", &survey.path),
        ("list", &trust_items(texts, survey)),
        ("code", &survey.code),
    ];
    texts.say(text, &values)
}

fn line(texts: &Texts, item: &TrustItem) -> String {
    let sized = |text, name: &str, bytes: u64| {
        texts.say(text, &[("name", name), ("bytes", &bytes.to_string())])
    };
    match item {
        TrustItem::File {
            name,
            bytes,
            hidden,
        } => {
            let file = sized("trust_file", name, *bytes);
            match hidden {
                0 => file,
                count => file + &texts.say("trust_hidden", &[("count", &count.to_string())]),
            }
        }
        TrustItem::Definitions { of, names } => {
            let count = names.len().to_string();
            let mut shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
            let more = format!("+{}", names.len().saturating_sub(NAMES_MAX));
            if names.len() > NAMES_MAX {
                shown.push(&more);
            }
            let values = [("count", count.as_str()), ("names", &shown.join(", "))];
            match of {
                Kind::Command => texts.say("trust_commands", &values),
                Kind::Agent => texts.say("trust_agents", &values),
                Kind::Skill => texts.say("trust_skills", &values),
                Kind::Instructions => texts.say("trust_instructions", &values),
            }
        }
        TrustItem::Inline { name, commands } => {
            let shown = commands
                .iter()
                .map(|command| one_line(command, COMMAND_CHARS_MAX));
            let shown = shown.collect::<Vec<_>>().join(" · ");
            texts.say("trust_inline", &[("name", name), ("commands", &shown)])
        }
        TrustItem::Unreadable { name, why } => {
            texts.say("trust_unreadable", &[("name", name), ("why", why)])
        }
        TrustItem::Flawed { name, what } => {
            texts.say("trust_flawed", &[("name", name), ("what", what)])
        }
        TrustItem::Server { name, what } => {
            texts.say("trust_server", &[("name", name), ("what", what)])
        }
        TrustItem::Hook {
            name,
            bytes,
            with_commit: true,
        } => sized("trust_hook_commit", name, *bytes),
        TrustItem::Hook { name, bytes, .. } => sized("trust_hook", name, *bytes),
        TrustItem::NoHooks { why } => texts.say("trust_no_hooks", &[("why", why)]),
    }
}
