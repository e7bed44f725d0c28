//! Where the elements of an array lie in memory under an XLA layout: dimension order, tiles within tiles, padding.
//!
//! An index becomes a list of digits, one an axis of the tiled array, and the address is the digits read from major to
//! minor (<https://openxla.org/xla/tiled_layout>). What the padding holds is unspecified, and nothing here says it. Leaves
//! out tiles that combine dimensions and tiles that leave holes between valid elements of one axis: no layout of the TPU
//! compiler's has them, and one that has is refused.

use super::ir::Shape;

/// One axis of the tiled array: the digit `(index / divisor) % size` of a dimension's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// None for an axis that a tile of a higher rank than the array adds.
    pub dimension: Option<usize>,
    pub divisor: i64,
    pub size: i64,
    /// Elements between two neighbours along the axis.
    pub stride: i64,
}

/// An array's place in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Physical {
    /// From major to minor.
    pub axes: Vec<Axis>,
    /// The array's dimensions, and what they are with padding.
    pub dimensions: Vec<i64>,
    pub padded: Vec<i64>,
    /// With padding.
    pub elements: i64,
}

/// What [`Physical::of`] does not model, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmodelled(pub &'static str);

/// The tile dimension that stands for "combined with the next more minor dimension" in XLA's protos.
const COMBINE_DIMENSION: i64 = i64::MIN;

/// The dimensions from major to minor; row-major without a layout.
pub fn major_to_minor(shape: &Shape) -> Vec<usize> {
    match &shape.layout {
        Some(layout) if layout.minor_to_major.len() == shape.dimensions.len() => layout
            .minor_to_major
            .iter()
            .rev()
            .map(|d| usize::try_from(*d).unwrap_or(usize::MAX))
            .collect(),
        _ => (0..shape.dimensions.len()).collect(),
    }
}

/// So that the bits of an array can be counted in an i64.
const MOST_ELEMENTS: i64 = 1 << 55;

impl Physical {
    pub fn of(shape: &Shape) -> Result<Self, Unmodelled> {
        let dimensions = &shape.dimensions;
        let order = major_to_minor(shape);
        let mut axes = order
            .iter()
            .map(|d| {
                Some(Axis {
                    dimension: Some(*d),
                    divisor: 1,
                    size: *dimensions.get(*d)?,
                    stride: 1,
                })
            })
            .collect::<Option<Vec<Axis>>>()
            .ok_or(Unmodelled(
                "a layout whose order is no permutation of the dimensions",
            ))?;
        let mut tail = 1;
        if let Some(layout) = &shape.layout {
            for tile in &layout.tiles {
                axes = tiled(&axes, &tile.dimensions)?;
            }
            if layout.physical_shape.is_some() || layout.dynamic_shape_metadata_prefix_bytes != 0 {
                return Err(Unmodelled("a layout of its own physical shape"));
            }
            tail = layout.tail_padding_alignment_in_elements.max(1);
        }
        let too_large = Unmodelled("an array of more than 2^55 elements");
        let mut elements = 1i64;
        let mut padded = vec![1i64; dimensions.len()];
        for axis in axes.iter_mut().rev() {
            axis.stride = elements;
            elements = elements.checked_mul(axis.size).ok_or(too_large.clone())?;
            if let Some(padded) = axis.dimension.and_then(|d| padded.get_mut(d)) {
                *padded = padded.saturating_mul(axis.size);
            }
        }
        let elements = elements
            .checked_add((tail - elements % tail) % tail)
            .filter(|elements| *elements <= MOST_ELEMENTS)
            .ok_or(too_large)?;
        Ok(Self {
            axes,
            dimensions: dimensions.clone(),
            padded,
            elements,
        })
    }

    /// What an index of one dimension adds to the address.
    pub fn offset(&self, dimension: usize, index: i64) -> i64 {
        let of_dimension = |axis: &&Axis| axis.dimension == Some(dimension);
        self.axes
            .iter()
            .filter(of_dimension)
            .map(|axis| (index / axis.divisor) % axis.size * axis.stride)
            .sum()
    }
}

/// The axes after one more tile, which divides the most minor ones: each becomes the tile's number, in its old place, and
/// the place within the tile, after all of them.
fn tiled(axes: &[Axis], tile: &[i64]) -> Result<Vec<Axis>, Unmodelled> {
    if tile.contains(&COMBINE_DIMENSION) {
        return Err(Unmodelled("a tile that combines dimensions"));
    }
    if tile.iter().any(|size| *size <= 0) {
        return Err(Unmodelled("a tile without elements"));
    }
    let one = Axis {
        dimension: None,
        divisor: 1,
        size: 1,
        stride: 1,
    };
    let missing = tile.len().saturating_sub(axes.len());
    let mut outer: Vec<Axis> = std::iter::repeat_n(one, missing)
        .chain(axes.iter().copied())
        .collect();
    let first = outer.len() - tile.len();
    let mut inner = Vec::with_capacity(tile.len());
    let all = outer.clone();
    for (axis, size) in outer.iter_mut().skip(first).zip(tile) {
        let is_most_significant = axis.dimension.is_none()
            || all.iter().all(|other| {
                other.dimension != axis.dimension
                    || other.size == 1
                    || other.divisor <= axis.divisor
            });
        if axis.size % size != 0 && !is_most_significant {
            return Err(Unmodelled("a tile that leaves holes within a dimension"));
        }
        inner.push(Axis {
            size: *size,
            ..*axis
        });
        axis.divisor = axis
            .divisor
            .checked_mul(*size)
            .ok_or(Unmodelled("a tile of more than 2^63 elements"))?;
        axis.size = axis.size.div_euclid(*size) + i64::from(axis.size % size != 0);
    }
    outer.extend(inner);
    Ok(outer)
}
