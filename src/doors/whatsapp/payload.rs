//! What a webhook says, as our own types.
//!
//! Meta adds fields without notice and batches messages of several people into one body, so this reads leniently and
//! piece by piece: unknown fields are nothing, and one malformed piece is skipped and counted, never the others. It
//! judges nothing: not the signature (see `signature`), not who may write, not what was seen before.

use super::sending::CODE_CLOSED;
use crate::agent::event::{Media, MediaKind, NotDelivered};
use serde::Deserialize;
use serde_json::Value;

/// One message or status out of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// WhatsApp's id. Unique for messages; a status bears the id of the message *we* sent, and several share it.
    pub id: String,
    /// The sender's phone number in digits, or the business-scoped user id (`US.1234`) of someone who hides it.
    pub from: String,
    /// Unix seconds by WhatsApp's clock; `None` where it can't be read, which is no reason to lose a message.
    pub timestamp: Option<i64>,
    pub kind: Kind,
    /// The message that this one quotes or answers.
    pub quotes: Option<String>,
    /// Which of our numbers it was sent to.
    pub phone_number_id: String,
}

/// What came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Text(String),
    /// A reaction to one of our messages; an empty emoji takes it back.
    Reaction {
        emoji: String,
        of: String,
    },
    /// The person pressed one of our buttons (or chose from a list, or pressed a template's button).
    Button {
        id: String,
        title: String,
    },
    /// Something that lies at WhatsApp, and what the person wrote with it.
    Media {
        media: Media,
        caption: String,
    },
    /// A type that we do not read; its name, for the short answer.
    Unsupported(String),
    /// How far a message of ours got.
    Status {
        state: String,
        error: Option<StatusError>,
    },
}

/// Why a message of ours was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusError {
    pub code: i64,
    pub title: String,
}

/// Codes with which a later try may arrive: WhatsApp was too busy, we were too fast, or something broke there.
const PASSING_CODES: [i64; 9] = [2, 4, 80007, 130429, 131000, 131016, 131056, 131057, 133004];

const TITLE_CHARS_MAX: usize = 200;

/// Why a message did not arrive, for the session that sent it.
pub fn not_delivered(error: Option<StatusError>) -> NotDelivered {
    let error = error.unwrap_or(StatusError {
        code: 0,
        title: "WhatsApp gave no reason".into(),
    });
    NotDelivered {
        may_pass: PASSING_CODES.contains(&error.code),
        closed: error.code == CODE_CLOSED,
        code: error.code,
        title: error.title.chars().take(TITLE_CHARS_MAX).collect(),
    }
}

/// A whole webhook: what could be read, and how many pieces could not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    pub incoming: Vec<Incoming>,
    pub skipped: usize,
}

/// Why a body is no webhook of WhatsApp at all.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// Position only: the body is somebody's message and stays out of logs.
    #[error("the webhook's body is not JSON (line {line}, column {column})")]
    NotJson { line: usize, column: usize },
    #[error("the webhook's body is not a WhatsApp notification: {0}")]
    NotWhatsApp(&'static str),
}

/// The messages and statuses of a webhook, in their order. What could not be read is logged as a number.
pub fn parse(body: &[u8]) -> Result<Vec<Incoming>, PayloadError> {
    let payload = read(body)?;
    if payload.skipped > 0 {
        tracing::warn!(
            skipped = payload.skipped,
            read = payload.incoming.len(),
            "malformed entries in a webhook were skipped"
        );
    }
    Ok(payload.incoming)
}

/// As `parse`, with the number of pieces that were skipped.
pub fn read(body: &[u8]) -> Result<Payload, PayloadError> {
    let root: Value = serde_json::from_slice(body).map_err(|error| PayloadError::NotJson {
        line: error.line(),
        column: error.column(),
    })?;
    if !root.is_object() {
        return Err(PayloadError::NotWhatsApp("it is no JSON object"));
    }
    if root.get("object").and_then(Value::as_str) != Some("whatsapp_business_account") {
        return Err(PayloadError::NotWhatsApp(
            "`object` is not \"whatsapp_business_account\"",
        ));
    }
    let mut payload = Payload::default();
    for entry in list(&root, "entry", &mut payload.skipped) {
        for change in list(entry, "changes", &mut payload.skipped) {
            // Other fields (account_update, message_template_status_update …) are for other readers.
            if change.get("field").and_then(Value::as_str) == Some("messages") {
                read_change(&change["value"], &mut payload);
            }
        }
    }
    Ok(payload)
}

fn read_change(value: &Value, payload: &mut Payload) {
    let phone_number_id = value["metadata"]["phone_number_id"]
        .as_str()
        .unwrap_or_default();
    // Names and pictures come in malformed contacts too; only a user id without a number is looked up here.
    let contacts: Vec<Contact> = list(value, "contacts", &mut 0)
        .iter()
        .filter_map(|contact| Contact::deserialize(contact).ok())
        .collect();
    for message in list(value, "messages", &mut payload.skipped) {
        match RawMessage::deserialize(message)
            .ok()
            .and_then(|raw| raw.into_incoming(phone_number_id, &contacts))
        {
            Some(incoming) => payload.incoming.push(incoming),
            None => payload.skipped += 1,
        }
    }
    for status in list(value, "statuses", &mut payload.skipped) {
        match RawStatus::deserialize(status)
            .ok()
            .and_then(|raw| raw.into_incoming(phone_number_id))
        {
            Some(incoming) => payload.incoming.push(incoming),
            None => payload.skipped += 1,
        }
    }
}

