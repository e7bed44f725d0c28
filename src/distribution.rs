//! How a case lies on several devices: replicas, a mesh of partitions, and for each operand and result the axes over which
//! its dimensions are split. Cuts whole tensors into the devices' pieces, and puts pieces together again.
//!
//! Host tensors only; nothing here compiles or runs. A program's own sharding annotations are its own affair: what stands
//! here says where the harness puts and finds the pieces.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tensor::{Tensor, TensorError};

/// Replicas, and the partitions of each in a mesh. Device `r·P + p` runs partition `p` of replica `r`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    pub replicas: usize,
    /// The last axis varies fastest from device to device. No axes are one partition.
    pub mesh: Vec<MeshAxis>,
    pub partitioner: Partitioner,
    /// One a parameter of the program.
    pub inputs: Vec<Spec>,
    /// One a result of the program.
    pub outputs: Vec<Spec>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshAxis {
    pub name: String,
    pub size: usize,
}

/// Which of XLA's propagations reads the program's annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Partitioner {
    #[default]
    Shardy,
    Gspmd,
}

/// For each dimension of the whole tensor the mesh axes that split it, major to minor, as in JAX's `PartitionSpec`;
/// dimensions past the end are not split. [`Spec::REPLICA`] as the first stands for a leading dimension that the program
/// does not have: one slice a replica.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Spec(pub Vec<Vec<String>>);

#[derive(Debug, thiserror::Error)]
pub enum DistributionError {
    #[error("a tensor {shape:?} cannot be split by the spec {spec}: {why}")]
    Impossible {
        shape: Vec<usize>,
        spec: String,
        why: String,
    },
    #[error("{given} devices gave pieces, where there are {devices}")]
    Pieces { given: usize, devices: usize },
    #[error("device {device} gave a piece {got:?}, where {expected:?} is its share")]
    Shape {
        device: usize,
        got: Vec<usize>,
        expected: Vec<usize>,
    },
    /// Of a result that is to be the same on both.
    #[error("devices {first} and {second} hold the same part of the result, and differ")]
    Disagree { first: usize, second: usize },
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

type Result<T> = std::result::Result<T, DistributionError>;

impl Spec {
    /// No axis of a mesh may have this name.
    pub const REPLICA: &'static str = "replica";

    /// Whether the leading dimension counts the replicas.
    pub fn is_stacked(&self) -> bool {
        matches!(self.0.first(), Some(axes) if axes.len() == 1 && axes[0] == Self::REPLICA)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimensions: Vec<String> = self.0.iter().map(|axes| axes.join("+")).collect();
        write!(f, "({})", dimensions.join(", "))
    }
}

/// A device's part of a tensor.
struct Piece {
    offset: Vec<usize>,
    shape: Vec<usize>,
}

impl Distribution {
    pub fn partitions(&self) -> usize {
        self.mesh.iter().map(|axis| axis.size).product()
    }

    pub fn devices(&self) -> usize {
        self.replicas * self.partitions()
    }

    /// The shape in the program of what is `whole` over all devices.
    pub fn program_shape(&self, spec: &Spec, whole: &[usize]) -> Result<Vec<usize>> {
        self.pieces(spec, whole)?;
        Ok(whole[usize::from(spec.is_stacked())..].to_vec())
    }

    /// The shape over all devices of what has `shape` in the program.
    pub fn whole_shape(&self, spec: &Spec, shape: &[usize]) -> Vec<usize> {
        let replicas = spec.is_stacked().then_some(self.replicas);
        replicas.into_iter().chain(shape.iter().copied()).collect()
    }

    /// The pieces of all devices, in their order.
    ///
    /// # Errors
    /// When the spec does not fit the shape.
    pub fn split(&self, spec: &Spec, whole: &Tensor) -> Result<Vec<Tensor>> {
        let stacked = usize::from(spec.is_stacked());
        self.pieces(spec, whole.shape())?
            .into_iter()
            .map(|piece| {
                let width = whole.element_type().bytes();
                let mut data = Vec::with_capacity(piece.shape.iter().product::<usize>() * width);
                for (start, length) in piece.runs(whole.shape()) {
                    data.extend_from_slice(&whole.data()[start * width..(start + length) * width]);
                }
                let shape = piece.shape[stacked..].to_vec();
                Ok(Tensor::new(whole.element_type(), shape, data)?)
            })
            .collect()
    }

