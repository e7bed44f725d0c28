//! The few system calls around a worker's start and end that the standard library does not wrap.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

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

/// Has the kernel kill a child when the thread that starts it ends, and lets it keep a descriptor that is otherwise closed for it.
pub(crate) fn tie_child(command: &mut Command, keeps: Option<RawFd>) {
    let parent = std::process::id();
    let tie = move || {
        // SAFETY: F_SETFD takes any number and touches no memory.
        if keeps.is_some_and(|fd| unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0) {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_os = "linux")]
        // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)
        };
        match std::os::unix::process::parent_id() == parent {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: between fork and exec the closure makes three system calls and neither allocates nor locks.
    unsafe { command.pre_exec(tie) };
}

/// Ends this process as another one ended: by the same signal, or with the same status.
pub(crate) fn end_like(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        // SAFETY: `signal` and `raise` take any number; the default action needs no handler of ours.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    std::process::exit(status.code().unwrap_or(1))
}

/// Resident memory, in bytes, of the processes of a group, where the system tells.
pub(crate) fn resident_of_group(group: u32) -> Option<u64> {
    let mut kib = 0;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        if !name
            .to_string_lossy()
            .starts_with(|c: char| c.is_ascii_digit())
        {
            continue;
        }
        // Processes come and go.
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).ok();
        let of_group = read("stat").and_then(|stat| group_of(&stat)) == Some(group);
        if of_group && let Some(status) = read("status") {
            kib += resident_in(&status).unwrap_or(0);
        }
    }
    Some(kib * 1024)
}

/// The fifth field of `/proc/PID/stat`; the second, a name in parentheses, may hold anything.
fn group_of(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(2)?.parse().ok()
}

fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_a_process_and_its_group() {
        assert_eq!(group_of("7 (a) b) S 1 42 7 0"), Some(42));
        assert_eq!(resident_in("Name:\tx\nVmRSS:\t  128 kB\n"), Some(128));
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let resident = resident_of_group(group_of(&own).unwrap()).unwrap();
        assert!(resident > 1 << 20, "{resident}");
    }
}
