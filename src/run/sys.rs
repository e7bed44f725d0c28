//! The few system calls around a worker's start and end that the standard library does not wrap.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Moves the pipes at fds 0 and 1 to fresh numbers, which a plug-in does not know, and leaves `/dev/null` at 0 and standard
/// error at 1: plug-ins print to both. Returns the reading and the writing end.
pub(crate) fn take_stdio() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    redirect(File::open("/dev/null")?.as_raw_fd(), 0)?;
    redirect(2, 1)?;
    Ok((input.into(), output.into()))
}

fn redirect(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: `dup2` takes any numbers; nothing in this process owns fd 0 or 1 but the standard streams, which stay valid.
    if unsafe { libc::dup2(from, to) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Has the kernel kill this process when the thread that started it ends, and ends it now if its parent is gone already.
pub(crate) fn die_with_parent(parent: u32) {
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
    };
    if std::os::unix::process::parent_id() != parent {
        std::process::exit(0);
    }
}

/// No core files: a plug-in that aborts in hundreds of cases would fill the disk.
pub(crate) fn no_core_dumps() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is a valid rlimit for the duration of the call.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}

/// Whether this child has ended. It is not reaped, so that its id, and its group's, remain its own.
pub(crate) fn has_ended(child: u32) -> bool {
    // SAFETY: all zeros is a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for the duration of the call.
    let result = unsafe { libc::waitid(libc::P_PID, child, &raw mut info, flags) };
    // SAFETY: after a successful waitid the field is set, to 0 where nothing has ended.
    result == 0 && unsafe { info.si_pid() } != 0
}

/// Kills a child that leads a process group of its own, and whatever it forked. It must not have been reaped.
pub(crate) fn kill_group(child: u32) {
    if let Ok(group) = libc::pid_t::try_from(child) {
        // SAFETY: `kill` touches no memory; the id is a child's that was not waited for, so it is no one else's.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}
