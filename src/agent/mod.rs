//! DECIDES, pure: what happened, what is known, what to do next.
//!
//! No clock, no randomness, no I/O, no `async` (invariant 1). Read in this order.

/// How an event changes what is known.
pub mod apply;
/// Questions about sources that a person asks.
pub mod asking;
/// What the workspace's own files say.
pub mod brief;
/// Between the person's folder and the worktree.
pub mod carry;
/// What a command lays down for the turn that it begins.
pub mod charter;
/// The workspace's earlier states.
pub mod checkpoints;
/// Sessions that another session begins.
pub mod children;
/// Chat commands.
pub mod command;
/// What goes when it gets too long.
pub mod compaction;
/// What the model sees.
pub mod conversation;
/// What a turn has done.
pub mod deeds;
/// What can happen.
pub mod event;
/// A session from another one's past.
pub mod fork;
/// What MCP servers ask the person.
pub mod forms;
/// Task graphs: made, looked at, run.
pub mod graphs;
/// Which language the chat speaks.
pub mod language;
/// When a turn must pause.
pub mod limits;
/// Messages that call a command which is written in a file.
pub mod loading;
/// Calls that repeat without progress.
pub mod loops;
/// Secrets, hidden in what is stored or shown.
pub mod mask;
/// Tools of MCP servers.
pub mod mcp;
/// What is not text.
pub mod media;
/// What is spent.
pub mod money;
/// The task plan.
pub mod plan;
/// The system prompt.
pub mod prompt;
/// What a reply is about.
pub mod quotes;
/// What a person's message means.
pub mod reading;
/// What to do about effects in doubt.
pub mod recovery;
/// A recorded line against today's logic.
pub mod replay;
/// The agent that a session acts as.
pub mod roles;
/// Skills that the model has before it.
pub mod skills;
/// What is known.
pub mod state;
/// What to do next.
pub mod step;
/// The catalogues of chat texts.
pub mod texts;
/// What is trusted, in words.
pub mod trust;
/// What did not arrive.
pub mod undelivered;
/// Texts that depend on a decision.
pub mod wording;
/// From one workspace to another.
pub mod workspaces;
/// Beside the person's folder.
pub mod worktrees;
