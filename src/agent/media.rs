//! Messages that are no text: what they become. Pure.

use crate::agent::state::State;

/// The answer to a kind of message that there is no use for, by the channel's name for it: what it was, and what can be
/// sent instead.
pub fn unreadable(state: &State, kind: &str) -> String {
    let say = |name: &str, values: &[(&str, &str)]| state.texts.say(name, values);
    let what = match kind {
        "location" => say("unread_location", &[]),
        "contacts" => say("unread_contacts", &[]),
        "sticker" => say("unread_sticker", &[]),
        "image" => say("unread_image", &[]),
        "audio" => say("unread_audio", &[]),
        "document" => say("unread_document", &[]),
        "video" => say("unread_video", &[]),
        "unsupported" => say("unread_unsupported", &[]),
        kind => say("unread_kind", &[("kind", kind)]),
    };
    state.texts.say("unreadable", &[("what", &what)])
}
