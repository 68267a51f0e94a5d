//! The YAML between two lines of `---` at the top of a definition. What cannot be read is empty and warned of, never an
//! error: the text below it still counts.

use serde_json::{Map, Value};

const FENCE: &str = "---";
const BOM: char = '\u{feff}';
/// A value that begins so is no plain text in YAML.
const NOT_PLAIN: [char; 12] = ['"', '\'', '[', ']', '{', '}', '|', '>', '&', '*', '!', '#'];

/// What a definition says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FrontMatter {
    /// As written; no key is refused for being unknown.
    pub keys: Map<String, Value>,
    /// Why `keys` is empty though something stood there.
    pub warning: Option<String>,
}

impl FrontMatter {
    /// A text under the first of these names that is there; a number or a truth counts as its text.
    pub fn text(&self, names: &[&str]) -> Option<String> {
        let value = names.iter().find_map(|name| self.keys.get(*name))?;
        match value {
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(is) => Some(is.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Whether something is so; also where it is written as a text.
    pub fn flag(&self, names: &[&str]) -> Option<bool> {
        match self.text(names)?.to_ascii_lowercase().as_str() {
            "true" | "yes" => Some(true),
            "false" | "no" => Some(false),
            _ => None,
        }
    }
}

/// The front matter of a text, and what stands below it. A text without a closing `---` has none.
pub fn split(text: &str) -> (FrontMatter, &str) {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    match fenced(text) {
        None => (FrontMatter::default(), text),
        Some((yaml, body)) => (read(yaml), body),
    }
}

fn fenced(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next()?;
    if first.trim_end() != FENCE {
        return None;
    }
    let mut at = first.len();
    for line in lines {
        let after = at + line.len();
        if line.trim_end() == FENCE {
            return Some((&text[first.len()..at], &text[after..]));
        }
        at = after;
    }
    None
}

fn read(yaml: &str) -> FrontMatter {
    let said = parsed(yaml).or_else(|why| parsed(&quoted(yaml)).map_err(|_| why));
    match said {
        Ok(keys) => FrontMatter {
            keys,
            warning: None,
        },
        Err(why) => FrontMatter {
            keys: Map::new(),
            warning: Some(format!("its front matter is not read: {why}")),
        },
    }
}

fn parsed(yaml: &str) -> Result<Map<String, Value>, String> {
    if yaml.lines().all(|line| is_empty(line.trim())) {
        return Ok(Map::new());
    }
    match serde_saphyr::from_str(yaml) {
        Ok(Value::Object(keys)) => Ok(keys),
        Ok(_) => Err("it is no list of `key: value`".to_owned()),
        // The first line says what and where; the rest draws it.
        Err(error) => Err(error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()),
    }
}

fn is_empty(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

/// With quotes around the plain values in which YAML sees more than their writer did: `description: use when: x`.
fn quoted(yaml: &str) -> String {
    let lines = yaml.lines().map(|line| match plain_value(line) {
        Some((key, value)) => {
            let value = value.replace('\'', "''");
            format!("{key}: '{value}'\n")
        }
        None => format!("{line}\n"),
    });
    lines.collect()
}

fn plain_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(": ")?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let value = value.trim();
    let is_plain = !value.starts_with(NOT_PLAIN) && (value.contains(": ") || value.ends_with(':'));
    (!key.is_empty() && key.chars().all(is_key) && is_plain).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_above_is_read_and_what_stands_below_is_kept() {
        let (front, body) = split(
            "\u{feff}---\r\ndescription: Load patterns\nallowed-tools: [Read, \"Bash(git:*)\"]\n---\n\nHello\n---\n",
        );
        assert_eq!(front.text(&["description"]).unwrap(), "Load patterns");
        assert_eq!(front.keys["allowed-tools"][1], "Bash(git:*)");
        assert_eq!(front.warning, None);
        assert_eq!(body, "\nHello\n---\n");
    }

    #[test]
    fn a_text_without_front_matter_is_all_body() {
        for text in [
            "",
            "Hello world",
            "---\nno end",
            "----\na: b\n---\n",
            "a\n---\nb: c\n---\n",
        ] {
            assert_eq!(split(text), (FrontMatter::default(), text), "{text:?}");
        }
        assert_eq!(split("---\n---\nx"), (FrontMatter::default(), "x"));
        assert_eq!(split("---\n# nothing\n\n---"), (FrontMatter::default(), ""));
    }

    #[test]
    fn a_colon_in_a_plain_value_is_what_its_writer_meant() {
        let (front, _) =
            split("---\nname: x\ndescription: use when: it's late\nmodel: opus\n---\n");
        assert_eq!(front.text(&["description"]).unwrap(), "use when: it's late");
        assert_eq!(front.text(&["model"]).unwrap(), "opus");
        assert_eq!(front.warning, None);
    }

    #[test]
    fn what_is_no_yaml_is_empty_and_warned_of() {
        let levels =
            (1..9).map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{}, ", n - 1).repeat(10)));
        let bomb = format!("a0: &a0 [x]\n{}", levels.collect::<String>());
        for yaml in ["a: [1", "- a\n- b", "just words", &bomb] {
            let text = format!("---\n{yaml}\n---\nbody");
            let (front, body) = split(&text);
            assert!(front.keys.is_empty(), "{yaml}: {:?}", front.keys);
            assert!(
                front
                    .warning
                    .unwrap()
                    .starts_with("its front matter is not read: ")
            );
            assert_eq!(body, "body");
        }
    }

    #[test]
    fn truths_and_numbers_are_read_as_they_are_written() {
        let (front, _) = split("---\na: true\nb: \"no\"\nc: 3\nd: maybe\n---\n");
        assert_eq!(front.flag(&["a"]), Some(true));
        assert_eq!(front.flag(&["x", "b"]), Some(false));
        assert_eq!(front.text(&["c"]).unwrap(), "3");
        assert_eq!(front.flag(&["d"]), None);
    }
}
