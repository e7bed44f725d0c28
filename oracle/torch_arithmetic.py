"""PyTorch on CPU as the arithmetic: a program evaluated in its own element types by operators of someone else's making.

For the target `torch-cpu`. Movement of data and comparisons stay the evaluator's own; a program in which PyTorch is asked nothing
is refused, since its result would say nothing about PyTorch. So is what PyTorch has no operator for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from .arithmetic import Arithmetic, UnsupportedError
from .element_types import Array, ElementType, Real, Tensor, complex_of
from .evaluate import Evaluator, Handler, Value
from .program import Operation

DTYPES: dict[str, torch.dtype] = {
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "ui8": torch.uint8,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E4M3FNUZ": torch.float8_e4m3fnuz,
    "f8E5M2": torch.float8_e5m2,
    "f8E5M2FNUZ": torch.float8_e5m2fnuz,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "complex<f32>": torch.complex64,
    "complex<f64>": torch.complex128,
}


def dtype_of(type_: ElementType) -> torch.dtype:
    if type_.name not in DTYPES:
        raise UnsupportedError(f"PyTorch has no arithmetic on {type_.name}")
    return DTYPES[type_.name]


def to_torch(x: Tensor) -> torch.Tensor:
    """Every value of the type is exact in the array that carries it over."""
    dtype, kind = dtype_of(x.type), x.type.kind
    if kind == "complex":
        carried: Array = np.empty(x.shape, dtype=np.complex128)
        carried.real, carried.imag = x.array.real, x.array.imag
    elif kind == "float":
        carried = x.array.astype(np.float64)
    else:
        carried = x.array.astype(np.bool_ if kind == "bool" else np.int64)
    return torch.from_numpy(np.array(carried, order="C")).to(dtype)


def from_torch(t: torch.Tensor, type_: ElementType) -> Tensor:
    if t.dtype != dtype_of(type_):
        raise UnsupportedError(f"PyTorch gives {t.dtype} where the program asks for {type_.name}")
    t = t.detach()
    if type_.kind == "complex":
        wide = t.to(torch.complex128).resolve_conj().numpy()
        return Tensor(complex_of(wide.real.astype(Real), wide.imag.astype(Real)), type_)
    if type_.kind == "float":
        return Tensor(t.to(torch.float64).numpy().astype(Real), type_)
    if type_.kind == "bool":
        return Tensor(t.numpy(), type_)
    return Tensor(t.to(torch.int64).numpy().astype(type_.dtype), type_)


def _half_away(x: torch.Tensor) -> torch.Tensor:
    whole = torch.trunc(x)
    return torch.where((x - whole).abs() >= 0.5, whole + torch.copysign(torch.ones_like(x), x), whole)


def _sign(x: torch.Tensor) -> torch.Tensor:
    """PyTorch's sign of a NaN is 0, and of -0 is 0; StableHLO's are the NaN and -0."""
    if x.dtype.is_complex or not x.dtype.is_floating_point:
        return torch.sgn(x)
    return torch.where(torch.isnan(x) | (x == 0), x, torch.sgn(x))


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "abs": torch.abs,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "bessel_i1e": torch.special.i1e,
    "ceil": torch.ceil,
    "conj": torch.conj_physical,
    "cosh": torch.cosh,
    "cosine": torch.cos,
    "digamma": torch.digamma,
    "erf": torch.erf,
    "erf_inv": torch.erfinv,
    "erfc": torch.erfc,
    "exponential": torch.exp,
    "exponential_minus_one": torch.expm1,
    "floor": torch.floor,
    "is_finite": torch.isfinite,
    "is_inf": torch.isinf,
    "is_neg_inf": torch.isneginf,
    "is_pos_inf": torch.isposinf,
    "lgamma": torch.lgamma,
    "log": torch.log,
    "log_plus_one": torch.log1p,
    "logistic": torch.sigmoid,
    "negate": torch.neg,
    "not": torch.bitwise_not,
    "round_nearest_afz": _half_away,
    "round_nearest_even": torch.round,
    "rsqrt": torch.rsqrt,
    "sign": _sign,
    "sine": torch.sin,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tan": torch.tan,
    "tanh": torch.tanh,
}


def _divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return torch.div(x, y)
    return torch.div(x, y, rounding_mode="trunc")


BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "and": torch.bitwise_and,
    "atan2": torch.atan2,
    "complex": torch.complex,
    "divide": _divide,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "multiply": torch.mul,
    "next_after": torch.nextafter,
    "or": torch.bitwise_or,
    "power": torch.pow,
    "remainder": torch.fmod,
    "shift_left": torch.bitwise_left_shift,
    "subtract": torch.sub,
    "xor": torch.bitwise_xor,
    "zeta": torch.special.zeta,
}


class TorchArithmetic(Arithmetic):
    """In the element types of the operands."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        self.asked = 0
        self.overrides: dict[str, Handler] = {
            "stablehlo.fft": self._fft,
            "stablehlo.cholesky": self._cholesky,
            "stablehlo.triangular_solve": self._triangular_solve,
            "stablehlo.batch_norm_inference": self._batch_norm_inference,
            "stablehlo.batch_norm_training": self._batch_norm_training,
            "stablehlo.batch_norm_grad": self._without("batch_norm_grad"),
            "stablehlo.reduce_precision": self._without("reduce_precision"),
            "stablehlo.rng": self._without("rng with StableHLO's distributions"),
            "stablehlo.rng_bit_generator": self._without("rng_bit_generator"),
        }

    def begin(self) -> None:
        self.asked = 0

    def end(self) -> None:
        if not self.asked:
            raise UnsupportedError("nothing in the program is for PyTorch to compute")

    def _ask(self, name: str, of: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
        self.asked += 1
        try:
            return of(*operands)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            message = str(error).splitlines()[0]
            raise UnsupportedError(f"{name} of {operands[0].dtype} in PyTorch: {message}") from None

    def unary(self, name: str, x: Tensor) -> Tensor:
        if name in ("real", "imag") and x.type.kind != "complex":
            raise UnsupportedError(f"{name} of real numbers in PyTorch")
        of = {"real": torch.real, "imag": torch.imag}.get(name) or UNARY.get(name)
        if of is None:
            raise UnsupportedError(f"PyTorch has no {name}")
        result = x.type
        if name.startswith("is_"):
            result = ElementType("i1")
        elif name in ("real", "imag", "abs"):
            result = x.type.part
        return from_torch(self._ask(name, of, to_torch(x)), result)

    def binary(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        if name == "polygamma":
            return self._polygamma(x, y)
        of = BINARY.get(name)
        if name.startswith("shift_right"):
            # PyTorch's one shift to the right is the arithmetic one of signed, the logical one of unsigned types.
            of = torch.bitwise_right_shift if name.endswith("logical") == (x.type.kind == "uint") else None
        if of is None:
            raise UnsupportedError(f"PyTorch has no {name}")
        result = ElementType(f"complex<{x.type.name}>") if name == "complex" else x.type
        return from_torch(self._ask(name, of, to_torch(x), to_torch(y)), result)

    def _polygamma(self, orders: Tensor, x: Tensor) -> Tensor:
        """PyTorch takes one order at a time, a whole number."""
        out, operand = np.empty(x.shape, dtype=Real), to_torch(x)
        for order in np.unique(orders.array):
            if not (order >= 0 and order == np.floor(order)):
                raise UnsupportedError("polygamma of an order that is no whole number in PyTorch")
            found = self._ask("polygamma", lambda t, n=int(order): torch.polygamma(n, t), operand)
            where = orders.array == order
            out[where] = from_torch(found, x.type).array[where]
        return x.like(out)

    def convert(self, x: Tensor, to: ElementType) -> Tensor:
        if x.type.kind == "complex" and to.kind != "complex":
            return self.convert(Tensor(np.asarray(x.array.real), x.type.part), to)
        if x.type.kind == "float" and to.is_integer:
            # PyTorch leaves what does not fit undefined, and says so.
            low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
            if not bool(np.all((x.array >= low) & (x.array <= high))):
                raise UnsupportedError("a conversion to an integer type of what does not fit, which PyTorch leaves undefined")
        return from_torch(self._ask("convert", lambda t: t.to(dtype_of(to)), to_torch(x)), to)

    def sum(self, x: Tensor, axes: tuple[int, ...], initial: Tensor) -> Tensor:
        def total(t: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
            return torch.sum(t, axes, dtype=t.dtype) + start

        return from_torch(self._ask("sum", total, to_torch(x), to_torch(initial)), x.type)

    def contract(self, left: Tensor, right: Tensor, result: ElementType) -> Tensor:
        """Operands of another type than the result's are converted first, which is exact where the result is wider."""
        wide = dtype_of(result)
        operands = to_torch(left).to(wide), to_torch(right).to(wide)
        if result.kind == "bool":
            raise UnsupportedError("matrix products of booleans in PyTorch")
        return from_torch(self._ask("matmul", torch.bmm, *operands), result)

    def _without(self, what: str) -> Handler:
        def refuse(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
            raise UnsupportedError(f"PyTorch has no {what}")

        return refuse

    def _fft(self, evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
        kind, lengths = operation.text("fft_type"), operation.integers("fft_length")
        _, element_type = operation.result_type()
        of = {"FFT": torch.fft.fftn, "IFFT": torch.fft.ifftn, "RFFT": torch.fft.rfftn, "IRFFT": torch.fft.irfftn}[kind]
        axes = tuple(range(-len(lengths), 0))
        return [from_torch(self._ask("fft", lambda t: of(t, s=lengths, dim=axes), to_torch(operands[0])), element_type)]

    def _cholesky(self, evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
        upper = not operation.flag("lower")
        (x,) = operands
        return [from_torch(self._ask("cholesky", lambda t: torch.linalg.cholesky(t, upper=upper), to_torch(x)), x.type)]

    def _triangular_solve(self, evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
        lower, transpose = operation.flag("lower"), operation.text("transpose_a")
        left, unit = operation.flag("left_side"), operation.flag("unit_diagonal")

        def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            if transpose != "NO_TRANSPOSE":
                a = a.mH if transpose == "ADJOINT" else a.mT
            upper = lower != (transpose == "NO_TRANSPOSE")
            return torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

        a, b = operands
        return [from_torch(self._ask("solve_triangular", solve, to_torch(a), to_torch(b)), b.type)]

    def _batch_norm_inference(self, evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
        feature, epsilon = operation.integer("feature_index"), operation.number("epsilon")

        def norm(*t: torch.Tensor) -> torch.Tensor:
            x, scale, offset, mean, variance = t
            moved = x.movedim(feature, 1) if x.dim() > 1 else x.reshape(1, -1)
            out = torch.nn.functional.batch_norm(moved, mean, variance, scale, offset, training=False, eps=epsilon)
            return out.movedim(1, feature) if x.dim() > 1 else out.reshape(x.shape)

        return [from_torch(self._ask("batch_norm", norm, *map(to_torch, operands)), operands[0].type)]

    def _batch_norm_training(self, evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
        feature, epsilon = operation.integer("feature_index"), operation.number("epsilon")
        x, scale, offset = map(to_torch, operands)
        moved = x.movedim(feature, 1)
        others = [d for d in range(x.dim()) if d != feature]

        def norm(t: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.batch_norm(t, None, None, scale, offset, training=True, eps=epsilon)

        out = self._ask("batch_norm", norm, moved).movedim(1, feature)
        variance, mean = torch.var_mean(x, others, correction=0)
        return [from_torch(t, operands[0].type) for t in (out, mean, variance)]
