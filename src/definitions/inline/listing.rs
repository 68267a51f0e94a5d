//! What `ls` is asked for.

/// A list of files and folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub paths: Vec<String>,
    /// Names that begin with a dot too.
    pub hidden: bool,
    /// Mode, size and time of each.
    pub long: bool,
    /// A mark after the names of folders, links and programs.
    pub marks: bool,
    /// What is below folders too.
    pub below: bool,
    /// A folder itself, not what is in it.
    pub itself: bool,
    pub reversed: bool,
    pub order: Order,
}

/// What comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Name,
    /// The newest.
    Time,
    /// The largest.
    Size,
}

pub(super) fn read(words: &[String]) -> Result<Listing, String> {
    let mut listing = Listing::default();
    let mut only_paths = false;
    for word in words {
        match word.strip_prefix('-') {
            _ if only_paths => listing.paths.push(word.clone()),
            None | Some("") => listing.paths.push(word.clone()),
            Some("-") => only_paths = true,
            Some(long) if long.starts_with('-') => listing.set(letter_of(word)?)?,
            Some(letters) => {
                for letter in letters.chars() {
                    listing.set(letter)?;
                }
            }
        }
    }
    Ok(listing)
}

impl Listing {
    fn set(&mut self, letter: char) -> Result<(), String> {
        match letter {
            'a' | 'A' => self.hidden = true,
            'l' | 'g' | 'o' | 'n' => self.long = true,
            'F' | 'p' => self.marks = true,
            'R' => self.below = true,
            'd' => self.itself = true,
            'r' => self.reversed = true,
            't' => self.order = Order::Time,
            'S' => self.order = Order::Size,
            // How it is laid out, which is always the same here.
            '1' | 'h' | 'C' | 'x' | 'k' | 'G' | 'N' | 'q' => {}
            other => return Err(format!("ls takes -aAlFpRdrtS1h, not -{other}")),
        }
        Ok(())
    }
}

fn letter_of(word: &str) -> Result<char, String> {
    let known = [
        ("--all", 'a'),
        ("--almost-all", 'A'),
        ("--recursive", 'R'),
        ("--reverse", 'r'),
        ("--directory", 'd'),
        ("--classify", 'F'),
        ("--human-readable", 'h'),
        ("--color", '1'),
        ("--color=never", '1'),
        ("--color=auto", '1'),
    ];
    let found = known.iter().find(|(name, _)| *name == word);
    found
        .map(|(_, letter)| *letter)
        .ok_or_else(|| format!("ls takes no {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn flags_stand_together_or_alone() {
        let listing = read(&words("-la -t --reverse src -- -odd")).unwrap();
        assert_eq!(
            listing,
            Listing {
                paths: words("src -odd"),
                hidden: true,
                long: true,
                reversed: true,
                order: Order::Time,
                ..Listing::default()
            }
        );
        assert!(read(&words("-Z")).is_err() && read(&words("--hyperlink")).is_err());
    }
}
