//! What an MCP server asks the person while a call of one of its tools runs: a form of a few fields, or a page to go to. What
//! a person's words mean for it. Pure: nobody is asked from here, and no page is opened.
//!
//! A server's words are data: bounded, without what hides in them, and shown as its own. Forms that ask for secrets are not
//! shown at all, as the protocol has it.

use crate::agent::mcp::{clean, clean_schema, misfits};
use crate::agent::wording::one_line;
use crate::gate::{Reply, read_reply};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Of what the server says, of an address, and of a form as JSON.
const MESSAGE_CHARS_MAX: usize = 1_000;
const URL_CHARS_MAX: usize = 500;
const FORM_BYTES_MAX: usize = 8_000;
const FIELDS_MAX: usize = 12;
/// Of what is said of one field.
const FIELD_CHARS_MAX: usize = 160;
const OPTIONS_MAX: usize = 20;
/// Says no to whatever is asked, also where "no" is a value.
pub const DECLINES: &str = "-";

/// A question of a server, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerQuestion {
    pub server: String,
    pub message: String,
    pub wants: Wants,
}

/// What is wanted of the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Wants {
    /// Values for the properties of this JSON schema, an object without objects in it.
    Form { schema: Value },
    /// That they go there by themselves; nothing is opened.
    Page { url: String, host: String },
}

/// What the server is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum ServerAnswer {
    Given { content: Value },
    Declined,
}

impl ServerQuestion {
    /// # Errors
    /// Why the person is not asked that, for the model to read.
    pub fn form(server: &str, message: &str, schema: Value) -> Result<Self, String> {
        if schema.to_string().len() > FORM_BYTES_MAX {
            return Err(format!("its form has more than {FORM_BYTES_MAX} bytes"));
        }
        let schema = clean_schema(schema)?;
        let fields = properties(&schema);
        if fields.len() > FIELDS_MAX {
            return Err(format!("its form has more than {FIELDS_MAX} fields"));
        }
        if let Some((name, _)) = fields.iter().find(|(name, field)| is_secret(name, field)) {
            return Err(format!(
                "its field {} looks like a secret, and no server may ask for those in a form",
                one_line(name, FIELD_CHARS_MAX)
            ));
        }
        Ok(Self::of(server, message, Wants::Form { schema }))
    }

    /// # Errors
    /// As [`ServerQuestion::form`].
    pub fn page(server: &str, message: &str, url: &str) -> Result<Self, String> {
        if url.chars().count() > URL_CHARS_MAX {
            return Err(format!(
                "its address has more than {URL_CHARS_MAX} characters"
            ));
        }
        let parsed =
            reqwest::Url::parse(url).map_err(|error| format!("its address is none: {error}"))?;
        let is_web = parsed.scheme() == "https" || parsed.scheme() == "http";
        // As it is written for machines: a host in other letters shows what it is, and nothing hides behind a name.
        let host = parsed.host_str().filter(|_| is_web);
        let host = host.ok_or("its address leads to no web page")?.to_owned();
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("its address pretends to lead to another host".into());
        }
        let url = parsed.to_string();
        Ok(Self::of(server, message, Wants::Page { url, host }))
    }

    fn of(server: &str, message: &str, wants: Wants) -> Self {
        let message: String = clean(message.trim())
            .chars()
            .take(MESSAGE_CHARS_MAX)
            .collect();
        Self {
            server: server.to_owned(),
            message,
            wants,
        }
    }

    /// The fields, a line each; empty where there are none.
    pub fn lines(&self) -> String {
        let Wants::Form { schema } = &self.wants else {
            return String::new();
        };
        let line = |(name, field): &(&String, &Value)| {
            let required = if is_required(schema, name) { "*" } else { "" };
            let line = format!("{name}{required} ({}){}", kind(field), about(field));
            format!("• {}", one_line(&line, FIELD_CHARS_MAX))
        };
        let lines: Vec<String> = properties(schema).iter().map(line).collect();
        lines.join("\n")
    }

    /// The name of the field, where there is but one.
    pub fn only_field(&self) -> Option<&str> {
        let Wants::Form { schema } = &self.wants else {
            return None;
        };
        match properties(schema)[..] {
            [(name, _)] => Some(name),
            _ => None,
        }
    }

    /// What a person's words mean for it.
    ///
    /// # Errors
    /// Why they are no answer to it.
    pub fn read(&self, said: &str) -> Result<ServerAnswer, String> {
        let said = said.trim();
        let reply = read_reply(said);
        let schema = match &self.wants {
            _ if said == DECLINES => return Ok(ServerAnswer::Declined),
            Wants::Page { .. } => {
                return match reply {
                    Some(Reply::Yes) => Ok(ServerAnswer::Given { content: json!({}) }),
                    Some(Reply::No) => Ok(ServerAnswer::Declined),
                    None => Err("yes or no".into()),
                };
            }
            Wants::Form { schema } => schema,
        };
        let fields = properties(schema);
        let is_flag = matches!(fields[..], [(_, field)] if field["type"] == "boolean");
        match reply {
            Some(Reply::No) if !is_flag => return Ok(ServerAnswer::Declined),
            Some(Reply::Yes) if fields.is_empty() => {
                return Ok(ServerAnswer::Given { content: json!({}) });
            }
            Some(_) | None => {}
        }
        let content = Value::Object(values(schema, said)?);
        match misfits(schema, &content)? {
            misfits if misfits.is_empty() => Ok(ServerAnswer::Given { content }),
            misfits => Err(misfits.join("; ")),
        }
    }
}

