//! What a team wrote down for its agents, in files: commands, agents, skills, instructions. Pure; the world reads the files.

/// What agents may use.
pub mod agents;
/// What a command allows the turn that it starts.
pub mod allowed;
/// What a command was given.
pub mod arguments;
/// Those of the program itself.
pub mod built_in;
/// What they would run.
pub mod executable;
/// What stands between the `---` at the top.
pub mod front_matter;
/// Characters that nobody sees.
pub mod hidden;
/// Which commands a text may run.
pub mod inline;
/// Where instructions apply.
pub mod instructions;
/// A command as it is loaded: the seed's JSON, and the text.
pub mod loading;
/// Where they stand.
pub mod places;
/// Which one counts.
pub mod registry;
/// What skills must say.
pub mod skills;
/// A command's text, taken apart.
pub mod template;

pub use front_matter::FrontMatter;
pub use registry::{Definition, Problem, Registry};

use serde::{Deserialize, Serialize};

/// What a definition is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A prompt that a person starts by its name.
    Command,
    /// A role: a prompt, tools that it may use, a model.
    Agent,
    /// Knowledge that the model loads when it needs it.
    Skill,
    /// What the model is told without asking.
    Instructions,
}

/// Who a definition comes from; of two with one name, the one of the lesser origin counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The repository: nothing of it counts before its workspace is trusted.
    Workspace,
    /// The owner's configuration folder.
    User,
    /// Compiled in, from `prompts/`.
    BuiltIn,
}

/// What discovery may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Definitions of one folder.
    pub count_max: usize,
    pub bytes_max: u64,
    /// Folders below a place.
    pub depth_max: usize,
    pub texts: TextBounds,
}

/// What the text of one command may bring in.
#[derive(Debug, Clone, Copy)]
pub struct TextBounds {
    /// Characters of it that a chat's model reads.
    pub chars_max: usize,
    /// Files that it includes, each as often as it is.
    pub files_max: usize,
    /// One of them; a larger one is not included.
    pub file_bytes_max: u64,
    /// Commands that run; the others are refused.
    pub commands_max: usize,
    /// Characters of what one prints.
    pub output_chars_max: usize,
}
