//! Carries what the command prints from its pipes into the spool. System calls only, as everything of the keeper.

use crate::world::spool::layout::{CHUNK_BYTES, COUNTS_AT, Room};
use nix::libc;
use std::io;
use std::os::fd::RawFd;

/// A pipe holds at most this much, unless somebody may raise it further.
const PIPE_BYTES_MAX: usize = 1024 * 1024;

/// The two streams of a command.
pub struct Pump {
    spool: RawFd,
    room: Room,
    /// -1 once there is nothing more to come.
    pub pipes: [RawFd; 2],
    written: [u64; 2],
    /// What the disk had no room for.
    dropped: [u64; 2],
}

impl Pump {
    pub fn new(spool: RawFd, room: Room, pipes: [RawFd; 2]) -> Self {
        Self {
            spool,
            room,
            pipes,
            written: [0; 2],
            dropped: [0; 2],
        }
    }

    /// Takes what a pipe has now, at most one chunk; `false` where there is nothing.
    pub fn take(&mut self, stream: usize) -> bool {
        let mut chunk = [0_u8; CHUNK_BYTES];
        let pipe = self.pipes[stream];
        if pipe < 0 {
            return false;
        }
        // SAFETY: reads into a buffer of this frame.
        let read = unsafe { libc::read(pipe, chunk.as_mut_ptr().cast(), CHUNK_BYTES) };
        match usize::try_from(read)
            .ok()
            .and_then(|read| chunk.get(..read))
        {
            Some([]) => {
                self.pipes[stream] = -1;
                false
            }
            Some(bytes) => {
                self.store(stream, bytes);
                true
            }
            None => match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => true,
                Some(libc::EAGAIN) => false,
                _ => {
                    self.pipes[stream] = -1;
                    false
                }
            },
        }
    }

    /// Takes all that is left, once nobody is there to print more.
    pub fn drain(&mut self) {
        for stream in 0..self.pipes.len() {
            for _ in 0..=PIPE_BYTES_MAX / CHUNK_BYTES {
                if !self.take(stream) {
                    break;
                }
            }
        }
    }

    /// First the bytes, then how many there are: a reader never takes for printed what is not there.
    fn store(&mut self, stream: usize, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let (offset, room) = self.room.place(stream, self.written[stream]);
            let part = &left[..left.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
            if write_at(self.spool, part, offset).is_err() {
                self.dropped[stream] += left.len() as u64;
                break;
            }
            self.written[stream] += part.len() as u64;
            left = &left[part.len()..];
        }
        let counts = [self.written[stream], self.dropped[stream]];
        // Where this fails there is less to read.
        let _ = put(self.spool, COUNTS_AT[stream], &counts);
    }
}

/// Writes a block of the header: within one sector, so it is there or not.
pub fn put<const N: usize>(spool: RawFd, at: u64, words: &[u64; N]) -> io::Result<()> {
    let mut bytes = [[0_u8; 8]; N];
    for (bytes, word) in bytes.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    write_at(spool, bytes.as_flattened(), at)
}

fn write_at(file: RawFd, bytes: &[u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let (left, at) = (&bytes[done..], at + done as u64);
        let offset = libc::off_t::try_from(at).unwrap_or(libc::off_t::MAX);
        // SAFETY: writes from a buffer that outlives the call.
        let written = unsafe { libc::pwrite(file, left.as_ptr().cast(), left.len(), offset) };
        match usize::try_from(written) {
            Ok(0) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Ok(written) => done += written,
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}