/// `NAME=VALUE` in lines; of a single field, the value alone will do. What is missing is what the form has for it.
fn values(schema: &Value, said: &str) -> Result<Map<String, Value>, String> {
    let fields = properties(schema);
    let mut values = Map::new();
    for line in said.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let named = line
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()));
        let named = named.and_then(|(name, value)| {
            let (name, field) = fields
                .iter()
                .find(|(one, _)| one.eq_ignore_ascii_case(name))?;
            Some((*name, *field, value))
        });
        let (name, field, value) = match (named, &fields[..]) {
            (Some(named), _) => named,
            (None, [(name, field)]) if values.is_empty() => (*name, *field, said),
            (None, _) => return Err(format!("{} is no NAME=VALUE", one_line(line, 60))),
        };
        values.insert(name.clone(), value_of(field, value));
        if named.is_none() {
            break;
        }
    }
    for (name, field) in fields {
        if let (false, Some(default)) = (values.contains_key(name), field.get("default")) {
            values.insert(name.clone(), default.clone());
        }
    }
    Ok(values)
}

/// As the field has it; what fits nothing stays text, and does not fit.
fn value_of(field: &Value, said: &str) -> Value {
    let text = || Value::String(said.to_owned());
    match field["type"].as_str() {
        Some("boolean") => match (said, read_reply(said)) {
            ("true", _) | (_, Some(Reply::Yes)) => Value::Bool(true),
            ("false", _) | (_, Some(Reply::No)) => Value::Bool(false),
            (_, None) => text(),
        },
        Some("integer" | "number") => {
            let number = serde_json::from_str::<serde_json::Number>(said);
            number.map_or_else(|_| text(), Value::Number)
        }
        Some("array") => {
            let items = said
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            items
                .map(|item| chosen(&options(&field["items"]), item))
                .collect()
        }
        _ => chosen(&options(field), said),
    }
}

/// A value that can be chosen and what it is called, or the text as it is.
fn chosen(options: &[(String, String)], said: &str) -> Value {
    let is_it = |(value, title): &&(String, String)| {
        value == said || title.to_lowercase() == said.to_lowercase()
    };
    let value = options.iter().find(is_it).map_or(said, |(value, _)| value);
    Value::String(value.to_owned())
}

/// Values and what they are called.
fn options(field: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |key: &str| field[key].as_array().cloned().unwrap_or_default();
    let titled = ["oneOf", "anyOf"]
        .into_iter()
        .flat_map(list)
        .filter_map(|one| {
            let value = text(&one["const"])?;
            Some((value.clone(), text(&one["title"]).unwrap_or(value)))
        });
    let names = list("enumNames");
    let plain = list("enum")
        .into_iter()
        .enumerate()
        .filter_map(|(at, one)| {
            let value = text(&one)?;
            Some((value.clone(), names.get(at).and_then(text).unwrap_or(value)))
        });
    titled.chain(plain).collect()
}

fn properties(schema: &Value) -> Vec<(&String, &Value)> {
    let properties = schema["properties"].as_object();
    properties.into_iter().flatten().collect()
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|one| one == name))
}

fn kind(field: &Value) -> String {
    let items = match field["type"] == "array" {
        true => &field["items"],
        false => field,
    };
    let options = options(items);
    if options.is_empty() {
        return field["type"].as_str().unwrap_or("string").to_owned();
    }
    let shown = options
        .iter()
        .take(OPTIONS_MAX)
        .map(|(value, title)| match value == title {
            true => value.clone(),
            false => format!("{value}: {title}"),
        });
    let more = if options.len() > OPTIONS_MAX {
        " | …"
    } else {
        ""
    };
    shown.collect::<Vec<_>>().join(" | ") + more
}

fn about(field: &Value) -> String {
    let said = ["title", "description"].map(|key| field[key].as_str());
    let said: String = said
        .into_iter()
        .flatten()
        .map(|text| format!(" {text}"))
        .collect();
    match field.get("default") {
        Some(Value::String(default)) => format!("{said} [{default}]"),
        Some(default) => format!("{said} [{default}]"),
        None => said,
    }
}

