"""What JAX is asked to compute on one device: functions of NumPy, contractions, transformations, random numbers, every type."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from precision import gamma
from jax import lax
from jax_compare import case, check, integers, normal, of, tpus, uniform

X = uniform(8, 128, low=-3, high=3)
Y = uniform(8, 128, low=0.5, high=2.5, seed=1)
UNIT = uniform(8, 128, low=-0.9, high=0.9, seed=2)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, 3e38, -1e-30, 0.5], np.float32)
I = integers(8, 128)
J = integers(8, 128, low=1, high=50, seed=1)

# --- functions of NumPy ---------------------------------------------------------------------------------------------

for name, function, arguments in [
    ("add", jnp.add, (X, Y)),
    ("subtract", jnp.subtract, (X, Y)),
    ("multiply", jnp.multiply, (X, Y)),
    ("divide", jnp.divide, (X, Y)),
    ("reciprocal", jnp.reciprocal, (Y,)),
    ("exp", jnp.exp, (X,)),
    ("exp2", jnp.exp2, (X,)),
    ("expm1", jnp.expm1, (X,)),
    ("log", jnp.log, (Y,)),
    ("log1p", jnp.log1p, (Y,)),
    ("sqrt", jnp.sqrt, (Y,)),
    ("rsqrt", lax.rsqrt, (Y,)),
    ("cbrt", jnp.cbrt, (X,)),
    ("power", jnp.power, (Y, X)),
    ("square", jnp.square, (X,)),
    ("sin", jnp.sin, (X,)),
    ("cos", jnp.cos, (X,)),
    ("tan", jnp.tan, (UNIT,)),
    ("arcsin", jnp.arcsin, (UNIT,)),
    ("arctan", jnp.arctan, (X,)),
    ("arctan2", jnp.arctan2, (X, Y)),
    ("sinh", jnp.sinh, (X,)),
    ("tanh", jnp.tanh, (X,)),
    ("arctanh", jnp.arctanh, (UNIT,)),
    ("erf", jax.scipy.special.erf, (X,)),
    ("erf_inv", jax.scipy.special.erfinv, (UNIT,)),
    ("gammaln", jax.scipy.special.gammaln, (uniform(8, 128, low=3, high=9),)),
    ("sigmoid", jax.nn.sigmoid, (X,)),
    ("softplus", jax.nn.softplus, (X,)),
    ("logaddexp", jnp.logaddexp, (X, Y)),
    ("hypot", jnp.hypot, (X, Y)),
    ("abs", jnp.abs, (X,)),
    ("sign", jnp.sign, (X,)),
    ("floor_ceil_rint", lambda x: (jnp.floor(x), jnp.ceil(x), jnp.rint(x), jnp.trunc(x)), (X,)),
    ("remainder", jnp.remainder, (X, Y)),
    ("maximum_minimum", lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y)), (X, Y)),
    ("clip", lambda x: jnp.clip(x, -1, 2), (X,)),
    ("where", lambda x, y: jnp.where(x > y, x, y * 2), (X, Y)),
    ("special_values", lambda x: (jnp.isnan(x), jnp.isinf(x), jnp.isfinite(x), jnp.signbit(x), jnp.nan_to_num(x, posinf=1.0, neginf=-1.0)), (SPECIAL,)),
    ("special_arithmetic", lambda x: (x + 1, x * 2, -x, jnp.abs(x), jnp.maximum(x, 0.0), jnp.minimum(x, 0.0)), (SPECIAL,)),
    ("sum", lambda x: (jnp.sum(x), jnp.sum(x, 0), jnp.sum(x, 1)), (X,)),
    ("mean", lambda x: (jnp.mean(x, 0), jnp.mean(jnp.abs(x))), (X,)),
    ("var", lambda x: (jnp.var(x), jnp.std(x, 1)), (X,)),
    ("prod", lambda x: jnp.prod(x, 0), (Y,)),
    ("max_min", lambda x: (jnp.max(x), jnp.min(x, 0), jnp.ptp(x, 1)), (X,)),
    ("argmax_argmin", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.argmax(x)), (X,)),
    ("any_all", lambda x: (jnp.any(x > 2.9, 1), jnp.all(x > -2.9, 0), jnp.count_nonzero(x > 0)), (X,)),
    ("cumsum", lambda x: jnp.cumsum(x, 1), (Y,)),
    ("cumprod", lambda x: jnp.cumprod(x, 0), (Y,)),
    ("cummax", lambda x: lax.cummax(x, 1), (X,)),
    ("logsumexp", lambda x: jax.nn.logsumexp(x, 1), (X,)),
    ("median", lambda x: jnp.median(x, 1), (X,)),
    ("quantile", lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9]), axis=1), (X,)),
    ("sort", lambda x: jnp.sort(x, 1), (X,)),
    ("sort_special", jnp.sort, (SPECIAL,)),
    ("argsort", lambda x: jnp.argsort(x, 0), (X,)),
    ("lexsort", lambda a, b: jnp.lexsort((a, b)), (integers(64, low=0, high=5), integers(64, low=0, high=5, seed=1))),
    ("sort_pairs", lambda a, b: lax.sort((a, b), num_keys=1), (integers(128, low=0, high=9), uniform(128))),
    ("top_k", lambda x: lax.top_k(x, 5), (X,)),
    ("searchsorted", lambda a, v: jnp.searchsorted(a, v), (np.sort(uniform(100)), uniform(50, seed=3))),
    ("unique", lambda a: jnp.unique(a, size=20, fill_value=-1), (integers(64, low=0, high=15),)),
    ("histogram", lambda a: jnp.histogram(a, bins=8, range=(-100, 100))[0], (integers(200) + np.float32(0.5),)),
    ("bincount", lambda a: jnp.bincount(a, length=12), (integers(200, low=0, high=12),)),
    ("digitize", lambda a: jnp.digitize(a, jnp.array([-50, 0, 50])), (integers(64),)),
    ("interp", lambda x: jnp.interp(x, jnp.linspace(-3.0, 3.0, 13), jnp.linspace(-3.0, 3.0, 13) ** 2), (uniform(32, low=-2.9, high=2.9),)),
    ("diff", lambda x: jnp.diff(x, axis=1), (X,)),
    ("trapezoid", lambda y: jnp.trapezoid(y, axis=1), (Y,)),
    ("concatenate", lambda x, y: (jnp.concatenate([x, y], 1), jnp.stack([x, y])), (X, Y)),
    ("tile_repeat", lambda x: (jnp.tile(x, (2, 1)), jnp.repeat(x, 3, 0)), (X,)),
    ("roll_flip", lambda x: (jnp.roll(x, 5, 1), jnp.flip(x, 0)), (X,)),
    ("pad", lambda x: (jnp.pad(x, ((1, 2), (3, 0))), jnp.pad(x, 2, mode="reflect"), lax.pad(x, 0.5, ((0, 0, 1), (-3, 2, 0)))), (X,)),
    ("reshape_transpose", lambda x: (x.reshape(16, 64).T, jnp.moveaxis(x.reshape(2, 4, 128), 0, 2)), (X,)),
    ("tril_triu", lambda x: (jnp.tril(x, 3), jnp.triu(x)), (X,)),
    ("take", lambda x, i: (jnp.take(x, i, 1), x[:, i], x[1::2, ::-3]), (X, integers(20, low=0, high=128))),
    ("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), (X, integers(8, 16, low=0, high=128))),
    ("scatter_set", lambda x, i: x.at[:, i].set(7.0), (X, np.arange(0, 128, 3))),
    ("scatter_add", lambda x, i, y: x.at[0, i].add(y), (X, integers(50, low=0, high=20), uniform(50))),
    ("dynamic_slice", lambda x, i: (lax.dynamic_slice(x, (i, i * 9), (3, 40)), lax.dynamic_update_slice(x, x[:2, :3], (i, i))), (X, np.int32(3))),
    ("segment_sum", lambda x, s: jax.ops.segment_sum(x, s, 10), (uniform(200), integers(200, low=0, high=10))),
    ("outer_kron", lambda a, b: (jnp.outer(a, b), jnp.kron(a, b)), (uniform(12), uniform(9, seed=1))),
    ("cross", jnp.cross, (uniform(5, 3), uniform(5, 3, seed=1))),
    ("trace_diag", lambda x: (jnp.trace(x), jnp.diag(x), jnp.diag(x[0])), (uniform(12, 12),)),
    ("convolve", lambda a, v: jnp.convolve(a, v), (Y[0], Y[1, :9])),
    ("polyval", jnp.polyval, (uniform(5, low=0.5, high=1), uniform(64, low=0, high=1))),
    ("softmax", lambda x: (jax.nn.softmax(x, 1), jax.nn.log_softmax(x, 1)), (X,)),
    ("gelu", lambda x: (jax.nn.gelu(x), jax.nn.gelu(x, approximate=False), jax.nn.silu(x), jax.nn.elu(x)), (Y,)),
    ("layer_norm", lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), (X,)),
    ("one_hot", lambda i: jax.nn.one_hot(i, 10), (integers(30, low=0, high=10),)),
]:  # fmt: skip
    case(name, function, of(*arguments))

# --- contractions and convolutions, at each precision ---------------------------------------------------------------

A, B = normal(64, 256), normal(256, 96, seed=1)
for precision in ("default", "high", "highest"):
    case(f"matmul_{precision}", functools.partial(jnp.matmul, precision=precision), of(A, B))
case("matmul_bf16", jnp.matmul, of(A.astype(jnp.bfloat16), B.astype(jnp.bfloat16)))
case("matmul_f16", jnp.matmul, of(A.astype(np.float16), B.astype(np.float16)))
case("matmul_int8", lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), of(integers(32, 64, dtype=np.int8), integers(64, 48, dtype=np.int8)))
case("dot_vector", jnp.dot, of(np.abs(A[0]), np.abs(A[1])))
case("einsum", lambda a, b: jnp.einsum("bij,bkj->bik", a, b), of(normal(3, 20, 40), normal(3, 24, 40, seed=1)))
case("tensordot", lambda a, b: jnp.tensordot(a, b, ((0, 1), (1, 0))), of(normal(6, 30, 20), normal(30, 6, 8, seed=1)))
IMAGE, KERNEL = normal(2, 16, 16, 8), normal(3, 3, 8, 12, seed=1)
NHWC = ("NHWC", "HWIO", "NHWC")


def conv(image, kernel, **options):
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": NHWC} | options
    return lax.conv_general_dilated(image, kernel, **options)


case("conv", conv, of(IMAGE, KERNEL))
case("conv_highest", functools.partial(conv, precision="highest"), of(IMAGE, KERNEL))
case("conv_strided", functools.partial(conv, window_strides=(2, 3), padding="VALID"), of(IMAGE, KERNEL))
case("conv_dilated", functools.partial(conv, rhs_dilation=(2, 2), lhs_dilation=(2, 1), padding=((2, 1), (0, 3))), of(IMAGE, KERNEL))
case("conv_depthwise", functools.partial(conv, feature_group_count=8), of(IMAGE, normal(3, 3, 1, 16)))
case("conv_1d", lambda x, k: lax.conv(x, k, (1,), "SAME"), of(normal(2, 4, 50), normal(6, 4, 5)))
case("conv_bf16", conv, of(IMAGE.astype(jnp.bfloat16), KERNEL.astype(jnp.bfloat16)))
case("conv_transpose", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=NHWC), of(IMAGE, KERNEL))
case("avg_pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4, of(np.abs(IMAGE)))
case("max_pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), of(IMAGE))


@check
def matmul_default_is_one_bf16_pass():
    """f32 operands at DEFAULT precision are rounded to bf16 on the way into the matrix unit, which accumulates in f32: the result is
    that of rounded operands to within f32's roundings, 500 times closer than the plain bound."""
    a, b = normal(256, 256), normal(256, 256, seed=1)
    actual = np.asarray(jax.jit(jnp.matmul, device=tpus()[0])(a, b), np.float64)
    a, b = (np.asarray(x.astype(jnp.bfloat16), np.float64) for x in (a, b))
    bound = gamma(256, 2.0**-24) * (np.abs(a) @ np.abs(b))
    return float((np.abs(actual - a @ b) / bound).max())


