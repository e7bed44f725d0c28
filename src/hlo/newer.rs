//! Fields that are younger than the protos which the crate is built with: decoding drops them, so a module's bytes are read
//! once more for those that matter, and what they say is put where the passes find it.
//!
//! Literals of the youngest 8- and 4-bit floating-point types keep their bytes in the field for `u8`; [`run`] makes such
//! constants from integers. A comparison in total order has the comparison type that older protos have for it. A `scan` that runs backwards has the frontend attribute [`SCAN_IS_REVERSE`]. The groups of
//! collectives are [`super::groups`]'s.

use std::collections::{HashMap, HashSet};

use prost::Message;

use super::Error;
use super::ir::{Literal, Module, ModuleProto, PrimitiveType, Shape, operand, shape_of};
use super::types::{bit_width, is_float};

/// The comparison type that older protos have for it.
const TOTAL_ORDER: &str = "TOTALORDER";

pub const SCAN_IS_REVERSE: &str = "scan_is_reverse";

#[derive(Clone, PartialEq, Message)]
struct NewerModule {
    #[prost(message, repeated, tag = "3")]
    computations: Vec<NewerComputation>,
}

#[derive(Clone, PartialEq, Message)]
struct NewerComputation {
    #[prost(message, repeated, tag = "2")]
    instructions: Vec<NewerInstruction>,
}

#[derive(Clone, PartialEq, Message)]
struct NewerInstruction {
    #[prost(message, optional, tag = "8")]
    literal: Option<NewerLiteral>,
    #[prost(int64, tag = "35")]
    id: i64,
    #[prost(bool, tag = "94")]
    is_reverse: bool,
    /// `PARTIAL` or `TOTAL`; takes the place of the comparison type.
    #[prost(string, tag = "102")]
    comparison_order: String,
}

/// One byte an element in each of them.
#[derive(Clone, PartialEq, Message)]
struct NewerLiteral {
    #[prost(bytes = "vec", tag = "28")]
    f8e4m3s: Vec<u8>,
    #[prost(bytes = "vec", tag = "29")]
    f8e3m4s: Vec<u8>,
    #[prost(bytes = "vec", tag = "32")]
    f4e2m1fns: Vec<u8>,
    #[prost(bytes = "vec", tag = "33")]
    f8e8m0fnus: Vec<u8>,
}

/// Puts what the newer fields in `bytes` say into the module that was decoded from them.
pub fn add(module: &mut ModuleProto, bytes: &[u8]) -> Result<(), Error> {
    let newer = NewerModule::decode(bytes)
        .map_err(|error: prost::DecodeError| Error::malformed("", error.to_string()))?;
    let mut elements = HashMap::new();
    let mut reverse = Vec::new();
    let mut total = HashSet::new();
    for instruction in newer.computations.into_iter().flat_map(|c| c.instructions) {
        if instruction.is_reverse {
            reverse.push(instruction.id);
        }
        if instruction.comparison_order == "TOTAL" {
            total.insert(instruction.id);
        }
        if let Some(literal) = instruction.literal {
            let fields = [
                literal.f8e4m3s,
                literal.f8e3m4s,
                literal.f4e2m1fns,
                literal.f8e8m0fnus,
            ];
            if let Some(bytes) = fields.into_iter().find(|bytes| !bytes.is_empty()) {
                elements.insert(instruction.id, bytes);
            }
        }
    }
    if elements.is_empty() && reverse.is_empty() && total.is_empty() {
        return Ok(());
    }
    let computations = module.computations.iter_mut();
    for instruction in computations.flat_map(|c| &mut c.instructions) {
        if let Some(bytes) = elements.remove(&instruction.id)
            && let Some(literal) = &mut instruction.literal
        {
            literal.u8s = bytes;
        }
        // Whatever type it states beside: what runs would compare in the partial order.
        if total.contains(&instruction.id) {
            instruction.comparison_type = TOTAL_ORDER.to_owned();
        }
        if instruction.opcode == "scan" && reverse.contains(&instruction.id) {
            let attributes = instruction.frontend_attributes.get_or_insert_default();
            attributes
                .map
                .insert(SCAN_IS_REVERSE.to_owned(), "true".to_owned());
        }
    }
    Ok(())
}

