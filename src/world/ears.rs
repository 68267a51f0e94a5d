//! Speech to text, at any server with OpenAI's `/audio/transcriptions`.

use super::net;
use crate::agent::event::Got;
use crate::agent::money;
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use std::sync::OnceLock;
use std::time::Duration;

const REQUEST_MAX: Duration = Duration::from_secs(120);
const ATTEMPTS_MAX: u32 = 3;
const AGAIN: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Nobody speaks longer than a day.
const SECONDS_MAX: f64 = 86_400.0;
/// Stands between the parts of a request; a sound that holds it is not sent.
const BOUNDARY: &str = "journeyman-7d1f0a53c9b84e26";

/// The server that hears.
pub struct Ears {
    /// Up to and without `/audio/transcriptions`.
    base_url: String,
    key: String,
    model: String,
    /// What a minute costs, in micro-dollars, where that is known.
    minute_micros: Option<u64>,
    http: OnceLock<Client>,
}

#[derive(Deserialize)]
struct Heard {
    text: String,
    /// In seconds, where the server says so.
    duration: Option<f64>,
    usage: Option<Billed>,
}

/// What the server will charge for, where it counts in seconds.
#[derive(Deserialize)]
struct Billed {
    seconds: Option<f64>,
}

impl Heard {
    fn seconds(&self) -> Option<f64> {
        let billed = self.usage.as_ref().and_then(|usage| usage.seconds);
        billed.or(self.duration)
    }
}

impl Ears {
    pub fn new(base_url: &str, key: &str, model: &str, minute_micros: Option<u64>) -> Self {
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            key: key.to_owned(),
            model: model.to_owned(),
            minute_micros,
            http: OnceLock::new(),
        }
    }

    /// The words in a sound, and what it cost to hear them.
    ///
    /// # Errors
    /// Why there are none, for the person.
    pub async fn hear(&self, sound: Vec<u8>, mime: &str) -> Result<Got, String> {
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
                Ok(heard) if heard.text.trim().is_empty() => {
                    return Err("no words were heard in it".into());
                }
                Ok(heard) => {
                    let seconds = heard.seconds().or_else(|| ogg_seconds(&sound));
                    return Ok(Got::Words {
                        text: heard.text.trim().to_owned(),
                        cost_micros: self.cost(seconds),
                    });
                }
            }
        }
    }

    fn cost(&self, seconds: Option<f64>) -> Option<u64> {
        let seconds = seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds))?;
        Some(money::hearing_cost(
            self.minute_micros?,
            seconds.ceil() as u64,
        ))
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
    async fn ask(&self, body: Vec<u8>) -> Result<Heard, (bool, String)> {
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
        heard.map_err(|_| {
            (
                false,
                "the answer of the transcription could not be read".into(),
            )
        })
    }
}

/// How long a sound in Ogg Opus is: the samples that its last page ends with, at 48 kHz.
fn ogg_seconds(sound: &[u8]) -> Option<f64> {
    const MARK: &[u8] = b"OggS";
    let page = sound.windows(MARK.len()).rposition(|part| part == MARK)?;
    let samples = sound.get(page + 6..page + 14)?.try_into().ok()?;
    let is_opus = sound.windows(8).take(100).any(|part| part == b"OpusHead");
    is_opus.then(|| u64::from_le_bytes(samples) as f64 / 48_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ogg_says_itself_how_long_it_is() {
        let mut sound = b"OggS\0\x02\0\0\0\0\0\0\0\0serial..OpusHead".to_vec();
        sound.extend(b"OggS\0\x04");
        sound.extend((48_000_u64 * 90).to_le_bytes());
        assert_eq!(ogg_seconds(&sound), Some(90.0));
        for bad in [&b""[..], b"OggS", b"RIFF and so on", &sound[..40]] {
            assert_eq!(ogg_seconds(bad).filter(|seconds| *seconds > 0.0), None);
        }
        let ears = Ears::new("http://127.0.0.1", "", "whisper-1", Some(6_000));
        assert_eq!(ears.cost(Some(90.0)), Some(9_000));
        assert_eq!(ears.cost(Some(f64::NAN)), None);
        assert_eq!(ears.cost(None), None);
    }
}
