//! What is kept of a stream.

/// Bounded output: head and tail kept, the middle counted.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    pub omitted_bytes: u64,
}

impl Capture {
    /// The text as far as it was kept, with a mark where bytes are missing. Invalid UTF-8 shows as `�`.
    pub fn text(&self) -> String {
        if self.omitted_bytes == 0 {
            // Both together: a character may stand across the seam.
            let whole = [self.head.as_slice(), &self.tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        format!(
            "{}\n[{} bytes omitted]\n{}",
            String::from_utf8_lossy(&self.head),
            self.omitted_bytes,
            String::from_utf8_lossy(&self.tail)
        )
    }
}
