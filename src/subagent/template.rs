//! `prompt_template.md`: what an agent in a clean room is told, in the owner's words around two placeholders.

use super::source::Source;
use super::substitute;
use thiserror::Error;

/// What stands in the file until its owner changes it.
pub const DEFAULT: &str = include_str!("../../prompts/ask_template.md");

const QUESTION: &str = "${question}";
const SOURCES: &str = "${sourcesList}";

/// A template that has both placeholders.
#[derive(Debug, Clone)]
pub struct Template(String);

/// Which placeholders a template lacks.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("Invalid prompt template: missing required placeholder{} {}", plural(.0), .0.join(", "))]
pub struct Missing(pub Vec<&'static str>);

fn plural(missing: &[&str]) -> &'static str {
    if missing.len() > 1 { "s" } else { "" }
}

impl Template {
    /// # Errors
    /// [`Missing`]: all that it lacks, at once.
    pub fn parse(text: String) -> Result<Self, Missing> {
        let missing: Vec<&str> = [QUESTION, SOURCES]
            .into_iter()
            .filter(|placeholder| !text.contains(placeholder))
            .collect();
        match missing.is_empty() {
            true => Ok(Self(text)),
            false => Err(Missing(missing)),
        }
    }

    /// The prompt: everything else of the template stays as it is.
    pub fn prompt(&self, question: &str, sources: &[Source]) -> String {
        let list: Vec<String> = sources.iter().map(entry).collect();
        substitute(
            &self.0,
            &[(QUESTION, question), (SOURCES, &list.join("\n"))],
        )
    }
}

fn entry(source: &Source) -> String {
    match source.is_folder() {
        true => format!("- ./{}/", source.name),
        false => format!("- ./{}", source.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::Kind;
    use super::*;

    fn source(name: &str, kind: Kind) -> Source {
        Source {
            name: name.into(),
            kind,
            place: "anywhere".into(),
        }
    }

    #[test]
    fn generate_prompt_file_for_ask() {
        let template = Template::parse("Q: ${question}\n\n${sourcesList}\nMine.".into()).unwrap();
        let sources = [source("langchain", Kind::Git), source("readme", Kind::File)];
        assert_eq!(
            template.prompt("How do I create a tool?", &sources),
            "Q: How do I create a tool?\n\n- ./langchain/\n- ./readme\nMine."
        );
    }

    #[test]
    fn a_question_is_never_expanded() {
        let template = Template::parse("${sourcesList}|${question}|${question}".into()).unwrap();
        let question = "what is ${sourcesList}, $& and ${question}?";
        assert_eq!(
            template.prompt(question, &[source("a", Kind::Directory)]),
            format!("- ./a/|{question}|{question}")
        );
    }

    #[test]
    fn valid_template_with_all_placeholders() {
        assert!(Template::parse(DEFAULT.into()).is_ok());
        for part in [
            "# Question",
            "# Available Sources",
            "${question}",
            "${sourcesList}",
        ] {
            assert!(DEFAULT.contains(part), "{part}");
        }
        for tool in ["Glob", "Grep", "Read"] {
            assert!(DEFAULT.contains(tool), "{tool}");
        }
    }

    #[test]
    fn missing_placeholders_are_all_named() {
        let told = |text: &str| Template::parse(text.into()).unwrap_err().to_string();
        assert_eq!(
            told("${sourcesList}"),
            "Invalid prompt template: missing required placeholder ${question}"
        );
        assert_eq!(
            told("${question} ${sources_list}"),
            "Invalid prompt template: missing required placeholder ${sourcesList}"
        );
        assert_eq!(
            told("$question"),
            "Invalid prompt template: missing required placeholders ${question}, ${sourcesList}"
        );
    }
}
