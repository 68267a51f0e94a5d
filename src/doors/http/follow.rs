//! A journal as server-sent events: its lines, word for word, from any of them, then those that come.
//!
//! Everything is read from the file: nothing is queued for a reader, so a slow one costs no memory. A line is shown once
//! it counts: what must be on disk is there by then.

use super::problem::Problem;
use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

/// How often something is said where nothing happens, so that both ends know that the other one is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// From this length on, what was read is sent before more is.
const CHUNK_BYTES: usize = 64 * 1024;
/// Digits of a line's hash in its id.
const HASH_DIGITS: usize = 12;

/// The query of an event stream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The first line that is shown.
    pub from: Option<u64>,
    /// `false`: what is there by now, and no more.
    #[serde(default = "yes")]
    pub follow: bool,
}

fn yes() -> bool {
    true
}

/// Where a stream starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    first: u64,
    /// The beginning of the hash of the line before, which the reader has.
    has: Option<String>,
}

impl Wanted {
    /// The line after `Last-Event-ID`, or `from`, or the first.
    ///
    /// # Errors
    /// [`Problem`] where one of them is no line.
    pub fn start(&self, last_event: Option<&HeaderValue>) -> Result<Start, Problem> {
        let Some(last) = last_event else {
            return match self.from {
                Some(0) => Err(Problem::invalid("`from` counts from 1")),
                from => Ok(Start {
                    first: from.unwrap_or(1),
                    has: None,
                }),
            };
        };
        let text = last.to_str().unwrap_or_default();
        let (seq, hash) = match text.split_once('-') {
            Some((seq, hash)) => (seq, Some(hash.to_owned())),
            None => (text, None),
        };
        let seq: Option<u64> = seq.parse().ok().filter(|seq| *seq < u64::MAX);
        let seq = seq.ok_or_else(|| {
            Problem::invalid("Last-Event-ID is the id of an event of this stream")
        })?;
        Ok(Start {
            first: seq + 1,
            has: hash,
        })
    }
}

/// A journal, opened at a line.
pub struct Begun {
    path: PathBuf,
    offset: u64,
    /// The number of the line at `offset`.
    next: u64,
    /// Bytes that were on disk when it was opened.
    settled: u64,
    told: watch::Receiver<u64>,
}

/// Finds the line to start at. `told` must have been there before.
///
/// # Errors
/// [`Problem`] where there are not that many lines, or the line before is not the one that the reader has.
pub fn begin(path: PathBuf, start: Start, told: watch::Receiver<u64>) -> Result<Begun, Problem> {
    let unreadable = |error: io::Error| {
        tracing::error!(path = %path.display(), %error, "journal not shown");
        Problem::busy("the journal cannot be read now; the server's log says why")
    };
    let place = find(&path, start.first).map_err(unreadable)?;
    let (last, offset, settled) = match place {
        Place::At {
            before,
            offset,
            settled,
        } => (before, offset, settled),
        Place::Beyond { lines } => {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                "beyond",
                format!("the session has {lines} lines so far: start at one of them, or the next"),
            ));
        }
    };
    if let Some(has) = start.has
        && !head(&last).is_some_and(|line| line.hash.starts_with(&has))
    {
        // After a loss of power, or when a damaged end was set aside.
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "another_line",
            format!(
                "line {} is another one than you have: what followed was lost on the server. Read it again, from an earlier line",
                start.first - 1
            ),
        ));
    }
    Ok(Begun {
        path,
        offset,
        next: start.first,
        settled,
        told,
    })
}

enum Place {
    At {
        /// The line before, empty at the start.
        before: Vec<u8>,
        offset: u64,
        settled: u64,
    },
    Beyond {
        lines: u64,
    },
}

