//! A person's yes or no to an open question, in English or Spanish (behaviour 1).
//!
//! What remains after dropping case, accents, punctuation and skin tones must equal one phrase of the list. Anything else is no
//! answer. Knows nothing of the question.

/// An answer to an open question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Yes,
    No,
}

const YES: &[&str] = &[
    "yes", "y", "ok", "okay", "sure", "approve", "approved", "go ahead", "si", "dale", "si dale",
    "aprobar", "aprobado", "autorizo", "adelante",
];
const NO: &[&str] = &["no", "n", "deny", "reject", "stop", "rechazar", "cancelar"];
const YES_SIGNS: &[char] = &['👍', '✅'];
const NO_SIGNS: &[char] = &['👎', '❌'];

/// Longer messages are never an answer, so there is no need to look at all of them.
const REPLY_MAX_BYTES: usize = 200;

/// What a message says to an open question; `None` if it is no answer.
pub fn read_reply(text: &str) -> Option<Reply> {
    // `/cancel` is a command, whatever is open.
    if text.len() > REPLY_MAX_BYTES || text.trim_start().starts_with('/') {
        return None;
    }
    let mut words = String::new();
    let mut signs: Vec<char> = Vec::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        match unaccented(c) {
            Some(letter) if letter.is_alphanumeric() => {
                // Words after a sign are not a trailing emoji.
                if !signs.is_empty() {
                    return None;
                }
                words.push(letter);
            }
            Some(space) if space.is_whitespace() => words.push(' '),
            Some(sign) if is_sign(sign) => signs.push(sign),
            // Punctuation, accents that stand alone, skin tones.
            Some(_) | None => {}
        }
    }
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = |reply: Reply, phrases: &[&str]| phrases.contains(&words.as_str()).then_some(reply);
    let shown = answer_of(&signs);
    if words.is_empty() {
        return shown.flatten();
    }
    let spoken = said(Reply::Yes, YES).or_else(|| said(Reply::No, NO))?;
    match shown {
        // A yes with a thumb down is no answer.
        Some(Some(sign)) if sign != spoken => None,
        Some(None)
            if signs
                .iter()
                .any(|c| YES_SIGNS.contains(c) || NO_SIGNS.contains(c)) =>
        {
            None
        }
        _ => Some(spoken),
    }
}

/// `None`: no sign; `Some(None)`: signs that say nothing, or both.
fn answer_of(signs: &[char]) -> Option<Option<Reply>> {
    if signs.is_empty() {
        return None;
    }
    Some(if signs.iter().all(|c| YES_SIGNS.contains(c)) {
        Some(Reply::Yes)
    } else if signs.iter().all(|c| NO_SIGNS.contains(c)) {
        Some(Reply::No)
    } else {
        None
    })
}

/// Pictures, but neither skin tones nor the marks that join or style them.
fn is_sign(c: char) -> bool {
    let is_picture = matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}');
    is_picture && !matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

fn unaccented(c: char) -> Option<char> {
    Some(match c {
        'á' | 'à' | 'ä' | 'â' | 'ã' => 'a',
        'é' | 'è' | 'ë' | 'ê' => 'e',
        'í' | 'ì' | 'ï' | 'î' => 'i',
        'ó' | 'ò' | 'ö' | 'ô' | 'õ' => 'o',
        'ú' | 'ù' | 'ü' | 'û' => 'u',
        '\u{300}'..='\u{36f}' => return None,
        other => other,
    })
}
