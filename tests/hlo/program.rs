//! Small HLO modules built by hand, and their results on XLA CPU after the passes.

use prost::Message;
use tpu_parity::hlo::ir::{Builder, Computation, Instruction, Module, ModuleProto, Shape};
use tpu_parity::hlo::{Error, MxuNumerics, Options, to_cpu};
use tpu_parity::pjrt::{CompileOptions, ExecuteOptions, Program};
use tpu_parity::target::Generation;
use tpu_parity::tensor::Tensor;

use crate::common::client;

pub const OPTIONS: Options = Options {
    generation: Generation::V6e,
    numerics: MxuNumerics::Mxu,
    replicas: 1,
    partitions: 1,
};

/// A module of one computation; `body` gets the ids of its parameters.
pub fn module(
    parameters: &[Shape],
    body: impl FnOnce(&mut Builder, &[i64]) -> Result<i64, Error>,
) -> ModuleProto {
    let mut module = Module::new(ModuleProto {
        name: "test".to_owned(),
        computations: vec![Computation {
            name: "seed".to_owned(),
            instructions: vec![Instruction::default()],
            id: 1,
            ..Default::default()
        }],
        ..Default::default()
    });
    let mut body = Some(body);
    let mut entry = 0;
    module
        .rewrite(|builder, _| {
            if let Some(body) = body.take() {
                entry = builder.add_computation("main", parameters, body)?;
            }
            Ok(())
        })
        .unwrap();
    let mut proto = module.into_proto();
    proto.computations.retain(|computation| computation.id != 1);
    proto.host_program_shape = proto
        .computations
        .iter()
        .find(|computation| computation.id == entry)
        .and_then(|computation| computation.program_shape.clone());
    proto.entry_computation_id = entry;
    proto.entry_computation_name = "main".to_owned();
    proto.id = 1;
    proto
}

pub fn run(module: ModuleProto, options: &Options, arguments: &[Tensor]) -> Vec<Tensor> {
    let module = to_cpu(module, options).unwrap();
    let client = client("xla-cpu");
    let device = &client.addressable_devices().unwrap()[0];
    let compile = CompileOptions::new().flag("xla_allow_excess_precision", false);
    let executable = client
        .compile(&Program::hlo(module.encode_to_vec()), &compile)
        .unwrap();
    let buffers: Vec<_> = arguments
        .iter()
        .map(|argument| client.buffer_from_host(argument, device).unwrap())
        .collect();
    let arguments = [buffers.iter().collect::<Vec<_>>()];
    executable
        .execute(&arguments, &ExecuteOptions::default())
        .unwrap()[0]
        .iter()
        .map(|buffer| buffer.to_host().unwrap())
        .collect()
}
