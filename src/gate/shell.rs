//! From text to simple commands: tree-sitter-bash for the structure, [`crate::gate::words`] for the words.
//!
//! Finds every simple command wherever it stands (lists, loops, functions, substitutions, here-documents) and everything that
//! only a shell can do. Judges nothing, expands nothing, and gives up on what it can't read: the caller denies that.

use crate::gate::bounds::{Budget, COMMAND_MAX_BYTES, parse};
use crate::gate::nodes::{quoted, unescaped, word_nodes};
use crate::gate::words::{Feature, Word, WordBuilder, ansi_c, is_invisible, plain};
use tree_sitter::Node;

/// Nesting of the parse tree beyond which a text is refused.
const DEPTH_MAX_LEVELS: usize = 200;

/// A command text, taken apart.
#[derive(Debug, Default)]
pub struct Script {
    /// In order of their places in the text, nested ones too.
    pub commands: Vec<Vec<Word>>,
    pub features: Vec<Feature>,
    /// Files that the shell itself opens.
    pub redirects: Vec<Word>,
    /// The argv, where the text is nothing but one command of literal words: no shell is needed.
    pub argv: Option<Vec<String>>,
}

/// Why a text can't be judged, and so never runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    TooLong,
    Nul,
    Empty,
    Unparsable,
    TooDeep,
    TooMuch,
}

impl Unreadable {
    /// What to tell whoever wrote it.
    pub fn describe(self) -> (&'static str, &'static str) {
        match self {
            Unreadable::TooLong => (
                "the command is longer than 64 kB",
                "put the text into a file, and run that",
            ),
            Unreadable::Nul => ("the command contains a NUL byte", "leave it out"),
            Unreadable::Empty => ("the command is empty", "name a program"),
            Unreadable::Unparsable => (
                "the command is not valid shell text (unbalanced quotes or brackets?)",
                "quote and close it properly",
            ),
            Unreadable::TooMuch => (
                "the command has too many words or commands to be judged",
                "split it into several calls",
            ),
            Unreadable::TooDeep => (
                "the command is nested too deeply to be judged",
                "split it into several calls",
            ),
        }
    }
}

/// Takes a command text apart, at the cost of `budget`.
pub fn read(text: &str, budget: &mut Budget) -> Result<Script, Unreadable> {
    if text.len() > COMMAND_MAX_BYTES {
        return Err(Unreadable::TooLong);
    }
    if text.contains('\0') {
        return Err(Unreadable::Nul);
    }
    if text.trim().is_empty() {
        return Err(Unreadable::Empty);
    }
    budget.take_text(text.len())?;
    if let Some(argv) = plain(text) {
        budget.take_command(argv.len())?;
        let words = argv.iter().map(Word::literal).collect();
        return Ok(Script {
            commands: vec![words],
            argv: Some(argv),
            ..Script::default()
        });
    }
    let tree = parse(text, budget)?;
    let mut reader = Reader {
        text,
        budget,
        script: Script::default(),
    };
    if text.chars().any(is_invisible) {
        reader.note(Feature::Invisible);
    }
    if text
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    {
        reader.note(Feature::ControlCharacter);
    }
    if text.trim_matches(['\n', ' ', '\t']).contains('\n') {
        reader.note(Feature::Newline);
    }
    reader.walk(tree.root_node(), "", 0)?;
    let mut script = reader.script;
    if script.features.is_empty() {
        // The word reader saw something that the tree does not show: a keyword, an odd quote.
        script.features.push(Feature::Keyword);
    }
    Ok(script)
}

struct Reader<'a> {
    text: &'a str,
    budget: &'a mut Budget,
    script: Script,
}

impl<'a> Reader<'a> {
    fn note(&mut self, feature: Feature) {
        if !self.script.features.contains(&feature) {
            self.script.features.push(feature);
        }
    }

