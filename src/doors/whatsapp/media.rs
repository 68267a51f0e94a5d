//! Fetches what people send besides text: asks Graph where it is, then gets it from there.
//!
//! The address comes from outside, and our token goes along with the request: only the host that Graph is configured at and
//! Meta's own host for media are ever asked, and no redirect is followed. What comes is bounded while it is read, and must
//! be what was declared. Nothing is stored here.

use crate::agent::event::{Media, MediaKind};
use crate::world::net;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where Graph says that media lie, besides its own host.
const MEDIA_HOST: &str = "lookaside.fbsbx.com";
const ATTEMPTS_MAX: u32 = 3;
const AGAIN: Duration = Duration::from_secs(1);
const REQUEST_MAX: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Where media come from.
#[derive(Clone)]
pub struct MediaSource {
    api_url: String,
    token: String,
    bytes_max: u64,
    /// Made with the first use.
    http: Arc<OnceLock<Client>>,
}

/// What came.
#[derive(Debug)]
pub struct Downloaded {
    pub bytes: Vec<u8>,
    pub mime: String,
    /// In hex.
    pub sha256: String,
}

/// Why nothing came.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    #[error("it is larger than {bytes_max} bytes (media_bytes_max in config/limits.toml)")]
    TooLarge { bytes_max: u64 },
    #[error("WhatsApp says that it lies at an address that is not its own, which is not asked")]
    Elsewhere,
    #[error("WhatsApp refused it (HTTP {status})")]
    Refused { status: u16 },
    #[error("WhatsApp could not be reached for it: {reason}")]
    Unreachable { reason: String },
    #[error("what came is not what was sent (its SHA-256 differs)")]
    Altered,
    #[error("it was declared as {declared} and came as {real}")]
    OtherType { declared: String, real: String },
    #[error("WhatsApp's answer about it could not be read")]
    Malformed,
}

impl MediaError {
    fn may_pass(&self) -> bool {
        match self {
            MediaError::Unreachable { .. } => true,
            MediaError::Refused { status } => matches!(status, 404 | 429 | 500..),
            MediaError::TooLarge { .. }
            | MediaError::Elsewhere
            | MediaError::Altered
            | MediaError::OtherType { .. }
            | MediaError::Malformed => false,
        }
    }
}

/// What Graph says of a medium.
#[derive(Deserialize)]
struct Described {
    url: String,
    #[serde(default)]
    sha256: String,
    file_size: Option<u64>,
}

impl MediaSource {
    /// `api_url` goes up to and including the version.
    pub fn new(api_url: &str, token: &str, bytes_max: u64) -> Self {
        Self {
            api_url: api_url.trim_end_matches('/').to_owned(),
            token: token.to_owned(),
            bytes_max,
            http: Arc::default(),
        }
    }

    /// Gets it, in a few attempts where the failure may pass.
    ///
    /// # Errors
    /// [`MediaError`], in words for the person.
    pub async fn download(&self, media: &Media) -> Result<Downloaded, MediaError> {
        let mut attempt = 1;
        loop {
            match self.download_once(media).await {
                Err(error) if error.may_pass() && attempt < ATTEMPTS_MAX => {
                    tracing::warn!(attempt, %error, "media will be fetched again");
                    tokio::time::sleep(AGAIN * attempt).await;
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    async fn download_once(&self, media: &Media) -> Result<Downloaded, MediaError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if media.id.is_empty() || !media.id.chars().all(is_plain) {
            return Err(MediaError::Malformed);
        }
        let about = format!("{}/{}", self.api_url, media.id);
        let about = Url::parse(&about).map_err(|_| MediaError::Malformed)?;
        let answer = read_bounded(self.get(about).await?, ANSWER_BYTES_MAX).await?;
        let described: Described =
            serde_json::from_slice(&answer).map_err(|_| MediaError::Malformed)?;
        if described
            .file_size
            .is_some_and(|bytes| bytes > self.bytes_max)
        {
            return Err(self.too_large());
        }
        let url = Url::parse(&described.url).map_err(|_| MediaError::Elsewhere)?;
        if !self.is_theirs(&url) {
            return Err(MediaError::Elsewhere);
        }
        let response = self.get(url).await?;
        let mime = checked_type(media, &response)?;
        let bytes = read_bounded(response, self.bytes_max).await?;
        let digest = Sha256::digest(&bytes);
        for declared in [&media.sha256, &described.sha256] {
            if !declared.is_empty() && !is_digest(declared, &digest) {
                return Err(MediaError::Altered);
            }
        }
        let sha256 = hex::encode(digest);
        Ok(Downloaded {
            bytes,
            mime,
            sha256,
        })
    }

    async fn get(&self, url: Url) -> Result<Response, MediaError> {
        let http = self.http.get_or_init(|| net::strict_client(&self.api_url));
        let request = http.get(url).bearer_auth(&self.token).timeout(REQUEST_MAX);
        let response = request.send().await.map_err(unreachable)?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(MediaError::Refused {
                status: status.as_u16(),
            }),
        }
    }

    /// Only there is the token known already.
    fn is_theirs(&self, url: &Url) -> bool {
        let api = Url::parse(&self.api_url).map(|api| api.origin());
        let is_graph = api.is_ok_and(|api| api == url.origin());
        let is_meta =
            url.scheme() == "https" && url.host_str() == Some(MEDIA_HOST) && url.port().is_none();
        let bare = url.username().is_empty() && url.password().is_none();
        bare && (is_graph || is_meta)
    }

    fn too_large(&self) -> MediaError {
        MediaError::TooLarge {
            bytes_max: self.bytes_max,
        }
    }
}

impl fmt::Debug for MediaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MediaSource")
            .field("api_url", &self.api_url)
            .finish_non_exhaustive()
    }
}

