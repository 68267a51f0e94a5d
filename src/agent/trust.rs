//! What an owner wants and hears about trust in a workspace: wishes, and what is trusted by them. Pure words.
//!
//! Whether a workspace is trusted stands in the database, not in a journal: it outlives sessions, and a terminal can
//! give and take it.

use crate::definitions::Kind;
use serde::{Deserialize, Serialize};

/// `/trust …`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "wish")]
pub enum TrustWish {
    /// What would be trusted?
    Show,
    /// Trust exactly what was shown with this code.
    Grant {
        code: String,
    },
    Revoke,
}

/// What a workspace holds that counts only where it is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    pub name: String,
    /// Canonical; of a linked worktree, that of its repository.
    pub path: String,
    /// Whether it is trusted, with the hooks that it has now.
    pub trusted: bool,
    pub items: Vec<TrustItem>,
    /// Stands for the path and every byte of the items.
    pub code: String,
}

/// One thing that is trusted with a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TrustItem {
    /// Read by the model as instructions.
    File {
        name: String,
        bytes: u64,
        /// Characters that nobody sees.
        #[serde(default)]
        hidden: usize,
    },
    /// Its definitions of one kind, by name: read when they are needed.
    Definitions { of: Kind, names: Vec<String> },
    /// What a command of it runs by itself when somebody loads it.
    Inline { name: String, commands: Vec<String> },
    /// Would be, if it could be read.
    Unreadable { name: String, why: String },
    /// Is read all the same, and this is wrong with it.
    Flawed { name: String, what: String },
    Hook {
        name: String,
        bytes: u64,
        /// Whether a commit runs it.
        with_commit: bool,
    },
    /// An MCP server that the workspace names, and how it is started or reached.
    Server { name: String, what: String },
    /// Its hooks do not run, trusted or not.
    NoHooks { why: String },
}

/// What came of a wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum TrustAnswer {
    Shown {
        survey: Survey,
    },
    /// The code stands for something else than what is there now.
    Differs {
        survey: Survey,
    },
    Trusted {
        survey: Survey,
    },
    Revoked {
        name: String,
    },
    /// There was no trust to take back.
    NotTrusted {
        name: String,
    },
    Refused {
        why: String,
    },
}

/// What stands behind `/trust`.
pub fn read(said: &str) -> TrustWish {
    match said.trim() {
        "" => TrustWish::Show,
        word if ["off", "revoke", "--revoke"].contains(&word.to_ascii_lowercase().as_str()) => {
            TrustWish::Revoke
        }
        code => TrustWish::Grant {
            code: code.to_owned(),
        },
    }
}
