"""Counter-based random bits: Threefry-2x32 and Philox-4x32 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
as 1, 2, 3" (SC11), laid out over a tensor as XLA lays them, which JAX's reproducibility rests on.

`DEFAULT` is the implementation's choice, here Philox; `rng` is nondeterministic, here a generator of NumPy's. Programs that
compare such bits with stored ones would be wrong themselves.
"""

from __future__ import annotations

import numpy as np

from .arithmetic import UnsupportedError, next_after
from .element_types import Array, Real, Tensor, round_to, wrap
from .evaluate import Evaluator, Value, handles
from .program import Operation
from .structural import from_bits

MASK32, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def threefry2x32(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """20 rounds."""
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (counter[0] + keys[0]) & MASK32, (counter[1] + keys[1]) & MASK32
    for group in range(5):
        for rotation in rotations[group % 2]:
            x = (x + y) & MASK32
            y = ((y << rotation) | (y >> (32 - rotation))) & MASK32
            y ^= x
        x = (x + keys[(group + 1) % 3]) & MASK32
        y = (y + keys[(group + 2) % 3] + group + 1) & MASK32
    return x, y


def philox4x32(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """10 rounds."""
    k0, k1 = key
    a, b, c, d = counter
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ k0, second & MASK32, (first >> 32) ^ d ^ k1, first & MASK32
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return a, b, c, d


def _halves(value: int) -> tuple[int, int]:
    return value & MASK32, value >> 32


def _threefry(state: list[int], shape: tuple[int, ...], bits: int) -> tuple[list[int], Array]:
    """For 64 bits a block an element; else a block gives two elements, at the halves of an even (or the longest) dimension."""
    key, counter = _halves(state[0]), state[1]
    size = int(np.prod(shape, dtype=int))
    if bits == 64:
        blocks = [threefry2x32(key, _halves((counter + i) & MASK64)) for i in range(size)]
        words = np.array([x | y << 32 for x, y in blocks], dtype=object).reshape(shape)
        return [state[0], (counter + size) & MASK64], words
    split = next((d for d, n in enumerate(shape) if n % 2 == 0), int(np.argmax(shape)) if shape else 0)
    half = list(shape) or [1]
    half[split] = (half[split] + 1) // 2 if shape else 1
    count = int(np.prod(half, dtype=int))
    blocks = [threefry2x32(key, _halves((counter + i) & MASK64)) for i in range(count)]
    pairs = np.array(blocks, dtype=object).reshape(*half, 2)
    joined = np.moveaxis(pairs, -1, split + 1)
    whole = list(half)
    whole[split] *= 2
    joined = joined.reshape(whole)
    if shape:
        joined = np.take(joined, range(shape[split]), axis=split)
    return [state[0], (counter + count) & MASK64], joined.reshape(shape)


def _philox(state: list[int], shape: tuple[int, ...], bits: int) -> tuple[list[int], Array]:
    """Blocks of four 32-bit or two 64-bit elements, in row-major order. The counter has 128 bits, the high ones of a short
    state being the key."""
    key = _halves(state[0])
    counter = state[1] | (state[2] if len(state) > 2 else state[0]) << 64
    size = int(np.prod(shape, dtype=int))
    per_block = 2 if bits == 64 else 4
    count = -(-size // per_block)
    words: list[int] = []
    for i in range(count):
        now = (counter + i) & ((1 << 128) - 1)
        block = philox4x32(key, (*_halves(now & MASK64), *_halves(now >> 64)))
        words += [block[0] | block[1] << 32, block[2] | block[3] << 32] if bits == 64 else block
    after = counter + count
    array = np.array(words[:size], dtype=object).reshape(shape)
    return [state[0], after & MASK64, (after >> 64) & MASK64][: len(state)], array


@handles("stablehlo.rng_bit_generator")
def rng_bit_generator(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    state = [int(v) for v in operands[0].array]
    shape, element_type = operation.result_type(1)
    if not (element_type.is_integer or element_type.kind == "float"):
        raise UnsupportedError(f"random bits of {element_type.name}")
    generate = _threefry if operation.text("rng_algorithm") == "THREE_FRY" else _philox
    after, words = generate(state, shape, element_type.bits)
    state_after = operands[0].like(np.array(after, dtype=np.uint64))
    if element_type.kind == "float":
        # As many low bits as the type has.
        bits = [int(word) >> i & 1 for word in words.ravel() for i in range(element_type.bits)]
        return [state_after, from_bits(np.array(bits, dtype=np.uint8), shape, element_type)]
    return [state_after, Tensor(wrap(words, element_type), element_type)]


@handles("stablehlo.rng")
def rng(evaluator: Evaluator, operation: Operation, operands: list[Value]) -> list[Value]:
    low, high = operands[:2]
    shape, element_type = operation.result_type()
    generator = np.random.Generator(np.random.PCG64(0))
    if element_type.is_integer:
        drawn = generator.integers(int(low.array), int(high.array), shape)
        return [Tensor(drawn.astype(element_type.dtype), element_type)]
    if operation.text("rng_distribution") == "NORMAL":
        values = low.array + high.array * generator.standard_normal(shape).astype(Real)
        return [Tensor(round_to(values, element_type), element_type)]
    values = round_to(low.array + (high.array - low.array) * generator.random(shape).astype(Real), element_type)
    # What rounds up to the open end of the interval goes to the value before.
    end = Tensor(np.broadcast_to(high.array, shape), element_type)
    before = next_after(end, Tensor(np.broadcast_to(low.array, shape), element_type))
    return [Tensor(np.where(values >= high.array, before, values), element_type)]
