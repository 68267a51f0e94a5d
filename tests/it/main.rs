//! One integration binary; one file per promise.
mod whatsapp;