/// Whether a field looks like one for a password, a token or a card.
fn is_secret(name: &str, field: &Value) -> bool {
    const PARTS: [&str; 18] = [
        "password",
        "passwort",
        "passwd",
        "passphrase",
        "passcode",
        "contrase",
        "clave",
        "secret",
        "token",
        "apikey",
        "accesskey",
        "privatekey",
        "credential",
        "credencial",
        "cardnumber",
        "creditcard",
        "cvv",
        "otp",
    ];
    const WORDS: [&str; 3] = ["pin", "pwd", "pass"];
    let title = field["title"].as_str().unwrap_or_default();
    let asks = |text: &str| {
        let lower = text.to_lowercase();
        let plain: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
        let mut words = lower.split(|c: char| !c.is_alphanumeric());
        PARTS.iter().any(|part| plain.contains(part)) || words.any(|word| WORDS.contains(&word))
    };
    field["format"] == "password" || asks(name) || asks(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: Value, required: Value) -> Result<ServerQuestion, String> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        ServerQuestion::form("shop", "Which\u{202e} one?", schema)
    }

    fn given(question: &ServerQuestion, said: &str) -> Value {
        match question.read(said) {
            Ok(ServerAnswer::Given { content }) => content,
            other => panic!("{said}: {other:?}"),
        }
    }

    #[test]
    fn a_form_is_answered_in_plain_words() {
        let single = form(
            json!({"city": {"type": "string", "minLength": 2}}),
            json!(["city"]),
        )
        .unwrap();
        assert_eq!(single.message, "Which one?");
        assert_eq!(given(&single, " La Plata "), json!({"city": "La Plata"}));
        assert_eq!(given(&single, "city=no"), json!({"city": "no"}));
        assert!(single.read("x").is_err(), "too short");
        let flag = form(json!({"ok": {"type": "boolean"}}), json!([])).unwrap();
        assert_eq!(given(&flag, "sí"), json!({"ok": true}));
        assert_eq!(given(&flag, "no"), json!({"ok": false}));
        let several = form(
            json!({"size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
                "count": {"type": "integer", "maximum": 9, "default": 1},
                "extras": {"type": "array", "items": {"type": "string", "enum": ["ham", "egg"]}}}),
            json!(["size"]),
        )
        .unwrap();
        let expected = json!({"size": "l", "count": 1, "extras": ["ham", "egg"]});
        assert_eq!(given(&several, "SIZE = large\nextras=ham, egg"), expected);
        for wrong in [
            "large",
            "size=huge",
            "size=s\ncount=10",
            "size=s\ncount=one",
            "size=s\nextras=tin",
            "count=2",
        ] {
            assert!(several.read(wrong).is_err(), "{wrong}");
        }
        assert!(
            several.lines().contains("• size* (s: Small | l: Large)"),
            "{}",
            several.lines()
        );
        for question in [&single, &flag, &several] {
            assert_eq!(question.read("-"), Ok(ServerAnswer::Declined));
        }
        assert_eq!(several.read("no"), Ok(ServerAnswer::Declined));
    }

    #[test]
    fn no_server_asks_for_a_secret_or_for_too_much() {
        for name in [
            "password",
            "API key",
            "github_token",
            "pin",
            "Contraseña",
            "cvv",
            "user_pass",
        ] {
            let asked = form(json!({name: {"type": "string"}}), json!([]));
            assert!(
                asked.is_err_and(|why| why.contains("looks like a secret")),
                "{name}"
            );
        }
        let titled = form(
            json!({"a": {"type": "string", "title": "Your password"}}),
            json!([]),
        );
        assert!(titled.is_err());
        for name in ["shipping", "opinion", "compass", "passenger"] {
            assert!(
                form(json!({name: {"type": "string"}}), json!([])).is_ok(),
                "{name}"
            );
        }
        assert!(
            form(
                json!({"a": {"type": "string", "title": "x".repeat(9_000)}}),
                json!([])
            )
            .is_err()
        );
    }

    #[test]
    fn a_page_is_named_by_its_host_and_answered_by_yes_or_no() {
        let page = |url: &str| ServerQuestion::page("shop", "Log in", url);
        let asked = page("https://exämple.com/login?x=1").unwrap();
        let Wants::Page { host, .. } = &asked.wants else {
            panic!("{asked:?}")
        };
        assert_eq!(host, "xn--exmple-cua.com");
        assert_eq!(
            asked.read("dale"),
            Ok(ServerAnswer::Given { content: json!({}) })
        );
        assert_eq!(asked.read("no"), Ok(ServerAnswer::Declined));
        assert!(asked.read("later").is_err());
        for bad in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://bank.com@evil.com/",
            "no url",
        ] {
            assert!(page(bad).is_err(), "{bad}");
        }
    }
}
