//! A `convolution` that stands for a `dot` becomes one: the TPU has products as convolutions, XLA CPU computes a `dot` much
//! faster.
//!
//! The matrix dimensions are the convolution's batch and features; further dimensions are spatial, told apart by which
//! input i and which tap k of the kernel reach output o: i = k = o is a batch dimension of the product, i = k with one
//! output a contracted one, i = o with one tap a free one of the input, k = o with one input a free one of the kernel. The
//! window's stride, padding, dilation and reversal serve only to bring that about, and go. Convolutions in the true sense
//! stay.

use pjrt_sys::protos::xla::{DotDimensionNumbers, WindowDimension};

use super::Error;
use super::ir::{Builder, Instruction, Module, Shape, operand, resized, shape_of};

pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, instruction| {
        let product = match instruction.opcode.as_str() {
            "convolution" => Product::of(builder, &instruction)?,
            _ => None,
        };
        match product {
            Some(product) => {
                let result = product.emit(builder, &instruction)?;
                builder.replace(&instruction, result);
            }
            None => {
                builder.keep(instruction);
            }
        }
        Ok(())
    })
}

/// A dimension of the product, by its place in the input, the kernel and the output, where it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dimension {
    input: Option<i64>,
    kernel: Option<i64>,
    output: Option<i64>,
}

struct Product {
    dimensions: Vec<Dimension>,
    /// Spatial dimensions of size one that the operands have beside.
    input: Shape,
    kernel: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Batch,
    Contracted,
    OfInput,
    OfKernel,
}

impl Product {
    fn of(builder: &Builder, convolution: &Instruction) -> Result<Option<Self>, Error> {
        let malformed = || Error::malformed(&convolution.name, "a convolution without dimensions");
        let numbers = convolution
            .convolution_dimension_numbers
            .as_ref()
            .ok_or_else(malformed)?;
        let input = builder.shape(operand(convolution, 0)?)?.clone();
        let kernel = builder.shape(operand(convolution, 1)?)?.clone();
        let output = shape_of(convolution)?;
        if convolution.feature_group_count > 1 || convolution.batch_group_count > 1 {
            return Ok(None);
        }
        let mut dimensions = vec![
            Dimension {
                input: Some(numbers.input_batch_dimension),
                kernel: None,
                output: Some(numbers.output_batch_dimension),
            },
            Dimension {
                input: Some(numbers.input_feature_dimension),
                kernel: Some(numbers.kernel_input_feature_dimension),
                output: None,
            },
            Dimension {
                input: None,
                kernel: Some(numbers.kernel_output_feature_dimension),
                output: Some(numbers.output_feature_dimension),
            },
        ];
        let windows = convolution.window.iter().flat_map(|w| &w.dimensions);
        let spatial = numbers
            .input_spatial_dimensions
            .iter()
            .zip(&numbers.kernel_spatial_dimensions)
            .zip(&numbers.output_spatial_dimensions);
        if windows.clone().count() != numbers.input_spatial_dimensions.len()
            || spatial.clone().count() != numbers.input_spatial_dimensions.len()
        {
            return Err(malformed());
        }
        for (((i, k), o), window) in spatial.zip(windows) {
            let sizes = (size(&input, *i), size(&kernel, *k), size(output, *o));
            let (Some(inputs), Some(taps), Some(outputs)) = sizes else {
                return Err(malformed());
            };
            let Some(role) = role(window, inputs, taps, outputs) else {
                return Ok(None);
            };
            dimensions.push(Dimension {
                input: (role != Role::OfKernel).then_some(*i),
                kernel: (role != Role::OfInput).then_some(*k),
                output: (role != Role::Contracted).then_some(*o),
            });
        }
        let product = Self {
            dimensions,
            input,
            kernel,
        };
        // Each place once, or the convolution is none that XLA accepts.
        let covers = |rank: usize, of: fn(&Dimension) -> Option<i64>| {
            let mut places: Vec<i64> = product.dimensions.iter().filter_map(of).collect();
            places.sort_unstable();
            let dropped = rank - places.len().min(rank);
            places.dedup();
            places.len() + dropped == rank && places.iter().all(|p| (0..rank as i64).contains(p))
        };
        let is_sound = covers(product.input.dimensions.len(), |d| d.input)
            && covers(product.kernel.dimensions.len(), |d| d.kernel)
            && product
                .dimensions
                .iter()
                .filter(|d| d.output.is_some())
                .count()
                <= output.dimensions.len()
            && covers(output.dimensions.len(), |d| d.output);
        is_sound.then_some(Some(product)).ok_or_else(malformed)
    }

