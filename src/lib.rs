//! Journeyman: a coding agent that people drive by text message, and that is never wrong about what happened.
//!
//! Two nouns carry the architecture: [`agent`] decides, [`world`] acts; [`session`] is the loop between them.
//! Read the modules in this order:

/// DECIDES, pure: events, state, step.
pub mod agent;
/// One file a subcommand.
pub mod cli;
/// Settings, each knowing where it came from.
pub mod config;
/// What a team wrote down for its agents, pure.
pub mod definitions;
/// What wakes a session, and where its words go.
pub mod doors;
/// JUDGES, pure: verdicts; the only place that mints `Approved`.
pub mod gate;
/// A journal, folded into a state.
pub mod history;
/// Brings facts to sessions.
pub mod hub;
/// What stands in a file, pure.
pub mod outline;
/// Task graphs: drafted, checked, shown, pure.
pub mod plan;
/// When a scheduled prompt is due, pure.
pub mod schedule;
/// The loop.
pub mod session;
/// A question to an agent in a clean room, pure.
pub mod subagent;
/// What the model can call.
pub mod tools;
/// ACTS: journal, store, model, processes, files.
pub mod world;

// Invariants, each with the test that enforces it (tests/it/):
//
//  1. `agent/`, `gate/` and all else called pure have no clock, no randomness, no I/O.   tidy.rs
//  2. The state changes only in `apply`; an illegal event is an error.                  journal.rs
//  3. Intent on disk before an effect with consequences, outcome after it.              crash/
//  4. Only the gate mints `Approved<T>`; no `Clone`, no `Deserialize`.                  tidy.rs
//  5. Tools take nothing but an approved call, and declare what they touch.             tidy.rs, gate.rs
//  6. One function starts processes, confined; one opens files for the model.           tidy.rs, confine.rs
//  7. Recovery is a table.                                                              recovery.rs
//  8. The journal is the truth about sessions; tables in SQLite are derived, or owned.   conversation.rs, command_line.rs
//  9. What the model sees only grows at the end; a compaction is an event.              compaction.rs, model.rs
// 10. Every loop, queue, retry, output and wait has a limit.                            limits.rs, loops.rs, webhook.rs
// 11. One writer a data folder, by a lock.                                             command_line.rs
// 12. A failure in a check never ends in allow.                                        gate.rs