    /// The inverse of [`Distribution::split`]. Devices that hold the same part must hold the same bits.
    ///
    /// # Errors
    /// When there are too few pieces, or one is not of its share's shape, or two that should be equal are not.
    pub fn join(&self, spec: &Spec, pieces: &[Tensor]) -> Result<Tensor> {
        let devices = self.devices();
        let first = match pieces.first() {
            Some(first) if pieces.len() == devices => first,
            _ => {
                return Err(DistributionError::Pieces {
                    given: pieces.len(),
                    devices,
                });
            }
        };
        let whole = self.whole_of(spec, first.shape())?;
        let places = self.pieces(spec, &whole)?;
        let stacked = usize::from(spec.is_stacked());
        let mut joined = Tensor::zeros(first.element_type(), whole.clone())?.into_data();
        let width = first.element_type().bytes();
        for (device, (piece, place)) in pieces.iter().zip(&places).enumerate() {
            if piece.shape() != &place.shape[stacked..]
                || piece.element_type() != first.element_type()
            {
                return Err(DistributionError::Shape {
                    device,
                    got: piece.shape().to_vec(),
                    expected: place.shape[stacked..].to_vec(),
                });
            }
            let twin = places[..device]
                .iter()
                .position(|before| before.offset == place.offset);
            if let Some(twin) = twin {
                if pieces[twin].data() != piece.data() {
                    return Err(DistributionError::Disagree {
                        first: twin,
                        second: device,
                    });
                }
                continue;
            }
            let mut from = 0;
            for (start, length) in place.runs(&whole) {
                joined[start * width..(start + length) * width]
                    .copy_from_slice(&piece.data()[from * width..(from + length) * width]);
                from += length;
            }
        }
        Ok(Tensor::new(first.element_type(), whole, joined)?)
    }

    /// The whole shape of which a device has a piece of `shape`.
    fn whole_of(&self, spec: &Spec, shape: &[usize]) -> Result<Vec<usize>> {
        let impossible = |why: String| DistributionError::Impossible {
            shape: shape.to_vec(),
            spec: spec.to_string(),
            why,
        };
        let axes = &spec.0[usize::from(spec.is_stacked())..];
        let mut whole = shape.to_vec();
        for (dimension, names) in axes.iter().enumerate() {
            let size = whole
                .get_mut(dimension)
                .ok_or_else(|| impossible("it has fewer dimensions".to_owned()))?;
            for name in names {
                *size *= self.axis(name).map_err(impossible)?.1;
            }
        }
        Ok(self.whole_shape(spec, &whole))
    }

    fn pieces(&self, spec: &Spec, whole: &[usize]) -> Result<Vec<Piece>> {
        let impossible = |why: String| DistributionError::Impossible {
            shape: whole.to_vec(),
            spec: spec.to_string(),
            why,
        };
        if spec.0.len() > whole.len() {
            return Err(impossible("it has fewer dimensions".to_owned()));
        }
        let stacked = spec.is_stacked();
        if stacked && whole[0] != self.replicas {
            return Err(impossible(format!(
                "its leading dimension is not the {} replicas",
                self.replicas
            )));
        }
        (0..self.devices())
            .map(|device| {
                let (replica, partition) = (device / self.partitions(), device % self.partitions());
                let mut piece = Piece {
                    offset: vec![0; whole.len()],
                    shape: whole.to_vec(),
                };
                for (dimension, names) in spec.0.iter().enumerate() {
                    let (mut place, mut parts) = (0, 1);
                    if dimension == 0 && stacked {
                        (place, parts) = (replica, self.replicas);
                    } else {
                        for name in names {
                            let (stride, size) = self.axis(name).map_err(impossible)?;
                            place = place * size + partition / stride % size;
                            parts *= size;
                        }
                    }
                    if !whole[dimension].is_multiple_of(parts) {
                        return Err(impossible(format!(
                            "dimension {dimension} does not fall into {parts} equal parts"
                        )));
                    }
                    piece.shape[dimension] = whole[dimension] / parts;
                    piece.offset[dimension] = place * piece.shape[dimension];
                }
                Ok(piece)
            })
            .collect()
    }

