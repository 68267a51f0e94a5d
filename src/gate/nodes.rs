//! Which nodes of the parse tree are the words of a command, and what their text means. Used by [`crate::gate::shell`] alone.

use crate::gate::words::WordBuilder;
use tree_sitter::Node;

/// The literals that make up a command's words, without redirect targets and assignments.
pub fn word_nodes<'t>(node: Node<'t>, found: &mut Vec<Node<'t>>) {
    let mut cursor = node.walk();
    let mut is_more = cursor.goto_first_child();
    while is_more {
        let (child, field) = (cursor.node(), cursor.field_name());
        match child.kind() {
            "command" if node.kind() == "redirected_statement" => word_nodes(child, found),
            "command_name" => found.push(child),
            "file_redirect" => {
                let mut inner = child.walk();
                found.extend(
                    child
                        .children_by_field_name("destination", &mut inner)
                        .skip(1),
                );
            }
            "heredoc_redirect" => {
                let mut inner = child.walk();
                found.extend(child.children_by_field_name("argument", &mut inner));
                let mut inner = child.walk();
                for redirect in child.children_by_field_name("redirect", &mut inner) {
                    let mut targets = redirect.walk();
                    found.extend(
                        redirect
                            .children_by_field_name("destination", &mut targets)
                            .skip(1),
                    );
                }
            }
            _ if field == Some("argument") => found.push(child),
            _ => {}
        }
        is_more = cursor.goto_next_sibling();
    }
}

/// Outside quotes: a backslash quotes what follows.
pub fn unescaped(raw: &str, builder: &mut WordBuilder) {
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(escaped) => builder.push_quoted(escaped),
            },
            _ => builder.push_bare(c),
        }
    }
}

/// Inside double quotes: a backslash quotes only what would be special there.
pub fn quoted(raw: &str, builder: &mut WordBuilder) {
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(escaped @ ('$' | '`' | '"' | '\\')) => builder.push_quoted(escaped),
                Some(other) => {
                    builder.push_quoted('\\');
                    builder.push_quoted(other);
                }
            },
            _ => builder.push_quoted(c),
        }
    }
}
