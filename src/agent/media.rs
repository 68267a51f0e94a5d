//! Messages that are no text: when they are fetched, and what they become. Pure.
//!
//! Such a message waits among the unread ones until the world has fetched what came with it, and what would start or steer
//! work waits behind it; commands and answers pass. A document is told to the model by its path, and a picture shown besides;
//! spoken words are the message.

use crate::agent::event::{Event, Got, Image, Inbound, MediaKind, Via};
use crate::agent::loading;
use crate::agent::state::State;
use crate::agent::step::{Decision, Effect, Policy};
use crate::agent::worktrees;

/// How much of what was heard is repeated in the chat.
const ECHO_CHARS_MAX: usize = 300;

/// The answer to a kind of message that there is no use for, by the channel's name for it: what it was, and what can be
/// sent instead.
pub fn unreadable(state: &State, kind: &str) -> String {
    let say = |name: &str, values: &[(&str, &str)]| state.texts.say(name, values);
    let what = match kind {
        "location" => say("unread_location", &[]),
        "contacts" => say("unread_contacts", &[]),
        "sticker" => say("unread_sticker", &[]),
        "image" => say("unread_image", &[("model", &state.opening.model)]),
        "video" => say("unread_video", &[]),
        "unsupported" => say("unread_unsupported", &[]),
        kind => say("unread_kind", &[("kind", kind)]),
    };
    state.texts.say("unreadable", &[("what", &what)])
}

/// Whether nothing of the message is still at the channel, nor in a file that it calls. A stranger's is not fetched at all.
pub fn is_here(state: &State, message: &Inbound) -> bool {
    is_fetched(state, message) && loading::is_here(state, message)
}

fn is_fetched(state: &State, message: &Inbound) -> bool {
    message.media.is_none()
        || message.from != state.opening.owner
        || state.got.contains_key(&message.id)
}

/// What is to be fetched or loaded next, or must be there first; one after the other.
pub fn due(state: &State) -> Option<Decision> {
    if state.fetching.is_some() {
        return None;
    }
    let message = state
        .unread
        .iter()
        .find(|message| !is_here(state, message))?;
    let Some(media) = message.media.as_deref() else {
        return loading::due(state, message);
    };
    let place = &state.worktrees;
    let has_place =
        worktrees::missing(state).is_none() || place.failed.contains_key(&state.checkout.path);
    if is_kept(media.kind) && !has_place {
        return match place.making {
            Some(_) => None,
            None => worktrees::make(state, &state.checkout),
        };
    }
    Some(Decision::Perform(Box::new(Effect::Fetch {
        message: message.id.clone(),
        media: media.clone(),
    })))
}

/// Whether it is a file with a person's words about it: never a command, and no answer to a question of the gate.
pub fn is_file(message: &Inbound) -> bool {
    let media = message.media.as_ref();
    media.is_some_and(|media| is_kept(media.kind)) && message.via == Via::Text
}

/// Whether it is saved in the workspace.
fn is_kept(kind: MediaKind) -> bool {
    match kind {
        MediaKind::Document | MediaKind::Image => true,
        MediaKind::Audio => false,
    }
}

/// What the person is told where what they sent could not be had.
pub fn failure(state: &State, message: &Inbound) -> Option<String> {
    let (Some(Got::Failed { why }), Some(media)) = (state.got.get(&message.id), &message.media)
    else {
        return None;
    };
    Some(match media.kind {
        MediaKind::Audio => state.texts.say("audio_failed", &[("why", why)]),
        MediaKind::Document => {
            let values = [("name", &*media.name), ("why", why)];
            state.texts.say("document_failed", &values)
        }
        MediaKind::Image => state.texts.say("image_failed", &[("why", why)]),
    })
}

/// Whether the failure is all that there is to say of it: nothing remains for a model.
pub fn is_lost(state: &State, message: &Inbound) -> bool {
    let failed = matches!(state.got.get(&message.id), Some(Got::Failed { .. }));
    let bare = message.text.trim().is_empty() && state.turn.is_none();
    failed && (bare || !is_file(message))
}

/// What the model reads about the file.
pub fn words(state: &State, message: &Inbound) -> Option<String> {
    let media = message.media.as_deref()?;
    let name = match (media.kind, media.name.as_str()) {
        (MediaKind::Image, "") => "a picture",
        (_, name) => name,
    };
    match state.got.get(&message.id)? {
        Got::Words { .. } => None,
        Got::Failed { why } => {
            let values = [("name", name), ("why", why)];
            Some(state.texts.say("document_failed_model", &values))
        }
        Got::File {
            path,
            bytes,
            mime,
            workspace,
            image: _,
        } => {
            let bytes = bytes.to_string();
            let values = [
                ("path", path.as_str()),
                ("bytes", &bytes),
                ("mime", mime),
                ("workspace", workspace),
                ("name", name),
            ];
            Some(state.texts.say("document_model", &values))
        }
    }
}

/// What the model sees of messages that are taken together; in the conversation there is room for only so many. And how
/// many find none.
pub fn shown<'a>(
    state: &'a State,
    policy: &Policy,
    messages: impl Iterator<Item = &'a Inbound>,
) -> (Vec<(&'a str, &'a Image)>, usize) {
    let image = |message: &'a Inbound| match state.got.get(&message.id)? {
        Got::File { image, .. } => Some((message.id.as_str(), image.as_ref()?)),
        Got::Words { .. } | Got::Failed { .. } => None,
    };
    let mut images: Vec<_> = messages.filter_map(image).collect();
    if images.is_empty() {
        return (images, 0); // most messages: the whole conversation is not looked through for them
    }
    let steering = state.steering.iter().map(|words| words.images.len());
    let there = state.conversation.pictures() + steering.sum::<usize>();
    let room = policy.limits.images_max.saturating_sub(there);
    let beyond = images.len().saturating_sub(room);
    images.truncate(room);
    (images, beyond)
}

/// What was heard, for the chat.
pub fn echo(state: &State, text: &str) -> String {
    let short = match text.char_indices().nth(ECHO_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    state.texts.say("heard", &[("text", &short)])
}

/// What is written down where the fetching itself broke.
pub fn broken(message: String, why: &str) -> Event {
    let why = why.to_owned();
    Event::MediaFetched {
        message,
        got: Got::Failed { why },
    }
}
