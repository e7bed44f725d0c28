"""What JAX is asked of eight devices, by collectives and by annotation alone, and of the devices themselves."""

import functools
import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_checks import I, X, conv, in_highest, loss, mlp, mlp_params
from jax_compare import Disagreement, case, check, cpu, integers, needs, normal, of, tpus, uniform

# --- eight devices ------------------------------------------------------------------------------------------------------


def mesh(*shape, names=("i",)):
    return Mesh(np.array(tpus()[:8]).reshape(shape or (8,)), names)


def sharded_case(name, body, reference, arguments, in_specs, out_specs, mesh_of=mesh, **options):
    def run(*arrays):
        return jax.shard_map(body, mesh=mesh_of(), in_specs=in_specs, out_specs=out_specs, check_vma=False)(*arrays)

    case(name, run, of(*arguments), reference=reference, devices=8, **options)


S = uniform(64, 16, low=0.5)
RING = [(i, (i + 1) % 8) for i in range(8)]
sharded_case("psum", lambda x: lax.psum(x, "i"), lambda x: x.reshape(8, 8, 16).sum(0), (S,), P("i"), P())
sharded_case("pmean", lambda x: lax.pmean(x, "i"), lambda x: x.reshape(8, 8, 16).mean(0), (S,), P("i"), P())
sharded_case("pmax_pmin", lambda x: (lax.pmax(x, "i"), lax.pmin(x, "i")), lambda x: (x.reshape(8, 8, 16).max(0), x.reshape(8, 8, 16).min(0)), (S,), P("i"), (P(), P()))
sharded_case("psum_int", lambda x: lax.psum(x, "i"), lambda x: x.reshape(8, 8, 16).sum(0), (integers(64, 16),), P("i"), P())
sharded_case("psum_bf16", lambda x: lax.psum(x, "i"), lambda x: x.reshape(8, 8, 16).sum(0), (S.astype(jnp.bfloat16),), P("i"), P())
sharded_case("all_gather", lambda x: lax.all_gather(x, "i"), lambda x: x.reshape(8, 8, 16), (S,), P("i"), P())
sharded_case("all_gather_tiled", lambda x: lax.all_gather(x, "i", axis=1, tiled=True), lambda x: jnp.concatenate(jnp.split(x, 8), axis=1), (S,), P("i"), P())
sharded_case("psum_scatter", lambda x: lax.psum_scatter(x, "i", scatter_dimension=0, tiled=True), lambda x: x.reshape(8, 8, 16).sum(0), (S,), P("i"), P("i"))
sharded_case("all_to_all", lambda x: lax.all_to_all(x, "i", split_axis=1, concat_axis=0, tiled=True), lambda x: x.reshape(8, 8, 8, 2).transpose(2, 0, 1, 3).reshape(512, 2), (S,), P("i"), P("i"))
sharded_case("ppermute", lambda x: lax.ppermute(x, "i", RING), lambda x: jnp.roll(x, 8, 0), (S,), P("i"), P("i"))
sharded_case("ppermute_partial", lambda x: lax.ppermute(x, "i", [(0, 3), (3, 0)]), lambda x: jnp.zeros_like(x).at[:8].set(x[24:32]).at[24:32].set(x[:8]), (S,), P("i"), P("i"))
sharded_case("axis_index", lambda x: x + lax.axis_index("i"), lambda x: x + jnp.repeat(jnp.arange(8), 8)[:, None], (integers(64, 16),), P("i"), P("i"))
sharded_case("pbroadcast_from_one", lambda x: lax.psum(jnp.where(lax.axis_index("i") == 3, x, 0), "i"), lambda x: x[24:32], (S,), P("i"), P())
square = functools.partial(mesh, 2, 4, names=("a", "b"))
sharded_case("psum_of_one_axis", lambda x: lax.psum(x, "b"), lambda x: x.reshape(64, 4, 4).sum(1), (S,), P("a", "b"), P("a"), mesh_of=square)
sharded_case("all_gather_of_one_axis", lambda x: lax.all_gather(x, "a", axis=0, tiled=True), lambda x: x, (S,), P("a", "b"), P(None, "b"), mesh_of=square)
sharded_case("axis_index_of_two", lambda x: x * 10 + lax.axis_index("a") * 4 + lax.axis_index("b"), lambda x: x * 10 + jnp.repeat(jnp.repeat(jnp.arange(8).reshape(2, 4), 32, 0), 4, 1), (integers(64, 16),), P("a", "b"), P("a", "b"), mesh_of=square)


def ring_sum(x):
    def step(_, state):
        total, moving = state
        moving = lax.ppermute(moving, "i", RING)
        return total + moving, moving

    return lax.fori_loop(0, 7, step, (x, x))[0]


