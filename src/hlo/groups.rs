//! Which devices take part in a collective: reads the forms in which the compiler writes its groups, and gives them as lists.
//!
//! Newer compilers than the protos here write two more forms, an iota and the axes of a mesh, in fields that decoding drops;
//! so a module is read by [`decode`], which looks at the bytes once more for those. Nothing is rewritten here.

use std::collections::HashMap;

use pjrt_sys::protos::xla::{CollectiveDeviceListProto, IotaReplicaGroupListProto, ReplicaGroup};
use prost::Message;

use super::Error;
use super::ir::{Instruction, ModuleProto};

/// One list of ids a group, in the order in which the members' parts are concatenated.
pub type Groups = Vec<Vec<i64>>;

/// A serialised `HloModuleProto`, with the groups of its collectives as lists whatever the form they were written in.
///
/// # Errors
/// When the bytes are no module, or the groups contradict themselves.
pub fn decode(bytes: &[u8]) -> Result<ModuleProto, Error> {
    let unreadable = |error: prost::DecodeError| Error::malformed("", error.to_string());
    let mut module = ModuleProto::decode(bytes).map_err(unreadable)?;
    let newer = newer::Module::decode(bytes).map_err(unreadable)?;
    let mut found = HashMap::new();
    for instruction in newer.computations.iter().flat_map(|c| &c.instructions) {
        let groups = match (&instruction.iota, &instruction.mesh_axes) {
            (Some(iota), _) => of_iota(iota),
            (None, Some(axes)) => of_mesh_axes(axes),
            (None, None) => continue,
        };
        found.insert(instruction.id, groups);
    }
    for instruction in module
        .computations
        .iter_mut()
        .flat_map(|c| &mut c.instructions)
    {
        if let Some(groups) = found.remove(&instruction.id) {
            let groups = groups.map_err(|what| Error::malformed(&instruction.name, what))?;
            set(instruction, groups);
        }
    }
    super::newer::add(&mut module, bytes)?;
    Ok(module)
}

/// A serialised `HloModuleProtoWithConfig`, read as by [`decode`].
pub fn decode_with_config(bytes: &[u8]) -> Result<ModuleProto, Error> {
    let outer = newer::ModuleWithConfig::decode(bytes)
        .map_err(|error| Error::malformed("", error.to_string()))?;
    decode(&outer.hlo_module)
}

/// The groups that an instruction states; none where it states none, which stands for everyone.
pub fn stated(instruction: &Instruction) -> Result<Groups, Error> {
    #[expect(
        deprecated,
        reason = "compilers older than the list of devices write this"
    )]
    let older = &instruction.replica_groups;
    let lists = |groups: &[ReplicaGroup]| groups.iter().map(|g| g.replica_ids.clone()).collect();
    let Some(list) = &instruction.collective_device_list else {
        return Ok(lists(older));
    };
    match &list.iota_replica_group_list {
        Some(iota) => of_iota(iota).map_err(|what| Error::malformed(&instruction.name, what)),
        None if list.replica_groups.is_empty() => Ok(lists(older)),
        None => Ok(lists(&list.replica_groups)),
    }
}

/// Writes the groups as lists.
pub fn set(instruction: &mut Instruction, groups: Groups) {
    #[expect(deprecated, reason = "it is emptied, for the list of devices counts")]
    instruction.replica_groups.clear();
    instruction.collective_device_list = Some(CollectiveDeviceListProto {
        replica_groups: groups
            .into_iter()
            .map(|replica_ids| ReplicaGroup { replica_ids })
            .collect(),
        ..Default::default()
    });
}

/// `[groups, members]<=[dims]T(permutation)`: 0, 1, 2, … in the shape `dims`, transposed, and cut into groups.
fn of_iota(iota: &IotaReplicaGroupListProto) -> Result<Groups, String> {
    let permutation: Vec<i64> = iota
        .iota_transpose_perm
        .iter()
        .map(|&d| i64::from(d))
        .collect();
    let ids = transposed_iota(&iota.iota_reshape_dims, &permutation)?;
    let members = usize::try_from(iota.num_devices_per_group).unwrap_or(0);
    let groups = usize::try_from(iota.num_replica_groups).unwrap_or(0);
    if members == 0 || groups.checked_mul(members) != Some(ids.len()) {
        return Err(format!(
            "{groups} groups of {members} devices out of {}",
            ids.len()
        ));
    }
    Ok(ids.chunks(members).map(<[i64]>::to_vec).collect())
}

