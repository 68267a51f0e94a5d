//! `agents.json`: programs of others that can answer a question, each by a command template.

use super::substitute;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What is compiled in.
pub const BUILT_IN: &str = include_str!("../../config/agents.json");

/// The loop of this program itself; no template can have its name.
pub const OURS: &str = "journeyman";

/// The programs, and which one answers where nobody says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backends {
    #[serde(rename = "defaultAgent")]
    pub default: String,
    agents: BTreeMap<String, Backend>,
}

/// One program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Answers on stdout and ends.
    ask: String,
    /// Talks to the person in the terminal.
    chat: String,
    /// Variables that it inherits, such as its key.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables that it gets besides, with placeholders in their values: for settings that no argument reaches.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Files and folders of its own that it reads and writes; `~/` is the home folder.
    #[serde(default)]
    pub write: Vec<String>,
}

/// What a program is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Ask,
    Chat,
}

/// Paths that templates name.
#[derive(Debug, Clone, Copy)]
pub struct Paths<'a> {
    pub room: &'a str,
    pub prompt_file: &'a str,
    pub mcp_config: &'a str,
}

impl Paths<'_> {
    /// A placeholder is filled in one pass, within its text.
    fn fill(self, template: &str) -> String {
        let values = [
            ("{room}", self.room),
            ("{prompt_file}", self.prompt_file),
            ("{mcp_config}", self.mcp_config),
        ];
        substitute(template, &values)
    }
}

impl Backends {
    /// Those that are compiled in, and `own` over them: an agent of the same name there counts whole.
    ///
    /// # Errors
    /// What is wrong with `own`.
    pub fn parse(own: Option<&str>) -> Result<Self, String> {
        let mut all: Self = serde_json::from_str(BUILT_IN)
            .expect("BUG: the compiled-in agents parse, a test says so");
        if let Some(own) = own {
            let own: Self = serde_json::from_str(own).map_err(|error| error.to_string())?;
            all.agents.extend(own.agents);
            all.default = own.default;
        }
        if all.agents.contains_key(OURS) {
            return Err(format!(
                "{OURS:?} is this program itself and needs no command"
            ));
        }
        Ok(all)
    }

    /// A program by its name; `None` is our own loop.
    ///
    /// # Errors
    /// There is none of that name; those that are there.
    pub fn find(&self, name: &str) -> Result<Option<&Backend>, String> {
        match self.agents.get(name) {
            Some(backend) => Ok(Some(backend)),
            None if name == OURS => Ok(None),
            None => {
                let known: Vec<&str> = self.agents.keys().map(String::as_str).collect();
                Err(format!(
                    "agent {name:?} is not known; there are: {OURS}, {}",
                    known.join(", ")
                ))
            }
        }
    }
}

impl Backend {
    /// Program and arguments. A placeholder is filled within its argument, in one pass: a path with spaces stays one argument.
    ///
    /// # Errors
    /// The template is empty, or a quote in it never ends.
    pub fn command(&self, way: Way, paths: Paths<'_>) -> Result<Vec<String>, String> {
        let (name, template) = match way {
            Way::Ask => ("ask", &self.ask),
            Way::Chat => ("chat", &self.chat),
        };
        let words = shlex::split(template).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| {
            format!("its {name:?} command is empty or a quote in it does not end: {template}")
        })?;
        Ok(words.iter().map(|word| paths.fill(word)).collect())
    }

    /// The variables that are set for it.
    pub fn variables(&self, paths: Paths<'_>) -> Vec<(String, String)> {
        let filled = |(name, value): (&String, &String)| (name.clone(), paths.fill(value));
        self.set.iter().map(filled).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_filled_within_its_argument() {
        let own = r#"{"defaultAgent": "mine", "agents": {"mine": {
            "ask": "run '{prompt_file} now' --mcp={mcp_config} {other} {}", "chat": "run"}}}"#;
        let backends = Backends::parse(Some(own)).unwrap();
        assert_eq!(backends.default, "mine");
        let backend = backends.find("mine").unwrap().unwrap();
        let paths = Paths {
            room: "/a b",
            prompt_file: "/a b/{mcp_config}",
            mcp_config: "/a b/.mcp.json",
        };
        assert_eq!(
            backend.command(Way::Ask, paths).unwrap(),
            [
                "run",
                "/a b/{mcp_config} now",
                "--mcp=/a b/.mcp.json",
                "{other}",
                "{}"
            ]
        );
    }

    #[test]
    fn those_that_are_compiled_in_isolate_every_one_of_them() {
        let backends = Backends::parse(None).unwrap();
        assert_eq!(backends.default, OURS);
        assert!(backends.find(OURS).unwrap().is_none());
        let paths = Paths {
            room: "R",
            prompt_file: "P",
            mcp_config: "M",
        };
        // What keeps each of them from servers of the person's own.
        let isolated = [
            ("claude", "--strict-mcp-config --mcp-config M"),
            ("codex", "--ignore-user-config"),
            (
                "gemini",
                "--extensions none --allowed-mcp-server-names none",
            ),
            ("opencode", "--pure"),
        ];
        for (name, by) in isolated {
            let backend = backends.find(name).unwrap().unwrap();
            let asked = backend.command(Way::Ask, paths).unwrap();
            assert!(
                asked.iter().any(|word| word.contains('P')),
                "{name}: {asked:?}"
            );
            assert!(asked.join(" ").contains(by), "{name}: {asked:?}");
            assert!(!backend.command(Way::Chat, paths).unwrap().is_empty());
            // Nothing but its folder, its keys and the prompt is given away.
            assert!(
                backend.env.iter().all(|key| key.ends_with("_API_KEY")),
                "{name}"
            );
        }
        let opencode = backends.find("opencode").unwrap().unwrap();
        assert_eq!(
            opencode.variables(paths),
            [("XDG_CONFIG_HOME".to_owned(), "R/.config".to_owned())]
        );
        assert!(
            backends
                .find("nobody")
                .unwrap_err()
                .contains("claude, codex")
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(Backends::parse(Some("{}")).is_err());
        let ours = r#"{"defaultAgent": "x", "agents": {"journeyman": {"ask": "a", "chat": "b"}}}"#;
        assert!(Backends::parse(Some(ours)).unwrap_err().contains("itself"));
        let backend = |ask: &str| Backend {
            ask: ask.into(),
            chat: String::new(),
            env: Vec::new(),
            set: BTreeMap::new(),
            write: Vec::new(),
        };
        let paths = Paths {
            room: "",
            prompt_file: "",
            mcp_config: "",
        };
        for template in ["", "  ", "run 'open"] {
            assert!(
                backend(template).command(Way::Ask, paths).is_err(),
                "{template:?}"
            );
        }
    }
}
