//! Gives the memory of a start back: pages of the program's file that were read once and may never be again, and what the
//! allocator keeps of memory that was freed.
//!
//! A small process is mostly such pages, for the kernel maps 64 kB around each first use. They stay in the file and in the
//! kernel's cache; what is needed after all is mapped again where it is used. Touches nothing that anyone has written.

use nix::libc;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Lets go of the code and the constants of this program and its libraries, and of what it freed. Where that cannot be done,
/// nothing happens.
pub fn forget_start() {
    // SAFETY: whole pages that nothing was allocated in are given back, under the allocator's own lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    // SAFETY: the callback reads what it is given, for as long as it is given it, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(forget), std::ptr::null_mut()) };
}

/// Lets go of one loaded object.
extern "C" fn forget(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: glibc and musl hand over a valid object, with as many headers as it says.
    let (info, headers) = unsafe {
        let info = &*info;
        let count = usize::from(info.dlpi_phnum);
        (info, std::slice::from_raw_parts(info.dlpi_phdr, count))
    };
    let page = 4096; // of the smallest that Linux has; where pages are larger, the kernel refuses what does not fit
    for range in headers.iter().filter_map(|header| unwritten(header, page)) {
        let start = info.dlpi_addr as usize + range.start;
        // SAFETY: a private mapping of a file that nobody may write to and that the loader left as it is in the file:
        // dropping its pages changes no byte that anyone reads.
        unsafe { libc::madvise(start as *mut c_void, range.len(), libc::MADV_DONTNEED) };
    }
    0
}

/// The whole pages of what is mapped as it stands in the file, relative to where the object is. What may be written, or
/// was until the loader had relocated it, is none of that.
fn unwritten(header: &libc::Elf64_Phdr, page: usize) -> Option<Range<usize>> {
    if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
        return None;
    }
    let start = (header.p_vaddr as usize).next_multiple_of(page);
    let end = (header.p_vaddr + header.p_filesz) as usize / page * page;
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn header(kind: u32, flags: u32, start: u64, bytes: u64) -> libc::Elf64_Phdr {
        libc::Elf64_Phdr {
            p_type: kind,
            p_flags: flags,
            p_offset: 0,
            p_vaddr: start,
            p_paddr: start,
            p_filesz: bytes,
            p_memsz: bytes,
            p_align: 4096,
        }
    }

    #[test]
    fn only_whole_pages_that_nobody_writes_are_let_go_of() {
        let (read, write, run) = (libc::PF_R, libc::PF_W, libc::PF_X);
        let range = |kind, flags| unwritten(&header(kind, flags, 0x1800, 0x3000), 4096);
        assert_eq!(range(libc::PT_LOAD, read | run), Some(0x2000..0x4000));
        assert_eq!(range(libc::PT_LOAD, read), Some(0x2000..0x4000));
        assert_eq!(range(libc::PT_LOAD, read | write), None);
        assert_eq!(range(libc::PT_GNU_RELRO, read), None);
        assert_eq!(range(libc::PT_TLS, read), None);
        let small = header(libc::PT_LOAD, read, 0x1800, 0x900);
        assert_eq!(unwritten(&small, 4096), None);
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
