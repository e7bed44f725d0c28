//! The few system calls of a worker's start that the standard library does not wrap.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Moves the pipes at fds 0 and 1 to fresh numbers, which a plug-in does not know, and leaves `/dev/null` at 0 and standard
/// error at 1: plug-ins print to both. Returns the reading and the writing end.
pub(super) fn take_stdio() -> io::Result<(File, File)> {
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
pub(super) fn die_with_parent(parent: u32) {
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
pub(super) fn no_core_dumps() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is a valid rlimit for the duration of the call.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}
