//! The order of dimensions in memory.

/// Whether `minor_to_major` names each of `rank` dimensions once.
pub fn is_permutation(minor_to_major: &[i64], rank: usize) -> bool {
    let mut seen = vec![false; rank];
    minor_to_major.len() == rank
        && minor_to_major.iter().all(|dimension| {
            usize::try_from(*dimension)
                .ok()
                .and_then(|dimension| seen.get_mut(dimension))
                .is_some_and(|seen| !std::mem::replace(seen, true))
        })
}

/// Elements of `width` bytes that lie in the order of `minor_to_major`, a permutation of the dimensions, in row-major
/// order.
pub fn to_row_major(data: &[u8], width: usize, shape: &[usize], minor_to_major: &[i64]) -> Vec<u8> {
    // The sizes of an empty tensor may multiply to anything.
    if data.is_empty() {
        return Vec::new();
    }
    // In elements, by dimension.
    let mut strides = vec![0; shape.len()];
    let mut stride = 1;
    for dimension in minor_to_major {
        strides[*dimension as usize] = stride;
        stride *= shape[*dimension as usize];
    }
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    while out.len() < data.len() {
        out.extend_from_slice(&data[at * width..][..width]);
        for dimension in (0..shape.len()).rev() {
            index[dimension] += 1;
            at += strides[dimension];
            if index[dimension] < shape[dimension] {
                break;
            }
            at -= strides[dimension] * shape[dimension];
            index[dimension] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_name_each_dimension_once() {
        assert!(is_permutation(&[], 0));
        assert!(is_permutation(&[2, 0, 1], 3));
        for bad in [&[0, 0, 1][..], &[0, 1], &[0, 1, 3], &[0, 1, -1]] {
            assert!(!is_permutation(bad, 3), "{bad:?}");
        }
    }

    #[test]
    fn elements_come_out_row_major() {
        // [[1, 2, 3], [4, 5, 6]], column-major, of two bytes each.
        let data: Vec<u8> = [1, 4, 2, 5, 3, 6]
            .into_iter()
            .flat_map(|e| [e, 0])
            .collect();
        let rows: Vec<u8> = (1..=6).flat_map(|e| [e, 0]).collect();
        assert_eq!(to_row_major(&data, 2, &[2, 3], &[0, 1]), rows);
        let huge = [0, usize::MAX, 2];
        assert!(to_row_major(&[], 2, &huge, &[1, 2, 0]).is_empty());
        // Dimension 1 fastest, then 0, then 2.
        let at = |i: usize, j: usize, k: usize| j + 3 * i + 6 * k;
        let rows: Vec<u8> = (0..24)
            .map(|n| at(n / 12, n / 4 % 3, n % 4) as u8)
            .collect();
        let data: Vec<u8> = (0..24).collect();
        assert_eq!(to_row_major(&data, 1, &[2, 3, 4], &[1, 0, 2]), rows);
    }
}
