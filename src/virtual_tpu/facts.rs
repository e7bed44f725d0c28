//! Reading the TPU compiler's answer: what it says of the program as a whole, and what its optimized HLO tells of where
//! the program came from.

use pjrt_sys::protos::xla;
use prost::Message;

use super::artifact::{Bytes, Facts};
use super::compiler::Compiled;
use super::optimized::Optimized;
use super::wire::Job;
use crate::pjrt::CompileOptions;

impl Facts {
    /// What cannot be had from the compiler is left empty: none of it is needed to run the program.
    pub(super) fn of(compiled: &Compiled, job: &Job, options: &CompileOptions, raw: &[u8]) -> Self {
        let executable = &compiled.executable;
        let optimized = Optimized::read(&compiled.optimized).ok();
        let nothing = xla::HloModuleProto::default();
        let module = optimized.as_ref().map_or(&nothing, Optimized::module);
        let mut cost = executable.cost_analysis().unwrap_or_default();
        // JSON, in which this travels, has no other numbers.
        cost.retain(|_, value| value.as_f64().is_none_or(f64::is_finite));
        let (replicas, partitions) = options.devices_in_use();
        let partitioned = partitions > 1;
        Self {
            slice: job.slice.clone(),
            numerics: job.numerics,
            replicas,
            partitions,
            code_size: executable.code_size().unwrap_or_default(),
            memory: executable.memory_stats().unwrap_or_default(),
            cost,
            estimated_cycles: optimized.as_ref().and_then(Optimized::estimated_cycles),
            fingerprint: executable.fingerprint().unwrap_or_default(),
            compile_options: raw.to_vec(),
            parameter_shardings: partitioned.then(|| parameter_shardings(module)).flatten(),
            output_shardings: partitioned.then(|| output_shardings(module)).flatten(),
            aliased_parameters: aliased_parameters(module),
            inputs: inputs(module),
            caller: caller(module),
            name: module.name.clone(),
            optimized_format: compiled.optimized.format.clone(),
            libtpu_seconds: compiled.libtpu_time.as_secs_f64(),
            passes_seconds: compiled.passes_time.as_secs_f64(),
            cpu_seconds: None,
        }
    }
}

fn entry(module: &xla::HloModuleProto) -> Option<&xla::HloComputationProto> {
    module
        .computations
        .iter()
        .find(|computation| computation.id == module.entry_computation_id)
}

fn inputs(module: &xla::HloModuleProto) -> Vec<String> {
    let mut parameters: Vec<&xla::HloInstructionProto> = entry(module)
        .map(|entry| {
            entry
                .instructions
                .iter()
                .filter(|instruction| instruction.opcode == "parameter")
                .collect()
        })
        .unwrap_or_default();
    parameters.sort_by_key(|parameter| parameter.parameter_number);
    parameters
        .iter()
        .filter_map(|parameter| parameter.shape.as_ref().map(shape))
        .collect()
}

/// As HLO text writes it, without layout: `f32[8,128]`, `(s32[], pred[4])`.
fn shape(shape: &xla::ShapeProto) -> String {
    let element_type =
        xla::PrimitiveType::try_from(shape.element_type).unwrap_or(xla::PrimitiveType::Invalid);
    if element_type == xla::PrimitiveType::Tuple {
        let parts: Vec<String> = shape.tuple_shapes.iter().map(self::shape).collect();
        return format!("({})", parts.join(", "));
    }
    let sizes: Vec<String> = shape.dimensions.iter().map(i64::to_string).collect();
    let name = element_type.as_str_name().to_lowercase();
    format!("{name}[{}]", sizes.join(","))
}

/// File and line of the first operation that names them: the outermost frame of the user's code where frames are kept.
fn caller(module: &xla::HloModuleProto) -> Option<String> {
    entry(module)?
        .instructions
        .iter()
        .filter_map(|instruction| instruction.metadata.as_ref())
        .find(|metadata| !metadata.source_file.is_empty())
        .map(|metadata| format!("{}:{}", metadata.source_file, metadata.source_line))
        .or_else(|| outermost_frame(module.stack_frame_index.as_ref()?))
}