/// Without the address: it is as good as a password for some minutes.
fn unreachable(error: reqwest::Error) -> MediaError {
    MediaError::Unreachable {
        reason: error.without_url().to_string(),
    }
}

async fn read_bounded(mut response: Response, bytes_max: u64) -> Result<Vec<u8>, MediaError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if (bytes.len() + chunk.len()) as u64 > bytes_max {
            return Err(MediaError::TooLarge { bytes_max });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The type that it came as, which must be the declared one.
fn checked_type(media: &Media, response: &Response) -> Result<String, MediaError> {
    let essence = |text: &str| {
        text.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    };
    let declared = essence(&media.mime);
    let header = response.headers().get(CONTENT_TYPE);
    let real = essence(
        header
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default(),
    );
    let known = match real.is_empty() {
        true => declared.clone(),
        false => real.clone(),
    };
    let fits = match media.kind {
        MediaKind::Document => known == declared || declared.is_empty(),
        MediaKind::Audio => {
            known.starts_with("audio/") && (known == declared || declared.is_empty())
        }
        MediaKind::Image => {
            known.starts_with("image/") && (known == declared || declared.is_empty())
        }
    };
    match fits {
        true => Ok(known),
        false => Err(MediaError::OtherType { declared, real }),
    }
}

/// Webhooks write it in base64, Graph in hex.
fn is_digest(declared: &str, digest: &[u8]) -> bool {
    declared.eq_ignore_ascii_case(&hex::encode(digest)) || declared == STANDARD.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_known_in_both_spellings() {
        let digest = Sha256::digest(b"hello");
        assert!(is_digest(
            "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
            &digest
        ));
        assert!(is_digest(
            "2CF24DBA5FB0A30E26E83B2AC5B9E29E1B161E5C1FA7425E73043362938B9824",
            &digest
        ));
        assert!(!is_digest(
            "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCR=",
            &digest
        ));
    }

    #[test]
    fn only_graph_and_metas_own_host_are_asked() {
        let source = MediaSource::new("https://graph.facebook.com/v23.0/", "token", 1);
        for (url, theirs) in [
            ("https://graph.facebook.com/v1/x", true),
            (
                "https://lookaside.fbsbx.com/whatsapp_business/attachments/?mid=1",
                true,
            ),
            ("http://lookaside.fbsbx.com/x", false),
            ("https://lookaside.fbsbx.com:8443/x", false),
            ("https://lookaside.fbsbx.com.evil.example/x", false),
            ("https://evil@lookaside.fbsbx.com/x", false),
            ("https://graph.facebook.com:444/x", false),
            ("http://graph.facebook.com/x", false),
            ("http://169.254.169.254/latest/meta-data", false),
            ("http://127.0.0.1:8787/x", false),
            ("file:///etc/passwd", false),
        ] {
            let url = Url::parse(url).expect("an address");
            assert_eq!(source.is_theirs(&url), theirs, "{url}");
        }
    }
}
