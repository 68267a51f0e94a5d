//! One integration binary; one file a promise to the user.

mod conversation;
mod gate;
mod support;
mod tools;
mod whatsapp;
