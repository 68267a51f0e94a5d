//! What Landlock lets a command reach: roots to read, folders to write, and what is cut out of them.
//!
//! Landlock only adds: a right on a folder is a right on everything below, and nothing below can be taken away. What
//! is to stay out of reach is therefore left out, by granting its neighbours one by one; new neighbours then have no
//! rights. That is right for a home folder, and too dear for a workspace's `.git`: see [`crate::world::git_guard`].

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, SFlag, fstat};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The newest that is known here; the crate goes on with what the kernel has.
const NEWEST: ABI = ABI::V9;
/// Since this version, sockets in the file system follow the rules too (Linux 7.1).
pub const ABI_WITH_UNIX_SOCKETS: i32 = 9;

/// What may be done below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Also execute.
    Read,
    Write,
    /// A device: read and write, make nothing.
    Device,
}

/// Everything that one ruleset is made of. Paths are absolute; those that do not exist are passed over.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    pub read: Vec<&'a Path>,
    pub write: Vec<&'a Path>,
    pub devices: Vec<&'a Path>,
    /// To be written although it lies below what is left out.
    pub own: Vec<&'a Path>,
    /// Left out of all of the above.
    pub denied: Vec<&'a Path>,
    /// Left out of what may be written.
    pub read_only: Vec<&'a Path>,
    pub network: bool,
    /// Whether sockets in the file system are left alone.
    pub unix_sockets: bool,
}

/// Landlock's version in this kernel; 0 where it is missing or switched off.
pub fn kernel_abi() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: this form of the call only asks for a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// A ruleset, ready to be applied as often as wanted, and what it was made of.
#[derive(Debug)]
pub struct Made {
    /// `None` where the kernel has no Landlock.
    pub ruleset: Option<OwnedFd>,
    /// Folders whose entries have rules of their own, as they were when they were listed.
    pub listed: Vec<(PathBuf, Option<Stamp>)>,
}

/// What changes when a folder is replaced, or an entry of it comes, goes or is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl Stamp {
    /// `None` where there is nothing.
    pub fn of(path: &Path) -> Option<Self> {
        let meta = path.symlink_metadata().ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            changed_s: meta.ctime(),
            changed_ns: meta.ctime_nsec(),
        })
    }

    /// Whether both are the same file or folder, whatever became of it meanwhile.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Makes the ruleset of a plan.
///
/// # Errors
/// In words; nothing may be started then.
pub fn ruleset(plan: &Plan<'_>) -> Result<Made, String> {
    let fail = |error: RulesetError| format!("the Landlock rules cannot be made: {error}");
    let mut handled = AccessFs::from_all(NEWEST);
    if plan.unix_sockets {
        handled.remove(AccessFs::ResolveUnix);
    }
    let mut ruleset = Ruleset::default().handle_access(handled).map_err(fail)?;
    ruleset = ruleset.scope(Scope::from_all(NEWEST)).map_err(fail)?;
    if !plan.network {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(NEWEST))
            .map_err(fail)?;
    }
    let mut grants = Grants {
        ruleset: ruleset.create().map_err(fail)?,
        handled,
        plan,
        listed: Vec::new(),
    };
    for path in &plan.read {
        grants = grants.add(path, Right::Read).map_err(fail)?;
    }
    for path in &plan.devices {
        grants = grants.add(path, Right::Device).map_err(fail)?;
    }
    for path in &plan.write {
        grants = grants.add(path, Right::Write).map_err(fail)?;
    }
    for path in &plan.own {
        grants = grants.rule(path, Right::Write).map_err(fail)?;
    }
    Ok(Made {
        ruleset: grants.ruleset.into(),
        listed: grants.listed,
    })
}

struct Grants<'a> {
    ruleset: RulesetCreated,
    handled: BitFlags<AccessFs>,
    plan: &'a Plan<'a>,
    listed: Vec<(PathBuf, Option<Stamp>)>,
}

