#!/usr/bin/env python3
"""Writes the suite of small whole models: suites/models/*.toml, each a StableHLO program that JAX lowers.

    .tpu-parity/clients/jax/bin/python suites/models/make.py

JAX only lowers: no number of the suite comes from it. A model returns the outputs of its layers in order, the logits last, so that a
failure names the layer where it begins. Weights are inputs, drawn by the suite with a spread of 1 / sqrt(fan in).
"""

import functools
import math
import pathlib
import re

import jax
import jax.numpy as jnp

HERE = pathlib.Path(__file__).resolve().parent
F32 = jnp.float32


class Inputs:
    """The parameters of a model, in the order in which they are asked for."""

    def __init__(self):
        self.specs = []

    def weight(self, *shape, spread=None):
        """Uniform, with the variance 1 / fan in (all but the last dimension), or within `spread`."""
        fan_in = math.prod(shape[:-1]) or 1
        edge = round(math.sqrt(3 / fan_in), 4) if spread is None else spread
        return self._add(shape, "t", f"{{ uniform = [{-edge}, {edge}] }}")

    def positive(self, *shape):
        return self._add(shape, "t", "{ uniform = [0.5, 1.5] }")

    def data(self, *shape):
        return self._add(shape, "t", "{ uniform = [-1.0, 1.0] }")

    def tokens(self, *shape, vocabulary):
        return self._add(shape, "i32", f"{{ integers = [0, {vocabulary - 1}] }}")

    def _add(self, shape, kind, domain):
        self.specs.append((shape, kind, domain))
        return len(self.specs) - 1