fn find(path: &Path, first: u64) -> io::Result<Place> {
    let file = File::open(path)?;
    // A line that is being written may not be on disk yet. From here on, the session says which ones are.
    file.sync_data()?;
    let settled = file.metadata()?.len();
    let mut reader = BufReader::new(file);
    let (mut offset, mut line) = (0, Vec::new());
    for lines in 0..first - 1 {
        line.clear();
        let bytes = reader.read_until(b'\n', &mut line)? as u64;
        if line.last() != Some(&b'\n') || offset + bytes > settled {
            return Ok(Place::Beyond { lines });
        }
        offset += bytes;
    }
    Ok(Place::At {
        before: line,
        offset,
        settled,
    })
}

#[derive(Deserialize)]
struct Head<'a> {
    seq: u64,
    event: &'a str,
    hash: &'a str,
}

fn head(line: &[u8]) -> Option<Head<'_>> {
    serde_json::from_slice(line).ok()
}

/// What a look into the file brought.
enum Look {
    Lines(Vec<u8>),
    /// None that counts.
    Nothing,
    /// It is not the file any more that it was, or cannot be read.
    Over,
}

impl Begun {
    /// The stream. It ends with the server, with the journal, or when it has shown all and shall not follow.
    pub fn into_response(
        self,
        place: OwnedSemaphorePermit,
        follow: bool,
        shutdown: CancellationToken,
    ) -> Response {
        let stream = stream::unfold((self, place), move |(mut begun, place)| {
            let shutdown = shutdown.clone();
            async move {
                let chunk = begun.chunk(follow, &shutdown).await?;
                Some((Ok::<_, io::Error>(chunk), (begun, place)))
            }
        });
        let mut response = Body::from_stream(stream).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // nginx would gather events before it passes them on.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    async fn chunk(&mut self, follow: bool, shutdown: &CancellationToken) -> Option<Bytes> {
        loop {
            let told = *self.told.borrow_and_update();
            match self.look(told).await {
                Look::Lines(text) => return Some(text.into()),
                Look::Over => return None,
                Look::Nothing if !follow => return None,
                Look::Nothing => {}
            }
            tokio::select! {
                () = shutdown.cancelled() => return None,
                grown = self.told.changed() => grown.ok()?,
                () = tokio::time::sleep(HEARTBEAT) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }

    /// The next lines that count, as events.
    async fn look(&mut self, told: u64) -> Look {
        let (path, offset, next, settled) =
            (self.path.clone(), self.offset, self.next, self.settled);
        let counts = move |seq: u64, end: u64| end <= settled || seq <= told;
        let read = tokio::task::spawn_blocking(move || read(&path, offset, next, counts));
        let Ok(Ok(Some(read))) = read.await else {
            return Look::Over;
        };
        (self.offset, self.next) = (read.offset, read.next);
        match read.text.is_empty() {
            true => Look::Nothing,
            false => Look::Lines(read.text),
        }
    }
}

struct Read {
    text: Vec<u8>,
    offset: u64,
    next: u64,
}

/// Lines from here on, as events; `None` where the file is shorter than that, or a line is none.
fn read(
    path: &Path,
    mut offset: u64,
    mut next: u64,
    counts: impl Fn(u64, u64) -> bool,
) -> io::Result<Option<Read>> {
    // Opened anew each time: a journal may have been written anew, under the same name.
    let mut file = File::open(path)?;
    if file.metadata()?.len() < offset {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut reader = BufReader::new(file);
    let (mut text, mut line) = (Vec::new(), Vec::new());
    while text.len() < CHUNK_BYTES {
        line.clear();
        let end = offset + reader.read_until(b'\n', &mut line)? as u64;
        if line.pop() != Some(b'\n') || !counts(next, end) {
            break;
        }
        let Some(head) = head(&line).filter(|head| head.seq == next) else {
            return Ok(None);
        };
        let id = head.hash.get(..HASH_DIGITS).unwrap_or_default();
        text.extend_from_slice(
            format!("id: {next}-{id}\nevent: {}\ndata: ", head.event).as_bytes(),
        );
        text.extend_from_slice(&line);
        text.extend_from_slice(b"\n\n");
        (offset, next) = (end, next + 1);
    }
    Ok(Some(Read { text, offset, next }))
}
