//! The grammars, each behind a feature of the build, and the queries that find what has a name.

use super::bodies::Blocks;
use super::shown::Care;
use std::sync::OnceLock;
use tree_sitter::Query;
use tree_sitter_language::LanguageFn;

/// A grammar with its query.
pub struct Language {
    pub name: &'static str,
    /// Ends of file names, and whole names, in lower case.
    files: &'static [&'static str],
    grammar: LanguageFn,
    queries: &'static [&'static str],
    /// What its scanner must not see.
    pub care: Care,
    pub style: Style,
    /// What stands in a file begins in the first column: a long one can be read in parts.
    pub is_flat: bool,
    /// Which parts of it need not be parsed.
    pub blocks: Option<Blocks>,
}

/// Where a signature begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "some belong to grammars that can be left out")]
pub enum Style {
    /// Where the query says.
    Plain,
    /// It ends with its line, unless a bracket is open: behind it may be a comment.
    Line,
    /// Attributes may stand before it.
    Attributed,
}

/// Made when first needed, each once.
static QUERIES: [OnceLock<Option<Query>>; LANGUAGES.len()] =
    [const { OnceLock::new() }; LANGUAGES.len()];

impl Language {
    const fn new(
        name: &'static str,
        files: &'static [&'static str],
        grammar: LanguageFn,
        queries: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            files,
            grammar,
            queries,
            care: Care::None,
            style: Style::Plain,
            is_flat: false,
            blocks: None,
        }
    }

    const fn by_lines(mut self, care: Care) -> Self {
        self.care = care;
        self.style = Style::Line;
        self
    }

    #[allow(dead_code, reason = "not without grammars")]
    const fn flat(mut self) -> Self {
        self.is_flat = true;
        self
    }

    #[allow(dead_code, reason = "not without grammars")]
    const fn with(mut self, blocks: Blocks) -> Self {
        self.blocks = Some(blocks);
        self
    }

    #[allow(dead_code, reason = "not without grammars")]
    const fn attributed(mut self) -> Self {
        self.style = Style::Attributed;
        self
    }

    pub fn grammar(&self) -> tree_sitter::Language {
        self.grammar.into()
    }

    /// `None` where the query does not fit the grammar, which a test would see.
    pub fn query(&self) -> Option<&'static Query> {
        let at = LANGUAGES.iter().position(|other| other.name == self.name)?;
        let compile = || Query::new(&self.grammar(), &self.queries.concat()).ok();
        QUERIES[at].get_or_init(compile).as_ref()
    }
}

