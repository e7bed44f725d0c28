"""How far a TPU's or a CPU's result of a JAX program may lie from the exact one: running error analysis on its jaxpr.

Each operation is evaluated on CPU, and beside each float value stands a bound of its error, from the operands' bounds and the
rounding of the operation itself (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 3.3). So a tolerance
follows from the precision in play and is not tuned by hand. Beside an integer or a boolean stands 0, or infinity where the
operands' errors may change it. What has no rule here (decompositions) is checked by its residual in jax_decompositions.py.
"""

import math

import jax
import numpy as np
from jax.extend import core
from precision import CPU, EXTRA_ULPS, LIPSCHITZ, MONOTONE, TPU, ULPS, gamma, passes, roundoff


class NoRule(Exception):
    """An operation without a rule."""


def is_inexact(value):
    return jax.dtypes.issubdtype(value.dtype, np.inexact)


def wide(value):
    """A value's magnitude-carrying form: f64, or c128, as a NumPy array."""
    kind = np.complex128 if jax.dtypes.issubdtype(value.dtype, np.complexfloating) else np.float64
    return np.asarray(value).astype(kind)


def index(value):
    """Indices as f64 operands want them beside them: of 64 bits."""
    return jax.numpy.asarray(value, dtype=np.int64) if jax.dtypes.issubdtype(value.dtype, np.integer) else value


def uncertain(mask, amount):
    return np.where(mask, amount, 0.0)


