//! Where things are in a spool, and nothing that allocates: a keeper uses this between fork and exec.
//!
//! The first page is the header, each of its blocks written by one side only. Then each stream has room for its first
//! bytes, and a ring for its last ones.

pub const HEADER_BYTES: u64 = 4096;

/// By the keeper, before the command is forked: [`STARTED`], its process id.
pub const MARK_AT: u64 = 64;
/// By the keeper, after the bytes themselves: how many were printed, how many could not be written.
pub const COUNTS_AT: [u64; 2] = [128, 192];
/// By the keeper, last of all: [`STATUS_WORDS`].
pub const STATUS_AT: u64 = 256;
/// By the server.
pub const BOOT_AT: u64 = 512;
pub const BOOT_ID_BYTES: usize = 36;
pub const POLL_AT: u64 = 576;
pub const ABOUT_AT: u64 = 1024;
pub const REMARK_AT: u64 = 2048;

/// Tag, status of `wait`, cause, milliseconds, whether it was synced, sum.
pub const STATUS_WORDS: usize = 6;
pub const STARTED: u64 = u64::from_le_bytes(*b"started\0");
pub const ENDED: u64 = u64::from_le_bytes(*b"ended\0\0\0");

pub const ITSELF: u64 = 1;
pub const TIMED_OUT: u64 = 2;
pub const TOLD: u64 = 3;
pub const NOT_EXECUTED: u64 = 4;

/// What the keeper reads at once.
pub const CHUNK_BYTES: usize = 16 * 1024;
const PAGE_BYTES: u64 = 4096;

/// How much is kept of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of its beginning, and at least of its end.
    pub end_bytes: u64,
}

impl Room {
    /// For what models run; every spool with a name has it (behaviour, section 3: 50 KB).
    pub const USUAL: Self = Self::of(25_000);

    pub const fn of(end_bytes: u64) -> Self {
        Self { end_bytes }
    }

    /// The last bytes, and what the keeper may be writing over meanwhile.
    const fn ring_bytes(self) -> u64 {
        (self.end_bytes + CHUNK_BYTES as u64).next_multiple_of(CHUNK_BYTES as u64)
    }

    /// Of the ring, what is surely not being written over.
    pub const fn safe_bytes(self) -> u64 {
        self.ring_bytes() - CHUNK_BYTES as u64
    }

    /// Where the byte `at` of a stream stands in the file, and how many follow it there.
    pub const fn place(self, stream: usize, at: u64) -> (u64, u64) {
        let ring = self.ring_bytes();
        let each = (self.end_bytes + ring).next_multiple_of(PAGE_BYTES);
        let base = HEADER_BYTES + stream as u64 * each;
        if at < self.end_bytes {
            return (base + at, self.end_bytes - at);
        }
        let turn = (at - self.end_bytes) % ring;
        (base + self.end_bytes + turn, ring - turn)
    }
}

/// Tells a block that was written whole from one that was not (FNV-1a).
pub const fn sum(words: &[u64]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < words.len() {
        let bytes = words[i].to_le_bytes();
        let mut j = 0;
        while j < bytes.len() {
            sum = (sum ^ bytes[j] as u64).wrapping_mul(0x0100_0000_01b3);
            j += 1;
        }
        i += 1;
    }
    sum
}

const _: () = assert!(Room::USUAL.safe_bytes() >= Room::USUAL.end_bytes);