/// The devices that differ in nothing but their coordinates on the given axes form a group, ordered by these coordinates,
/// the last axis fastest.
///
/// An axis may be given in part: with `pre_size` p and `size` s, an axis of n counts as the three axes p, s, n/(p·s), and
/// the middle one is meant.
fn of_mesh_axes(list: &newer::MeshAxes) -> Result<Groups, String> {
    let mesh = list.mesh.as_ref().ok_or("a group without a mesh")?;
    let sizes: Vec<usize> = mesh
        .axes
        .iter()
        .map(|axis| usize::try_from(axis.size).ok().filter(|size| *size > 0))
        .collect::<Option<_>>()
        .ok_or("a mesh with an axis of no size")?;
    let parts = list
        .axes
        .iter()
        .map(|axis| part(axis, &sizes))
        .collect::<Result<Vec<Part>, String>>()?;
    let devices = device_ids(mesh, &sizes)?;

    // Group by the coordinates that the parts leave out; within a group sort by those that they name.
    let mut groups: Vec<Vec<(Vec<usize>, i64)>> = Vec::new();
    let mut index: HashMap<Vec<usize>, usize> = HashMap::new();
    for (place, device) in devices.into_iter().enumerate() {
        let mut rest = coordinates(place, &sizes);
        let mut named = Vec::with_capacity(parts.len());
        for part in &parts {
            let coordinate = rest
                .get_mut(part.axis)
                .ok_or("an axis that the mesh does not have")?;
            let digit = *coordinate / part.stride % part.size;
            named.push(digit);
            *coordinate -= digit * part.stride;
        }
        let group = *index.entry(rest).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        if let Some(members) = groups.get_mut(group) {
            members.push((named, device));
        }
    }
    let expected: usize = parts.iter().map(|part| part.size).product();
    groups
        .into_iter()
        .map(|mut members| {
            members.sort();
            match members.len() == expected {
                true => Ok(members.into_iter().map(|(_, device)| device).collect()),
                false => Err("the axes of a group overlap".to_owned()),
            }
        })
        .collect()
}

/// The digits of an axis' coordinate that a group spans.
struct Part {
    axis: usize,
    size: usize,
    /// How far the coordinate moves from one digit to the next.
    stride: usize,
}

fn part(axis: &newer::AxisRef, sizes: &[usize]) -> Result<Part, String> {
    let odd = || format!("a group over {axis:?} of a mesh with axes of {sizes:?}");
    let index = usize::try_from(axis.mesh_axis_index).map_err(|_| odd())?;
    let full = *sizes.get(index).ok_or_else(odd)?;
    let (before, size) = match &axis.sub_axis {
        None => (1, full),
        Some(sub) => (
            usize::try_from(sub.pre_size).map_err(|_| odd())?,
            usize::try_from(sub.size).map_err(|_| odd())?,
        ),
    };
    match before.checked_mul(size) {
        Some(upto) if upto > 0 && full % upto == 0 => Ok(Part {
            axis: index,
            size,
            stride: full / upto,
        }),
        _ => Err(odd()),
    }
}

/// The mesh's devices with the last axis fastest; without a list or an iota they are 0, 1, 2, …
fn device_ids(mesh: &newer::Mesh, sizes: &[usize]) -> Result<Vec<i64>, String> {
    let count = sizes
        .iter()
        .try_fold(1usize, |n, size| n.checked_mul(*size))
        .filter(|count| *count <= MOST_DEVICES)
        .ok_or("a mesh too large to be one")?;
    let ids = match &mesh.iota {
        Some(iota) => transposed_iota(&iota.reshape_dims, &iota.transpose_perm)?,
        None if mesh.device_ids.is_empty() => (0..count as i64).collect(),
        None => mesh.device_ids.clone(),
    };
    match ids.len() == count {
        true => Ok(ids),
        false => Err(format!("{} devices in a mesh of {count}", ids.len())),
    }
}