impl Grants<'_> {
    fn add(mut self, path: &Path, right: Right) -> Result<Self, RulesetError> {
        let holds = |list: &[&Path]| list.iter().any(|one| path.starts_with(one));
        if holds(&self.plan.denied) {
            return Ok(self);
        }
        let right = match right {
            Right::Write if holds(&self.plan.read_only) => Right::Read,
            other => other,
        };
        let mut left_out = below(path, &self.plan.denied);
        if right == Right::Write {
            left_out.extend(below(path, &self.plan.read_only));
        }
        if left_out.is_empty() {
            return self.rule(path, right);
        }
        self.listed.push((path.to_owned(), Stamp::of(path))); // before it is read
        let mut grants = self.grant(path, AccessFs::ReadDir.into())?; // its names, and those below
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // A link grants nothing by itself: where it leads has rules of its own.
            if !entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                continue;
            }
            let entry = entry.path();
            grants = match left_out.iter().any(|one| one.starts_with(&entry)) {
                true => grants.add(&entry, right)?,
                false => grants.rule(&entry, right)?,
            };
        }
        Ok(grants)
    }

    fn rule(self, path: &Path, right: Right) -> Result<Self, RulesetError> {
        let access = match right {
            Right::Read => AccessFs::from_read(NEWEST),
            Right::Write => AccessFs::from_all(NEWEST),
            Right::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        };
        self.grant(path, access)
    }

    fn grant(mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<Self, RulesetError> {
        // The path is canonical: a link that took its place since grants nothing.
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let Ok(opened) = open(path, flags, Mode::empty()) else {
            return Ok(self);
        };
        let access = access & self.handled;
        let access = match kind_of(&opened) {
            Ok(SFlag::S_IFDIR) => access,
            Ok(SFlag::S_IFLNK) | Err(_) => return Ok(self),
            Ok(_) => access & AccessFs::from_file(NEWEST),
        };
        if !access.is_empty() {
            self.ruleset = self.ruleset.add_rule(PathBeneath::new(opened, access))?;
        }
        Ok(self)
    }
}

/// Those that exist below a path.
fn below<'a>(path: &Path, list: &[&'a Path]) -> Vec<&'a Path> {
    let is_below = |one: &&&Path| one.starts_with(path) && one.symlink_metadata().is_ok();
    list.iter().filter(is_below).copied().collect()
}

fn kind_of(opened: &OwnedFd) -> Result<SFlag, Errno> {
    Ok(SFlag::from_bits_truncate(fstat(opened)?.st_mode) & SFlag::S_IFMT)
}

/// Of a repository's common folder, what git writes there for a commit in a linked worktree: neither its hooks and its
/// configuration, nor what belongs to the main checkout and to other worktrees.
pub fn shared_parts(common: &Path) -> Vec<PathBuf> {
    const PARTS: &[&str] = &["objects", "refs", "logs", "reftable", "lfs", "rr-cache"];
    PARTS.iter().map(|name| common.join(name)).collect()
}

/// The folders outside of the workspace that git writes, where the workspace is a linked worktree: its own, and the
/// repository's common one. Only where the repository says so itself: what the workspace says could be made up.
pub fn worktree_folders(root: &Path) -> Option<(PathBuf, PathBuf)> {
    const POINTER_BYTES_MAX: u64 = 4096;
    let pointer = root.join(".git");
    let small = |path: &Path| {
        let meta = path.symlink_metadata().ok()?;
        (meta.is_file() && meta.len() <= POINTER_BYTES_MAX).then_some(())?;
        fs::read_to_string(path).ok()
    };
    let text = small(&pointer)?;
    let own = root
        .join(text.strip_prefix("gitdir:")?.trim())
        .canonicalize()
        .ok()?;
    let worktrees = own.parent()?;
    let common = worktrees.parent()?;
    let points_back = Path::new(small(&own.join("gitdir"))?.trim())
        .canonicalize()
        .ok()?
        == pointer.canonicalize().ok()?;
    let is_repository = ["HEAD", "objects", "refs"]
        .iter()
        .all(|name| common.join(name).exists());
    (points_back && is_repository && worktrees.file_name()? == "worktrees")
        .then(|| (own.clone(), common.to_owned()))
}