class Analysis:
    """One pass over a jaxpr for one machine. Call with CPU as the default device."""

    def __init__(self, machine):
        self.machine = machine

    def held(self, value):
        """What is lost of a value when the machine takes it up."""
        if np.dtype(value.dtype) in (np.float64, np.complex128):
            return self.machine.f64_held * np.abs(wide(value))
        return np.zeros(np.shape(value))

    def jaxpr(self, closed, values, errors):
        jaxpr = closed.jaxpr
        environment = {}

        def read(atom):
            if isinstance(atom, core.Literal):
                value = jax.numpy.asarray(atom.val, dtype=atom.aval.dtype)
                return value, self.held(value)
            return environment[atom]

        def write(variables, values, errors):
            for variable, value, error in zip(variables, values, errors, strict=True):
                environment[variable] = (value, error)

        write(jaxpr.constvars, closed.consts, [self.held(c) for c in closed.consts])
        write(jaxpr.invars, values, errors)
        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            write(
                equation.outvars,
                *self.equation(equation, [v for v, _ in inputs], [e for _, e in inputs]),
            )
        results = [read(atom) for atom in jaxpr.outvars]
        return [v for v, _ in results], [e for _, e in results]

    def equation(self, equation, values, errors):
        name = equation.primitive.name
        params = equation.params
        if name in ("jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_lin"):
            inner = params.get("jaxpr") or params.get("call_jaxpr")
            if not hasattr(inner, "consts"):
                inner = core.ClosedJaxpr(inner, ())
            return self.jaxpr(inner, values, errors)
        if name in ("custom_jvp_call", "custom_vjp_call"):
            return self.jaxpr(params["call_jaxpr"], values, errors)
        if name == "while":
            return self.while_loop(params, values, errors)
        if name == "scan":
            return self.scan(params, values, errors)
        if name == "cond":
            if np.any(errors[0]):
                raise NoRule("a branch that the rounding decides")
            branch = params["branches"][int(np.clip(int(values[0]), 0, len(params["branches"]) - 1))]
            return self.jaxpr(branch, values[1:], errors[1:])
        outputs = equation.primitive.bind(*values, **params)
        outputs = list(outputs) if equation.primitive.multiple_results else [outputs]
        if not any(np.any(error) for error in errors) and not any(is_inexact(output) for output in outputs):
            return outputs, [np.zeros(output.shape) for output in outputs]
        with jax.enable_x64(True), np.errstate(all="ignore"):
            errors = self.errors(equation, values, errors, outputs)
        return outputs, [self.settled(output, error) for output, error in zip(outputs, errors, strict=True)]

    def settled(self, output, error):
        """No error beside NaNs and infinities, which must stand where they stand; and none that is no number."""
        error = np.broadcast_to(np.where(np.isnan(error), np.inf, error), output.shape)
        return np.where(np.isfinite(wide(output)), error, 0.0) if is_inexact(output) else error

    def while_loop(self, params, values, errors):
        condition, body = params["cond_nconsts"], params["body_nconsts"]
        in_condition = (values[:condition], errors[:condition])
        in_body = (values[condition : condition + body], errors[condition : condition + body])
        values, errors = values[condition + body :], errors[condition + body :]
        while True:
            go_on, doubt = self.jaxpr(params["cond_jaxpr"], [*in_condition[0], *values], [*in_condition[1], *errors])
            if np.any(doubt[0]):
                raise NoRule("a loop that the rounding ends")
            go_on = np.asarray(go_on[0])
            if not go_on.any():
                return values, errors
            new = self.jaxpr(params["body_jaxpr"], [*in_body[0], *values], [*in_body[1], *errors])
            if go_on.ndim == 0:
                values, errors = new
            else:
                # A batch of loops: those that have ended stay as they are.
                lift = lambda array: go_on.reshape(go_on.shape + (1,) * (np.ndim(array) - go_on.ndim))
                values = [jax.numpy.where(lift(v), n, v) for n, v in zip(new[0], values, strict=True)]
                errors = [np.where(lift(e), n, e) for n, e in zip(new[1], errors, strict=True)]

    def scan(self, params, values, errors):
        constants, carried = params["num_consts"], params["num_carry"]
        carry = values[constants : constants + carried], errors[constants : constants + carried]
        over = values[constants + carried :], errors[constants + carried :]
        steps = range(params["length"])
        collected = []
        for step in reversed(steps) if params["reverse"] else steps:
            results = self.jaxpr(
                params["jaxpr"],
                [*values[:constants], *carry[0], *(x[step] for x in over[0])],
                [*errors[:constants], *carry[1], *(x[step] for x in over[1])],
            )
            carry = results[0][:carried], results[1][:carried]
            collected.append((results[0][carried:], results[1][carried:]))
        if params["reverse"]:
            collected.reverse()
        stacked = [
            ([jax.numpy.stack([c[0][k] for c in collected]), np.stack([c[1][k] for c in collected])])
            for k in range(len(collected[0][0]) if collected else 0)
        ]
        return [*carry[0], *(s[0] for s in stacked)], [*carry[1], *(s[1] for s in stacked)]

    # --- the rules ---------------------------------------------------------------------------------------------------

    def rounding(self, output, ulps=0.5):
        """The error of `ulps` units in the last place of a result, and of a flush to zero."""
        u = roundoff(output.dtype, self.machine)
        floor = self.machine.f32_floor if output.dtype != np.float64 or self.machine is TPU else 2.0**-1074
        return 2 * ulps * u * np.abs(wide(output)) + floor

    def table(self, name, output):
        ulps = ULPS[name]
        return float(ulps.get({"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}[output.dtype.name], ulps["default"]))

    def errors(self, equation, values, errors, outputs):
        name = equation.primitive.name
        rule = getattr(self, "rule_" + name.replace("-", "_"), None)
        if rule is not None:
            result = rule(equation, values, errors, outputs)
            return result if isinstance(result, list) else [result]
        if name in MONOTONE:
            return [self.monotone(equation, values[0], errors[0], outputs[0])]
        if name in LIPSCHITZ:
            return [errors[0] + self.rounding(outputs[0], self.table(LIPSCHITZ[name], outputs[0]))]
        if name in MOVES:
            return self.moved(equation, values, errors, outputs)
        if name in COMPARES:
            if equation.invars[0] is equation.invars[1]:
                # The usual test for NaN.
                return [np.zeros(outputs[0].shape)]
            left, right = (wide(v) for v in values)
            doubt = (np.abs(left - right) <= errors[0] + errors[1]) & (errors[0] + errors[1] > 0)
            return [uncertain(doubt, np.inf)]
        if not any(is_inexact(v) for v in (*values, *outputs)):
            # An integer operation on what the rounding may have changed: all of it is in doubt.
            doubt = np.inf if any(np.any(e) for e in errors) else 0.0
            return [np.full(output.shape, doubt) for output in outputs]
        raise NoRule(name)

    def at(self, equation, *operands):
        """The operation itself in f64."""
        params = dict(equation.params)
        if "preferred_element_type" in params:
            params["preferred_element_type"] = np.dtype(np.float64)
        if "precision" in params:
            params["precision"] = None
        result = equation.primitive.bind(*[jax.numpy.asarray(x, dtype=np.float64) for x in operands], **params)
        return np.asarray(result)

    def monotone(self, equation, value, error, output):
        name = equation.primitive.name
        if jax.dtypes.issubdtype(output.dtype, np.complexfloating):
            raise NoRule(f"complex {name}")
        x = wide(value)
        middle = self.at(equation, x)
        with np.errstate(all="ignore"):
            spread = np.fmax(
                np.abs(self.at(equation, x + error) - middle), np.abs(self.at(equation, x - error) - middle)
            )
        # Where the result is no number, the operands' errors play no part.
        spread = np.where(np.isnan(middle) | np.isnan(spread) & (error == 0), 0.0, np.where(np.isnan(spread), np.inf, spread))
        spread = np.where(np.isinf(middle), 0.0, spread)
        operator = MONOTONE[name]
        ulps = 0.5 + self.machine.division_ulps if operator is None else self.table(operator, output)
        rounded = np.where(np.isfinite(wide(output)), self.rounding(output, ulps + EXTRA_ULPS.get(name, 0)), 0.0)
        return spread + rounded

    def moved(self, equation, values, errors, outputs):
        """An operation that moves elements: the errors move alike. Indices and predicates stay what they are."""
        operands = [
            jax.numpy.asarray(error, dtype=np.float64) if value.dtype == outputs[0].dtype else index(value)
            for value, error in zip(values, errors, strict=True)
        ]
        if any(np.any(e) for v, e in zip(values, errors, strict=True) if v.dtype != outputs[0].dtype):
            raise NoRule(f"{equation.primitive.name} by indices that the rounding decides")
        params = dict(equation.params)
        if "fill_value" in params:
            params["fill_value"] = 0
        results = equation.primitive.bind(*operands, **params)
        results = results if equation.primitive.multiple_results else [results]
        return [np.asarray(r, dtype=np.float64) for r in results]

    def basic_rounding(self, exact, errors, output, ulps=0.5):
        """Rounding of an addition or a product: none where the result is representable, as that of small whole numbers is."""
        rounded = self.rounding(output, ulps)
        if output.dtype.itemsize > 4:
            return rounded
        return np.where((errors[0] + errors[1] == 0) & (exact == wide(output)), 0.0, rounded)

    def rule_add(self, equation, values, errors, outputs):
        sign = -1 if equation.primitive.name == "sub" else 1
        exact = wide(values[0]) + sign * wide(values[1])
        return errors[0] + errors[1] + self.basic_rounding(exact, errors, outputs[0])

    rule_sub = rule_add
    rule_add_any = rule_add

    def rule_mul(self, equation, values, errors, outputs):
        left, right = (np.abs(wide(v)) for v in values)
        # A complex product: sqrt 5 roundoffs (Brent, Percival and Zimmermann, 2007).
        complex_ = jax.dtypes.issubdtype(outputs[0].dtype, np.complexfloating)
        return left * errors[1] + right * errors[0] + errors[0] * errors[1] + self.basic_rounding(
            wide(values[0]) * wide(values[1]), errors, outputs[0], 1.12 if complex_ else 0.5
        )

    def rule_square(self, equation, values, errors, outputs):
        x = np.abs(wide(values[0]))
        return 2 * x * errors[0] + errors[0] ** 2 + self.rounding(outputs[0])

    def rule_div(self, equation, values, errors, outputs):
        numerator, denominator = (np.abs(wide(v)) for v in values)
        with np.errstate(all="ignore"):
            smallest = denominator - errors[1]
            spread = np.where(
                errors[0] + errors[1] == 0,
                0.0,
                np.where(smallest > 0, (errors[0] + numerator / denominator * errors[1]) / smallest, np.inf),
            )
        rounded = np.where(np.isfinite(wide(outputs[0])), self.rounding(outputs[0], 0.5 + self.machine.division_ulps), 0.0)
        return spread + rounded

    def corners(self, equation, values, errors):
        x, y = (wide(v) for v in values)
        middle = self.at(equation, x, y)
        spread = np.zeros(middle.shape)
        for a in (-1, 1):
            for b in (-1, 1):
                spread = np.fmax(spread, np.abs(self.at(equation, x + a * errors[0], y + b * errors[1]) - middle))
        return spread

    def rule_pow(self, equation, values, errors, outputs):
        return self.corners(equation, values, errors) + self.rounding(outputs[0], self.table("power", outputs[0]))

    def rule_atan2(self, equation, values, errors, outputs):
        return self.corners(equation, values, errors) + self.rounding(outputs[0], self.table("atan2", outputs[0]))

    def rule_integer_pow(self, equation, values, errors, outputs):
        x, n = np.abs(wide(values[0])), equation.params["y"]
        with np.errstate(all="ignore"):
            far, near = x + errors[0], x - errors[0]
            spread = np.where(errors[0] > 0, np.maximum(np.abs(far**n - x**n), np.abs(near**n - x**n)), 0.0)
        return spread + self.rounding(outputs[0], 0.5 * abs(n) + (self.machine.division_ulps + 0.5) * (n < 0))

    def rule_max(self, equation, values, errors, outputs):
        return np.maximum(*np.broadcast_arrays(*errors)) + np.zeros(outputs[0].shape)

    rule_min = rule_max

    def rule_clamp(self, equation, values, errors, outputs):
        return np.maximum(np.maximum(errors[0], errors[1]), errors[2]) + np.zeros(outputs[0].shape)

    def same(self, equation, values, errors, outputs):
        return errors[0]

    rule_neg = rule_conj = rule_real = rule_imag = rule_stop_gradient = same

    def rule_abs(self, equation, values, errors, outputs):
        if jax.dtypes.issubdtype(values[0].dtype, np.complexfloating):
            return errors[0] + self.rounding(outputs[0], 3)
        return errors[0]

    def rule_complex(self, equation, values, errors, outputs):
        return np.hypot(*errors)

    def rule_sign(self, equation, values, errors, outputs):
        return uncertain((np.abs(wide(values[0])) <= errors[0]) & (errors[0] > 0), 2.0)

    def stepped(self, equation, values, errors, outputs):
        x = wide(values[0])
        function = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[equation.primitive.name]
        return uncertain(function(x + errors[0]) != function(x - errors[0]), 1 + errors[0])

    rule_floor = rule_ceil = rule_round = stepped

    def rule_rem(self, equation, values, errors, outputs):
        x, y = (wide(v) for v in values)
        if np.any(errors[1]):
            raise NoRule("a remainder by a rounded divisor")
        jumps = np.trunc((x + errors[0]) / y) != np.trunc((x - errors[0]) / y)
        # A remainder is exact, but a TPU gets it from a rounded quotient: |x| roundoffs.
        lost = 0.0 if self.machine is CPU else 2 * roundoff(outputs[0].dtype, self.machine) * np.abs(x)
        return errors[0] + lost + uncertain(jumps, np.abs(y))

    def rule_is_finite(self, equation, values, errors, outputs):
        return np.zeros(outputs[0].shape)

    def rule_nextafter(self, equation, values, errors, outputs):
        return np.maximum(*errors) * 2

    def logical(self, equation, values, errors, outputs):
        total = np.zeros(outputs[0].shape)
        for error in errors:
            total = np.maximum(total, error)
        return total

    rule_and = rule_or = rule_xor = rule_not = logical

    def rule_select_n(self, equation, values, errors, outputs):
        which, cases = values[0], values[1:]
        result = np.zeros(outputs[0].shape)
        for index, error in enumerate(errors[1:]):
            result = np.where(np.asarray(which).astype(int) == index, error, result)
        if np.any(errors[0]):
            stack = np.stack([wide(c) for c in cases])
            widest = np.abs(stack.max(0) - stack.min(0)) + np.max([np.broadcast_to(e, outputs[0].shape) for e in errors[1:]], axis=0)
            result = np.where(np.broadcast_to(errors[0], outputs[0].shape) > 0, np.maximum(result, widest), result)
        return result

    def rule_convert_element_type(self, equation, values, errors, outputs):
        source, target = values[0], outputs[0]
        if is_inexact(target):
            if not is_inexact(source):
                whole = np.abs(wide(source)) <= 2.0**24
                return np.where(whole & (errors[0] == 0), 0.0, np.where(errors[0] > 0, np.inf, self.rounding(target)))
            narrower = roundoff(target.dtype, CPU) > roundoff(source.dtype, CPU)
            return errors[0] + (self.rounding(target) if narrower else 0.0)
        if not is_inexact(source):
            return np.where(errors[0] > 0, np.inf, 0.0)
        x = wide(source)
        return uncertain(np.trunc(x + errors[0]) != np.trunc(x - errors[0]), np.inf)

    def rule_reduce_precision(self, equation, values, errors, outputs):
        u = 2.0 ** -(equation.params["mantissa_bits"] + 1)
        return errors[0] + u * np.abs(wide(outputs[0])) + self.machine.f32_floor

    def rule_reduce_sum(self, equation, values, errors, outputs):
        axes = tuple(equation.params["axes"])
        terms = math.prod(values[0].shape[a] for a in axes)
        sizes = np.abs(wide(values[0])) + errors[0]
        u = roundoff(outputs[0].dtype, self.machine)
        return errors[0].sum(axes) + gamma(max(terms - 1, 0), u) * sizes.sum(axes) + self.machine.f32_floor * terms

    def rule_reduce_prod(self, equation, values, errors, outputs):
        axes = tuple(equation.params["axes"])
        terms = math.prod(values[0].shape[a] for a in axes)
        sizes = np.abs(wide(values[0]))
        far = (sizes + errors[0]).prod(axes)
        return far - sizes.prod(axes) + gamma(terms, roundoff(outputs[0].dtype, self.machine)) * far + self.machine.f32_floor

    def rule_reduce_max(self, equation, values, errors, outputs):
        return errors[0].max(tuple(equation.params["axes"]), initial=0.0)

    rule_reduce_min = rule_reduce_or = rule_reduce_and = rule_reduce_max

    def rule_argmax(self, equation, values, errors, outputs):
        (axis,) = equation.params["axes"]
        x = wide(values[0]) * (1 if equation.primitive.name == "argmax" else -1)
        candidates = (x + errors[0] >= (x - errors[0]).max(axis, keepdims=True)).sum(axis)
        return uncertain((candidates > 1) & (errors[0].max(axis) > 0), np.inf)

    rule_argmin = rule_argmax

    def cumulative(self, array, equation, function):
        axis = equation.params["axis"]
        if equation.params.get("reverse"):
            return np.flip(function(np.flip(array, axis), axis=axis), axis)
        return function(array, axis=axis)

    def rule_cumsum(self, equation, values, errors, outputs):
        terms = values[0].shape[equation.params["axis"]]
        sizes = self.cumulative(np.abs(wide(values[0])) + errors[0], equation, np.cumsum)
        return self.cumulative(errors[0], equation, np.cumsum) + gamma(terms, roundoff(outputs[0].dtype, self.machine)) * sizes + self.machine.f32_floor * terms

    def rule_cumprod(self, equation, values, errors, outputs):
        terms = values[0].shape[equation.params["axis"]]
        sizes = np.abs(wide(values[0]))
        far = self.cumulative(sizes + errors[0], equation, np.cumprod)
        near = self.cumulative(sizes, equation, np.cumprod)
        return far - near + gamma(terms, roundoff(outputs[0].dtype, self.machine)) * far + self.machine.f32_floor

    def rule_cummax(self, equation, values, errors, outputs):
        return self.cumulative(errors[0], equation, np.maximum.accumulate)

    rule_cummin = rule_cummax

    def contraction(self, equation, values, errors, outputs, terms):
        """A sum of `terms` products. Sums add up products that already have the operands' error."""
        left, right = (np.abs(wide(v)) for v in values)
        times, operands = 1, 0.0
        if self.machine.bf16_passes and values[0].dtype in (np.float32, np.float16):
            times, operands = passes(equation.params["precision"], values[0].dtype)
        # The accumulator is f32 even for narrower operands, and the result is rounded to its own type.
        u = min(roundoff(outputs[0].dtype, self.machine), 2.0**-24)
        rounding = operands + gamma(terms * times, u) * (1 + operands)
        spread = self.at(equation, left + errors[0], right + errors[1])
        exact = self.at(equation, left, right)
        return spread - exact + rounding * spread + self.rounding(outputs[0]) * (outputs[0].dtype.itemsize < 4) + self.machine.f32_floor * terms

    def rule_dot_general(self, equation, values, errors, outputs):
        (contracting, _), _ = equation.params["dimension_numbers"]
        return self.contraction(equation, values, errors, outputs, math.prod(values[0].shape[d] for d in contracting))

    def rule_conv_general_dilated(self, equation, values, errors, outputs):
        features = values[1].shape[equation.params["dimension_numbers"].rhs_spec[0]]
        return self.contraction(equation, values, errors, outputs, math.prod(values[1].shape) // features)

    def rule_fft(self, equation, values, errors, outputs):
        """The plain sum of the transform's definition, which fast algorithms stay below: gamma of n complex products and additions
        of the sum of magnitudes, with twiddle factors good to 2 ulp."""
        lengths = equation.params["fft_lengths"]
        terms = math.prod(lengths)
        axes = tuple(range(-len(lengths), 0))
        inverse = "I" in str(equation.params["fft_type"]).rsplit(".", 1)[-1]
        sizes = np.abs(wide(values[0])) + errors[0]
        factor = (2.0 if "IRFFT" in str(equation.params["fft_type"]) else 1.0) / (terms if inverse else 1)
        u = roundoff(outputs[0].dtype, self.machine)
        return factor * (errors[0].sum(axes, keepdims=True) + gamma(terms + 7, u) * sizes.sum(axes, keepdims=True)) + np.zeros(outputs[0].shape)

    def rule_reduce_window_sum(self, equation, values, errors, outputs):
        terms = math.prod(equation.params["window_dimensions"])
        sizes = np.abs(wide(values[0])) + errors[0]
        return self.at(equation, errors[0]) + gamma(terms, roundoff(outputs[0].dtype, self.machine)) * self.at(equation, sizes) + self.machine.f32_floor * terms

    def rule_reduce_window_max(self, equation, values, errors, outputs):
        return np.maximum(self.at(equation, errors[0]), 0.0)

    def scattered(self, equation, values, errors, outputs):
        """scatter-add: the updates that meet in one element are summed in any order."""
        if np.any(errors[1]) or not is_inexact(outputs[0]):
            raise NoRule("a scatter by indices that the rounding decides")

        def bind(base, updates):
            base, updates = (jax.numpy.asarray(x, dtype=np.float64) for x in (base, updates))
            options = {k: equation.params[k] for k in ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")}
            return np.asarray(jax.lax.scatter_add(base, index(values[1]), updates, **options))

        meet = bind(np.zeros(values[0].shape), np.ones(values[2].shape))
        sizes = bind(np.abs(wide(values[0])) + errors[0], np.abs(wide(values[2])) + errors[2])
        u = roundoff(outputs[0].dtype, self.machine)
        return bind(errors[0], errors[2]) + meet * u / (1 - meet * u) * sizes + self.machine.f32_floor * meet

    rule_scatter_add = scattered

    def rule_select_and_scatter_add(self, equation, values, errors, outputs):
        if np.any(errors[1]):
            raise NoRule("windows whose largest element the rounding decides")
        terms = math.prod(equation.params["window_dimensions"])
        operand = wide(values[1])
        sizes = self.at(equation, np.abs(wide(values[0])) + errors[0], operand)
        u = roundoff(outputs[0].dtype, self.machine)
        return self.at(equation, errors[0], operand) + gamma(terms, u) * sizes + self.machine.f32_floor

    def rule_sort(self, equation, values, errors, outputs):
        axis, keys = equation.params["dimension"], equation.params["num_keys"]
        if any(np.any(e) for e in errors[:keys]):
            if len(values) > 1:
                raise NoRule("a sort of several operands by rounded keys")
            # Sorting is a contraction in the largest norm.
            return [np.broadcast_to(errors[0].max(axis, keepdims=True), outputs[0].shape)]
        moved = equation.primitive.bind(*values, *[jax.numpy.asarray(e) for e in errors], **equation.params)
        return [np.asarray(e) for e in moved[len(values) :]]

    def rule_top_k(self, equation, values, errors, outputs):
        if np.any(errors[0]):
            raise NoRule("top-k of rounded values")
        return [np.zeros(o.shape) for o in outputs]

    def rule_bitcast_convert_type(self, equation, values, errors, outputs):
        if np.any(errors[0]):
            raise NoRule("a bitcast of a rounded value")
        return np.zeros(outputs[0].shape)

    def rule_iota(self, equation, values, errors, outputs):
        return np.zeros(outputs[0].shape)

    def rule_split(self, equation, values, errors, outputs):
        cuts = np.cumsum(equation.params["sizes"])[:-1]
        return list(np.split(errors[0], cuts, axis=equation.params["axis"]))


COMPARES = {"eq", "ne", "lt", "le", "gt", "ge", "eq_to", "lt_to", "le_to"}
MOVES = {
    "reshape", "transpose", "broadcast_in_dim", "slice", "dynamic_slice", "dynamic_update_slice", "gather", "concatenate", "pad",
    "rev", "squeeze", "expand_dims", "copy", "copy_p", "scatter", "sharding_constraint", "tile", "device_put", "stack",
}  # fmt: skip


def bound(function, arguments, machine):
    """The error bound of each result of `function(*arguments)` on a machine, as f64 arrays, given that the arguments are exact
    before the machine takes them up."""
    closed = jax.make_jaxpr(function)(*arguments)
    values = jax.tree.leaves(arguments)
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu):
        values = [jax.device_put(v, cpu) for v in values]
        analysis = Analysis(machine)
        _, errors = analysis.jaxpr(closed, values, [analysis.held(v) for v in values])
    return errors
