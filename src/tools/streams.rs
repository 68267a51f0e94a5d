//! What a command printed, for a model: two streams that share the room. Pure.

use super::text;

/// Of both streams together, head and tail kept.
pub const OUTPUT_CHARS_MAX: usize = 4_000;

/// Both streams under their names, each with head and tail where it is long.
pub fn show(stdout: &str, stderr: &str, max: usize) -> String {
    let (for_stdout, for_stderr) = share(stdout.chars().count(), stderr.chars().count(), max);
    let streams = [
        ("stdout", stdout, for_stdout),
        ("stderr", stderr, for_stderr),
    ];
    let printed = streams.iter().filter(|(_, stream, _)| !stream.is_empty());
    printed
        .map(|(name, stream, max)| {
            format!(
                "\n{name}:\n{}",
                text::head_and_tail(stream.trim_end(), *max)
            )
        })
        .collect()
}

/// So many bytes that were shown of stdout, where nothing of them was left out.
pub fn shown_of_stdout(shown: &str, bytes: usize) -> Option<&str> {
    const BEFORE: &str = "\nstdout:\n";
    match bytes {
        0 => Some(""),
        bytes => {
            let at = shown.find(BEFORE)? + BEFORE.len();
            shown.get(at..at + bytes)
        }
    }
}

pub fn is_cut(stdout: &str, stderr: &str, max: usize) -> bool {
    stdout.chars().count() + stderr.chars().count() > max
}

/// What the shorter stream leaves goes to the longer one.
fn share(stdout: usize, stderr: usize, max: usize) -> (usize, usize) {
    let half = max / 2;
    let for_stdout = stdout.min(max - stderr.min(half));
    (for_stdout, max - for_stdout)
}
