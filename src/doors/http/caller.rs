//! Who makes a request: a configured client, by its secret itself or by a signature made with it.
//!
//! Comparisons take the same time whatever differs. Nothing here logs, since everything here is a secret or about one.

use super::problem::Problem;
use crate::config::HttpClient;
use crate::doors::whatsapp::signature::token_matches;
use crate::world::clock;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The client's name, the second at which it signed, and `sha256=` with the hex digits of the signature.
pub const CLIENT_HEADER: &str = "x-journeyman-client";
pub const TIMESTAMP_HEADER: &str = "x-journeyman-timestamp";
pub const SIGNATURE_HEADER: &str = "x-journeyman-signature";

/// How far a signature's time may be from ours, to either side.
pub const REPLAY_WINDOW_SECONDS: u64 = 5 * 60;

const SCHEME: &str = "sha256=";

/// What a signature is over, besides the body.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub method: &'a str,
    /// Path and query, as they stand in the request.
    pub path: &'a str,
}

/// A client that proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub name: String,
    /// The digits of its signature, if it signed: the same request, sent again, has the same.
    pub signature: Option<String>,
}

/// Who made this request.
///
/// # Errors
/// [`Problem`] that says which header is missing or wrong, and not which client there is.
pub fn identify(
    clients: &[HttpClient],
    headers: &HeaderMap,
    line: Line<'_>,
    body: &[u8],
) -> Result<Caller, Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(signature) = text(SIGNATURE_HEADER) {
        let name = text(CLIENT_HEADER).unwrap_or_default();
        let timestamp = text(TIMESTAMP_HEADER).unwrap_or_default();
        return by_signature(clients, name, timestamp, signature, line, body);
    }
    let token = text(AUTHORIZATION.as_str()).and_then(bearer);
    let Some(token) = token else {
        return Err(Problem::unauthorized(format!(
            "send `Authorization: Bearer SECRET`, or {CLIENT_HEADER}, {TIMESTAMP_HEADER} and {SIGNATURE_HEADER}"
        )));
    };
    // All are compared, so that the time does not tell which one it was.
    let fitting = clients.iter().fold(None, |found, client| {
        match token_matches(&client.secret, token) {
            true => Some(client),
            false => found,
        }
    });
    match fitting {
        Some(client) => Ok(Caller {
            name: client.name.clone(),
            signature: None,
        }),
        None => Err(Problem::unauthorized(
            "this secret is no client's: look at HTTP_CLIENTS of the server",
        )),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_start())
}

fn by_signature(
    clients: &[HttpClient],
    name: &str,
    timestamp: &str,
    signature: &str,
    line: Line<'_>,
    body: &[u8],
) -> Result<Caller, Problem> {
    let wrong = || {
        Problem::unauthorized(format!(
            "the signature does not fit: {SIGNATURE_HEADER} is `sha256=` and the hex HMAC-SHA256, with the secret of {CLIENT_HEADER} \
         as key, over {TIMESTAMP_HEADER}, method and path with query, each ended by a newline, and the body"
        ))
    };
    let Some(client) = clients.iter().find(|client| client.name == name) else {
        return Err(wrong());
    };
    let digits = signature.trim().strip_prefix(SCHEME).unwrap_or_default();
    let claimed = hex::decode(digits).unwrap_or_default();
    let signed = keyed(&client.secret, timestamp, line, body);
    signed.verify_slice(&claimed).map_err(|_| wrong())?;
    let now = clock::now().0.div_euclid(1_000);
    let recent = timestamp
        .parse::<i64>()
        .is_ok_and(|at| now.abs_diff(at) <= REPLAY_WINDOW_SECONDS);
    if !recent {
        return Err(Problem::unauthorized(format!(
            "{TIMESTAMP_HEADER} must be the time of sending in Unix seconds, within {REPLAY_WINDOW_SECONDS} s of the server's clock ({now})"
        )));
    }
    Ok(Caller {
        name: client.name.clone(),
        signature: Some(hex::encode(claimed)),
    })
}

/// The value of [`SIGNATURE_HEADER`] for a request.
pub fn sign(secret: &str, timestamp: i64, line: Line<'_>, body: &[u8]) -> String {
    let digest = keyed(secret, &timestamp.to_string(), line, body).finalize();
    format!("{SCHEME}{}", hex::encode(digest.into_bytes()))
}

fn keyed(secret: &str, timestamp: &str, line: Line<'_>, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .expect("BUG: HMAC takes a key of any length");
    for part in [timestamp, line.method, line.path] {
        mac.update(part.as_bytes());
        mac.update(b"\n");
    }
    mac.update(body);
    mac
}