static LANGUAGES: &[Language] = &[
    #[cfg(feature = "outline-python")]
    Language::new(
        "python",
        &[".py", ".pyi", ".pyw"],
        tree_sitter_python::LANGUAGE,
        &[include_str!("queries/python.scm")],
    )
    .by_lines(Care::Indents)
    .flat(),
    #[cfg(feature = "outline-rust")]
    Language::new(
        "rust",
        &[".rs"],
        tree_sitter_rust::LANGUAGE,
        &[include_str!("queries/rust.scm")],
    )
    .flat()
    .with(Blocks::Rust),
    #[cfg(feature = "outline-javascript")]
    Language::new(
        "javascript",
        &[".js", ".mjs", ".cjs", ".jsx"],
        tree_sitter_javascript::LANGUAGE,
        &[
            include_str!("queries/javascript.scm"),
            include_str!("queries/javascript_fields.scm"),
        ],
    )
    .attributed()
    .flat(),
    #[cfg(feature = "outline-typescript")]
    Language::new(
        "typescript",
        &[".ts", ".mts", ".cts"],
        tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
        &[
            include_str!("queries/javascript.scm"),
            include_str!("queries/typescript.scm"),
        ],
    )
    .attributed()
    .flat(),
    #[cfg(feature = "outline-typescript")]
    Language::new(
        "tsx",
        &[".tsx"],
        tree_sitter_typescript::LANGUAGE_TSX,
        &[
            include_str!("queries/javascript.scm"),
            include_str!("queries/typescript.scm"),
        ],
    )
    .attributed()
    .flat(),
    #[cfg(feature = "outline-go")]
    Language::new(
        "go",
        &[".go"],
        tree_sitter_go::LANGUAGE,
        &[include_str!("queries/go.scm")],
    )
    .flat()
    .with(Blocks::Go),
    #[cfg(feature = "outline-java")]
    Language::new(
        "java",
        &[".java"],
        tree_sitter_java::LANGUAGE,
        &[include_str!("queries/java.scm")],
    )
    .attributed()
    .with(Blocks::Java),
    // A header may be either; C++ reads both, and comes first.
    #[cfg(feature = "outline-cpp")]
    Language::new(
        "cpp",
        &[".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx"],
        tree_sitter_cpp::LANGUAGE,
        &[
            include_str!("queries/c.scm"),
            include_str!("queries/cpp.scm"),
        ],
    )
    .attributed(),
    #[cfg(feature = "outline-c")]
    Language::new(
        "c",
        &[".c", ".h"],
        tree_sitter_c::LANGUAGE,
        &[include_str!("queries/c.scm")],
    )
    .with(Blocks::C),
    #[cfg(feature = "outline-c-sharp")]
    Language::new(
        "c-sharp",
        &[".cs"],
        tree_sitter_c_sharp::LANGUAGE,
        &[include_str!("queries/c_sharp.scm")],
    )
    .attributed(),
    #[cfg(feature = "outline-ruby")]
    Language::new(
        "ruby",
        &[".rb", ".rake", ".gemspec", "rakefile", "gemfile"],
        tree_sitter_ruby::LANGUAGE,
        &[include_str!("queries/ruby.scm")],
    )
    .by_lines(Care::HereDocuments),
    #[cfg(feature = "outline-php")]
    Language::new(
        "php",
        &[".php"],
        tree_sitter_php::LANGUAGE_PHP,
        &[include_str!("queries/php.scm")],
    )
    .attributed(),
    // Always there: the gate needs the grammar.
    Language::new(
        "bash",
        &[".sh", ".bash", ".bashrc", ".profile"],
        tree_sitter_bash::LANGUAGE,
        &[include_str!("queries/bash.scm")],
    )
    .by_lines(Care::Letters),
    #[cfg(feature = "outline-yaml")]
    Language::new(
        "yaml",
        &[".yaml", ".yml"],
        tree_sitter_yaml::LANGUAGE,
        &[include_str!("queries/yaml.scm")],
    )
    .by_lines(Care::Columns),
    #[cfg(feature = "outline-toml")]
    Language::new(
        "toml",
        &[".toml", "cargo.lock", "poetry.lock"],
        tree_sitter_toml_ng::LANGUAGE,
        &[include_str!("queries/toml.scm")],
    ),
    #[cfg(feature = "outline-json")]
    Language::new(
        "json",
        &[".json", ".jsonc", ".webmanifest"],
        tree_sitter_json::LANGUAGE,
        &[include_str!("queries/json.scm")],
    ),
    #[cfg(feature = "outline-html")]
    Language::new(
        "html",
        &[".html", ".htm"],
        tree_sitter_html::LANGUAGE,
        &[include_str!("queries/html.scm")],
    ),
    #[cfg(feature = "outline-css")]
    Language::new(
        "css",
        &[".css"],
        tree_sitter_css::LANGUAGE,
        &[include_str!("queries/css.scm")],
    ),
];

/// By the file's name (in lower case), or by the program that its first line names.
pub fn of(name: &str, text: &str) -> Option<&'static Language> {
    let fits = |language: &&Language| {
        language.files.iter().any(|end| match end.starts_with('.') {
            true => name.ends_with(end),
            false => name == *end,
        })
    };
    if let Some(language) = LANGUAGES.iter().find(fits) {
        return Some(language);
    }
    let first = text.lines().next()?.strip_prefix("#!")?;
    let program = first
        .split_whitespace()
        .flat_map(|word| word.rsplit('/').next())
        .find(|word| *word != "env" && !word.starts_with('-'))?;
    let wanted = match program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "sh" | "bash" | "dash" | "zsh" | "ksh" => "bash",
        "node" => "javascript",
        other => other,
    };
    LANGUAGES.iter().find(|language| language.name == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_fits_its_grammar() {
        for language in LANGUAGES {
            let query = Query::new(&language.grammar(), &language.queries.concat());
            assert!(query.is_ok(), "{}: {:?}", language.name, query.err());
        }
    }
}
