//! Keeps the connection for the next round: an answer is read to its end, also where its reader has heard enough.
//!
//! async-openai lets go of a stream at `[DONE]`. Many servers send the end of the body in a packet of its own, and a
//! connection whose answer was not read to the end is closed: a new TCP and TLS handshake with every round.

use axum::body::Bytes;
use axum::http;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use reqwest::{Body, Response};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;

/// From `[DONE]` to the end of the body; later than that, the connection is given up.
const END_WAIT: Duration = Duration::from_secs(1);

/// The same response, whose body goes on being read after `[DONE]`. A reader that leaves before closes the connection:
/// that is how an answer is cancelled.
pub fn read_to_end(response: Response) -> Response {
    let mut answer = http::Response::new(());
    *answer.status_mut() = response.status();
    *answer.headers_mut() = response.headers().clone();
    let pieces = Some(response.bytes_stream().boxed());
    let body = Answer {
        pieces,
        done: false,
    };
    Response::from(answer.map(|()| Body::wrap_stream(body)))
}

struct Answer {
    pieces: Option<BoxStream<'static, reqwest::Result<Bytes>>>,
    done: bool,
}

impl Stream for Answer {
    type Item = reqwest::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(pieces) = &mut self.pieces else {
            return Poll::Ready(None);
        };
        let polled = pieces.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(piece))) => {
                self.done |= piece.trim_ascii_end().ends_with(b"[DONE]");
            }
            Poll::Ready(Some(Err(_)) | None) => self.pieces = None,
            Poll::Pending => {}
        }
        polled
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let (true, Some(pieces), Ok(runtime)) =
            (self.done, self.pieces.take(), Handle::try_current())
        {
            let rest = pieces.for_each(|_| std::future::ready(()));
            runtime.spawn(tokio::time::timeout(END_WAIT, rest));
        }
    }
}
