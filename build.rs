//! How the program is linked.
//!
//! Relative relocations are packed (RELR): three quarters of a megabyte less that each start reads and each process holds.
//! glibc reads them since 2.36, and an older one refuses to start such a program: there it is linked as usual.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of = |name| std::env::var(name).unwrap_or_default();
    let gnu = of("CARGO_CFG_TARGET_OS") == "linux" && of("CARGO_CFG_TARGET_ENV") == "gnu";
    // What another machine has is not known.
    if gnu && of("HOST") == of("TARGET") && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The glibc of this machine.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn glibc() -> Option<(u32, u32)> {
    unsafe extern "C" {
        safe fn gnu_get_libc_version() -> *const std::ffi::c_char;
    }
    // SAFETY: it is a constant text that ends with a NUL.
    let version = unsafe { std::ffi::CStr::from_ptr(gnu_get_libc_version()) };
    let (major, minor) = version.to_str().ok()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn glibc() -> Option<(u32, u32)> {
    None
}
