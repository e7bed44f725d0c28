//! A module for R replicas of P partitions becomes one for R·P replicas of one partition, which is what XLA CPU gets: device
//! `r·P + p` runs partition p of replica r.
//!
//! The groups of every collective are written out in these flattened ids, after the mode in which the instruction states
//! them (StableHLO's "process grouping", XLA's `CollectiveOpGroupMode`); channels go. What a collective computes does not
//! change, and none is moved.

use pjrt_sys::protos::xla::SourceTarget;

use super::Error;
use super::groups::{self, Groups};
use super::ir::{Builder, Instruction, Literal, Module, PrimitiveType, array, is_tuple, shape_of};
use super::reducers;

/// What the ids in an instruction's groups stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Replicas; one group for each partition.
    CrossReplica,
    /// Partitions; one group for each replica.
    CrossPartition,
    /// Replicas, with all their partitions.
    CrossReplicaAndPartition,
    /// `replica · P + partition`.
    Flattened,
}

#[derive(Debug, Clone, Copy)]
struct Slice {
    replicas: i64,
    partitions: i64,
}

pub fn run(module: &mut Module, replicas: usize, partitions: usize) -> Result<(), Error> {
    let slice = Slice {
        replicas: replicas as i64,
        partitions: partitions as i64,
    };
    let known = reducers::known(module);
    module.rewrite(|builder, mut instruction| {
        instruction.sharding = None;
        match instruction.opcode.as_str() {
            "partition-id" => return partition_id(builder, instruction, slice),
            "replica-id" => return replica_id(builder, instruction, slice),
            "collective-permute" => {
                if instruction.operand_ids.len() != 1 {
                    return Err(Error::not_executable(
                        &instruction,
                        "collective-permute that updates in place",
                    ));
                }
                let mode = match instruction.channel_id > 0 {
                    true => Mode::CrossPartition,
                    false => Mode::CrossReplica,
                };
                instruction.source_target_pairs =
                    flattened_pairs(&instruction.source_target_pairs, mode, slice)
                        .map_err(|what| Error::malformed(&instruction.name, what))?;
                no_channel(&mut instruction);
            }
            "all-reduce"
            | "all-gather"
            | "reduce-scatter"
            | "all-to-all"
            | "ragged-all-to-all"
            | "collective-broadcast" => {
                let mode = mode(&instruction)?;
                let stated = groups::stated(&instruction)?;
                let flattened = flattened(&stated, mode, slice)
                    .map_err(|what| Error::malformed(&instruction.name, what))?;
                no_channel(&mut instruction);
                let reducer = instruction.called_computation_ids.first();
                if instruction.opcode == "all-reduce"
                    && !reducer.is_some_and(|id| known.contains(id))
                {
                    // In a group of one there is nothing to reduce.
                    if flattened.iter().all(|group| group.len() == 1) {
                        return alone(builder, instruction);
                    }
                    return reducers::gather_and_reduce(builder, instruction, flattened);
                }
                groups::set(&mut instruction, flattened);
            }
            _ => {}
        }
        builder.keep(instruction);
        Ok(())
    })?;
    let proto = &mut module.proto;
    proto.spmd_output_sharding = None;
    proto.spmd_parameters_shardings.clear();
    proto.use_auto_spmd_partitioning = false;
    proto.device_assignment = None;
    Ok(())
}

/// The operands themselves.
fn alone(builder: &mut Builder, mut instruction: Instruction) -> Result<(), Error> {
    instruction.opcode = match is_tuple(shape_of(&instruction)?) {
        true => "tuple".to_owned(),
        false => "copy".to_owned(),
    };
    instruction.called_computation_ids.clear();
    instruction.collective_device_list = None;
    builder.keep(instruction);
    Ok(())
}

fn no_channel(instruction: &mut Instruction) {
    instruction.channel_id = 0;
    instruction.use_global_device_ids = false;
    instruction.constrain_layout = false;
}

/// After `GetCollectiveOpGroupMode` of XLA's collective_ops_utils.cc.
fn mode(instruction: &Instruction) -> Result<Mode, Error> {
    let may_be_global = matches!(
        instruction.opcode.as_str(),
        "all-reduce" | "all-gather" | "reduce-scatter"
    );
    match (
        instruction.channel_id > 0,
        instruction.use_global_device_ids,
    ) {
        (false, false) => Ok(Mode::CrossReplica),
        (false, true) => Err(Error::malformed(
            &instruction.name,
            "its ids are global, but it has no channel",
        )),
        (true, _) if !may_be_global => Ok(Mode::CrossPartition),
        (true, false) => Ok(Mode::CrossReplicaAndPartition),
        (true, true) => Ok(Mode::Flattened),
    }
}

