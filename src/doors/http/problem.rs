//! Errors of the HTTP channel: one shape (RFC 9457), each with a word for programs and a sentence that says what to do.

use crate::hub::DeliverError;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

const MEDIA_TYPE: &str = "application/problem+json";
/// When who is told that we are busy should come again.
pub const AGAIN_SECONDS: u64 = 1;

/// Why a request was not met.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    /// Stays the same from version to version.
    code: &'static str,
    detail: String,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self {
            status,
            code,
            detail,
        }
    }

    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    /// The same for a wrong secret, a wrong name and a wrong signature.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }

    pub fn too_large() -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the body is larger than `body_bytes_max` in limits.toml allows; send less",
        )
    }

    pub fn too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the body did not arrive in time; send it again, at once",
        )
    }
}

/// What could not be done here is in the log; who asked learns that trying again is right.
impl From<DeliverError> for Problem {
    fn from(error: DeliverError) -> Self {
        match error {
            DeliverError::Busy | DeliverError::ShuttingDown => {
                Self::busy(format!("{error}; send it again"))
            }
            DeliverError::NoSession(_) => Self::not_found("there is no such session of yours"),
            DeliverError::Session(_)
            | DeliverError::Workspace(_)
            | DeliverError::Journal(_)
            | DeliverError::Store(_)
            | DeliverError::Read { .. } => {
                tracing::error!(%error, "request not met");
                let detail = "nothing was taken: the server's log says why. Send it again later";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_taken", detail)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default();
        let body = json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from(AGAIN_SECONDS));
            }
            _ => {}
        }
        response
    }
}
