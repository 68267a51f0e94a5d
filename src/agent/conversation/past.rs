//! What remains of messages that were left out: the person's words, effects in doubt, notes. Pure.
//!
//! The words are read back from the messages themselves when they go, so that nothing is held twice until then.

use super::words::text_of;
use super::{Kind, Wire, Worth};
use crate::agent::skills;
use serde::{Deserialize, Serialize};

/// Of a call's arguments, in characters.
const ARGUMENTS_CHARS_MAX: usize = 200;

/// What a digest is made of, over all compactions of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// What the person wrote, oldest first.
    pub said: Vec<Said>,
    /// Calls of which nobody knows whether they ran.
    pub doubts: Vec<String>,
    /// What the model wrote about them, if it did.
    pub notes: Option<String>,
    /// Calls since those notes, one line each.
    pub made: Vec<String>,
    /// What skills said that were loaded, by name, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<(String, String)>,
}

/// A message of the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub text: String,
    /// It started a turn.
    pub objective: bool,
}

/// A message's wire form, read back.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadBack {
    #[serde(deserialize_with = "text_of")]
    pub content: Option<String>,
    pub tool_call_id: String,
    tool_calls: Vec<ReadCall>,
}

#[derive(Debug, Deserialize)]
struct ReadCall {
    id: String,
    function: ReadFunction,
}

#[derive(Debug, Deserialize)]
struct ReadFunction {
    name: String,
    arguments: String,
}

pub(super) fn read_back(wire: &Wire) -> ReadBack {
    serde_json::from_str(wire.get()).expect("BUG: messages are of our own making")
}

impl Past {
    /// Takes over messages that go, and the notes that were made of them.
    pub fn take(&mut self, kinds: &[Kind], messages: &[Wire], notes: Option<&str>) {
        let mut open: Vec<ReadCall> = Vec::new();
        for (kind, wire) in kinds.iter().zip(messages) {
            match kind {
                Kind::System | Kind::Digest | Kind::Brief => {}
                Kind::Person { objective } => self.said.push(Said {
                    text: read_back(wire).content.unwrap_or_default(),
                    objective: *objective,
                }),
                Kind::Assistant => open = read_back(wire).tool_calls,
                Kind::Result { call, worth } => {
                    let result = read_back(wire);
                    let asked = open.iter().find(|call| call.id == result.tool_call_id);
                    let skill = asked.and_then(|call| skills::asked(&call.function.arguments));
                    let asked = asked.map_or_else(String::new, shown);
                    let told = result.content.unwrap_or_default();
                    match worth {
                        Worth::Skill => {
                            let name = skill.unwrap_or_default();
                            self.skills.retain(|(known, _)| *known != name);
                            self.skills.push((name, told));
                        }
                        Worth::Output | Worth::Reference | Worth::Word => {}
                        Worth::Answer => self.said.push(Said {
                            text: format!("({asked}) {told}"),
                            objective: false,
                        }),
                        Worth::Doubt => self.doubts.push(format!("{call} {asked}: {told}")),
                    }
                    self.made.push(format!("{call} {asked}"));
                }
            }
        }
        if let Some(notes) = notes {
            self.notes = Some(notes.to_owned());
            self.made.clear();
        }
    }
}

/// Tool and arguments on one line.
fn shown(call: &ReadCall) -> String {
    let ReadFunction { name, arguments } = &call.function;
    match arguments.char_indices().nth(ARGUMENTS_CHARS_MAX) {
        None => format!("{name} {arguments}"),
        Some((end, _)) => format!("{name} {}…", &arguments[..end]),
    }
}
