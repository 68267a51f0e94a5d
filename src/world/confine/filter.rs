//! What seccomp refuses: system calls that reach around the rules on files, into other processes, or into the kernel.
//!
//! A list of what is refused, not of what is allowed: programs that people build may call anything ordinary.

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// What the commands of one filter may reach.
#[derive(Debug, Clone, Copy)]
pub struct Reachable {
    pub network: bool,
    /// Sockets in the file system, such as Docker's.
    pub unix_sockets: bool,
    /// Landlock's version, 0 for none: what it cannot refuse is refused here.
    pub landlock_abi: i32,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever the arguments.
const REFUSED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // What is mounted where.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    // Namespaces of others; new ones by flags, below.
    libc::SYS_setns,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_fanotify_init,
    // Keys of the session.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Around the rules: files by handle, calls that no filter sees.
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_kexec_file_load,
    libc::SYS_modify_ldt,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

const NEW_NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// Typing into, or taking over, the terminal of somebody else.
const TERMINAL_TRICKS: &[u64] = &[0x5412, 0x541c, 0x5423]; // TIOCSTI, TIOCLINUX, TIOCSETD
/// `type` of a socket without its flags.
const SOCKET_TYPE_MASK: u64 = 0xf;
/// The x32 calls of x86-64 have this bit in their number; no filter by number would match them.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

/// The programs, in the order in which they are to be applied.
///
/// # Errors
/// Where this machine is none that seccomp is known for.
pub fn programs(reachable: Reachable) -> Result<Vec<BpfProgram>, String> {
    let refused = compile(refused(reachable)?, libc::EPERM)?;
    let sockets = compile(sockets(reachable)?, libc::EACCES)?;
    // Its flags are behind a pointer, where no filter can look: the C libraries go on with `clone`.
    let mut unknown: Rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    if truncates(reachable) {
        unknown.insert(libc::SYS_openat2, Vec::new());
    }
    let unknown = compile(unknown, libc::ENOSYS)?;
    Ok(vec![refuse_x32(unknown), refused, sockets])
}

fn refused(reachable: Reachable) -> Result<Rules, String> {
    let mut rules: Rules = REFUSED
        .iter()
        .chain(REFUSED_HERE)
        .map(|call| (*call, Vec::new()))
        .collect();
    let has = |flag: u64| rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)]);
    let namespaces = || {
        NEW_NAMESPACES
            .iter()
            .map(|flag| has(u64::from(flag.unsigned_abs())))
            .collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_clone, namespaces()?);
    rules.insert(libc::SYS_unshare, namespaces()?);
    let tricks = TERMINAL_TRICKS
        .iter()
        .map(|trick| rule(&[(1, SeccompCmpOp::Eq, *trick)]));
    rules.insert(libc::SYS_ioctl, tricks.collect::<Result<_, _>>()?);
    // Limits of other processes of the user: 0 stands for the caller itself.
    let of_others = rule(&[(0, SeccompCmpOp::Ne, 0)])?;
    rules.insert(libc::SYS_prlimit64, vec![of_others]);
    if truncates(reachable) {
        refuse_truncation(&mut rules)?;
    }
    Ok(rules)
}

fn truncates(reachable: Reachable) -> bool {
    (1..3).contains(&reachable.landlock_abi)
}

/// Landlock knows of truncation since its third version (Linux 6.2). Before, a file that may only be read could be
/// emptied by its path; one that is open for writing may be cut as ever.
fn refuse_truncation(rules: &mut Rules) -> Result<(), String> {
    let mask = (libc::O_ACCMODE | libc::O_TRUNC).unsigned_abs().into();
    let truncating = libc::O_TRUNC.unsigned_abs().into(); // and O_RDONLY, which is 0
    let at = |argument| rule(&[(argument, SeccompCmpOp::MaskedEq(mask), truncating)]);
    rules.insert(libc::SYS_truncate, Vec::new());
    rules.insert(libc::SYS_openat, vec![at(2)?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![at(1)?]);
    Ok(())
}

fn sockets(reachable: Reachable) -> Result<Rules, String> {
    let mut allowed = Vec::new();
    if reachable.network {
        allowed.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    if reachable.unix_sockets {
        allowed.push(libc::AF_UNIX);
    }
    let none_of: Vec<_> = allowed
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())))
        .collect();
    let refused = match none_of.is_empty() {
        true => Vec::new(),
        false => vec![rule(&none_of)?],
    };
    let mut rules = BTreeMap::from([(libc::SYS_socket, refused)]);
    if !reachable.unix_sockets {
        // One of a pair of datagram sockets can be pointed at any other socket; streams stay what they are.
        let datagram = libc::SOCK_DGRAM.unsigned_abs().into();
        let pair = rule(&[(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK), datagram)])?;
        rules.insert(libc::SYS_socketpair, vec![pair]);
    }
    Ok(rules)
}

/// All conditions: argument, comparison, value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, String> {
    let condition = |(argument, compare, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, compare.clone(), *value)
    };
    let conditions: Result<_, _> = conditions.iter().map(condition).collect();
    conditions
        .and_then(SeccompRule::new)
        .map_err(|error| error.to_string())
}

fn compile(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, String> {
    let architecture: TargetArch = std::env::consts::ARCH
        .try_into()
        .map_err(|_| format!("seccomp is not known for {}", std::env::consts::ARCH))?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())
}

/// Puts "any x32 call: no such call" before a program.
#[cfg(target_arch = "x86_64")]
fn refuse_x32(program: BpfProgram) -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20; // ld [0]
    const JUMP_GE: u16 = 0x35; // jge #k
    const RETURN: u16 = 0x06; // ret #k
    let statement = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let mut all = vec![
        statement(LOAD_NUMBER, 0, 0, 0),
        statement(JUMP_GE, 0, 1, X32_BIT),
        statement(RETURN, 0, 0, errno),
    ];
    all.extend(program);
    all
}

#[cfg(not(target_arch = "x86_64"))]
fn refuse_x32(program: BpfProgram) -> BpfProgram {
    program
}
