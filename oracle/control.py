"""Loops, branches, calls, and what holds values together."""

from __future__ import annotations

from .element_types import U32, tensor
from .evaluate import Evaluator, Value, handles
from .program import Operation


@handles("stablehlo.while")
def while_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    condition, body = operation.regions
    state = operands
    while bool(evaluator.block(condition, state)[0].array):
        state = evaluator.block(body, state)
    return state


@handles("stablehlo.if")
def if_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    on_true, on_false = operation.regions
    return evaluator.block(on_true if bool(operands[0].array) else on_false, [])


@handles("stablehlo.case")
def case(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    branches, index = operation.regions, int(operands[0].array)
    return evaluator.block(branches[index if 0 <= index < len(branches) else -1], [])


@handles("func.call")
def call(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return evaluator.call(operation.symbol("callee"), operands)


@handles("stablehlo.composite")
def composite(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return evaluator.call(operation.symbol("decomposition"), operands)


@handles("stablehlo.tuple")
def tuple_(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [tuple(operands)]


@handles("stablehlo.get_tuple_element")
def get_tuple_element(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [operands[0][operation.integer("index")]]


@handles("stablehlo.optimization_barrier")
def optimization_barrier(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return operands


@handles("stablehlo.after_all", "stablehlo.create_token")
def token(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    return [None]


@handles("stablehlo.replica_id", "stablehlo.partition_id")
def device(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    """Of a program on one device."""
    return [tensor(0, U32)]
