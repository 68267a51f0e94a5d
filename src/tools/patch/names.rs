//! File names as unified diffs write them. Pure.

/// A name of a header: a timestamp behind a tab is cut, quotes are undone.
pub fn header_name(text: &str) -> String {
    let text = text.trim_end();
    if text.starts_with('"') {
        return unquoted(text).0;
    }
    text.split('\t')
        .next()
        .unwrap_or(text)
        .trim_end()
        .to_owned()
}

/// The path of `diff --git a/PATH b/PATH`; only where both are the same it can be told.
pub fn git_name(names: &str) -> Option<String> {
    if names.starts_with('"') {
        let (old, rest) = unquoted(names);
        let (new, _) = unquoted(rest.trim_start());
        let (old, new) = (old.strip_prefix("a/")?, new.strip_prefix("b/")?);
        return (old == new).then(|| new.to_owned());
    }
    let half = names.len() / 2;
    let (old, new) = (names.get(..half)?, names.get(half + 1..)?);
    let (old, new) = (old.strip_prefix("a/")?, new.strip_prefix("b/")?);
    (old == new).then(|| new.to_owned())
}

/// A name as git quotes it (`"a\303\251\t"`), and what follows.
fn unquoted(text: &str) -> (String, &str) {
    let mut bytes = Vec::new();
    let mut rest = text.strip_prefix('"').unwrap_or(text).as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'"', _) => break,
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = tail;
            }
            (b'\\', [escape, tail @ ..]) => {
                bytes.push(match escape {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'f' => 12,
                    b'v' => 11,
                    other => *other,
                });
                rest = tail;
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    let rest = std::str::from_utf8(rest).unwrap_or_default();
    (String::from_utf8_lossy(&bytes).into_owned(), rest)
}
