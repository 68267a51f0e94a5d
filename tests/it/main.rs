//! One integration binary; one file a promise to the user.

mod gate;
mod tools;
mod whatsapp;