/// Constants of the types whose literals the protos do not know become integers with the same bits, reinterpreted.
///
/// A comparison of integers is total without saying so. Floats in their total order the TPU compiler compares as integers;
/// a comparison that is left has not been met, and is refused.
pub fn run(module: &mut Module) -> Result<(), Error> {
    module.rewrite(|builder, mut instruction| {
        if instruction.opcode == "compare" && instruction.comparison_type == TOTAL_ORDER {
            if is_float(builder.shape(operand(&instruction, 0)?)?.element_type) {
                return Err(Error::not_executable(
                    &instruction,
                    "a comparison of floats in their total order",
                ));
            }
            instruction.comparison_type.clear();
        }
        let shape = shape_of(&instruction)?;
        let is_newer = matches!(shape.element_type, 28 | 29 | 32 | 33);
        let Some(literal) = &instruction.literal else {
            builder.keep(instruction);
            return Ok(());
        };
        if instruction.opcode != "constant" || !is_newer {
            builder.keep(instruction);
            return Ok(());
        }
        let shape = shape.clone();
        let of_type = |element_type: PrimitiveType| Shape {
            element_type: element_type.into(),
            ..shape.clone()
        };
        let mut bits = builder.constant(Literal {
            shape: literal.shape.as_ref().map(|literal| Shape {
                element_type: PrimitiveType::U8.into(),
                ..literal.clone()
            }),
            u8s: literal.u8s.clone(),
            ..Default::default()
        });
        if bit_width(shape.element_type) == Some(4) {
            bits = builder.add("convert", of_type(PrimitiveType::U4), &[bits]);
        }
        let constant = builder.add("bitcast-convert", shape, &[bits]);
        builder.replace(&instruction, constant);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::ir::{Computation, Instruction, array};

    fn constant(element_type: i32) -> ModuleProto {
        let shape = Shape {
            element_type,
            ..array(PrimitiveType::Invalid, &[2])
        };
        ModuleProto {
            computations: vec![Computation {
                instructions: vec![Instruction {
                    id: 3,
                    opcode: "constant".to_owned(),
                    shape: Some(shape.clone()),
                    literal: Some(Literal {
                        shape: Some(shape),
                        ..Default::default()
                    }),
                    ..Default::default()
                }],
                root_id: 3,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    fn newer(instruction: NewerInstruction) -> Vec<u8> {
        let instructions = vec![instruction];
        NewerModule {
            computations: vec![NewerComputation { instructions }],
        }
        .encode_to_vec()
    }

    fn rewritten(element_type: i32, literal: NewerLiteral) -> Computation {
        let mut proto = constant(element_type);
        let bytes = newer(NewerInstruction {
            literal: Some(literal),
            id: 3,
            ..Default::default()
        });
        add(&mut proto, &bytes).unwrap();
        let mut module = Module::new(proto);
        run(&mut module).unwrap();
        module.proto.computations.remove(0)
    }

    /// 1.0 and -2.0 in f8e4m3: exponent bias 7, three bits of mantissa.
    #[test]
    fn constants_of_younger_types_keep_their_bits() {
        let computation = rewritten(
            28,
            NewerLiteral {
                f8e4m3s: vec![0x38, 0xc0],
                ..Default::default()
            },
        );
        let [bits, constant] = &computation.instructions[..] else {
            panic!("{:?}", computation.instructions);
        };
        assert_eq!(bits.literal.as_ref().unwrap().u8s, [0x38, 0xc0]);
        assert_eq!(constant.opcode, "bitcast-convert");
        assert_eq!(constant.shape.as_ref().unwrap().element_type, 28);
        assert_eq!(computation.root_id, constant.id);
    }

    #[test]
    fn elements_of_four_bits_are_narrowed_first() {
        let computation = rewritten(
            32,
            NewerLiteral {
                f4e2m1fns: vec![0x2, 0xf],
                ..Default::default()
            },
        );
        let opcodes = computation.instructions.iter().map(|i| i.opcode.as_str());
        assert!(opcodes.eq(["constant", "convert", "bitcast-convert"]));
        let narrow = computation.instructions[1].shape.as_ref().unwrap();
        assert_eq!(narrow.element_type, PrimitiveType::U4 as i32);
    }

    #[test]
    fn a_scan_that_runs_backwards_says_so() {
        let mut proto = constant(11);
        proto.computations[0].instructions[0].opcode = "scan".to_owned();
        let bytes = newer(NewerInstruction {
            id: 3,
            is_reverse: true,
            ..Default::default()
        });
        add(&mut proto, &bytes).unwrap();
        let scan = &proto.computations[0].instructions[0];
        let attributes = scan.frontend_attributes.as_ref().unwrap();
        assert!(attributes.map.contains_key(SCAN_IS_REVERSE));
    }

    #[test]
    fn the_total_order_is_understood_of_integers_alone() {
        let compared = |element_type: PrimitiveType, stated: &str| {
            let mut proto = constant(element_type.into());
            let mut compare = proto.computations[0].instructions[0].clone();
            compare.opcode = "compare".to_owned();
            compare.comparison_type = stated.to_owned();
            (compare.id, compare.operand_ids) = (4, vec![3, 3]);
            proto.computations[0].instructions.push(compare);
            proto.computations[0].root_id = 4;
            let bytes = newer(NewerInstruction {
                id: 4,
                comparison_order: "TOTAL".to_owned(),
                ..Default::default()
            });
            add(&mut proto, &bytes).unwrap();
            let mut module = Module::new(proto);
            run(&mut module)
        };
        for (float, integer) in [("", ""), ("FLOAT", "SIGNED")] {
            assert_eq!(compared(PrimitiveType::S32, integer), Ok(()));
            let error = compared(PrimitiveType::F32, float).unwrap_err();
            assert!(matches!(error, Error::NotExecutable { .. }), "{error}");
        }
    }
}