sharded_case("ring_of_ppermute", ring_sum, lambda x: x.reshape(8, 8, 16).sum(0), (S,), P("i"), P())
sharded_case("data_parallel_grad", in_highest(lambda w, x: lax.pmean(jax.grad(lambda v: jnp.mean((x @ v) ** 2))(w), "i")), in_highest(jax.grad(lambda w, x: jnp.mean((x @ w) ** 2))), (normal(16, 4), S), (P(), P("i")), P(), model=in_highest(lambda w, x: (x.T @ ((x @ w) * np.float32(2.0 / 256))) * 1))
sharded_case("tensor_parallel_matmul", lambda a, b: lax.psum(a @ b, "i"), jnp.matmul, (normal(32, 256), normal(256, 24, seed=1)), (P(None, "i"), P("i")), P())


def annotated_case(name, function, arguments, specs, out, mesh_of=mesh, **options):
    """A program for all devices whose arguments alone are sharded: the partitioner does the rest."""

    def run(*arrays):
        m = mesh_of()
        arrays = [jax.tree.map(lambda a, s: jax.device_put(a, NamedSharding(m, s)), a, s, is_leaf=lambda x: isinstance(x, np.ndarray)) for a, s in zip(arrays, specs, strict=True)]
        result = jax.jit(function, out_shardings=jax.tree.map(lambda s: NamedSharding(m, s), out, is_leaf=lambda x: isinstance(x, P)))(*arrays)
        if len(jax.tree.leaves(result)[0].devices()) != 8:
            raise Disagreement("not computed on 8 devices")
        return result

    case(name, run, of(*arguments), reference=function, devices=8, eager=True, **options)


L, R = normal(64, 256), normal(256, 96, seed=1)
annotated_case("sharded_matmul_rows", jnp.matmul, (L, R), (P("i"), P()), P("i"))
annotated_case("sharded_matmul_contracted", jnp.matmul, (L, R), (P(None, "i"), P("i")), P())
annotated_case("sharded_matmul_gathered", jnp.matmul, (L, R), (P("i"), P(None, "i")), P("i"))
annotated_case("sharded_matmul_2d", jnp.matmul, (L, R), (P("a", "b"), P("b")), P("a"), mesh_of=square)
PARAMS, BATCH = mlp_params(64, 128, 32), normal(16, 64)
TENSOR = [(P(None, "b"), P("b")), (P("b"), P())]
annotated_case("sharded_mlp", mlp, (PARAMS, BATCH), (TENSOR, P("a")), P("a"), mesh_of=square)
annotated_case("sharded_mlp_grad", in_highest(jax.grad(loss)), (mlp_params(16, 32, 8), normal(16, 16), normal(16, 8, seed=5)), (TENSOR, P("a"), P("a")), TENSOR, mesh_of=square)
annotated_case("sharded_layer_norm", lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), (X,), (P(None, "i"),), P(None, "i"))
annotated_case("sharded_softmax", lambda x: jax.nn.softmax(x, 1), (X,), (P(None, "i"),), P("i"))
annotated_case("sharded_sort", lambda x: jnp.sort(x, 1), (X,), (P("i"),), P("i"))
annotated_case("sharded_conv", lambda x, k: conv(x, k), (normal(8, 12, 12, 4), normal(3, 3, 4, 8)), (P("i"), P()), P("i"))
annotated_case("sharded_attention", in_highest(lambda q, k, v: jnp.einsum("hqk,khd->qhd", jax.nn.softmax(jnp.einsum("qhd,khd->hqk", q, k), -1), v)), (normal(12, 8, 16) / 4, normal(12, 8, 16, seed=1) / 4, uniform(12, 8, 16, low=0.5)), (P(None, "i"),) * 3, P(None, "i"))

# --- the devices themselves ----------------------------------------------------------------------------------------------

# device_kind and cores a device of each generation (libtpu's topologies say the same).
KINDS = {"v4": "TPU v4", "v5e": "TPU v5 lite", "v5p": "TPU v5", "v6e": "TPU v6 lite", "7x": "TPU7x"}


def expect(what, actual, expected):
    if actual != expected:
        raise Disagreement(f"{what} is {actual!r} instead of {expected!r}")


@check
def devices_are_of_the_generation():
    generation = os.environ["TPU_PARITY_GENERATION"].partition(":")[0].lower()
    expect("the default backend", jax.default_backend(), "tpu")
    for number, device in enumerate(jax.devices()):
        expect("platform", device.platform, "tpu")
        expect("device_kind", device.device_kind, KINDS[generation])
        expect("id", device.id, number)
        expect("process_index", device.process_index, 0)
        if not 0 <= device.core_on_chip < 2:
            raise Disagreement(f"core_on_chip is {device.core_on_chip}")
        if len(device.coords) != 3:
            raise Disagreement(f"coords are {device.coords}")
        x, y, z = device.coords
        expect("repr", repr(device), f"TpuDevice(id={number}, process_index=0, coords=({x},{y},{z}), core_on_chip={device.core_on_chip})")
    return 0.0


