"""Answers requests, a JSON object a line, on standard input and output, until the input ends.

Request: `{"program": text, "inputs": [tensor, ...], "scale": bool}`. A tensor is `{"element_type": "bf16", "shape": [2, 3],
"data": base64}` of its little-endian buffer, one byte an element below 8 bits. Answer: `{"values": [tensor, ...]}` and, if asked,
`"scale": [tensor, ...]`, what the request's "scale_program" gives on the inputs, or without one what the program gives on the
absolute values of its float inputs; with `"flushed": [tensor, ...]` in the request, the same of its results on those inputs; or
`{"none": why}` where this oracle has no answer; or `{"error": what}` where it failed. The first line, before any request, is
`{"ready": versions}`.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from . import operators, special
from .arithmetic import Arithmetic, Extended, UnsupportedError
from .element_types import FORMATS, ElementType, Real, Tensor, complex_of, decode, encode
from .evaluate import HANDLERS, Evaluator
from .program import Program, UnreadableError

assert operators.control is not None and HANDLERS

_FLOATS = {name.lower(): name for name in FORMATS}


def element_type(name: str) -> ElementType:
    """From the name in case ids: `pred`, `u8`, `f8e4m3fn`, `c64`."""
    if name in _FLOATS:
        return ElementType(_FLOATS[name])
    if name.startswith("u"):
        return ElementType(f"ui{name[1:]}")
    return ElementType({"pred": "i1", "c64": "complex<f32>", "c128": "complex<f64>"}.get(name, name))


def name_of(type_: ElementType) -> str:
    """The name in case ids."""
    if type_.kind == "bool":
        return "pred"
    if type_.kind == "complex":
        return f"c{type_.bits}"
    return type_.name.lower() if type_.kind == "float" else type_.name.replace("ui", "u")


def read(tensor: dict[str, Any]) -> Tensor:
    return decode(base64.b64decode(tensor["data"]), tuple(tensor["shape"]), element_type(tensor["element_type"]))


def write(tensor: Tensor) -> dict[str, Any]:
    return {
        "element_type": name_of(tensor.type),
        "shape": list(tensor.shape),
        "data": base64.b64encode(encode(tensor)).decode(),
    }


def absolute(x: Tensor) -> Tensor:
    """Floats without their sign; of a complex number the modulus, in the real part."""
    if x.type.kind == "float":
        return x.like(np.abs(x.array))
    if x.type.kind == "complex":
        moduli = special.modulus(x.array, x.type)
        return x.like(complex_of(moduli, np.zeros(moduli.shape, dtype=Real)))
    return x


def real_part(x: Tensor) -> Tensor:
    if x.type.kind == "complex":
        return Tensor(np.asarray(x.array.real), x.type.part)
    return x


def answer(request: dict[str, Any], arithmetic: Arithmetic) -> dict[str, Any]:
    """What the program gives on the inputs."""
    try:
        program = Program(request["program"])
        inputs = [read(tensor) for tensor in request["inputs"]]
        values: Sequence[Tensor] = Evaluator(program, arithmetic).run(inputs)
        reply: dict[str, Any] = {"values": [write(value) for value in values]}
        if request.get("scale"):
            own = request.get("scale_program")
            scales = (
                Evaluator(Program(own), arithmetic).run(inputs)
                if own
                else Evaluator(program, arithmetic).run([absolute(x) for x in inputs])
            )
            reply["scale"] = [write(real_part(scale)) for scale in scales]
        if "flushed" in request:
            flushed = [read(tensor) for tensor in request["flushed"]]
            reply["flushed"] = [write(value) for value in Evaluator(program, arithmetic).run(flushed)]
    except UnreadableError as error:
        return {"none": f"jaxlib {version('jaxlib')} cannot parse it: {error}"}
    except (UnsupportedError, NotImplementedError) as error:
        return {"none": f"not implemented: {error}"}
    except Exception as error:  # A fault of this evaluator is an answer, and the next case is evaluated all the same.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(where.filename)}:{where.lineno}"
        return {"error": f"{type(error).__name__}: {error} ({place})"}
    return reply


def serve(arithmetic: Arithmetic, packages: Sequence[str]) -> None:
    """Until standard input ends."""
    # Whatever a library prints must not get between the answers.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(reply: dict[str, Any]) -> None:
        out.write(json.dumps(reply) + "\n")
        out.flush()

    send({"ready": {package: version(package) for package in packages}})
    for line in sys.stdin:
        send(answer(json.loads(line), arithmetic))


def _extended() -> Arithmetic:
    return Extended()


def _torch() -> Arithmetic:
    from .torch_arithmetic import TorchArithmetic

    return TorchArithmetic()


ARITHMETICS: dict[str, tuple[Callable[[], Arithmetic], tuple[str, ...]]] = {
    "extended": (_extended, ("jaxlib", "numpy", "mpmath")),
    "torch": (_torch, ("jaxlib", "numpy", "torch")),
}
