//! Bytes to text and back, without losing a byte: UTF-8, and Latin-1 where a file is not UTF-8. Pure.
//!
//! UTF-16 and binary files are refused: an edit of a guess would destroy them.

/// A NUL this early means that a file is no text.
const BINARY_PROBE_BYTES: usize = 8_000;

/// How a file's text is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// Every byte is the character of its number.
    Latin1,
}

/// The text of a file. A byte order mark and line ends stay as they are.
///
/// # Errors
/// A sentence for the model: it is UTF-16, or no text.
pub fn decode(path: &str, bytes: &[u8]) -> Result<(String, Encoding), String> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(format!(
            "{path} is UTF-16, which can't be read or edited here; convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)"
        ));
    }
    let probe = &bytes[..bytes.len().min(BINARY_PROBE_BYTES)];
    if let Some(at) = probe.iter().position(|byte| *byte == 0) {
        return Err(format!(
            "{path} is not text: a NUL at byte {at}; it can't be read or edited here"
        ));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((text.to_owned(), Encoding::Utf8)),
        Err(_) => Ok((
            bytes.iter().map(|byte| char::from(*byte)).collect(),
            Encoding::Latin1,
        )),
    }
}

/// The bytes of a text.
///
/// # Errors
/// A character that the file's encoding does not have.
pub fn encode(path: &str, text: &str, encoding: Encoding) -> Result<Vec<u8>, String> {
    let byte = |c: char| {
        u8::try_from(u32::from(c)).map_err(|_| {
            format!(
                "{path} is Latin-1, which has no {c:?}; put in only characters up to U+00FF, or convert the file to UTF-8 first"
            )
        })
    };
    match encoding {
        Encoding::Utf8 => Ok(text.as_bytes().to_vec()),
        Encoding::Latin1 => text.chars().map(byte).collect(),
    }
}