/// More than any TPU slice has; keeps a damaged size from filling the memory.
const MOST_DEVICES: usize = 1 << 20;

fn transposed_iota(dims: &[i64], permutation: &[i64]) -> Result<Vec<i64>, String> {
    let odd = || format!("an iota of {dims:?} transposed by {permutation:?}");
    let sizes: Vec<usize> = dims
        .iter()
        .map(|&d| usize::try_from(d))
        .collect::<Result<_, _>>()
        .map_err(|_| odd())?;
    let order: Vec<usize> = match permutation.is_empty() {
        true => (0..sizes.len()).collect(),
        false => permutation
            .iter()
            .map(|&d| usize::try_from(d).ok().filter(|d| *d < sizes.len()))
            .collect::<Option<_>>()
            .ok_or_else(odd)?,
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..sizes.len()) {
        return Err(odd());
    }
    let moved: Vec<usize> = order.iter().map(|&d| sizes[d]).collect();
    let count = moved
        .iter()
        .try_fold(1usize, |n, size| n.checked_mul(*size))
        .filter(|count| *count <= MOST_DEVICES)
        .ok_or_else(odd)?;
    Ok((0..count)
        .map(|place| {
            let mut source = vec![0; sizes.len()];
            for (coordinate, &dimension) in coordinates(place, &moved).into_iter().zip(&order) {
                source[dimension] = coordinate;
            }
            source
                .into_iter()
                .zip(&sizes)
                .fold(0, |id, (c, size)| id * *size as i64 + c as i64)
        })
        .collect())
}

/// Of a place in row-major order.
fn coordinates(mut place: usize, sizes: &[usize]) -> Vec<usize> {
    let mut found = vec![0; sizes.len()];
    for (coordinate, size) in found.iter_mut().zip(sizes).rev() {
        *coordinate = place % size;
        place /= size;
    }
    found
}