fn flattened(stated: &Groups, mode: Mode, slice: Slice) -> Result<Groups, String> {
    let Slice {
        replicas,
        partitions,
    } = slice;
    let ids = match mode {
        Mode::CrossReplica | Mode::CrossReplicaAndPartition => replicas,
        Mode::CrossPartition => partitions,
        Mode::Flattened => replicas * partitions,
    };
    if let Some(id) = stated.iter().flatten().find(|id| !(0..ids).contains(*id)) {
        return Err(format!("its groups name {id}, where there are {ids} ids"));
    }
    // No groups, and a group of none, are everyone.
    let everyone = vec![(0..ids).collect::<Vec<i64>>()];
    let stated = match stated.iter().all(Vec::is_empty) {
        true => &everyone,
        false => stated,
    };
    Ok(match mode {
        Mode::Flattened => stated.clone(),
        Mode::CrossReplica => stated
            .iter()
            .flat_map(|group| {
                (0..partitions).map(|p| group.iter().map(|r| r * partitions + p).collect())
            })
            .collect(),
        Mode::CrossPartition => stated
            .iter()
            .flat_map(|group| {
                (0..replicas).map(|r| group.iter().map(|p| r * partitions + p).collect())
            })
            .collect(),
        Mode::CrossReplicaAndPartition => stated
            .iter()
            .map(|group| {
                let partitions_of = |r: &i64| {
                    let first = r * partitions;
                    first..first + partitions
                };
                group.iter().flat_map(partitions_of).collect()
            })
            .collect(),
    })
}

fn flattened_pairs(
    pairs: &[SourceTarget],
    mode: Mode,
    slice: Slice,
) -> Result<Vec<SourceTarget>, String> {
    let partitions = slice.partitions;
    let ids = match mode {
        Mode::CrossReplica => slice.replicas,
        _ => partitions,
    };
    let mut named = pairs.iter().flat_map(|pair| [pair.source, pair.target]);
    if let Some(id) = named.find(|id| !(0..ids).contains(id)) {
        return Err(format!("its pairs name {id}, where there are {ids} ids"));
    }
    let pair = |source, target| SourceTarget { source, target };
    Ok(match mode {
        Mode::CrossReplica => pairs
            .iter()
            .flat_map(|it| {
                (0..partitions)
                    .map(move |p| pair(it.source * partitions + p, it.target * partitions + p))
            })
            .collect(),
        _ => (0..slice.replicas)
            .flat_map(|r| {
                pairs
                    .iter()
                    .map(move |it| pair(r * partitions + it.source, r * partitions + it.target))
            })
            .collect(),
    })
}

/// The flattened id modulo P.
fn partition_id(
    builder: &mut Builder,
    mut instruction: Instruction,
    slice: Slice,
) -> Result<(), Error> {
    if slice.partitions == 1 {
        return constant(builder, &instruction, 0);
    }
    if slice.replicas == 1 {
        instruction.opcode = "replica-id".to_owned();
        builder.keep(instruction);
        return Ok(());
    }
    of_flattened_id(builder, instruction, "remainder", slice)
}

/// The flattened id divided by P.
fn replica_id(builder: &mut Builder, instruction: Instruction, slice: Slice) -> Result<(), Error> {
    if slice.replicas == 1 {
        return constant(builder, &instruction, 0);
    }
    if slice.partitions == 1 {
        builder.keep(instruction);
        return Ok(());
    }
    of_flattened_id(builder, instruction, "divide", slice)
}

fn of_flattened_id(
    builder: &mut Builder,
    mut instruction: Instruction,
    opcode: &str,
    slice: Slice,
) -> Result<(), Error> {
    let id = builder.add("replica-id", array(PrimitiveType::U32, &[]), &[]);
    let partitions = builder.constant(scalar(slice.partitions as u32));
    instruction.opcode = opcode.to_owned();
    instruction.operand_ids = vec![id, partitions];
    builder.keep(instruction);
    Ok(())
}

