//! Speech to text, at any server with OpenAI's `/audio/transcriptions`.

use super::net;
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use std::sync::OnceLock;
use std::time::Duration;

const REQUEST_MAX: Duration = Duration::from_secs(120);
const ATTEMPTS_MAX: u32 = 3;
const AGAIN: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Stands between the parts of a request; a sound that holds it is not sent.
const BOUNDARY: &str = "journeyman-7d1f0a53c9b84e26";

/// The server that hears.
pub struct Ears {
    /// Up to and without `/audio/transcriptions`.
    base_url: String,
    key: String,
    model: String,
    http: OnceLock<Client>,
}

#[derive(Deserialize)]
struct Heard {
    text: String,
}

impl Ears {
    pub fn new(base_url: &str, key: &str, model: &str) -> Self {
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            key: key.to_owned(),
            model: model.to_owned(),
            http: OnceLock::new(),
        }
    }

    /// The words in a sound.
    ///
    /// # Errors
    /// Why there are none, for the person.
    pub async fn hear(&self, sound: Vec<u8>, mime: &str) -> Result<String, String> {
        if sound
            .windows(BOUNDARY.len())
            .any(|part| part == BOUNDARY.as_bytes())
        {
            return Err("it cannot be sent to the transcription".into());
        }
        let body = self.body(&sound, mime);
        let mut attempt = 1;
        loop {
            match self.ask(body.clone()).await {
                Err((true, why)) if attempt < ATTEMPTS_MAX => {
                    tracing::warn!(attempt, why, "speech will be transcribed again");
                    tokio::time::sleep(AGAIN * attempt).await;
                    attempt += 1;
                }
                Err((_, why)) => return Err(why),
                Ok(text) if text.trim().is_empty() => {
                    return Err("no words were heard in it".into());
                }
                Ok(text) => return Ok(text.trim().to_owned()),
            }
        }
    }

    fn body(&self, sound: &[u8], mime: &str) -> Vec<u8> {
        let ending = match mime {
            "audio/mpeg" => "mp3",
            "audio/mp4" | "audio/aac" => "m4a",
            "audio/amr" => "amr",
            "audio/wav" | "audio/x-wav" => "wav",
            _ => "ogg",
        };
        let field = |name: &str, value: &str| {
            format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            )
        };
        let mut body = field("model", &self.model).into_bytes();
        body.extend(field("response_format", "json").into_bytes());
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"message.{ending}\"\r\nContent-Type: {mime}\r\n\r\n"
        );
        body.extend(head.into_bytes());
        body.extend_from_slice(sound);
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").into_bytes());
        body
    }

    /// The words, or why there are none, and whether another try may have some.
    async fn ask(&self, body: Vec<u8>) -> Result<String, (bool, String)> {
        let http = self.http.get_or_init(|| net::strict_client(&self.base_url));
        let request = http
            .post(format!("{}/audio/transcriptions", self.base_url))
            .bearer_auth(&self.key)
            .header(
                CONTENT_TYPE,
                format!("multipart/form-data; boundary={BOUNDARY}"),
            )
            .body(body)
            .timeout(REQUEST_MAX);
        let unreachable = |error: reqwest::Error| {
            let why = error.without_url().to_string();
            (
                true,
                format!("the transcription could not be reached: {why}"),
            )
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if !status.is_success() {
            let passing = status.as_u16() == 429 || status.is_server_error();
            return Err((
                passing,
                format!("the transcription refused it (HTTP {})", status.as_u16()),
            ));
        }
        let answer = net::read_up_to(response, ANSWER_BYTES_MAX)
            .await
            .map_err(unreachable)?;
        let heard: Result<Heard, _> = serde_json::from_slice(&answer);
        heard.map(|heard| heard.text).map_err(|_| {
            (
                false,
                "the answer of the transcription could not be read".into(),
            )
        })
    }
}