def rms_norm(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight


def layer_norm(x, weight, bias):
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * weight + bias


def softmax(x):
    powers = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    return powers / jnp.sum(powers, axis=-1, keepdims=True)


def attention(q, k, v, mask):
    """Over [batch, heads, length, width]."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.asarray(-1e4, F32))
    return jnp.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


def heads(x, count):
    batch, length, width = x.shape
    return x.reshape(batch, length, count, width // count).transpose(0, 2, 1, 3)


def joined(x):
    batch, count, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, count * width)


def rotary(x):
    length, width = x.shape[-2:]
    rates = jnp.exp(jnp.arange(width // 2, dtype=F32) * (-math.log(10000.0) * 2 / width))
    angles = jnp.arange(length, dtype=F32)[:, None] * rates[None, :]
    low, high = jnp.split(x, 2, axis=-1)
    cosine, sine = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def causal(length):
    rows = jax.lax.broadcasted_iota(jnp.int32, (length, length), 0)
    return rows >= jax.lax.broadcasted_iota(jnp.int32, (length, length), 1)


def llama():
    """Rotary embeddings, grouped queries, RMS norms, SwiGLU, a causal mask."""
    batch, length, width, count, groups, inner, vocabulary, blocks = 2, 16, 64, 4, 2, 128, 96, 2
    take = Inputs()
    tokens, table = take.tokens(batch, length, vocabulary=vocabulary), take.weight(vocabulary, width, spread=1.0)
    per = [
        dict(
            norm=take.positive(width), q=take.weight(width, width), k=take.weight(width, width // count * groups),
            v=take.weight(width, width // count * groups), o=take.weight(width, width), norm2=take.positive(width),
            gate=take.weight(width, inner), up=take.weight(width, inner), down=take.weight(inner, width),
        )
        for _ in range(blocks)
    ]
    last, head = take.positive(width), take.weight(width, vocabulary)

    def model(*p):
        x = p[table][p[tokens]]
        outputs = [x]
        for at in per:
            w = {name: p[index] for name, index in at.items()}
            y = rms_norm(x, w["norm"])
            q = rotary(heads(y @ w["q"], count))
            k = jnp.repeat(rotary(heads(y @ w["k"], groups)), count // groups, axis=1)
            v = jnp.repeat(heads(y @ w["v"], groups), count // groups, axis=1)
            x = x + joined(attention(q, k, v, causal(length))) @ w["o"]
            outputs.append(x)
            y = rms_norm(x, w["norm2"])
            gate = y @ w["gate"]
            x = x + (gate * jax.nn.sigmoid(gate) * (y @ w["up"])) @ w["down"]
            outputs.append(x)
        return *outputs, rms_norm(x, p[last]) @ p[head]

    layers = ["embedding"] + [f"block {i} {part}" for i in range(blocks) for part in ("attention", "mlp")] + ["logits"]
    return take, model, layers


def gpt2():
    """Learned positions, layer norms, biases, the tanh form of GELU, a causal mask, tied embeddings."""
    batch, length, width, count, vocabulary, blocks = 2, 12, 48, 4, 80, 2
    take = Inputs()
    tokens = take.tokens(batch, length, vocabulary=vocabulary)
    table, places = take.weight(vocabulary, width, spread=0.5), take.weight(length, width, spread=0.5)
    per = [
        dict(
            n1=take.positive(width), b1=take.data(width), qkv=take.weight(width, 3 * width), bqkv=take.weight(3 * width, spread=0.1),
            o=take.weight(width, width), bo=take.weight(width, spread=0.1), n2=take.positive(width), b2=take.data(width),
            up=take.weight(width, 4 * width), bup=take.weight(4 * width, spread=0.1),
            down=take.weight(4 * width, width), bdown=take.weight(width, spread=0.1),
        )
        for _ in range(blocks)
    ]
    nf, bf = take.positive(width), take.data(width)

    def model(*p):
        x = p[table][p[tokens]] + p[places]
        outputs = [x]
        for at in per:
            w = {name: p[index] for name, index in at.items()}
            q, k, v = jnp.split(layer_norm(x, w["n1"], w["b1"]) @ w["qkv"] + w["bqkv"], 3, axis=-1)
            mixed = attention(heads(q, count), heads(k, count), heads(v, count), causal(length))
            x = x + joined(mixed) @ w["o"] + w["bo"]
            outputs.append(x)
            y = layer_norm(x, w["n2"], w["b2"]) @ w["up"] + w["bup"]
            y = 0.5 * y * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y * y * y)))
            x = x + y @ w["down"] + w["bdown"]
            outputs.append(x)
        return *outputs, layer_norm(x, p[nf], p[bf]) @ p[table].T

    layers = ["embedding"] + [f"block {i} {part}" for i in range(blocks) for part in ("attention", "mlp")] + ["logits"]
    return take, model, layers


def vit():
    """Patches by a strided convolution, a class token, full attention, the erf form of GELU."""
    batch, side, patch, width, count, classes, blocks = 2, 16, 4, 48, 4, 10, 2
    length = (side // patch) ** 2 + 1
    take = Inputs()
    images, kernel = take.data(batch, side, side, 3), take.weight(patch, patch, 3, width)
    token, places = take.data(1, 1, width), take.weight(length, width, spread=0.5)
    per = [
        dict(
            n1=take.positive(width), b1=take.data(width), qkv=take.weight(width, 3 * width), o=take.weight(width, width),
            n2=take.positive(width), b2=take.data(width), up=take.weight(width, 4 * width), down=take.weight(4 * width, width),
        )
        for _ in range(blocks)
    ]
    nf, bf, head = take.positive(width), take.data(width), take.weight(width, classes)

    def model(*p):
        patches = jax.lax.conv_general_dilated(
            p[images], p[kernel], (patch, patch), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jnp.concatenate([jnp.broadcast_to(p[token], (batch, 1, width)), patches.reshape(batch, length - 1, width)], axis=1)
        x = x + p[places]
        outputs = [x]
        for at in per:
            w = {name: p[index] for name, index in at.items()}
            q, k, v = jnp.split(layer_norm(x, w["n1"], w["b1"]) @ w["qkv"], 3, axis=-1)
            x = x + joined(attention(heads(q, count), heads(k, count), heads(v, count), None)) @ w["o"]
            outputs.append(x)
            y = layer_norm(x, w["n2"], w["b2"]) @ w["up"]
            # GELU by the logistic function, as PyTorch's "quick" form.
            x = x + (y * jax.nn.sigmoid(1.702 * y)) @ w["down"]
            outputs.append(x)
        return *outputs, layer_norm(x[:, 0], p[nf], p[bf]) @ p[head]

    layers = ["patches"] + [f"block {i} {part}" for i in range(blocks) for part in ("attention", "mlp")] + ["logits"]
    return take, model, layers


def resnet():
    """Convolutions with batch norms at inference, a strided block with a projection, mean pooling."""
    batch, side, width, classes = 2, 16, 16, 10
    take = Inputs()
    images, stem = take.data(batch, side, side, 3), take.weight(3, 3, 3, width)
    norm = lambda n: dict(g=take.positive(n), b=take.data(n), m=take.weight(n, spread=0.5), v=take.positive(n))
    n0 = norm(width)
    one = dict(c1=take.weight(3, 3, width, width), n1=norm(width), c2=take.weight(3, 3, width, width), n2=norm(width))
    two = dict(
        c1=take.weight(3, 3, width, 2 * width), n1=norm(2 * width), c2=take.weight(3, 3, 2 * width, 2 * width),
        n2=norm(2 * width), skip=take.weight(1, 1, width, 2 * width),
    )
    head = take.weight(2 * width, classes)

    def model(*p):
        def conv(x, w, stride=1):
            return jax.lax.conv_general_dilated(
                x, p[w], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )

        def bn(x, n):
            return (x - p[n["m"]]) * jax.lax.rsqrt(p[n["v"]] + 1e-5) * p[n["g"]] + p[n["b"]]

        relu = lambda x: jnp.maximum(x, 0)
        x = relu(bn(conv(p[images], stem), n0))
        outputs = [x]
        x = relu(x + bn(conv(relu(bn(conv(x, one["c1"]), one["n1"])), one["c2"]), one["n2"]))
        outputs.append(x)
        y = bn(conv(relu(bn(conv(x, two["c1"], 2), two["n1"])), two["c2"]), two["n2"])
        x = relu(y + conv(x, two["skip"], 2))
        outputs.append(x)
        return *outputs, jnp.mean(x, axis=(1, 2)) @ p[head]

    return take, model, ["stem", "block 0", "block 1", "logits"]


def lstm():
    """A loop over 24 steps, and the last hidden state's classes."""
    batch, length, inner, width, classes = 4, 24, 16, 32, 10
    take = Inputs()
    series, wx, wh, b = take.data(length, batch, inner), take.weight(inner, 4 * width), take.weight(width, 4 * width), take.data(4 * width)
    head = take.weight(width, classes)

    def model(*p):
        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ p[wx] + h @ p[wh] + p[b], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = (jnp.zeros((batch, width), F32), jnp.zeros((batch, width), F32))
        (h, _), states = jax.lax.scan(step, start, p[series])
        return states, h @ p[head]

    return take, model, ["states", "logits"]


def mixture():
    """A sparse mixture of experts: the two best of four by a softmax router, dispatched by one-hot products."""
    tokens, width, inner, experts, classes = 24, 32, 64, 4, 12
    take = Inputs()
    x, router = take.data(tokens, width), take.weight(width, experts, spread=1.0)
    up, down = take.weight(experts, width, inner, spread=0.3), take.weight(experts, inner, width, spread=0.2)
    head = take.weight(width, classes)

    def model(*p):
        scores = softmax(p[x] @ p[router])
        first = jnp.max(scores, axis=-1, keepdims=True)
        rest = jnp.where(scores >= first, jnp.asarray(0, F32), scores)
        second = jnp.max(rest, axis=-1, keepdims=True)
        kept = jnp.where(scores >= second, scores, jnp.asarray(0, F32))
        gates = kept / jnp.sum(kept, axis=-1, keepdims=True)
        hidden = jnp.maximum(jnp.einsum("td,edf->tef", p[x], p[up]), 0)
        mixed = p[x] + jnp.einsum("te,tef,efd->td", gates, hidden, p[down])
        return scores, gates, mixed, mixed @ p[head]

    return take, model, ["router", "gates", "experts", "logits"]


def training_step():
    """Loss and one step of gradient descent with momentum for a two-layer perceptron: the backward pass."""
    batch, inner, width, classes = 16, 24, 32, 10
    take = Inputs()
    x, labels = take.data(batch, inner), take.tokens(batch, vocabulary=classes)
    w1, b1, w2, b2 = take.weight(inner, width), take.data(width), take.weight(width, classes), take.data(classes)
    moments = [take.weight(inner, width, spread=0.1), take.weight(width, classes, spread=0.1)]

    def model(*p):
        def loss(w1, w2):
            hidden = jnp.tanh(p[x] @ w1 + p[b1])
            logits = hidden @ w2 + p[b2]
            largest = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
            log_p = logits - largest - jnp.log(jnp.sum(jnp.exp(logits - largest), axis=-1, keepdims=True))
            hot = (p[labels][:, None] == jax.lax.broadcasted_iota(jnp.int32, (batch, classes), 1)).astype(F32)
            return -jnp.sum(hot * log_p) / batch

        value, (g1, g2) = jax.value_and_grad(loss, argnums=(0, 1))(p[w1], p[w2])
        m1, m2 = 0.9 * p[moments[0]] + g1, 0.9 * p[moments[1]] + g2
        return value, g2, g1, p[w2] - 0.1 * m2, p[w1] - 0.1 * m1

    return take, model, ["loss", "gradient 2", "gradient 1", "weights 2", "weights 1"]


def body(program):
    """@main, with the element type of floats left open. Other functions of the module are inlined by JAX where `inline` is set."""
    text = re.sub(r" loc\(.*?\)|#loc.*", "", program)
    text = re.sub(r"\{(?:jax|mhlo|sdy)\.[^{}]*\}", "", text)
    start = text.index("func.func public @main")
    functions = text[start:].rstrip()
    assert functions.endswith("}"), functions[-20:]
    functions = functions[:-1].rstrip()
    functions = functions.replace("func.func public @main", "func.func @main")
    functions = re.sub(r" *\n", "\n", functions)
    # -inf and the like in hex have an element type of their own.
    functions = functions.replace("dense<0xFF800000>", "dense<{{ lit(t, '-inf') }}>")
    assert not re.search(r"\b0x[0-9A-F]{4}", functions)
    functions = re.sub(r"\bf32\b|(?<=x)f32\b", "{{ ty(t) }}", functions)
    lines = functions.split("\n")
    return "\n".join(line[2:] if line.startswith("  ") else line for line in lines)


def write(name, make, description):
    take, model, layers = make()
    kinds = {"t": F32, "i32": jnp.int32}
    arguments = [jax.ShapeDtypeStruct(shape, kinds[kind]) for shape, kind, _ in take.specs]
    program = body(jax.jit(model, inline=True).lower(*arguments).as_text())
    logits = layers[-1] == "logits"
    results = len(layers)
    tolerance = ["{ yardstick = 4 }"] * results
    if logits:
        tolerance[-1] = "{ yardstick = 4, logits = true }"
    names = ", ".join(f'"{layer}"' for layer in layers)
    lines = [
        "# Written by make.py; change that.",
        'suite  = "models"',
        f'family = "{name}"',
        "",
        f"# {description}",
        "[[op]]",
        f'name = "{name}"',
        'axes = ["t"]',
        't = ["f32", "bf16"]',
        f"layers = [{names}]",
        f"tolerance = [{', '.join(tolerance)}]",
        'source = "two computations in one precision lie within a small multiple of each other\'s error; four leaves room for another order of sums and another exp"',
        "program = '''",
        program,
        "'''",
    ]
    for shape, kind, domain in take.specs:
        lines += ["[[op.inputs]]", f"shape = {list(shape)}", f"domain = {domain}"]
        lines += [f't = "{kind}"'] if kind != "t" else []
    (HERE / f"{name}.toml").write_text("\n".join(lines) + "\n")


def main():
    for make in (llama, gpt2, vit, resnet, lstm, mixture, training_step):
        write(make.__name__, make, " ".join(make.__doc__.split()))


if __name__ == "__main__":
    main()
