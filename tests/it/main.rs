//! One integration binary; one file a promise to the user.

mod command_line;
mod compaction;
mod confine;
mod conversation;
mod crash;
mod damage;
mod fake_model;
mod gate;
mod hub;
mod journal;
mod limits;
mod loops;
mod model;
mod policy;
mod program;
mod recovery;
mod replay;
mod resume;
mod serve;
mod simulation;
mod support;
mod tidy;
mod tools;
mod undo;
mod webhook;
mod whatsapp;
