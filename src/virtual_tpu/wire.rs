//! What the plug-in and its compile helpers say to each other, and how: a header in JSON and a body of bytes, each with
//! its length before it.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::artifact::Facts;
use super::slice::Slice;
use super::topology::TopologyFacts;
use crate::hlo::MxuNumerics;

/// More than any program or executable has, so that nonsense is not taken for a length.
const LONGEST: u64 = 1 << 36;

/// Plug-in to helper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// First, once: load both compilers, whose files were checked.
    Hello {
        libtpu: PathBuf,
        cpu: PathBuf,
        /// Tells executables of different XLA CPU plug-ins apart.
        cpu_sha256: String,
    },
    /// The devices of a slice.
    Describe { slice: Slice },
    /// Body: the compile options, then the program.
    Compile(Job),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub slice: Slice,
    pub numerics: MxuNumerics,
    /// How many devices the slice has.
    pub devices: usize,
    pub format: String,
    /// Of the options in the body.
    pub options_length: usize,
}

/// Helper to plug-in.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// Answers `Hello`.
    Ready(CompilerFacts),
    /// Answers `Describe`.
    Described(TopologyFacts),
    /// A stage of a compilation begins.
    Stage(Stage),
    /// The TPU's compiler is done.
    Evidence(Box<Facts>),
    /// Body: the artifact.
    Compiled,
    /// Answers any request that came to nothing; the helper goes on.
    Failed(Failure),
}

/// What the helper's libtpu says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompilerFacts {
    pub stablehlo_version: Option<[i64; 3]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// libtpu, and the passes over what it returns.
    Tpu,
    Cpu,
}

impl Stage {
    /// Who is at work, for messages.
    pub fn compiler(self) -> &'static str {
        match self {
            Self::Tpu => "the TPU compiler",
            Self::Cpu => "XLA CPU's compiler",
        }
    }
}

/// An error with PJRT's code for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// `PJRT_Error_Code`.
    pub code: u32,
    pub message: String,
    /// What has no meaning on a CPU, where that is why.
    pub construct: Option<String>,
}

impl Failure {
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            construct: None,
        }
    }
}

/// Writes one message, and flushes it.
pub fn send<T: Serialize>(to: &mut impl Write, header: &T, body: &[&[u8]]) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let length: usize = body.iter().map(|part| part.len()).sum();
    let mut start = Vec::with_capacity(16 + header.len());
    start.extend_from_slice(&(header.len() as u64).to_le_bytes());
    start.extend_from_slice(&(length as u64).to_le_bytes());
    start.extend_from_slice(&header);
    to.write_all(&start)?;
    for part in body {
        to.write_all(part)?;
    }
    to.flush()
}

/// Reads one message; `None` at the end of the stream, and where its writer's death cut a message off.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0; 16];
    if !read_whole(from, &mut lengths)? {
        return Ok(None);
    }
    let (header, body) = lengths.split_at(8);
    let (Some(header), Some(body)) = (read_part(from, header)?, read_part(from, body)?) else {
        return Ok(None);
    };
    Ok(Some((serde_json::from_slice(&header)?, body)))
}

fn read_part(from: &mut impl Read, length: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let length = length
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    if length > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes"),
        ));
    }
    let mut part = Vec::new();
    from.take(length).read_to_end(&mut part)?;
    Ok((part.len() as u64 == length).then_some(part))
}

fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_and_cut_off_ones_do_not() {
        let mut bytes = Vec::new();
        let job = Job {
            slice: Slice::default(),
            numerics: MxuNumerics::Exact,
            devices: 1,
            format: "mlir".to_owned(),
            options_length: 2,
        };
        send(&mut bytes, &Request::Compile(job), &[b"ab", b"program"]).unwrap();
        let (request, body) = receive::<Request>(&mut &bytes[..]).unwrap().unwrap();
        assert!(matches!(request, Request::Compile(job) if job.options_length == 2));
        assert_eq!(body, b"abprogram");
        for end in [0, 7, 16, 30, bytes.len() - 1] {
            assert!(
                receive::<Request>(&mut &bytes[..end]).unwrap().is_none(),
                "{end}"
            );
        }
    }

    #[test]
    fn nonsense_is_no_length() {
        let bytes = [0xff; 32];
        assert!(receive::<Request>(&mut &bytes[..]).is_err());
    }
}
