//! The worker process: one target's plug-in, case after case, until it is told to stop or the plug-in kills it.
//!
//! Started by `tpu-parity worker PARENT_PID`, a subcommand that is not for people.

use std::io::{self, BufReader};

use super::device::Device;
use super::protocol::{Job, Request, Response, receive, send};
use super::sys;

/// Serves until the supervisor closes the pipe. `parent` is the supervisor's process id.
pub fn serve(parent: u32) -> io::Result<()> {
    sys::die_with_parent(parent);
    sys::no_core_dumps();
    let (input, output) = sys::take_stdio()?;
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    // SAFETY: this is the start of the process, and no other thread runs.
    unsafe { crate::pjrt::prepare_environment() };

    let Some(Request::Hello(hello)) = receive(&mut input, &mut line)? else {
        return Ok(());
    };
    let device = match Device::open(&hello) {
        Ok((device, record)) => {
            send(&output, &Response::Ready(record))?;
            device
        }
        Err(error) => return send(&output, &Response::Refused(error.to_string())),
    };
    while let Some(Request::Job(job)) = receive(&mut input, &mut line)? {
        serve_job(&device, *job, &output)?;
    }
    Ok(())
}

fn serve_job(device: &Device, job: Job, output: &std::fs::File) -> io::Result<()> {
    let mut sent = Ok(());
    let mut on_stage = |stage| {
        if sent.is_ok() {
            sent = send(output, &Response::Stage(stage));
        }
    };
    on_stage(crate::outcome::Stage::Load);
    let outcome = device.execute(&job.case, job.reference.as_deref(), &mut on_stage);
    sent?;
    send(output, &Response::Done(Box::new(outcome)))
}
