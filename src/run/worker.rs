//! The worker process: one target's plug-in, case after case, until it is told to stop or the plug-in kills it.
//!
//! Started by `tpu-parity worker PARENT_PID`, a subcommand that is not for people.

use std::fs::File;
use std::io::{self, BufReader};

use super::device::Device;
use super::protocol::{Answer, Job, Request, Response, receive, send};
use super::sys;
use crate::outcome::{Outcome, Stage};

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
            Some(Request::Compute(case)) => answer(&output, |on_stage| {
                device.reference(&case, on_stage).map(Answer::Reference)
            })?,
            Some(Request::Outputs(case)) => answer(&output, |on_stage| {
                device.outputs(&case, on_stage).map(Answer::Outputs)
            })?,
            Some(Request::Terms(case)) => answer(&output, |on_stage| {
                device.terms(&case, on_stage).map(Answer::Terms)
            })?,
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

fn answer(
    output: &File,
    find_out: impl FnOnce(&mut dyn FnMut(Stage)) -> Result<Answer, Box<Outcome>>,
) -> io::Result<()> {
    let mut stages = Stages::begin(output);
    let found = find_out(&mut |stage| stages.reach(stage));
    stages.sent?;
    send(output, &found.map_or_else(Response::Done, Response::Answer))
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