    fn emit(&self, builder: &mut Builder, convolution: &Instruction) -> Result<i64, Error> {
        let output = shape_of(convolution)?;
        let (input, input_places) =
            without_unused(builder, operand(convolution, 0)?, &self.input, |place| {
                self.dimensions.iter().any(|d| d.input == Some(place))
            })?;
        let (kernel, kernel_places) =
            without_unused(builder, operand(convolution, 1)?, &self.kernel, |place| {
                self.dimensions.iter().any(|d| d.kernel == Some(place))
            })?;
        let at = |places: &[i64], place: Option<i64>| {
            place.and_then(|place| places.iter().position(|p| *p == place))
        };
        let mut numbers = DotDimensionNumbers::default();
        let (mut batch, mut of_input, mut of_kernel) = (Vec::new(), Vec::new(), Vec::new());
        for dimension in &self.dimensions {
            let i = at(&input_places, dimension.input);
            let k = at(&kernel_places, dimension.kernel);
            match (i, k, dimension.output) {
                (Some(i), Some(k), Some(o)) => {
                    numbers.lhs_batch_dimensions.push(i as i64);
                    numbers.rhs_batch_dimensions.push(k as i64);
                    batch.push(o);
                }
                (Some(i), Some(k), None) => {
                    numbers.lhs_contracting_dimensions.push(i as i64);
                    numbers.rhs_contracting_dimensions.push(k as i64);
                }
                (Some(i), None, Some(o)) => of_input.push((i, o)),
                (None, Some(k), Some(o)) => of_kernel.push((k, o)),
                _ => {}
            }
        }
        // A dot's result has the batch dimensions, then what is left of each operand, in its order.
        of_input.sort_unstable();
        of_kernel.sort_unstable();
        let free = of_input.iter().chain(&of_kernel).map(|(_, output)| *output);
        let order: Vec<i64> = batch.into_iter().chain(free).collect();
        let sizes: Vec<i64> = order.iter().filter_map(|o| size(output, *o)).collect();
        let dot = builder.add_with("dot", resized(output, &sizes), &[input, kernel], |dot| {
            dot.dot_dimension_numbers = Some(numbers);
            dot.precision_config = convolution.precision_config.clone();
            dot.metadata = convolution.metadata.clone();
        });
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let permutation: Vec<i64> = sorted
            .iter()
            .filter_map(|output| order.iter().position(|o| o == output))
            .map(|place| place as i64)
            .collect();
        let transposed = builder.transpose(dot, &permutation)?;
        builder.reshape(transposed, &output.dimensions)
    }
}

fn size(shape: &Shape, dimension: i64) -> Option<i64> {
    let dimension = usize::try_from(dimension).ok()?;
    shape.dimensions.get(dimension).copied()
}

/// The operand without the dimensions, of size one, that take no part in the product; and where its others were.
fn without_unused(
    builder: &mut Builder,
    id: i64,
    shape: &Shape,
    is_used: impl Fn(i64) -> bool,
) -> Result<(i64, Vec<i64>), Error> {
    let places: Vec<i64> = (0..shape.dimensions.len() as i64)
        .filter(|place| is_used(*place))
        .collect();
    let sizes: Vec<i64> = places.iter().filter_map(|p| size(shape, *p)).collect();
    Ok((builder.reshape(id, &sizes)?, places))
}

/// Products that would take longer than a second to recognise stay convolutions.
const MOST_STEPS: i64 = 1 << 27;

