//! Gives the memory of a start back: pages of code that ran once and may never run again.
//!
//! An idle server is mostly such pages, for the kernel maps 64 kB around each first use. They stay in the file and in the
//! kernel's cache; what is needed after all is mapped again where it is used. Touches nothing that was ever written to.

use nix::libc;
use std::fs;

/// Lets go of the code of this program and its libraries. Where that cannot be done, nothing happens.
pub fn forget_start() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, bytes) in maps.lines().filter_map(code) {
        // SAFETY: the range is a private mapping of a file that nobody may write to, as the kernel has just said, so its
        // pages are those of the file: dropping them changes no byte that anyone reads.
        unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_DONTNEED) };
    }
}

/// Where a line of the map says that code of a file is: its start, and its length in bytes.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
    if rights != "r-xp" || !is_file {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let number = |digits| usize::from_str_radix(digits, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_let_go_of() {
        let text = "55d0c0a00000-55d0c0b00000 r-xp 01686000 fe:00 1 /usr/bin/a program";
        assert_eq!(code(text), Some((0x55d0_c0a0_0000, 0x10_0000)));
        for other in [
            "55d0c0a00000-55d0c0b00000 r--p 01686000 fe:00 1 /usr/bin/program",
            "55d0c0a00000-55d0c0b00000 rw-p 01686000 fe:00 1 /usr/bin/program",
            "55d0c0a00000-55d0c0b00000 rwxp 01686000 fe:00 1 /usr/bin/program",
            "55d0c0a00000-55d0c0b00000 r-xs 01686000 fe:00 1 /usr/bin/program",
            "7ffd1a5f0000-7ffd1a5f2000 r-xp 00000000 00:00 0 [vdso]",
            "7ffd1a5f0000-7ffd1a5f2000 r-xp 00000000 00:00 0",
            "nonsense",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn less_memory_is_held_and_the_program_goes_on() {
        let held = || {
            let status = fs::read_to_string("/proc/self/status").expect("a status");
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("RssFile:"));
            let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
            kilobytes.expect("a size").parse::<u64>().expect("a number")
        };
        let before = held();
        forget_start();
        let after = held();
        assert!(after < before, "{after} kB after {before} kB");
    }
}
