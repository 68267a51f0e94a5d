//! One integration binary; one file a promise to the user.

mod conversation;
mod gate;
mod journal;
mod recovery;
mod support;
mod tidy;
mod tools;
mod webhook;
mod whatsapp;
