//! Never wrong about what happened: the process dies, the disk fails, and what is there afterwards is looked at.
//!
//! From the cheapest to the most real: the real loop over a simulated world, ended at every point; then the real program.
//! What is tried and what must hold is said once, in `scripts.rs` and in `reality.rs`.

// The real loop over a simulated world.
mod fate; // when a process dies, and what is left of its files
mod reality; // what really happened, whatever the journal says
mod scripts; // the sessions, as data
mod simulation; // each of them, ended at every point

// The real program.
mod disk;
mod lines; // killed after every line of its journal
mod moments; // `serve`, killed at random moments
mod person; // who writes to the real server, and what must be there in the end // `serve`, on a disk that is full or fails

// The tests themselves.
mod planted; // bugs that the simulation must find
