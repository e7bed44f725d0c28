//! The last pass: names every instruction whose opcode XLA CPU does not execute, so that the user reads the construct and
//! not a compiler's failed check.
//!
//! Decides by opcode alone, over XLA's list of them (`hlo_opcode.h`); what the passes before have rewritten is not there.

use super::Error;
use super::ir::Module;

pub fn run(module: &Module) -> Result<(), Error> {
    let instructions = module
        .proto
        .computations
        .iter()
        .flat_map(|c| &c.instructions);
    for instruction in instructions {
        if !is_executable(&instruction.opcode) {
            return Err(Error::not_executable(
                instruction,
                instruction.opcode.clone(),
            ));
        }
    }
    Ok(())
}

/// A `custom-call` is: those without a meaning here were named before.
fn is_executable(opcode: &str) -> bool {
    matches!(
        opcode,
        // Elementwise.
        "abs" | "acos" | "acosh" | "add" | "and" | "asin" | "asinh" | "atan" | "atan2" | "atanh"
            | "bitcast-convert" | "cbrt" | "ceil" | "clamp" | "compare" | "complex" | "convert"
            | "cosine" | "cosh" | "count-leading-zeros" | "divide" | "erf" | "exponential"
            | "exponential-minus-one" | "floor" | "imag" | "is-finite" | "log" | "log-plus-one"
            | "logistic" | "maximum" | "minimum" | "mulhi" | "multiply" | "negate" | "not" | "or"
            | "popcnt" | "power" | "real" | "reduce-precision" | "remainder" | "round-nearest-afz"
            | "round-nearest-even" | "rsqrt" | "select" | "shift-left" | "shift-right-arithmetic"
            | "shift-right-logical" | "sign" | "sine" | "sinh" | "sqrt" | "subtract" | "tan"
            | "tanh" | "xor"
        // Data movement and shapes.
            | "broadcast" | "concatenate" | "copy" | "dynamic-reshape" | "dynamic-slice"
            | "dynamic-update-slice" | "gather" | "get-dimension-size" | "iota" | "pad"
            | "reshape" | "reverse" | "set-dimension-size" | "slice" | "sort" | "topk"
            | "transpose"
        // Sums and products.
            | "batch-norm-grad" | "batch-norm-inference" | "batch-norm-training" | "cholesky"
            | "convolution" | "dot" | "fft" | "map" | "ragged-dot" | "reduce" | "reduce-window"
            | "scatter" | "select-and-scatter" | "triangular-solve"
        // Structure.
            | "after-all" | "call" | "conditional" | "constant" | "custom-call"
            | "get-tuple-element" | "opt-barrier" | "parameter" | "tuple" | "while"
        // Random numbers.
            | "rng" | "rng-bit-generator" | "rng-get-and-update-state"
        // Between devices.
            | "all-gather" | "all-reduce" | "all-to-all" | "collective-broadcast"
            | "collective-permute" | "partition-id" | "reduce-scatter" | "replica-id"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, Instruction, ModuleProto};

    fn verdict(opcode: &str) -> Result<(), Error> {
        run(&Module::new(ModuleProto {
            computations: vec![Computation {
                instructions: vec![Instruction {
                    name: "it".to_owned(),
                    opcode: opcode.to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }))
    }

    #[test]
    fn a_construct_without_a_meaning_is_named() {
        for opcode in ["stochastic-convert", "scaled-dot", "outfeed", "of-tomorrow"] {
            let error = verdict(opcode).unwrap_err().to_string();
            assert!(error.contains(opcode), "{error}");
        }
        assert_eq!(verdict("tanh"), Ok(()));
    }
}