fn outermost_frame(index: &xla::StackFrameIndexProto) -> Option<String> {
    let nth = |id: i32| usize::try_from(id).ok()?.checked_sub(1);
    let root = index
        .stack_frames
        .iter()
        .find(|frame| frame.parent_frame_id == 0)?;
    let location = index.file_locations.get(nth(root.file_location_id)?)?;
    let file = index.file_names.get(nth(location.file_name_id)?)?;
    Some(format!("{file}:{}", location.line))
}

fn aliased_parameters(module: &xla::HloModuleProto) -> Vec<usize> {
    let Some(alias) = &module.input_output_alias else {
        return Vec::new();
    };
    let mut parameters: Vec<usize> = alias
        .entries
        .iter()
        .filter_map(|entry| usize::try_from(entry.parameter_number).ok())
        .collect();
    parameters.sort_unstable();
    parameters.dedup();
    parameters
}

fn parameter_shardings(module: &xla::HloModuleProto) -> Option<Vec<Bytes>> {
    let shardings = &module.spmd_parameters_shardings;
    (!shardings.is_empty()).then(|| shardings.iter().flat_map(leaves).collect())
}

fn output_shardings(module: &xla::HloModuleProto) -> Option<Vec<Bytes>> {
    module.spmd_output_sharding.as_ref().map(leaves)
}

/// A tuple's sharding lists those of its parts.
fn leaves(sharding: &xla::OpSharding) -> Vec<Bytes> {
    if sharding.r#type() == xla::op_sharding::Type::Tuple {
        return sharding.tuple_shardings.iter().flat_map(leaves).collect();
    }
    vec![Bytes(sharding.encode_to_vec())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(opcode: &str) -> xla::HloInstructionProto {
        xla::HloInstructionProto {
            opcode: opcode.to_owned(),
            ..Default::default()
        }
    }

    fn with_entry(instructions: Vec<xla::HloInstructionProto>) -> xla::HloModuleProto {
        xla::HloModuleProto {
            entry_computation_id: 7,
            computations: vec![xla::HloComputationProto {
                id: 7,
                instructions,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn parameters_are_written_in_their_order() {
        let parameter = |number, element_type: xla::PrimitiveType, dimensions: &[i64]| {
            xla::HloInstructionProto {
                parameter_number: number,
                shape: Some(xla::ShapeProto {
                    element_type: element_type.into(),
                    dimensions: dimensions.to_vec(),
                    ..Default::default()
                }),
                ..instruction("parameter")
            }
        };
        let module = with_entry(vec![
            parameter(1, xla::PrimitiveType::S32, &[]),
            parameter(0, xla::PrimitiveType::Bf16, &[8, 128]),
        ]);
        assert_eq!(inputs(&module), ["bf16[8,128]", "s32[]"]);
    }

    #[test]
    fn the_caller_is_the_first_place_named() {
        let mut named = instruction("add");
        named.metadata = Some(xla::OpMetadata {
            source_file: "model.py".to_owned(),
            source_line: 12,
            ..Default::default()
        });
        let module = with_entry(vec![instruction("parameter"), named]);
        assert_eq!(caller(&module).unwrap(), "model.py:12");
        assert_eq!(caller(&with_entry(vec![])), None);
        // Frames are numbered from 1; the one without a parent is the outermost.
        let mut module = with_entry(vec![]);
        module.stack_frame_index = Some(xla::StackFrameIndexProto {
            file_names: vec!["layer.py".to_owned(), "train.py".to_owned()],
            function_names: vec!["f".to_owned()],
            file_locations: [(1, 3), (2, 40)]
                .map(
                    |(file_name_id, line)| xla::stack_frame_index_proto::FileLocation {
                        file_name_id,
                        function_name_id: 1,
                        line,
                        column: 0,
                    },
                )
                .to_vec(),
            stack_frames: [(1, 2), (2, 0)]
                .map(|(file_location_id, parent_frame_id)| {
                    xla::stack_frame_index_proto::StackFrame {
                        file_location_id,
                        parent_frame_id,
                    }
                })
                .to_vec(),
        });
        assert_eq!(caller(&module).unwrap(), "train.py:40");
    }

    #[test]
    fn a_tuples_sharding_is_one_a_part() {
        let replicated = xla::OpSharding::default();
        let tuple = xla::OpSharding {
            r#type: xla::op_sharding::Type::Tuple.into(),
            tuple_shardings: vec![replicated.clone(), replicated],
            ..Default::default()
        };
        assert_eq!(leaves(&tuple).len(), 2);
    }
}