fn constant(builder: &mut Builder, instruction: &Instruction, value: u32) -> Result<(), Error> {
    let id = builder.constant(scalar(value));
    builder.replace(instruction, id);
    Ok(())
}

fn scalar(value: u32) -> Literal {
    Literal {
        shape: Some(array(PrimitiveType::U32, &[])),
        u32s: vec![value],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Slice = Slice {
        replicas: 2,
        partitions: 4,
    };

    // Device ids r·4 + p: the first replica's partitions are 0 to 3, the second's 4 to 7.

    #[test]
    fn groups_of_replicas_are_repeated_for_each_partition() {
        let groups = flattened(&vec![vec![1, 0]], Mode::CrossReplica, SLICE).unwrap();
        assert_eq!(groups, [[4, 0], [5, 1], [6, 2], [7, 3]]);
    }

    #[test]
    fn groups_of_partitions_are_repeated_for_each_replica() {
        let stated = vec![vec![0, 2], vec![1, 3]];
        let groups = flattened(&stated, Mode::CrossPartition, SLICE).unwrap();
        assert_eq!(groups, [[0, 2], [4, 6], [1, 3], [5, 7]]);
    }

    #[test]
    fn groups_of_replicas_and_partitions_go_replica_by_replica() {
        let stated = vec![vec![1, 0]];
        let groups = flattened(&stated, Mode::CrossReplicaAndPartition, SLICE).unwrap();
        assert_eq!(groups, [[4, 5, 6, 7, 0, 1, 2, 3]]);
        let apart = vec![vec![0], vec![1]];
        let groups = flattened(&apart, Mode::CrossReplicaAndPartition, SLICE).unwrap();
        assert_eq!(groups, [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn flattened_groups_stay() {
        let stated = vec![vec![0, 5], vec![1, 2, 3, 4, 6, 7]];
        assert_eq!(flattened(&stated, Mode::Flattened, SLICE).unwrap(), stated);
    }

    #[test]
    fn no_groups_are_everyone() {
        let all = flattened(&Vec::new(), Mode::CrossReplica, SLICE).unwrap();
        assert_eq!(all, [[0, 4], [1, 5], [2, 6], [3, 7]]);
        let all = flattened(&vec![Vec::new()], Mode::CrossPartition, SLICE).unwrap();
        assert_eq!(all, [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn ids_past_the_slice_are_named() {
        let error = flattened(&vec![vec![0, 2]], Mode::CrossReplica, SLICE).unwrap_err();
        assert!(
            error.contains("name 2") && error.contains("2 ids"),
            "{error}"
        );
    }

    #[test]
    fn pairs_are_repeated_as_their_mode_says() {
        let pairs = |pairs: &[SourceTarget]| -> Vec<(i64, i64)> {
            pairs.iter().map(|p| (p.source, p.target)).collect()
        };
        let stated = [SourceTarget {
            source: 0,
            target: 1,
        }];
        assert_eq!(
            pairs(&flattened_pairs(&stated, Mode::CrossReplica, SLICE).unwrap()),
            [(0, 4), (1, 5), (2, 6), (3, 7)]
        );
        assert_eq!(
            pairs(&flattened_pairs(&stated, Mode::CrossPartition, SLICE).unwrap()),
            [(0, 1), (4, 5)]
        );
        let past = [SourceTarget {
            source: 1,
            target: i64::MAX,
        }];
        let error = flattened_pairs(&past, Mode::CrossReplica, SLICE).unwrap_err();
        assert!(error.contains("2 ids"), "{error}");
    }

    #[test]
    fn the_mode_follows_the_channel_and_the_kind_of_the_ids() {
        let of = |opcode: &str, channel_id, use_global_device_ids| {
            mode(&Instruction {
                opcode: opcode.to_owned(),
                channel_id,
                use_global_device_ids,
                ..Default::default()
            })
        };
        assert_eq!(of("all-reduce", 0, false), Ok(Mode::CrossReplica));
        assert_eq!(
            of("all-reduce", 1, false),
            Ok(Mode::CrossReplicaAndPartition)
        );
        assert_eq!(of("all-gather", 1, true), Ok(Mode::Flattened));
        assert_eq!(of("all-to-all", 1, false), Ok(Mode::CrossPartition));
        assert!(of("all-reduce", 0, true).is_err());
    }
}
