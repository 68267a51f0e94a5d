//! Who a webhook comes from: the HMAC over its raw body, and the token of the subscription.
//!
//! Both comparisons take the same time whatever differs. The body must be the bytes as they arrived: parsed and printed
//! again it is another body. Nothing here logs, since everything here is a secret or about one.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The header that carries the signature.
pub const SIGNATURE_HEADER: &str = "x-hub-signature-256";

const SCHEME: &str = "sha256=";

/// Whether `header` is the signature of `raw_body` under the app's secret. An empty secret verifies nothing: it would
/// let anyone sign.
pub fn verify(secret: &str, header: Option<&str>, raw_body: &[u8]) -> bool {
    if secret.is_empty() {
        return false;
    }
    let Some(digits) = header.and_then(|value| value.trim().strip_prefix(SCHEME)) else {
        return false;
    };
    let Ok(claimed) = hex::decode(digits) else {
        return false;
    };
    keyed(secret, raw_body).verify_slice(&claimed).is_ok()
}

/// The value of the header for `raw_body`, as Meta writes it: `sha256=` and 64 lower-case hex digits.
pub fn sign(secret: &str, raw_body: &[u8]) -> String {
    let digest = keyed(secret, raw_body).finalize().into_bytes();
    format!("{SCHEME}{}", hex::encode(digest))
}

/// Whether the token of a GET verification is ours. Compared by digest, so that not even the length shows; an unset
/// token matches nothing.
pub fn token_matches(expected: &str, given: &str) -> bool {
    let same = Sha256::digest(expected.as_bytes()).ct_eq(&Sha256::digest(given.as_bytes()));
    !expected.is_empty() && bool::from(same)
}

fn keyed(secret: &str, raw_body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())
        .expect("BUG: HMAC takes a key of any length");
    mac.update(raw_body);
    mac
}
