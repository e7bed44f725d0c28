"""Evaluates a program: walks its operations, keeps the values, runs regions. What an operation does is in the modules beside.

Regions that take scalars (of `reduce`, `sort`, `map`, ...) are run on whole arrays of them at once, which their elementwise
operations do not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arithmetic import Arithmetic, UnsupportedError
from .element_types import Tensor
from .program import Operation, Program, operations

Value = Any
"""A Tensor, a tuple of values, or a token (None)."""

Handler = Callable[["Evaluator", Operation, list[Value]], list[Value]]

HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers the handler of the operations of these names, dialects included."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


class Evaluator:
    """Runs one program with one arithmetic."""

    def __init__(self, program: Program, arithmetic: Arithmetic) -> None:
        self.program = program
        self.arithmetic = arithmetic
        self._scopes: list[dict[Any, Value]] = []

    def run(self, inputs: Sequence[Tensor]) -> list[Value]:
        """The results of `main`."""
        self.arithmetic.begin()
        results = self.call("main", list(inputs))
        self.arithmetic.end()
        return results

    def call(self, name: str, arguments: list[Value]) -> list[Value]:
        outer, self._scopes = self._scopes, []
        try:
            return self.block(self.program.body(name), arguments)
        finally:
            self._scopes = outer

    def block(self, block: Any, arguments: Sequence[Value]) -> list[Value]:
        """What the block returns, given its arguments; it sees the values around it."""
        scope: dict[Any, Value] = dict(zip(list(block.arguments), arguments, strict=True))
        self._scopes.append(scope)
        try:
            for operation in operations(block):
                operands = [self._lookup(operand) for operand in operation.operands]
                if operation.name in ("func.return", "stablehlo.return"):
                    return operands
                for result, value in zip(operation.results, self._evaluate(operation, operands), strict=True):
                    scope[result] = value
        finally:
            self._scopes.pop()
        raise UnsupportedError("a block that does not return")

    def scalars(self, block: Any, arguments: Sequence[Tensor]) -> list[Tensor]:
        """A region of scalars on arrays of one shape; results that depend on no argument are given that shape too."""
        shape = arguments[0].shape
        return [Tensor(np.broadcast_to(r.array, shape), r.type) for r in self.block(block, arguments)]

    def _lookup(self, value: Any) -> Value:
        for scope in reversed(self._scopes):
            if value in scope:
                return scope[value]
        raise KeyError(str(value))

    def _evaluate(self, operation: Operation, operands: list[Value]) -> list[Value]:
        handler = self.arithmetic.overrides.get(operation.name) or HANDLERS.get(operation.name)
        if handler is None:
            raise UnsupportedError(operation.name)
        results: list[Value] = handler(self, operation, operands)
        return results