    fn walk(&mut self, node: Node<'_>, parent: &str, depth: usize) -> Result<(), Unreadable> {
        if depth > DEPTH_MAX_LEVELS {
            return Err(Unreadable::TooDeep);
        }
        match node.kind() {
            // The statement around it has emitted it already, with the words that follow a redirect.
            "command" if parent == "redirected_statement" => {}
            "command" | "redirected_statement" => self.simple_command(node, depth)?,
            "declaration_command" | "unset_command" => {
                self.note(Feature::Assignment);
                self.declaration(node, depth)?;
            }
            "variable_assignment" | "variable_assignments" => self.note(Feature::Assignment),
            "pipeline" | "list" | "subshell" | "negated_command" => self.note(Feature::Operator),
            "compound_statement"
            | "test_command"
            | "for_statement"
            | "c_style_for_statement"
            | "while_statement"
            | "if_statement"
            | "case_statement"
            | "do_group" => self.note(Feature::Compound),
            "function_definition" => self.note(Feature::Function),
            "command_substitution" | "process_substitution" => self.note(Feature::Substitution),
            "expansion"
            | "simple_expansion"
            | "arithmetic_expansion"
            | "array"
            | "translated_string"
            | "subscript" => self.note(Feature::Expansion),
            "brace_expression" => self.note(Feature::Brace),
            "extglob_pattern" => self.note(Feature::Glob),
            "heredoc_redirect" | "herestring_redirect" => self.note(Feature::HereDocument),
            "file_redirect" => {
                self.note(Feature::Redirect);
                self.redirect_target(node, depth)?;
            }
            "comment" => self.note(Feature::Comment),
            "&" => self.note(Feature::Background),
            ";" | ";;" | "||" | "&&" | "|" | "|&" => self.note(Feature::Operator),
            _ => {}
        }
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            self.walk(child, node.kind(), depth + 1)?;
        }
        Ok(())
    }

    /// The words of a command node, or of a statement with redirects: what follows a redirect's target still belongs to it.
    fn simple_command(&mut self, node: Node<'_>, depth: usize) -> Result<(), Unreadable> {
        let mut literals = Vec::new();
        word_nodes(node, &mut literals);
        literals.sort_by_key(|literal: &Node<'_>| literal.start_byte());
        let words = self.join(&literals, depth)?;
        self.budget.take_command(words.len())?;
        if !words.is_empty() {
            self.script.commands.push(words);
        }
        Ok(())
    }

    fn declaration(&mut self, node: Node<'_>, depth: usize) -> Result<(), Unreadable> {
        let mut cursor = node.walk();
        let children: Vec<_> = node
            .children(&mut cursor)
            .filter(|child| child.kind() != "variable_assignment")
            .collect();
        let words = self.join(&children, depth)?;
        self.budget.take_command(words.len())?;
        self.script.commands.push(words);
        Ok(())
    }

    fn redirect_target(&mut self, node: Node<'_>, depth: usize) -> Result<(), Unreadable> {
        let mut cursor = node.walk();
        let Some(target) = node
            .children_by_field_name("destination", &mut cursor)
            .next()
        else {
            return Ok(());
        };
        let mut operator = node.walk();
        let duplicates = node
            .children(&mut operator)
            .any(|child| matches!(child.kind(), ">&" | "<&" | ">&-" | "<&-"));
        let word = self.join(&[target], depth)?.pop().unwrap_or_default();
        let is_descriptor = duplicates
            && word
                .text
                .trim_end_matches('-')
                .chars()
                .all(|c| c.is_ascii_digit());
        if !is_descriptor {
            self.script.redirects.push(word);
        }
        Ok(())
    }

    /// Literal nodes in the order of the text, joined where nothing separates them.
    fn join(&mut self, literals: &[Node<'_>], depth: usize) -> Result<Vec<Word>, Unreadable> {
        let mut words = Vec::new();
        let mut builder = WordBuilder::default();
        let mut end: Option<usize> = None;
        for literal in literals {
            if let Some(end) = end {
                self.gap(end, literal.start_byte(), &mut builder, &mut words);
            }
            self.decode(*literal, &mut builder, depth)?;
            end = Some(literal.end_byte().max(end.unwrap_or(0)));
        }
        words.extend(builder.take().map(|(word, _)| word));
        for feature in std::mem::take(&mut builder.features) {
            self.note(feature);
        }
        Ok(words)
    }

    /// Between two literals: blanks separate, a continued line does not, an escaped blank belongs to the word.
    fn gap(&self, from: usize, to: usize, builder: &mut WordBuilder, words: &mut Vec<Word>) {
        let between = self.text.get(from..to).unwrap_or(" ");
        let mut chars = between.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\n') => {}
                    Some(escaped) => builder.push_quoted(escaped),
                    None => {}
                },
                _ => words.extend(builder.take().map(|(word, _)| word)),
            }
        }
    }

    fn decode(
        &mut self,
        node: Node<'_>,
        builder: &mut WordBuilder,
        depth: usize,
    ) -> Result<(), Unreadable> {
        if depth > DEPTH_MAX_LEVELS {
            return Err(Unreadable::TooDeep);
        }
        let raw = self.piece(node.start_byte(), node.end_byte())?;
        match node.kind() {
            "command_name" | "concatenation" => {
                let mut cursor = node.walk();
                for child in node.children(&mut cursor) {
                    self.decode(child, builder, depth + 1)?;
                }
            }
            "raw_string" => {
                builder.start_quoted();
                raw[1..raw.len().max(2) - 1]
                    .chars()
                    .for_each(|c| builder.push_quoted(c));
            }
            "ansi_c_string" => match ansi_c(
                raw.trim_start_matches("$'")
                    .strip_suffix('\'')
                    .unwrap_or(raw),
            ) {
                Some(decoded) => {
                    builder.start_quoted();
                    decoded.chars().for_each(|c| builder.push_quoted(c));
                }
                None => builder.push_dynamic(raw, Feature::Expansion),
            },
            "string" => self.string(node, builder)?,
            "expansion" | "simple_expansion" | "arithmetic_expansion" => {
                builder.push_dynamic(raw, Feature::Expansion)
            }
            "translated_string" => match node.named_child(0) {
                Some(inner) => self.string(inner, builder)?,
                None => builder.push_dynamic(raw, Feature::Expansion),
            },
            "command_substitution" | "process_substitution" => {
                builder.push_dynamic(raw, Feature::Substitution)
            }
            "brace_expression" => builder.push_dynamic(raw, Feature::Brace),
            "``" => {}
            _ => unescaped(raw, builder),
        }
        Ok(())
    }

    /// The inside of double quotes: text between the parts that the shell fills in.
    fn string(&mut self, node: Node<'_>, builder: &mut WordBuilder) -> Result<(), Unreadable> {
        builder.start_quoted();
        let end = node.end_byte() - 1;
        let mut at = node.start_byte() + 1;
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            let feature = match child.kind() {
                "expansion" | "simple_expansion" | "arithmetic_expansion" => Feature::Expansion,
                "command_substitution" => Feature::Substitution,
                _ => continue,
            };
            quoted(self.piece(at, child.start_byte().max(at))?, builder);
            let raw = self.piece(child.start_byte(), child.end_byte())?;
            builder.push_dynamic(raw, feature);
            at = child.end_byte();
        }
        if at < end {
            quoted(self.piece(at, end)?, builder);
        }
        Ok(())
    }

    /// A part of the text. The parser saw stand-ins for the characters beyond ASCII: a cut through one is no reading of the text.
    fn piece(&self, from: usize, to: usize) -> Result<&'a str, Unreadable> {
        self.text.get(from..to).ok_or(Unreadable::Unparsable)
    }
}
