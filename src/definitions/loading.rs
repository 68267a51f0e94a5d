//! A command as it is loaded: what is printed of it (seed 000, section 4), and the text that a model gets. Pure.

use super::front_matter::FrontMatter;
use super::template::is_markdown;
use serde::Serialize;
use serde_json::{Map, Value};

/// Longer texts are cut, and say so. Fixed, so that what `commands load` prints is bounded for whoever reads it.
pub const CONTENT_CHARS_MAX: usize = 200_000;
/// Roughly: a token of English or of code.
const BYTES_A_TOKEN: usize = 4;
/// A fence has at least so many marks.
const FENCE_MIN: usize = 3;
const TITLE_CHARS_MAX: usize = 200;

/// What came of loading a command.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    Loaded(Box<Loaded>),
    Failed(Failed),
}

/// It was loaded, whatever became of single references in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loaded {
    pub success: bool,
    pub command: Command,
    pub expansions: Expansions,
    pub metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Command {
    pub name: String,
    /// From the root of the project; of one that is not in it, where it comes from.
    pub path: String,
    pub frontmatter: Map<String, Value>,
    /// With everything that it refers to.
    pub content: String,
    /// As it is written, below the front matter.
    pub raw: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Expansions {
    pub files: Vec<FileExpansion>,
    pub bash: Vec<CommandExpansion>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileExpansion {
    pub reference: String,
    pub resolved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommandExpansion {
    pub command: String,
    pub executed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    pub expanded_at: String,
    pub total_tokens_estimate: usize,
    /// What its reader should know: front matter that was not read, a text that was cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// It was not loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failed {
    pub success: bool,
    pub error: LoadError,
}

#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "code")]
pub enum LoadError {
    #[error("{message}")]
    #[serde(rename = "COMMAND_NOT_FOUND", rename_all = "camelCase")]
    NotFound {
        message: String,
        searched_paths: Vec<String>,
    },
    #[error("{message}")]
    #[serde(rename = "CIRCULAR_REFERENCE")]
    Circular { message: String, chain: Vec<String> },
    #[error("{message}")]
    #[serde(rename = "WORKSPACE_NOT_TRUSTED")]
    NotTrusted {
        message: String,
        #[serde(skip)]
        path: String,
    },
    #[error("{message}")]
    #[serde(rename = "COMMAND_UNREADABLE")]
    Unreadable { message: String },
    /// Its own front matter keeps it from whoever called it.
    #[error("{message}")]
    #[serde(rename = "COMMAND_NOT_FOR_CALLER")]
    NotForCaller { message: String },
}

impl LoadError {
    pub fn not_found(name: &str, searched_paths: Vec<String>) -> Self {
        LoadError::NotFound {
            message: format!("Command '/{name}' not found"),
            searched_paths,
        }
    }

    pub fn circular(chain: Vec<String>) -> Self {
        LoadError::Circular {
            message: format!("Circular reference: {}", chain.join(" → ")),
            chain,
        }
    }

    pub fn not_trusted(path: &str, workspace: &str) -> Self {
        let message = format!(
            "{path} is not loaded: the workspace {workspace} is not trusted. `journeyman trust` there, or /trust in its chat, shows what it lets in, and asks"
        );
        let path = path.to_owned();
        LoadError::NotTrusted { message, path }
    }
}

impl From<Result<Loaded, LoadError>> for Answer {
    fn from(result: Result<Loaded, LoadError>) -> Self {
        match result {
            Ok(loaded) => Answer::Loaded(Box::new(loaded)),
            Err(error) => error.into(),
        }
    }
}

impl From<LoadError> for Answer {
    fn from(error: LoadError) -> Self {
        Answer::Failed(Failed {
            success: false,
            error,
        })
    }
}

/// Who calls a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// On the command line: whoever sits there can read the file as well.
    Terminal,
    /// In a chat, or by a schedule.
    Person,
    /// By its tool.
    Model,
}

/// The agent that works where nobody chose one.
pub const AGENT: &str = "agent";

impl Caller {
    /// What its front matter says against it; `agent`: the one that the person chose.
    pub fn refusal(self, front: &FrontMatter, agent: Option<&str>) -> Option<LoadError> {
        let agents = front.keys.get("agents").map(names);
        let is_off = |keys: &[&str], off| front.flag(keys) == Some(off);
        let why = match self {
            Caller::Terminal => return None,
            Caller::Person if is_off(&["user-invocable"], false) => {
                "its front matter says that people do not call it (user-invocable)".to_owned()
            }
            Caller::Model if is_off(&["disable-model-invocation"], true) => {
                "its front matter keeps it from models (disable-model-invocation)".to_owned()
            }
            Caller::Person | Caller::Model => {
                let agents = agents.filter(|agents| !agents.is_empty());
                let agent = agent.unwrap_or(AGENT);
                let agents = agents.filter(|agents| !agents.iter().any(|one| one == agent))?;
                format!("it is for other agents: {}", agents.join(", "))
            }
        };
        Some(LoadError::NotForCaller { message: why })
    }
}

/// A list, or one text with commas.
fn names(value: &Value) -> Vec<String> {
    let texts: Vec<&str> = match value {
        Value::String(text) => text.split(',').collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let texts = texts.into_iter().map(|text| text.trim().to_owned());
    texts.filter(|text| !text.is_empty()).collect()
}

/// The seed's front matter: `allowed-tools` is a list, however it was written.
pub fn front_matter(mut keys: Map<String, Value>) -> Map<String, Value> {
    if let Some(tools) = keys.get_mut("allowed-tools") {
        let list = match tools.take() {
            Value::Array(list) => list,
            Value::String(text) => listed(&text).into_iter().map(Value::String).collect(),
            Value::Null => Vec::new(),
            other => vec![other],
        };
        *tools = Value::Array(list);
    }
    keys
}

/// A list in one text: at commas outside of parentheses, at blanks where there are none.
pub(super) fn listed(text: &str) -> Vec<String> {
    let at = |divides: fn(char) -> bool| {
        let mut depth = 0_usize;
        let parts = text.split(move |c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && divides(c)
        });
        let parts = parts.map(|part| part.trim().to_owned());
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>()
    };
    let parts = at(|c| c == ',');
    match parts.len() {
        0 | 1 => at(char::is_whitespace),
        _ => parts,
    }
}

/// A text without the lines around it that say nothing.
pub fn trimmed(text: &str) -> &str {
    let text = text.trim_end();
    let blank = text
        .split_inclusive('\n')
        .take_while(|line| line.trim().is_empty());
    &text[blank.map(str::len).sum::<usize>()..]
}

pub fn tokens(content: &str) -> usize {
    content.len().div_ceil(BYTES_A_TOKEN)
}

/// A text under construction: words as they are, blocks on lines of their own.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    after_block: bool,
}

impl Page {
    pub fn words(&mut self, words: &str) {
        let words = match self.after_block {
            true => words.trim_start_matches([' ', '\t']),
            false => words,
        };
        if words.is_empty() {
            return;
        }
        if self.after_block {
            let breaks = words.bytes().take_while(|byte| *byte == b'\n').count();
            self.text.push_str(&"\n\n"[breaks.min(2)..]);
        }
        self.text.push_str(words);
        self.after_block = false;
    }

    pub fn block(&mut self, block: &str) {
        let kept = self.text.trim_end_matches([' ', '\t']).len();
        self.text.truncate(kept);
        if !self.text.is_empty() {
            let breaks = self.text.len() - self.text.trim_end_matches('\n').len();
            self.text.push_str(&"\n\n"[breaks.min(2)..]);
        }
        self.text.push_str(block);
        self.after_block = true;
    }

    pub fn is_full(&self) -> bool {
        self.text.len() > CONTENT_CHARS_MAX * 4
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// An included file, under a heading that says where it is from. Markdown keeps its form, and its own title; other files
/// stand in a fence.
pub fn included(path: &str, text: &str) -> String {
    let text = trimmed(text);
    let name = path.rsplit('/').next().unwrap_or(path);
    if !is_markdown(path) {
        let language = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        return format!("## {name} (from {path})\n\n{}", fenced(text, language));
    }
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (title, rest) = match title(first) {
        Some(title) => (title, trimmed(rest)),
        None => (name, text),
    };
    format!("## {title} (from {path})\n\n{rest}")
        .trim_end()
        .to_owned()
}

/// `# Title`.
fn title(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    let title = rest
        .strip_prefix([' ', '\t'])?
        .trim()
        .trim_end_matches('#')
        .trim_end();
    ((1..=6).contains(&level) && !title.is_empty() && title.len() <= TITLE_CHARS_MAX)
        .then_some(title)
}

/// A text in a fence that nothing in it can close.
pub fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(FENCE_MIN.max(longest + 1));
    format!("{fence}{language}\n{text}\n{fence}")
}

/// A text cut where one sees it, and whether it was.
pub fn cut(text: String, chars_max: usize) -> (String, bool) {
    match text.char_indices().nth(chars_max) {
        None => (text, false),
        Some((end, _)) => {
            let all = text.chars().count();
            (
                format!(
                    "{}\n[cut here: {chars_max} of {all} characters]",
                    &text[..end]
                ),
                true,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn allowed_tools_are_a_list_however_they_are_written() {
        let lists = [
            (
                json!("Read, Bash(git add:*, git commit:*)"),
                json!(["Read", "Bash(git add:*, git commit:*)"]),
            ),
            (
                json!("Read Bash(git:*) Grep"),
                json!(["Read", "Bash(git:*)", "Grep"]),
            ),
            (json!("Bash(git status:*)"), json!(["Bash(git status:*)"])),
            (json!(["a", "b"]), json!(["a", "b"])),
            (json!(""), json!([])),
            (Value::Null, json!([])),
        ];
        for (written, list) in lists {
            let keys = Map::from_iter([("allowed-tools".to_owned(), written)]);
            assert_eq!(front_matter(keys)["allowed-tools"], list);
        }
        assert_eq!(front_matter(Map::new()), Map::new());
    }

    #[test]
    fn a_block_stands_on_lines_of_its_own() {
        let mut page = Page::default();
        page.words("Status: ");
        page.block("```\nok\n```");
        page.words(" and so on\n");
        page.block("b");
        page.words("\nend");
        assert_eq!(
            page.into_text(),
            "Status:\n\n```\nok\n```\n\nand so on\n\nb\n\nend"
        );
    }

    #[test]
    fn an_included_file_says_where_it_is_from() {
        let owasp = "# OWASP Top 10\n\n1. Injection\n";
        assert_eq!(
            included("docs/owasp.md", owasp),
            "## OWASP Top 10 (from docs/owasp.md)\n\n1. Injection"
        );
        assert_eq!(
            included("t.md", "Test content"),
            "## t.md (from t.md)\n\nTest content"
        );
        assert_eq!(
            included("a/x.rs", "fn x() {}\n"),
            "## x.rs (from a/x.rs)\n\n```rs\nfn x() {}\n```"
        );
        assert_eq!(included("e.md", ""), "## e.md (from e.md)");
    }

    #[test]
    fn no_output_closes_its_own_fence() {
        assert_eq!(fenced("a", ""), "```\na\n```");
        assert_eq!(fenced("```\nx\n````", ""), "`````\n```\nx\n````\n`````");
    }

    #[test]
    fn errors_have_the_code_and_the_fields_of_the_seed() {
        let error = Answer::from(LoadError::not_found("x", vec!["a".into()]));
        assert_eq!(
            json!(error),
            json!({"success": false, "error": {"code": "COMMAND_NOT_FOUND", "message": "Command '/x' not found", "searchedPaths": ["a"]}})
        );
        let error = Answer::from(LoadError::circular(vec![
            "a".into(),
            "b".into(),
            "a".into(),
        ]));
        assert_eq!(json!(error)["error"]["chain"], json!(["a", "b", "a"]));
        assert_eq!(
            json!(error)["error"]["message"],
            "Circular reference: a → b → a"
        );
    }
}
