//! WhatsApp on the wire: what Meta's servers send us, and what we send them.
//!
//! These modules know the Cloud API and nothing of sessions: no journal, no allowlist of numbers, no decision about a
//! message. The door that owns the routes puts them together.

/// What is too long for messages.
pub mod document;
/// The client of the Graph API: sends, retries, never repeats what is final.
pub mod graph;
/// What shows that there is work.
mod marks;
/// What people send besides text, fetched.
pub mod media;
/// What a webhook says, as our own types.
pub mod payload;
/// A session's message as WhatsApp's messages.
pub mod sending;
/// Who a webhook comes from: `X-Hub-Signature-256` and the verify token.
pub mod signature;
/// A small Graph API on loopback, for the demo and the tests.
pub mod standin;
/// Markdown in, messages that WhatsApp shows well out.
pub mod text;