/// The fields of XLA's `hlo.proto` and `xla_data.proto` that are newer than the protos at hand; all else is skipped.
mod newer {
    use super::IotaReplicaGroupListProto;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ModuleWithConfig {
        #[prost(bytes = "vec", tag = "1")]
        pub hlo_module: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Module {
        #[prost(message, repeated, tag = "3")]
        pub computations: Vec<Computation>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Computation {
        #[prost(message, repeated, tag = "2")]
        pub instructions: Vec<Instruction>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Instruction {
        #[prost(int64, tag = "35")]
        pub id: i64,
        /// `iota_collective_device_list`
        #[prost(message, optional, tag = "92")]
        pub iota: Option<IotaReplicaGroupListProto>,
        /// `mesh_axes_replica_group_list`
        #[prost(message, optional, tag = "93")]
        pub mesh_axes: Option<MeshAxes>,
    }

    /// `MeshAxesReplicaGroupListProto`
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MeshAxes {
        #[prost(message, optional, tag = "1")]
        pub mesh: Option<Mesh>,
        #[prost(message, repeated, tag = "2")]
        pub axes: Vec<AxisRef>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Mesh {
        #[prost(message, repeated, tag = "1")]
        pub axes: Vec<MeshAxis>,
        #[prost(int64, repeated, tag = "2")]
        pub device_ids: Vec<i64>,
        #[prost(message, optional, tag = "3")]
        pub iota: Option<IotaTransform>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MeshAxis {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(int64, tag = "2")]
        pub size: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct IotaTransform {
        #[prost(int64, repeated, tag = "1")]
        pub reshape_dims: Vec<i64>,
        #[prost(int64, repeated, tag = "2")]
        pub transpose_perm: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct AxisRef {
        #[prost(int64, tag = "1")]
        pub mesh_axis_index: i64,
        #[prost(message, optional, tag = "2")]
        pub sub_axis: Option<SubAxis>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct SubAxis {
        #[prost(int64, tag = "1")]
        pub pre_size: i64,
        #[prost(int64, tag = "2")]
        pub size: i64,
    }
}

#[cfg(test)]
mod tests {
    use super::newer::{AxisRef, IotaTransform, Mesh, MeshAxes, MeshAxis, SubAxis};
    use super::*;

    fn mesh(sizes: &[i64]) -> Mesh {
        let axis = |(i, size): (usize, &i64)| MeshAxis {
            name: format!("axis_{i}"),
            size: *size,
        };
        Mesh {
            axes: sizes.iter().enumerate().map(axis).collect(),
            ..Default::default()
        }
    }

    fn axis(index: i64) -> AxisRef {
        AxisRef {
            mesh_axis_index: index,
            sub_axis: None,
        }
    }

    fn sub_axis(index: i64, pre_size: i64, size: i64) -> AxisRef {
        AxisRef {
            mesh_axis_index: index,
            sub_axis: Some(SubAxis { pre_size, size }),
        }
    }

    fn over(mesh: Mesh, axes: Vec<AxisRef>) -> Result<Groups, String> {
        of_mesh_axes(&MeshAxes {
            mesh: Some(mesh),
            axes,
        })
    }

    #[test]
    fn an_axis_of_a_mesh_groups_the_devices_that_share_the_other_coordinates() {
        assert_eq!(
            over(mesh(&[2, 4]), vec![axis(1)]).unwrap(),
            [[0, 1, 2, 3], [4, 5, 6, 7]]
        );
        assert_eq!(
            over(mesh(&[2, 4]), vec![axis(0)]).unwrap(),
            [[0, 4], [1, 5], [2, 6], [3, 7]]
        );
    }

    #[test]
    fn the_order_of_the_axes_is_the_order_within_the_group() {
        assert_eq!(
            over(mesh(&[2, 4]), vec![axis(1), axis(0)]).unwrap(),
            [[0, 4, 1, 5, 2, 6, 3, 7]]
        );
    }

    /// The examples are those by which XLA's replica_group.cc explains sub-axes: {a:(1)2} of 8 is the axis [1,2,4]'s middle.
    #[test]
    fn a_part_of_an_axis_is_a_digit_of_its_coordinate() {
        assert_eq!(
            over(mesh(&[8]), vec![sub_axis(0, 1, 2)]).unwrap(),
            [[0, 4], [1, 5], [2, 6], [3, 7]]
        );
        assert_eq!(
            over(mesh(&[8]), vec![sub_axis(0, 1, 2), sub_axis(0, 4, 2)]).unwrap(),
            [[0, 1, 4, 5], [2, 3, 6, 7]]
        );
    }

    #[test]
    fn a_mesh_may_order_its_devices_by_a_list_or_by_a_transposed_iota() {
        let listed = Mesh {
            device_ids: vec![3, 1, 2, 0],
            ..mesh(&[2, 2])
        };
        assert_eq!(over(listed, vec![axis(1)]).unwrap(), [[3, 1], [2, 0]]);
        let transposed = Mesh {
            iota: Some(IotaTransform {
                reshape_dims: vec![2, 2],
                transpose_perm: vec![1, 0],
            }),
            ..mesh(&[2, 2])
        };
        assert_eq!(over(transposed, vec![axis(1)]).unwrap(), [[0, 2], [1, 3]]);
    }

    #[test]
    fn contradictions_are_named() {
        for (mesh, axes) in [
            (mesh(&[8]), vec![axis(1)]),
            (mesh(&[8]), vec![axis(0), axis(0)]),
            (mesh(&[8]), vec![sub_axis(0, 3, 2)]),
            (mesh(&[0]), vec![axis(0)]),
            (mesh(&[i64::MAX, 2]), vec![axis(1)]),
        ] {
            let error = over(mesh, axes).unwrap_err();
            assert!(error.contains("ax") || error.contains("mesh"), "{error}");
        }
    }

    #[test]
    fn an_iota_is_reshaped_transposed_and_cut() {
        let mut iota = IotaReplicaGroupListProto {
            num_replica_groups: 2,
            num_devices_per_group: 4,
            iota_reshape_dims: vec![4, 2],
            iota_transpose_perm: vec![1, 0],
        };
        assert_eq!(of_iota(&iota).unwrap(), [[0, 2, 4, 6], [1, 3, 5, 7]]);
        iota.num_devices_per_group = 3;
        assert!(of_iota(&iota).unwrap_err().contains("2 groups of 3"));
    }
}
