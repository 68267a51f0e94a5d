//! Pictures that a model is shown: kept by their content with a session's outputs, and put into a request when it is made.
//!
//! The conversation names them only, so it stays small, and grows at its end byte for byte: the same file is always the same
//! bytes. One that is gone or altered is a sentence instead; it fails nothing.

use super::World;
use super::outputs::Outputs;
use crate::agent::conversation::{Part, Wire, has_pictures};
use crate::agent::event::Image;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;

const GONE: &str = "[This picture is not there any more.]";
const UNSEEN: &str = "[This picture cannot be shown to you: you are not known to see pictures.]";

/// The types that providers take, each with how its files begin.
const TYPES: [(&str, &[u8], &[u8]); 3] = [
    ("image/jpeg", b"\xff\xd8\xff", b""),
    ("image/png", b"\x89PNG\r\n\x1a\n", b""),
    ("image/webp", b"RIFF", b"WEBP"),
];
/// Where the second mark of a type stands: after the first one, and four bytes of length.
const SECOND_MARK_AT: usize = 8;

/// What looks at a picture before a model does.
#[derive(Debug, Clone, Copy)]
pub struct Eyes {
    bytes_max: u64,
}

impl Eyes {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max }
    }

    /// The type of a picture that a model can be shown: what it came as, and what its bytes say.
    ///
    /// # Errors
    /// Why it cannot be shown, for the person.
    pub fn look(&self, bytes: &[u8], came_as: &str) -> Result<&'static str, String> {
        let (bytes_max, length) = (self.bytes_max, bytes.len() as u64);
        if length > bytes_max {
            return Err(format!(
                "it is larger than {bytes_max} bytes (image_bytes_max in config/limits.toml)"
            ));
        }
        let known = TYPES.iter().find(|(mime, _, _)| *mime == came_as);
        let (mime, first, second) =
            known.ok_or("only JPEG, PNG and WebP can be shown to a model")?;
        let rest = bytes.get(SECOND_MARK_AT..).unwrap_or_default();
        match bytes.starts_with(first) && rest.starts_with(second) {
            true => Ok(mime),
            false => Err(format!("it came as {mime}, and its bytes say otherwise")),
        }
    }
}

/// Keeps the bytes of a picture; twice is once.
pub(super) fn keep(outputs: &Outputs, image: &Image, bytes: &[u8]) -> io::Result<()> {
    match file_name(image) {
        Some(name) => outputs.keep_as(&name, bytes),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl World {
    /// The messages as the model gets them.
    pub(super) async fn shown<'a>(&self, messages: &'a [Wire]) -> Cow<'a, [Wire]> {
        let shows = |wire: &Wire| has_pictures(wire.get());
        if !messages.iter().any(shows) {
            return Cow::Borrowed(messages);
        }
        let (messages, data_dir) = (messages.to_vec(), self.data_dir.clone());
        let sees = self.intake.sees();
        let shown = tokio::task::spawn_blocking(move || {
            let show = |wire: Wire| match shows(&wire) {
                true => show(&wire, sees, &data_dir).unwrap_or(wire),
                false => wire,
            };
            messages.into_iter().map(show).collect()
        });
        Cow::Owned(shown.await.expect("BUG: showing pictures panics nowhere"))
    }
}

#[derive(Deserialize)]
struct Stored {
    content: Vec<Part>,
}

#[derive(Serialize)]
struct Shown {
    role: &'static str,
    content: Vec<ShownPart>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ShownPart {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

/// `None` where it is no message with pictures after all.
fn show(wire: &Wire, sees: bool, data_dir: &Path) -> Option<Wire> {
    let stored: Stored = serde_json::from_str(wire.get()).ok()?;
    let part = |part| match part {
        Part::Text { text } => ShownPart::Text { text },
        Part::StoredImage(_) if !sees => ShownPart::Text {
            text: UNSEEN.into(),
        },
        Part::StoredImage(image) => match data_url(&image, data_dir) {
            Some(url) => ShownPart::ImageUrl {
                image_url: ImageUrl { url },
            },
            None => ShownPart::Text { text: GONE.into() },
        },
    };
    let content = stored.content.into_iter().map(part).collect();
    let role = "user"; // nobody else shows pictures
    to_raw_value(&Shown { role, content }).ok().map(Arc::from)
}

fn data_url(image: &Image, data_dir: &Path) -> Option<String> {
    let outputs = Outputs::of(data_dir, &image.session);
    let bytes = outputs.kept(&file_name(image)?).ok()?;
    let is_it = hex::encode(Sha256::digest(&bytes)) == image.sha256;
    is_it.then(|| format!("data:{};base64,{}", image.mime, STANDARD.encode(bytes)))
}

/// Nothing that leads anywhere else.
fn file_name(image: &Image) -> Option<String> {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex(&image.sha256).then(|| format!("{}.picture", image.sha256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_what_it_came_as_and_what_its_bytes_say() {
        let eyes = Eyes::new(20);
        let webp = b"RIFF\x04\0\0\0WEBPVP8 ";
        for (bytes, came_as, fits) in [
            (&b"\xff\xd8\xff\xe0JFIF"[..], "image/jpeg", true),
            (b"\x89PNG\r\n\x1a\n....", "image/png", true),
            (webp, "image/webp", true),
            (b"\x89PNG\r\n\x1a\n....", "image/jpeg", false),
            (b"GIF89a", "image/gif", false),
            (b"<svg onload=x>", "image/svg+xml", false),
            (b"RIFF\x04\0\0\0WAVEfmt ", "image/webp", false),
            (b"", "image/png", false),
            (
                b"\xff\xd8\xff                          ",
                "image/jpeg",
                false,
            ),
        ] {
            assert_eq!(eyes.look(bytes, came_as).is_ok(), fits, "{came_as}");
        }
    }
}
