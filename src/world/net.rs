//! HTTP clients, made for the address that they will talk to. Nothing here sends anything.

use reqwest::Client;
use reqwest::redirect::Policy;

/// A client for requests to `base_url`.
///
/// The machine's root certificates are read only for an address that needs them: they cost milliseconds at the start and
/// megabytes afterwards. A client without them follows no redirect, which may lead to where they are needed.
pub fn client(base_url: &str) -> Client {
    if base_url.starts_with("https://") {
        return Client::new();
    }
    let plain = Client::builder()
        .tls_certs_only([])
        .redirect(Policy::none());
    plain
        .build()
        .expect("BUG: a client without certificates can always be made")
}

/// One that follows no redirect wherever it talks to: its requests carry a token.
pub fn strict_client(base_url: &str) -> Client {
    if !base_url.starts_with("https://") {
        return client(base_url);
    }
    let strict = Client::builder().redirect(Policy::none()).build();
    strict.expect("BUG: a client that follows nothing can always be made")
}

/// A body, cut where it is longer than this.
///
/// # Errors
/// Where the connection breaks.
pub async fn read_up_to(
    mut response: reqwest::Response,
    bytes_max: usize,
) -> Result<Vec<u8>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = bytes_max - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if bytes.len() == bytes_max {
            break;
        }
    }
    Ok(bytes)
}
