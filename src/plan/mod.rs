//! Task graphs: what a plan is made of, how a model drafts one, what may be wrong with it, what can start, how it looks.
//! Pure: a draft says what to ask a model and is told the answer; nothing here asks, judges or runs anything.

/// What the model reads, and the shape of its answers.
mod asked;
/// Commands that tasks may name.
mod catalog;
/// What is wrong with a graph.
mod check;
/// Two kinds of questions to a model, and what becomes of the answers.
mod draft;
/// Tasks and what depends on what.
mod graph;
/// What does not fit, in words.
mod misfit;
/// `{{task.output.field}}`.
mod reference;
/// What an input must look like.
mod schema;
/// A graph as people see it.
mod view;

pub use asked::Request;
pub use catalog::{Catalog, Command};
pub use check::{Problem, check};
pub use draft::{Draft, Next};
pub use graph::{Graph, Ready, Task, TaskEnd, ready};
pub use reference::{Reference, ReferenceError, references, resolve};
pub use schema::{SchemaError, validate};
pub use view::{Line, Row, Rows, Standing, lines, mermaid, tree};

/// What a plan may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Tasks of one graph.
    pub tasks_max: usize,
    /// Answers of the model for one question, the first one included.
    pub attempts_max: u32,
    /// A command's schema, as JSON.
    pub schema_bytes_max: usize,
    /// Levels of it.
    pub schema_depth_max: usize,
    /// Schemas in it, with every `$ref` written out.
    pub subschemas_max: usize,
}