# --- transformations and control flow -------------------------------------------------------------------------------


def mlp(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss(params, x, y):
    return jnp.mean((mlp(params, x) - y) ** 2)


def mlp_params(*widths):
    return [
        (normal(m, n, seed=m) / np.float32(np.sqrt(m)), normal(n, seed=n) * np.float32(0.1))
        for m, n in zip(widths[:-1], widths[1:], strict=True)
    ]


highest = functools.partial(jax.default_matmul_precision, "highest")


def in_highest(function):
    def run(*arguments):
        with highest():
            return function(*arguments)

    return run


case("mlp", mlp, of(mlp_params(64, 128, 32), normal(16, 64)))
case("grad_mlp", in_highest(jax.value_and_grad(loss)), of(mlp_params(16, 32, 8), normal(8, 16), normal(8, 8, seed=5)))
case("grad_softmax_cross_entropy", in_highest(jax.grad(lambda w, x, y: -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ w) * y, 1)))), of(normal(16, 10), normal(8, 16), np.eye(10, dtype=np.float32)[:8]))
case("grad_conv", in_highest(jax.grad(lambda k, x: jnp.sum(jnp.tanh(conv(x, k))))), of(KERNEL[..., :4] * np.float32(0.1), IMAGE))
# The TPU compiler takes windows in the two minor-most dimensions for unimplemented, so they are in the outer ones, as in NHWC.
case("grad_max_pool", jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (2, 2, 1, 1), (2, 2, 1, 1), "VALID") ** 2)), of(uniform(8, 8, 2, 4)))
case("jacobians", lambda x: (jax.jacfwd(jnp.sin)(x), jax.jacrev(lambda v: v**3)(x)), of(uniform(6)))
case("hessian", jax.hessian(lambda x: jnp.sum(jnp.exp(x) * x)), of(uniform(5)))
case("jvp_vjp", lambda x, t: (jax.jvp(jnp.tanh, (x,), (t,)), jax.vjp(jnp.exp, x)[1](t)), of(UNIT, UNIT))
case("vmap_matmul", jax.vmap(jnp.matmul, in_axes=(0, None)), of(normal(5, 12, 40), normal(40, 9)))
case("vmap_vmap", jax.vmap(jax.vmap(lambda a, b: jnp.sin(a) * b, (0, None)), (None, 0)), of(uniform(12), uniform(7)))
case("vmap_dynamic_slice", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (5,)), (0, 0)), of(X, integers(8, low=0, high=100)))
case("checkpoint", in_highest(jax.grad(lambda x, w: jnp.sum(jax.checkpoint(lambda v: jnp.tanh(v @ w))(x)))), of(normal(6, 12), normal(12, 12)))
case("scan_rnn", in_highest(lambda w, xs: lax.scan(lambda h, x: ((h := jnp.tanh(h @ w + x)), h), jnp.zeros(16, jnp.float32), xs)), of(normal(16, 16) / np.float32(8), normal(12, 16)))
case("scan_reverse", lambda xs: lax.scan(lambda c, x: (c * 0.5 + x, c), jnp.float32(0), xs, reverse=True), of(uniform(20)))
case("grad_scan", jax.grad(lambda a, xs: lax.scan(lambda c, x: (jnp.sin(c * a) + x, None), jnp.float32(0.3), xs)[0]), of(np.float32(0.7), uniform(10)))
case("associative_scan", lambda x: lax.associative_scan(jnp.add, x), of(uniform(20, low=0.5)))
case("while_loop", lambda n: lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 3 + 1, s[1] + 1), (jnp.int32(7), jnp.int32(0))), of(np.int32(9)))
case("while_gcd", jax.vmap(lambda a, b: lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0]), of(integers(40, low=1, high=5000), integers(40, low=1, high=5000, seed=1)))
case("fori_loop", lambda x: lax.fori_loop(0, 10, lambda i, v: v + jnp.sin(v) * i / 50, x), of(uniform(64, low=0.5)))
case("cond", lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), of(np.bool_(True), X))
case("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.exp, lambda v: -v], x), of(np.int32(1), X))
case("cond_in_scan", lambda xs: lax.scan(lambda c, x: (lax.cond(x > 0, lambda: c + x, lambda: c - 2 * x), c), jnp.float32(0), xs), of(uniform(30)))
case("newton_sqrt", lambda a: lax.fori_loop(0, 5, lambda i, x: 0.5 * (x + a / x), jnp.ones_like(a)), of(uniform(32, low=0.5, high=2)))
case("eager_chain", lambda x, y: jnp.sum(jnp.tanh(x * 2 + y) / (1 + jnp.exp(y)), axis=1), of(X, Y), eager=True)
case("eager_indexing", lambda x: jnp.asarray(x).at[2:4, ::2].add(3.0)[1:5].reshape(-1, 16), of(X), eager=True)

# --- random numbers, transforms ---------------------------------------------------------------------------------------

key = lambda: jax.random.PRNGKey(42)
case("random_bits", lambda: jax.random.bits(key(), (64,)), of())
case("random_uniform", lambda: jax.random.uniform(key(), (64,)), of())
case("random_normal", lambda: jax.random.normal(key(), (256,)), of())
case("random_randint", lambda: jax.random.randint(key(), (64,), -10, 1000), of())
case("random_permutation", lambda: jax.random.permutation(key(), 100), of())
case("random_bernoulli", lambda: jax.random.bernoulli(key(), 0.3, (100,)), of())
case("random_split_fold", lambda: (jax.random.split(key(), 3), jax.random.fold_in(key(), 7)), of())
case("fft", jnp.fft.fft, of((normal(4, 64) + 1j * normal(4, 64, seed=1)).astype(np.complex64)))
case("ifft", jnp.fft.ifft, of((normal(4, 60) + 1j * normal(4, 60, seed=1)).astype(np.complex64)))
case("rfft", jnp.fft.rfft, of(normal(4, 64)))
case("irfft", jnp.fft.irfft, of((normal(4, 33) + 1j * normal(4, 33, seed=1)).astype(np.complex64)))
case("fft2", jnp.fft.fft2, of((normal(16, 12) + 1j * normal(16, 12, seed=1)).astype(np.complex64)))
case("fftshift", jnp.fft.fftshift, of(X[0]))
case("complex", lambda z: (z * z, jnp.abs(z), jnp.real(z), jnp.conj(z) + 1), of((normal(64) + 1j * normal(64, seed=1)).astype(np.complex64)))

# --- integers, and types of 64 and 16 bits ----------------------------------------------------------------------------

case("int_arithmetic", lambda a, b: (a + b, a - b, a * b, a // b, a % b, -a, abs(a), jnp.sign(a)), of(I, J))
case("int_bitwise", lambda a, b: (a & b, a | b, a ^ b, ~a, a << (b % 31), a >> (b % 31), lax.shift_right_logical(a, b % 31)), of(I, J))
case("int_bits", lambda a: (lax.population_count(a), lax.clz(a)), of(I))
case("int_overflow", lambda a: (a * a * a * a * a, a + np.int32(2**31 - 1)), of(I))
case("int_reduce", lambda a: (a.sum(0), a.prod(0), a.max(1), a.min(), jnp.cumsum(a, 1), jnp.bitwise_or.reduce(a, axis=1)), of(I))
case("int8", lambda a, b: (a + b, a * b, a // b, jnp.maximum(a, b)), of(I.astype(np.int8), J.astype(np.int8)))
case("uint8", lambda a, b: (a + b, a * b, a // b, a >> 2), of(I.astype(np.uint8), J.astype(np.uint8)))
case("int16_uint16", lambda a, b: (a * b, a.astype(jnp.uint16) // b.astype(jnp.uint16)), of(I.astype(np.int16), J.astype(np.int16)))
case("uint32", lambda a, b: (a * b, a // b, a % b, a > b), of(I.astype(np.uint32), J.astype(np.uint32)))
case("bool", lambda a, b: (a & b, a | ~b, a ^ b, jnp.logical_not(a), a.sum()), of(I > 0, J > 25))
case("convert", lambda x, i: (x.astype(jnp.int32), i.astype(jnp.float32), x.astype(jnp.bfloat16), x.astype(jnp.float16), i.astype(jnp.int8), (i > 0).astype(jnp.float32)), of(X, I))
case("bitcast", lambda x, i: (lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(i, jnp.float32)), of(X, np.abs(I) + (1 << 24)))
case("bf16_elementwise", lambda x, y: (x + y, x * y, x / y, jnp.exp(x), jnp.tanh(x)), of(X.astype(jnp.bfloat16), Y.astype(jnp.bfloat16)))
case("bf16_softmax", lambda x: jax.nn.softmax(x.astype(jnp.float32), 1).astype(jnp.bfloat16), of(X.astype(jnp.bfloat16)))
case("f16_elementwise", lambda x, y: (x + y, x * y, x / y), of(X.astype(np.float16), Y.astype(np.float16)))

I64, J64 = integers(8, 128, low=-(2**62), high=2**62, dtype=np.int64), integers(8, 128, low=1, high=2**40, dtype=np.int64)
X64, Y64 = uniform(8, 128, low=-3, high=3, dtype=np.float64), uniform(8, 128, low=0.5, high=2.5, dtype=np.float64)
for name, function, arguments in [
    ("x64_int_add_multiply", lambda a, b: (a + b, a - b, a * b, -a), (I64, J64)),
    ("x64_int_divide", lambda a, b: (a // b, a % b), (I64, J64)),
    ("x64_int_bitwise", lambda a, b: (a & b, a | b, a ^ b, ~a, a << 13, a >> 7, a < b, lax.population_count(a)), (I64, J64)),
    ("x64_uint", lambda a, b: (a * b, a + b, a > b, a // b), (I64.astype(np.uint64), J64.astype(np.uint64))),
    ("x64_int_reduce", lambda a: (a.sum(0), a.max(1), a.min(), jnp.cumsum(a, 1)), (I64,)),
    ("x64_int_sort", lambda a: (jnp.sort(a, 1), jnp.argsort(a, 0)), (I64,)),
    ("x64_arange_indexing", lambda a: a[jnp.arange(0, 8, 2)] + jnp.arange(128), (I64,)),
    ("x64_convert", lambda a, x: (a.astype(jnp.int32), (a >> 20).astype(jnp.float32), (x * 100).astype(jnp.float32)), (I64, X64)),
    ("x64_float_arithmetic", lambda x, y: (x + y, x - y, x * y, x / y), (X64, Y64)),
    ("x64_float_sqrt_exp_log", lambda x, y: (jnp.sqrt(y), jnp.exp(x), jnp.log(y)), (X64, Y64)),
    ("x64_float_sin_tanh", lambda x: (jnp.sin(x), jnp.tanh(x)), (X64,)),
    ("x64_float_reduce", lambda x: (x.sum(1), x.max(0), jnp.mean(jnp.abs(x))), (X64,)),
    ("x64_float_sort", lambda x: jnp.sort(x, 1), (X64,)),
    ("x64_float_matmul", jnp.matmul, (normal(24, 40, dtype=np.float64), normal(40, 16, dtype=np.float64))),
    ("x64_float_grad", jax.grad(lambda x: jnp.sum(jnp.sin(x) * x)), (X64,)),
    ("x64_random_normal", lambda: jax.random.uniform(key(), (64,), dtype=jnp.float64), ()),
    ("x64_complex128", lambda z: (z * z + 1, jnp.real(z)), (normal(64, dtype=np.float64) + 1j * normal(64, dtype=np.float64, seed=1),)),
]:  # fmt: skip
    case(name, function, of(*arguments), x64=True)