/// What a spatial dimension is to the product, if it is anything.
fn role(window: &WindowDimension, inputs: i64, taps: i64, outputs: i64) -> Option<Role> {
    let candidates = [
        (Role::OfInput, taps == 1 && inputs == outputs),
        (Role::OfKernel, inputs == 1 && taps == outputs),
        (Role::Contracted, outputs == 1 && inputs == taps),
        (Role::Batch, inputs == taps && taps == outputs),
    ];
    let role = candidates.into_iter().find(|(_, sizes)| *sizes)?.0;
    // The window may be reversed, so that the kernel's last element is the first tap.
    let element = |tap: i64| match window.window_reversal {
        true => taps - 1 - tap,
        false => tap,
    };
    let wanted = |output: i64| match role {
        Role::OfInput => (output, 0),
        Role::OfKernel => (0, output),
        Role::Batch | Role::Contracted => (output, output),
    };
    let reached = |output: i64| {
        (0..taps).filter_map(move |tap| {
            let place = output
                .checked_mul(window.stride)?
                .checked_add(tap.checked_mul(window.window_dilation)?)?
                .checked_sub(window.padding_low)?;
            let dilation = window.base_dilation.max(1);
            let is_input = place >= 0 && place % dilation == 0 && place / dilation < inputs;
            is_input.then(|| (place / dilation, element(tap)))
        })
    };
    if taps.saturating_mul(outputs) > MOST_STEPS {
        return None;
    }
    let agrees = match role {
        Role::Contracted => {
            let mut pairs: Vec<(i64, i64)> = reached(0).collect();
            pairs.sort_unstable();
            pairs.into_iter().eq((0..inputs).map(wanted))
        }
        _ => (0..outputs).all(|output| reached(output).eq([wanted(output)])),
    };
    agrees.then_some(role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::evaluate::{Array, evaluate, indices};
    use crate::hlo::ir::{Computation, ModuleProto, PrimitiveType, array};
    use pjrt_sys::protos::xla::{ConvolutionDimensionNumbers, Window};
    use proptest::prelude::*;

    fn window(size: i64, stride: i64, padding: i64, base: i64, reversal: bool) -> WindowDimension {
        WindowDimension {
            size,
            stride,
            padding_low: padding,
            padding_high: padding,
            window_dilation: 1,
            base_dilation: base,
            window_reversal: reversal,
        }
    }

    struct Case {
        input: Vec<i64>,
        kernel: Vec<i64>,
        windows: Vec<WindowDimension>,
    }

    impl Case {
        /// Dimensions in the order batch, spatial…, feature; spatial…, input feature, output feature.
        fn numbers(&self) -> ConvolutionDimensionNumbers {
            let spatial = self.windows.len() as i64;
            ConvolutionDimensionNumbers {
                input_batch_dimension: 0,
                input_feature_dimension: spatial + 1,
                input_spatial_dimensions: (1..=spatial).collect(),
                kernel_input_feature_dimension: spatial,
                kernel_output_feature_dimension: spatial + 1,
                kernel_spatial_dimensions: (0..spatial).collect(),
                output_batch_dimension: spatial,
                output_feature_dimension: spatial + 1,
                output_spatial_dimensions: (0..spatial).collect(),
            }
        }

        fn output(&self) -> Vec<i64> {
            let spatial = self.windows.iter().enumerate().map(|(d, w)| {
                let dilated = (self.input[d + 1] - 1) * w.base_dilation + 1;
                (dilated + w.padding_low + w.padding_high - w.size) / w.stride + 1
            });
            spatial
                .chain([self.input[0], *self.kernel.last().unwrap()])
                .collect()
        }

        /// By the definition of a convolution; elements are 1, 2, 3, … on both sides.
        fn expected(&self) -> Array {
            let flat = |dimensions: &[i64], index: &[i64]| {
                let pairs = dimensions.iter().zip(index);
                1 + pairs.fold(0, |place, (size, i)| place * size + i) as u128
            };
            let spatial = self.windows.len();
            let features = *self.input.last().unwrap();
            let sum = |output: &Vec<i64>| -> u128 {
                let taps = indices(&self.kernel[..spatial]);
                let terms = taps
                    .iter()
                    .flat_map(|tap| (0..features).map(move |f| (tap, f)));
                terms
                    .filter_map(|(tap, feature)| {
                        let mut place = vec![output[spatial]];
                        let mut element = Vec::new();
                        for (d, w) in self.windows.iter().enumerate() {
                            let at = output[d] * w.stride + tap[d] - w.padding_low;
                            if at < 0 || at % w.base_dilation != 0 {
                                return None;
                            }
                            place.push(at / w.base_dilation);
                            let reversed = self.kernel[d] - 1 - tap[d];
                            element.push(if w.window_reversal { reversed } else { tap[d] });
                        }
                        place.push(feature);
                        element.extend([feature, output[spatial + 1]]);
                        let inside = place.iter().zip(&self.input).all(|(i, n)| i < n);
                        inside.then(|| flat(&self.input, &place) * flat(&self.kernel, &element))
                    })
                    .sum()
            };
            indices(&self.output()).iter().map(sum).collect()
        }

        fn rewritten(&self) -> Computation {
            let mut instructions: Vec<Instruction> = [&self.input, &self.kernel]
                .iter()
                .enumerate()
                .map(|(number, dimensions)| Instruction {
                    id: number as i64,
                    opcode: "parameter".to_owned(),
                    parameter_number: number as i64,
                    shape: Some(array(PrimitiveType::S64, dimensions)),
                    ..Default::default()
                })
                .collect();
            instructions.push(Instruction {
                id: 2,
                opcode: "convolution".to_owned(),
                operand_ids: vec![0, 1],
                shape: Some(array(PrimitiveType::S64, &self.output())),
                window: Some(Window {
                    dimensions: self.windows.clone(),
                }),
                convolution_dimension_numbers: Some(self.numbers()),
                ..Default::default()
            });
            let mut module = Module::new(ModuleProto {
                computations: vec![Computation {
                    instructions,
                    root_id: 2,
                    ..Default::default()
                }],
                ..Default::default()
            });
            run(&mut module).unwrap();
            module.proto.computations.remove(0)
        }

        fn is_dot(&self) -> bool {
            let computation = self.rewritten();
            computation.instructions.iter().any(|i| i.opcode == "dot")
        }

        fn assert_agrees(&self) {
            let computation = self.rewritten();
            if computation
                .instructions
                .iter()
                .all(|i| i.opcode != "convolution")
            {
                let count = |dimensions: &[i64]| dimensions.iter().product::<i64>() as u128;
                let parameters = [&self.input, &self.kernel].map(|d| (1..=count(d)).collect());
                assert_eq!(evaluate(&computation, &parameters), self.expected());
            }
        }
    }

    /// The form in which libtpu writes products, read from its output.
    fn products() -> Vec<Case> {
        let case = |input: &[i64], kernel: &[i64], windows: Vec<WindowDimension>| Case {
            input: input.to_vec(),
            kernel: kernel.to_vec(),
            windows,
        };
        vec![
            case(&[4, 5], &[5, 3], vec![]),
            // A batch dimension of three.
            case(&[4, 3, 5], &[3, 5, 2], vec![window(3, 2, 0, 3, false)]),
            // A contracted one.
            case(&[4, 3, 5], &[3, 5, 2], vec![window(3, 1, 0, 1, false)]),
            // A free one of the input, and one of the kernel.
            case(&[4, 3, 5], &[1, 5, 2], vec![window(1, 1, 0, 1, false)]),
            case(&[4, 1, 5], &[3, 5, 2], vec![window(3, 1, 2, 1, true)]),
            case(
                &[2, 3, 1, 4, 5],
                &[3, 2, 4, 5, 2],
                vec![
                    window(3, 2, 0, 3, false),
                    window(2, 1, 1, 1, true),
                    window(4, 1, 0, 1, false),
                ],
            ),
        ]
    }

    #[test]
    fn products_become_dots_with_the_same_result() {
        for case in products() {
            assert!(case.is_dot(), "{:?}", case.windows);
            case.assert_agrees();
        }
    }

    #[test]
    fn a_kernel_that_slides_stays_a_convolution() {
        let slides = Case {
            input: vec![1, 5, 2],
            kernel: vec![3, 2, 2],
            windows: vec![window(3, 1, 0, 1, false)],
        };
        assert!(!slides.is_dot());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn whatever_becomes_a_dot_agrees_with_the_convolution(
            inputs in 1..4i64, taps in 1..4i64, stride in 1..3i64, padding in 0..3i64,
            base in 1..4i64, reversal: bool,
        ) {
            let case = Case {
                input: vec![2, inputs, 2],
                kernel: vec![taps, 2, 2],
                windows: vec![window(taps, stride, padding, base, reversal)],
            };
            prop_assume!(case.output()[0] > 0);
            case.assert_agrees();
        }
    }
}
