//! Output while a command runs, for whoever watches: whole lines, so that no secret is shown in halves.

use crate::world::spool::{Position, STREAMS, Spool};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who watches.
#[derive(Clone)]
pub struct Live {
    take: Arc<dyn Fn(String) + Send + Sync>,
    /// Whether a carriage return ends a line, too.
    by_return: bool,
}

impl Live {
    /// `take` gets lines as they come; it masks them.
    pub fn lines(take: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self {
            take: Arc::new(take),
            by_return: false,
        }
    }

    /// The same with every state of a progress bar, which overwrites its line.
    pub fn progress(take: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self {
            by_return: true,
            ..Self::lines(take)
        }
    }
}

/// Often enough for people.
const LOOK_PAUSE: Duration = Duration::from_millis(150);
/// A line that is longer is shown in parts no more, only in the result.
const WAITING_BYTES_MAX: usize = 16 * 1024;

/// Shows what the spool gets, and never ends by itself.
pub async fn show(spool: &Spool, live: Option<&Live>) {
    let Some(live) = live else {
        return std::future::pending().await;
    };
    let mut shown: Position = [0; 2];
    let mut waiting = [const { Vec::new() }; 2];
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let now = spool.position();
        for stream in STREAMS {
            let i = stream as usize;
            if now[i] == shown[i] {
                continue;
            }
            let fresh = spool.between(stream, shown[i], now[i]);
            shown[i] = now[i];
            if fresh.omitted_bytes > 0 {
                waiting[i].clear(); // what it began is gone
            }
            waiting[i].extend(fresh.head);
            waiting[i].extend(fresh.tail);
            if live.by_return {
                end_at_returns(&mut waiting[i]);
            }
            let lines = whole_lines(&mut waiting[i]);
            if !lines.is_empty() {
                (live.take)(lines);
            }
        }
    }
}

/// Ends once nothing was printed for so long; never, where that is no matter.
pub async fn silence(spool: &Spool, max: Option<Duration>) {
    let Some(max) = max else {
        return std::future::pending().await;
    };
    let (mut seen, mut since) = (spool.position(), Instant::now());
    while since.elapsed() < max {
        tokio::time::sleep(LOOK_PAUSE).await;
        let now = spool.position();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
}

fn end_at_returns(waiting: &mut [u8]) {
    for byte in waiting.iter_mut().filter(|byte| **byte == b'\r') {
        *byte = b'\n';
    }
}

/// Takes the whole lines; a key whose end is not there yet waits for it.
pub fn whole_lines(waiting: &mut Vec<u8>) -> String {
    let lines = waiting.iter().rposition(|byte| *byte == b'\n');
    let mut end = lines.map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&waiting[..end]).into_owned();
    if let Some(begin) = text.rfind("-----BEGIN ")
        && !text[begin..].contains("-----END ")
    {
        // Counted in bytes of the text, which are those of the output where that is UTF-8; otherwise all of it waits.
        end = if text.len() == end { begin } else { 0 };
    }
    let shown = String::from_utf8_lossy(&waiting[..end]).into_owned();
    waiting.drain(..end);
    if waiting.len() > WAITING_BYTES_MAX {
        waiting.clear();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_whole_lines_and_no_key_without_its_end() {
        let mut waiting = b"one\ntw".to_vec();
        assert_eq!(whole_lines(&mut waiting), "one\n");
        waiting.extend(b"o\n-----BEGIN PRIVATE KEY-----\nMIIE\n");
        assert_eq!(whole_lines(&mut waiting), "two\n");
        assert_eq!(whole_lines(&mut waiting), "");
        waiting.extend(b"-----END PRIVATE KEY-----\nthree\n");
        let rest = whole_lines(&mut waiting);
        assert!(rest.starts_with("-----BEGIN") && rest.ends_with("three\n"));
        assert!(waiting.is_empty());
    }
}