/// The list under `key`. Absent or null is empty; anything else that is no list counts as one malformed piece.
fn list<'v>(value: &'v Value, key: &str, skipped: &mut usize) -> &'v [Value] {
    match value.get(key) {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => &[],
        Some(_) => {
            *skipped += 1;
            &[]
        }
    }
}

#[derive(Deserialize)]
struct Contact {
    wa_id: Option<String>,
    user_id: Option<String>,
}

/// A message as it stands in the webhook. The older shape has `from` only; the newer one has `from_user_id` (or
/// `user_id`) besides it, or instead of it where the person hides the number.
#[derive(Deserialize)]
struct RawMessage {
    id: String,
    from: Option<String>,
    from_user_id: Option<String>,
    user_id: Option<String>,
    timestamp: Option<Value>,
    #[serde(rename = "type")]
    kind: String,
    text: Option<RawText>,
    interactive: Option<Value>,
    button: Option<RawTemplateButton>,
    reaction: Option<RawReaction>,
    document: Option<RawMedia>,
    image: Option<RawMedia>,
    audio: Option<RawMedia>,
    context: Option<RawContext>,
}

#[derive(Deserialize)]
struct RawMedia {
    id: String,
    mime_type: Option<String>,
    sha256: Option<String>,
    filename: Option<String>,
    caption: Option<String>,
}

impl RawMedia {
    fn into_kind(self, kind: MediaKind) -> Kind {
        Kind::Media {
            media: Media {
                id: self.id,
                kind,
                mime: self.mime_type.unwrap_or_default(),
                sha256: self.sha256.unwrap_or_default(),
                name: self.filename.unwrap_or_default(),
            },
            caption: self.caption.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct RawReaction {
    message_id: String,
    #[serde(default)]
    emoji: String,
}

#[derive(Deserialize)]
struct RawContext {
    id: Option<String>,
}

#[derive(Deserialize)]
struct RawText {
    body: String,
}

#[derive(Deserialize)]
struct RawReply {
    id: String,
    #[serde(default)]
    title: String,
}

#[derive(Deserialize)]
struct RawTemplateButton {
    payload: Option<String>,
    text: String,
}

impl RawMessage {
    fn into_incoming(self, phone_number_id: &str, contacts: &[Contact]) -> Option<Incoming> {
        let from = self.sender(contacts)?;
        let timestamp = self.timestamp.as_ref().and_then(seconds);
        let id = present(Some(self.id))?;
        let kind = match self.kind.as_str() {
            "text" => Kind::Text(self.text?.body),
            "reaction" => {
                let reaction = self.reaction?;
                Kind::Reaction {
                    emoji: reaction.emoji,
                    of: reaction.message_id,
                }
            }
            "button" => {
                let button = self.button?;
                Kind::Button {
                    id: button.payload.unwrap_or_else(|| button.text.clone()),
                    title: button.text,
                }
            }
            "document" => self.document?.into_kind(MediaKind::Document),
            "image" => self.image?.into_kind(MediaKind::Image),
            "audio" => self.audio?.into_kind(MediaKind::Audio),
            "interactive" => interactive(&self.interactive?)?,
            other => Kind::Unsupported(other.to_owned()),
        };
        Some(Incoming {
            id,
            from,
            timestamp,
            kind,
            quotes: present(self.context.and_then(|context| context.id)),
            phone_number_id: phone_number_id.to_owned(),
        })
    }

    /// The phone number wherever it can be had, since that is what an allowlist names; else the user id.
    fn sender(&self, contacts: &[Contact]) -> Option<String> {
        if let Some(number) = present(self.from.clone()) {
            return Some(number.trim_start_matches('+').to_owned());
        }
        let user = present(self.from_user_id.clone()).or_else(|| present(self.user_id.clone()));
        let contact = match (&user, contacts) {
            (Some(user), _) => contacts
                .iter()
                .find(|contact| contact.user_id.as_ref() == Some(user)),
            // Without any sender in the message, a lone contact is the sender; of several nobody knows which.
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let number = contact.and_then(|contact| present(contact.wa_id.clone()));
        number
            .or(user)
            .or_else(|| contact.and_then(|contact| present(contact.user_id.clone())))
    }
}

fn interactive(value: &Value) -> Option<Kind> {
    let kind = value.get("type")?.as_str()?;
    match kind {
        "button_reply" | "list_reply" => {
            let reply = RawReply::deserialize(value.get(kind)?).ok()?;
            Some(Kind::Button {
                id: reply.id,
                title: reply.title,
            })
        }
        other => Some(Kind::Unsupported(format!("interactive {other}"))),
    }
}

#[derive(Deserialize)]
struct RawStatus {
    id: String,
    status: String,
    timestamp: Option<Value>,
    recipient_id: Option<String>,
    recipient_user_id: Option<String>,
    #[serde(default)]
    errors: Vec<RawStatusError>,
}

#[derive(Deserialize)]
struct RawStatusError {
    code: i64,
    #[serde(default)]
    title: String,
}

impl RawStatus {
    fn into_incoming(self, phone_number_id: &str) -> Option<Incoming> {
        let error = self.errors.into_iter().next().map(|error| StatusError {
            code: error.code,
            title: error.title,
        });
        Some(Incoming {
            id: present(Some(self.id))?,
            from: present(self.recipient_id).or_else(|| present(self.recipient_user_id))?,
            timestamp: self.timestamp.as_ref().and_then(seconds),
            kind: Kind::Status {
                state: self.status,
                error,
            },
            quotes: None,
            phone_number_id: phone_number_id.to_owned(),
        })
    }
}

fn present(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

/// Meta writes the seconds as a string; some gateways as a number.
fn seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}
