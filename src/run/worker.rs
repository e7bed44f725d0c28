//! The worker process: one target's plug-in, case after case, until it is told to stop or the plug-in kills it.
//!
//! Started by `tpu-parity worker PARENT_PID`, a subcommand that is not for people.

use std::fs::File;
use std::io::{self, BufReader};

use super::Computed;
use super::device::Device;
use super::protocol::{Job, Request, Response, receive, send};
use super::sys;
use crate::outcome::Stage;

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
            send(&output, &Response::Ready(Box::new(record)))?;
            device
        }
        Err(error) => return send(&output, &Response::Refused(error.to_string())),
    };
    loop {
        match receive(&mut input, &mut line)? {
            Some(Request::Job(job)) => serve_job(&device, *job, &output)?,
            Some(Request::Compute(case)) => {
                compute(&output, |stages| device.reference(&case, stages))?
            }
            Some(Request::Evaluate(case)) => {
                compute(&output, |stages| device.evaluate(&case, stages))?
            }
            Some(Request::Hello(_)) | None => return Ok(()),
        }
    }
}

fn serve_job(device: &Device, job: Job, output: &File) -> io::Result<()> {
    let mut stages = Stages::begin(output);
    let outcome = device.execute(&job.case, &job.reference, &mut |stage| {
        stages.reach(stage);
    });
    stages.sent?;
    send(output, &Response::Done(Box::new(outcome)))
}

/// Answers with the tensors that `tensors` gives, or with the outcome that says why there are none.
fn compute(
    output: &File,
    tensors: impl FnOnce(&mut dyn FnMut(Stage)) -> Computed,
) -> io::Result<()> {
    let mut stages = Stages::begin(output);
    let computed = tensors(&mut |stage| stages.reach(stage));
    stages.sent?;
    send(
        output,
        &computed.map_or_else(Response::Done, Response::Computed),
    )
}

/// Tells the supervisor how far the case has come.
struct Stages<'a> {
    output: &'a File,
    sent: io::Result<()>,
}

impl<'a> Stages<'a> {
    fn begin(output: &'a File) -> Self {
        let mut stages = Self {
            output,
            sent: Ok(()),
        };
        stages.reach(Stage::Load);
        stages
    }

    fn reach(&mut self, stage: Stage) {
        if self.sent.is_ok() {
            self.sent = send(self.output, &Response::Stage(stage));
        }
    }
}