    /// (stride, size) of the axis in the partitions' numbers.
    fn axis(&self, name: &str) -> std::result::Result<(usize, usize), String> {
        let at = self
            .mesh
            .iter()
            .position(|axis| axis.name == name)
            .ok_or_else(|| format!("the mesh has no axis '{name}'"))?;
        let stride = self.mesh[at + 1..].iter().map(|axis| axis.size).product();
        Ok((stride, self.mesh[at].size))
    }
}

impl Piece {
    /// (start, length) in elements of each contiguous run of the piece in the whole, in the piece's own order.
    fn runs(&self, whole: &[usize]) -> Vec<(usize, usize)> {
        let Some((last, outer)) = self.shape.split_last() else {
            return vec![(0, 1)];
        };
        let mut starts = vec![0];
        for (dimension, size) in outer.iter().enumerate() {
            starts = starts
                .iter()
                .flat_map(|start| {
                    (0..*size).map(move |i| start * whole[dimension] + self.offset[dimension] + i)
                })
                .collect();
        }
        let inner = whole.len() - 1;
        starts
            .into_iter()
            .map(|start| (start * whole[inner] + self.offset[inner], *last))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::ElementType;

    fn distribution(replicas: usize, mesh: &[(&str, usize)]) -> Distribution {
        Distribution {
            replicas,
            mesh: mesh
                .iter()
                .map(|(name, size)| MeshAxis {
                    name: (*name).to_owned(),
                    size: *size,
                })
                .collect(),
            partitioner: Partitioner::Shardy,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    fn spec(dimensions: &[&[&str]]) -> Spec {
        let owned = |axes: &&[&str]| axes.iter().map(|a| (*a).to_owned()).collect();
        Spec(dimensions.iter().map(owned).collect())
    }

    fn numbers(shape: &[usize]) -> Tensor {
        let values: Vec<f64> = (0..shape.iter().product::<usize>())
            .map(|n| n as f64)
            .collect();
        Tensor::from_f64(ElementType::F32, shape.to_vec(), &values).unwrap()
    }

    fn values(pieces: &[Tensor]) -> Vec<Vec<f64>> {
        pieces.iter().map(Tensor::to_f64).collect()
    }

    #[test]
    fn an_axis_splits_a_dimension_and_repeats_over_the_others() {
        let mesh = distribution(1, &[("data", 2), ("model", 2)]);
        let pieces = mesh
            .split(&spec(&[&[], &["model"]]), &numbers(&[2, 4]))
            .unwrap();
        let (left, right) = ([0., 1., 4., 5.], [2., 3., 6., 7.]);
        assert_eq!(values(&pieces), [left, right, left, right]);
        assert_eq!(pieces[0].shape(), [2, 2]);
    }

    #[test]
    fn two_axes_split_one_dimension_major_to_minor() {
        let mesh = distribution(1, &[("a", 2), ("b", 2)]);
        let pieces = mesh.split(&spec(&[&["b", "a"]]), &numbers(&[4])).unwrap();
        assert_eq!(values(&pieces), [[0.], [2.], [1.], [3.]]);
    }

    #[test]
    fn a_stacked_tensor_gives_each_replica_its_slice() {
        let both = distribution(2, &[("x", 2)]);
        let spec = spec(&[&["replica"], &["x"]]);
        let whole = numbers(&[2, 4]);
        let pieces = both.split(&spec, &whole).unwrap();
        assert_eq!(values(&pieces), [[0., 1.], [2., 3.], [4., 5.], [6., 7.]]);
        assert_eq!(pieces[0].shape(), [2]);
        assert_eq!(both.program_shape(&spec, &[2, 4]).unwrap(), [4]);
        assert_eq!(both.join(&spec, &pieces).unwrap(), whole);
    }

    #[test]
    fn what_is_split_is_joined_again() {
        let mesh = distribution(1, &[("a", 2), ("b", 2)]);
        for spec in [
            spec(&[]),
            spec(&[&["a"]]),
            spec(&[&["b"], &["a"]]),
            spec(&[&[], &[], &["a", "b"]]),
        ] {
            let whole = numbers(&[2, 4, 4]);
            let pieces = mesh.split(&spec, &whole).unwrap();
            assert_eq!(mesh.join(&spec, &pieces).unwrap(), whole, "{spec}");
        }
        let scalar = numbers(&[]);
        let pieces = mesh.split(&spec(&[]), &scalar).unwrap();
        assert_eq!(mesh.join(&spec(&[]), &pieces).unwrap(), scalar);
    }

    #[test]
    fn devices_that_hold_the_same_part_must_agree() {
        let mesh = distribution(1, &[("a", 2)]);
        let pieces = [
            numbers(&[2]),
            Tensor::zeros(ElementType::F32, vec![2]).unwrap(),
        ];
        let error = mesh.join(&spec(&[]), &pieces).unwrap_err().to_string();
        assert!(error.contains("devices 0 and 1"), "{error}");
    }

    #[test]
    fn specs_that_do_not_fit_say_why() {
        let mesh = distribution(1, &[("a", 2)]);
        for (spec, shape, why) in [
            (spec(&[&["b"]]), vec![4], "no axis 'b'"),
            (spec(&[&["a"]]), vec![3], "2 equal parts"),
            (spec(&[&[], &["a"]]), vec![4], "fewer dimensions"),
            (spec(&[&["replica"]]), vec![4], "not the 1 replicas"),
        ] {
            let error = mesh.split(&spec, &numbers(&shape)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