@check
def devices_fill_the_slice():
    places = [(*device.coords, device.core_on_chip) for device in jax.devices()]
    expect("the number of distinct places", len(set(places)), len(places))
    shape = os.environ["TPU_PARITY_GENERATION"].partition(":")[2]
    if shape:
        wanted = [int(n) for n in shape.split("x")]
        wanted += [1] * (3 - len(wanted))
        expect("the slice", [max(p[k] for p in places) + 1 for k in range(3)], wanted)
    return 0.0


@check
def memory_is_reported():
    stats = tpus()[0].memory_stats()
    if not stats or stats.get("bytes_limit", 0) < 2**33:
        raise Disagreement(f"memory_stats() is {stats}")
    before = stats["bytes_in_use"]
    held = jax.device_put(np.zeros(1 << 20, np.float32), tpus()[0])
    grown = tpus()[0].memory_stats()["bytes_in_use"] - before
    if grown < held.nbytes:
        raise Disagreement(f"4 MiB more are held and bytes_in_use grew by {grown}")
    return 0.0


@check
def topology_for_ahead_of_time_compilation():
    lowered = jax.jit(lambda x: jnp.tanh(x @ x)).lower(jax.ShapeDtypeStruct((256, 256), jnp.float32))
    compiled = lowered.compile()
    if not compiled.as_text().startswith("HloModule"):
        raise Disagreement("as_text() is no HLO")
    analysis = compiled.memory_analysis()
    expect("argument_size_in_bytes", analysis.argument_size_in_bytes, 256 * 256 * 4)
    if not compiled.cost_analysis().get("flops", 0) >= 2 * 256**3:
        raise Disagreement(f"cost_analysis() is {compiled.cost_analysis()}")
    return 0.0


@check
def executables_serialize():
    from jax.experimental import serialize_executable

    compiled = jax.jit(lambda x: jnp.sin(x) * 2).lower(X).compile()
    restored = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled), execution_devices=tpus()[:1])
    if not np.array_equal(restored(X), compiled(X)):
        raise Disagreement("the restored executable computes something else")
    return 0.0


@check
def donated_buffers_are_gone():
    x = jax.device_put(X, tpus()[0])
    y = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
    if not x.is_deleted():
        raise Disagreement("the donated buffer is still there")
    expect("the result", bool(np.array_equal(np.asarray(y), X + 1)), True)
    return 0.0


@check
def arrays_move_between_devices():
    needs(2)
    x = X
    for device in tpus():
        x = jax.device_put(x, device)
        expect("devices", x.devices(), {device})
    x = jax.device_put(x, cpu())
    expect("the array", bool(np.array_equal(np.asarray(x), X)), True)
    return 0.0


@check
def every_device_computes():
    for device in tpus():
        y = jax.jit(lambda v: jnp.sum(v * 2))(jax.device_put(I, device))
        expect("devices", y.devices(), {device})
        expect("the sum", int(y), int(I.sum()) * 2)
    return 0.0


@check
def steps_are_launched_ahead():
    """A hundred steps on eight devices, each on the last one's weights, and nothing waited for until the end."""
    needs(8)
    everywhere = NamedSharding(mesh(), P())
    weights = jax.device_put(np.zeros((256, 256), np.float32), everywhere)
    x = jax.device_put(np.random.default_rng(0).standard_normal((512, 256), np.float32), NamedSharding(mesh(), P("i")))

    def error(w, x):
        return ((x @ w - 2 * x) ** 2).mean()

    step = jax.jit(lambda w, x: w - 10 * jax.grad(error)(w, x), donate_argnums=0, out_shardings=everywhere)
    first = float(jax.jit(error)(weights, x))
    for _ in range(100):
        weights = step(weights, x)
    last = float(jax.jit(error)(weights, x))
    if not last < first / 10:
        raise Disagreement(f"the error goes from {first} to {last}")
    return 0.0


@check
def threads_compile_and_execute():
    """Eight threads, each with programs of its own."""
    failures = []

    def work(number):
        try:
            for size in range(1, 4):
                x = np.arange(size * 8 + number, dtype=np.int32)
                if int(jax.jit(lambda v: jnp.sum(v * (number + 1)))(x)) != int(x.sum()) * (number + 1):
                    failures.append(f"thread {number}: wrong sum")
        except Exception as error:  # whatever it is, it is this check's finding
            failures.append(f"thread {number}: {error}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Disagreement("; ".join(failures))
    return 0.0


@check
def pallas_kernel_is_refused_by_name():
    """A Mosaic kernel is machine code for a TPU: what is only virtual must say so, and name it."""
    from jax.experimental import pallas

    def double(x, out):
        out[...] = x[...] * 2

    call = pallas.pallas_call(double, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))
    try:
        jax.block_until_ready(call(X))
    except jax.errors.JaxRuntimeError as error:
        if "UNIMPLEMENTED" not in str(error) or "tpu_custom_call" not in str(error):
            raise Disagreement(f"refused with: {error}") from error
        return 0.0
    raise Disagreement("it ran")
