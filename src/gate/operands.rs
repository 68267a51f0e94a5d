//! What a program makes of the words that are no options: files, texts, a command of their own.

use crate::gate::options::Reading;
use crate::gate::programs::{Operands, ProgramSpec, Takes};
use crate::gate::words::Word;
use std::collections::BTreeSet;

/// The operands of a program that the policy knows.
pub fn place_operands(
    spec: &ProgramSpec,
    operands: Vec<Word>,
    inline: bool,
    reading: &mut Reading<'_>,
) {
    let mut operands = operands;
    if inline {
        if !operands.is_empty() {
            reading.texts.push(operands.remove(0));
        }
        reading.files.extend(operands.iter().cloned());
        reading.operands = operands;
        return;
    }
    match spec.operands {
        Operands::Paths | Operands::Script => reading.files.extend(operands.iter().cloned()),
        Operands::Text => {}
        Operands::FirstText => {
            let all_files = spec
                .first_text_unless
                .iter()
                .any(|option| reading.has(option));
            reading
                .files
                .extend(operands.iter().skip(usize::from(!all_files)).cloned());
        }
        Operands::Shell => {
            let text = operands
                .iter()
                .map(|word| word.text.as_str())
                .collect::<Vec<_>>()
                .join(" ");
            if !text.is_empty() {
                reading.texts.push(Word::literal(text));
            }
        }
        Operands::Command => {
            let mut inner = operands.as_slice();
            let skipped = inner.len().min(spec.skip);
            reading.files.extend(
                inner[..skipped]
                    .iter()
                    .filter(|word| word.text.contains('/'))
                    .cloned(),
            );
            inner = &inner[skipped..];
            while spec.assignments
                && let Some((first, rest)) = inner.split_first()
                && first.text.contains('=')
            {
                reading.assigns = true;
                inner = rest;
            }
            match inner {
                // `flock FILE -c TEXT`
                [flag, text, ..]
                    if spec
                        .options
                        .get(&flag.text)
                        .is_some_and(|opt| opt.takes == Takes::Shell) =>
                {
                    reading.texts.push(text.clone());
                }
                [] => {}
                _ => reading.commands.push(inner.to_vec()),
            }
        }
    }
    reading.operands = operands;
}

/// A program without a definition: every word may be a path, every option may take the next word.
pub fn unspecified(words: &[Word], reading: &mut Reading<'_>) {
    let mut options_over = false;
    for word in words {
        let text = &word.text;
        if options_over {
            reading.operands.push(word.clone());
            reading.files.push(word.clone());
        } else if text == "--" {
            options_over = true;
        } else if let Some(long) = text.strip_prefix("--") {
            let name_length = long.find('=').map_or(text.len(), |at| at + 2);
            reading.options.push(text[..name_length].to_owned());
            if name_length < text.len() {
                reading.files.push(word.tail(name_length + 1));
            }
        } else if text.starts_with('-') && text.len() > 1 {
            reading.options.push(text.clone());
            let letters: BTreeSet<char> = text.chars().skip(1).collect();
            reading
                .options
                .extend(letters.into_iter().map(|letter| format!("-{letter}")));
            let start = text.char_indices().nth(2).map_or(text.len(), |(at, _)| at);
            reading.files.push(word.tail(start));
            // `-xzf/etc/passwd`
            reading.files.extend(text.find('/').map(|at| word.tail(at)));
        } else {
            reading.operands.push(word.clone());
            reading.files.push(word.clone());
        }
    }
}
