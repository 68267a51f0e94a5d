//! Whose chats are whose, as the settings say. Somebody with several answers a question of one from any of them; nothing else
//! is shared. A chat that is not named belongs to nobody but who writes there.

use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The chats of each person, by every one of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, Vec<String>>")]
pub struct People(HashMap<String, Arc<[String]>>);

impl People {
    /// The other chats of whose this one is.
    pub fn others<'a>(&'a self, chat: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.0.get(chat).into_iter().flat_map(|chats| chats.iter());
        all.map(String::as_str).filter(move |other| *other != chat)
    }

    /// The chat whose turn a chat's messages wait for: the same one for all of a person's.
    pub fn lane<'a>(&'a self, chat: &'a str) -> &'a str {
        let first = self.0.get(chat).and_then(|chats| chats.first());
        first.map_or(chat, String::as_str)
    }
}

impl TryFrom<BTreeMap<String, Vec<String>>> for People {
    type Error = String;

    fn try_from(named: BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let mut of = HashMap::new();
        for (name, chats) in named {
            let chats: Arc<[String]> = chats.into();
            for chat in chats.iter() {
                if !is_chat(chat) {
                    return Err(format!(
                        "people: {chat:?} of {name} is no chat: whatsapp:NUMBER (digits), http:NAME or http:NAME/CHAT"
                    ));
                }
                if of.insert(chat.clone(), chats.clone()).is_some() {
                    return Err(format!(
                        "people: {chat} is named twice: a chat has one person"
                    ));
                }
            }
        }
        Ok(Self(of))
    }
}

fn is_chat(chat: &str) -> bool {
    match chat.split_once(':') {
        Some(("whatsapp", number)) => {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        }
        Some(("http", name)) => !name.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people(text: &str) -> Result<People, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn knows_the_other_chats_of_a_person_and_nobody_elses() {
        let people = people("ana = ['whatsapp:1', 'http:ci/ana']\nbeto = ['whatsapp:2']");
        let people = people.expect("people");
        assert_eq!(
            people.others("http:ci/ana").collect::<Vec<_>>(),
            ["whatsapp:1"]
        );
        for alone in ["whatsapp:2", "whatsapp:3", "http:ci"] {
            assert_eq!(people.others(alone).count(), 0, "{alone}");
            assert_eq!(people.lane(alone), alone);
        }
        assert_eq!(people.lane("http:ci/ana"), people.lane("whatsapp:1"));
    }

    #[test]
    fn refuses_what_is_no_chat_and_a_chat_of_two() {
        for (text, why) in [
            ("ana = ['+54 9 11']", "is no chat"),
            ("ana = ['whatsapp:+54']", "is no chat"),
            ("ana = ['whatsapp:1']\nbeto = ['whatsapp:1']", "named twice"),
        ] {
            let error = people(text).expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
