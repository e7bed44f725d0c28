"""What torch_on_virtual_tpu.py asks TorchTPU to compute, and with what it must agree. Runs inside a worker process.

Every result is compared with PyTorch on CPU in f64, the exact result as near as it can be had, in the largest norm. The bound is
`ROUNDOFFS` of f32 on the result's largest magnitude, and `TIMES` what PyTorch on CPU is off in f32: where CPU in the same precision
has lost digits to cancellation, so may a TPU. Operators run at matmul precision "highest", which is that of f32.
"""

import copy
import functools
import time

import torch

ROUNDOFFS = 32
TIMES = 4
F32_ROUNDOFF = 2.0**-24


@functools.cache
def start():
    """TorchTPU looks for a TPU on the PCI bus, and without one registers nothing; so it is told to."""
    from torch_tpu import _loader

    _loader._init_device("tpu")
    from torch.testing._internal.common_methods_invocations import op_db

    return {name_of(op): op for op in op_db}


def open_device():
    start()
    # The device opens with the first tensor.
    torch.ones(1).to("tpu").cpu()


def name_of(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def tensors(value):
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def mapped(value, function):
    return torch.utils._pytree.tree_map(lambda t: function(t) if isinstance(t, torch.Tensor) else t, value)


def double(tensor):
    if tensor.dtype == torch.float32:
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.dtype == torch.complex64 else tensor


def compare(actual, in_f32, exact):
    """(agrees, what to say, error over bound) for one tensor."""
    if actual.shape != in_f32.shape or actual.dtype != in_f32.dtype:
        return False, f"{actual.dtype}{list(actual.shape)} instead of {in_f32.dtype}{list(in_f32.shape)}", None
    if not (actual.is_floating_point() or actual.is_complex()):
        wrong = int((actual != in_f32).sum())
        return not wrong, f"{wrong} of {actual.numel()} elements differ" if wrong else "", None
    if not actual.numel():
        return True, "", 0.0
    got, near, want = double(actual), double(in_f32), double(exact) if exact is not None else double(in_f32)
    finite = torch.isfinite(want.abs()) & torch.isfinite(near.abs())
    odd = ~finite & ~((got == near) | (torch.isnan(got.abs()) & torch.isnan(near.abs())) | (got == want))
    if odd.any():
        return False, f"NaNs or infinities stand elsewhere ({int(odd.sum())} of {actual.numel()})", None
    if not finite.any():
        return True, "", 0.0
    if torch.isnan(got[finite].abs()).any():
        return False, "NaN instead of a number", None
    bound = ROUNDOFFS * F32_ROUNDOFF * want[finite].abs().max() + TIMES * (near - want)[finite].abs().max()
    # Nothing is asked of what a TPU flushes.
    bound = float(bound) + torch.finfo(torch.float32).tiny
    error = float((got - want)[finite].abs().max())
    return error <= bound, f"error {error:.3g}, bound {bound:.3g}", error / bound


def compare_all(actual, in_f32, exact):
    actual, in_f32 = tensors(actual), tensors(in_f32)
    exact = tensors(exact) if exact is not None else [None] * len(in_f32)
    if len(actual) != len(in_f32):
        return {"outcome": "differs", "message": f"{len(actual)} results instead of {len(in_f32)}"}
    largest = 0.0
    for got, near, want in zip(actual, in_f32, exact, strict=True):
        agrees, words, over = compare(got.detach().cpu(), near.detach(), None if want is None else want.detach())
        if not agrees:
            return {"outcome": "differs", "message": words, "error_over_bound": over}
        largest = max(largest, over or 0.0)
    return {"outcome": "agrees", "message": "", "error_over_bound": largest}


def refused(error):
    """Whether TorchTPU says that it has no such operator, rather than fails at it."""
    words = str(error)
    return isinstance(error, NotImplementedError) or "is not implemented for TPU" in words or "is not yet supported" in words


def operator(name):
    """One operator of PyTorch's own table, on its first f32 sample."""
    op = start()[name]
    if torch.float32 not in op.supported_dtypes("cpu"):
        return {"outcome": "skipped", "message": "has no f32 on CPU"}
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=False)), None)
    if sample is None:
        return {"outcome": "skipped", "message": "has no sample"}

    def run(convert, seed=0):
        torch.manual_seed(seed)
        # An operator may change its arguments.
        arguments = mapped((sample.input, sample.args, sample.kwargs), lambda t: convert(t.clone()))
        return op(arguments[0], *arguments[1], **arguments[2])

    try:
        in_f32 = run(lambda t: t)
        random = any(
            not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
            for seed in (1, 2)
            for a, b in zip(tensors(in_f32), tensors(run(lambda t: t, seed)), strict=True)
        )
    except Exception as error:  # whatever CPU raises, there is nothing to compare
        return {"outcome": "skipped", "message": f"fails on CPU: {type(error).__name__}: {words_of(error)}"}
    try:
        exact = run(double)
        if [t.shape for t in tensors(exact)] != [t.shape for t in tensors(in_f32)]:
            exact = None
    except Exception:  # an operator without f64 is compared with f32
        exact = None
    begun = time.monotonic()
    try:
        actual = mapped(run(lambda t: t.to("tpu")), lambda t: t.detach().cpu())
    except Exception as error:  # whatever is raised is the outcome
        if refused(error):
            return {"outcome": "not implemented", "message": words_of(error)}
        return {"outcome": "error", "message": f"{type(error).__name__}: {words_of(error)}"}
    seconds = round(time.monotonic() - begun, 3)
    if random or op.name.startswith(("empty", "new_empty")):
        same = [(t.shape, t.dtype) for t in tensors(actual)] == [(t.shape, t.dtype) for t in tensors(in_f32)]
        return {
            "outcome": "agrees" if same else "differs",
            "message": "random: shapes and types alone are compared",
            "tpu_seconds": seconds,
        }
    return compare_all(actual, in_f32, exact) | {"tpu_seconds": seconds}


def words_of(error):
    """The first two lines of a message: the first alone may only say whose message it is."""
    return " ".join(str(error).strip().split("\n")[:2])[:600]


# --- a small Llama ----------------------------------------------------------------------------------------------------


class Bf16Operands(torch.utils._python_dispatch.TorchDispatchMode):
    """PyTorch on CPU with the operands of matrix products rounded to bf16, as one pass of a TPU's matrix unit rounds them."""

    PRODUCTS = {
        torch.ops.aten.mm.default: (0, 1),
        torch.ops.aten.bmm.default: (0, 1),
        torch.ops.aten.addmm.default: (1, 2),
        torch.ops.aten.baddbmm.default: (1, 2),
    }

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in self.PRODUCTS:
            args = list(args)
            for position in self.PRODUCTS[func]:
                args[position] = args[position].to(torch.bfloat16).to(args[position].dtype)
        return func(*args, **(kwargs or {}))


# A model's steps, in order. The state carries over: "again" is a second run of what the step before has compiled.
STEPS = ("eager", "eager again", "compiled", "compiled again", "new shape", "new shape again", "generate")
PRECISIONS = {"highest": False, "medium": True}
# What a result may be off, in the 2-norm: this many times what CPU in the same precision is, and ROUNDOFFS of f32 on top.
MODEL_TIMES = 4


class Llama:
    def __init__(self, precision):
        start()
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.set_float32_matmul_precision(precision)
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
        )
        # The default attention is a Mosaic kernel, which only a TPU can run.
        config._attn_implementation = "eager"
        self.in_bf16_passes = PRECISIONS[precision]
        self.model = LlamaForCausalLM(config).eval()
        self.exact = copy.deepcopy(self.model).double()
        self.on_tpu = copy.deepcopy(self.model).to("tpu")
        self.compiled = torch.compile(self.on_tpu)
        self.ids = torch.randint(0, 512, (2, 16))
        self.longer = torch.randint(0, 512, (2, 24))

    def logits(self, ids):
        """(In f64, on CPU in the precision that the TPU uses.)"""
        exact = self.exact(ids).logits
        if not self.in_bf16_passes:
            return exact, self.model(ids).logits
        with Bf16Operands():
            return exact, self.model(ids).logits

    def bound(self, exact, near):
        return MODEL_TIMES * float((near.double() - exact).norm()) + ROUNDOFFS * F32_ROUNDOFF * float(exact.norm())

    def step(self, name):
        with torch.no_grad():
            if name == "generate":
                return self.generate()
            ids = self.longer if name.startswith("new shape") else self.ids
            model = self.on_tpu if name.startswith("eager") else self.compiled
            begun = time.monotonic()
            actual = model(ids.to("tpu")).logits.cpu()
            seconds = time.monotonic() - begun
            exact, near = self.logits(ids)
            error, bound = float((actual.double() - exact).norm()), self.bound(exact, near)
        size = float(exact.norm())
        return {
            "outcome": "agrees" if error <= bound else "differs",
            "message": f"relative error {error / size:.3g}, bound {bound / size:.3g}",
            "error_over_bound": error / bound,
            "tpu_seconds": round(seconds, 4),
        }

    def generate(self):
        """Greedy decoding. A token may be another one than CPU's only where CPU's logits of both lie within twice the bound."""
        new = 5
        begun = time.monotonic()
        actual = self.on_tpu.generate(self.ids.to("tpu"), max_new_tokens=new, do_sample=False).cpu()
        seconds = time.monotonic() - begun
        outcome, words, worst = "agrees", "", 0.0
        for length in range(self.ids.shape[1], self.ids.shape[1] + new):
            exact, near = (logits[:, -1] for logits in self.logits(actual[:, :length]))
            chosen = exact.gather(1, actual[:, length : length + 1]).squeeze(1)
            short = float((exact.max(1).values - chosen).max())
            bound = 2 * self.bound(exact, near)
            worst = max(worst, short / bound)
            if short > bound and outcome == "agrees":
                outcome, words = "differs", f"token {length}: its logit is {short:.3g} below the largest, bound {bound:.3g}"
        return {"outcome": outcome, "message": words or f"{new} tokens", "error_over_bound": worst, "tpu_seconds": round(seconds, 4)}


@functools.cache
def llama(precision):
    return Llama(precision)


def model_step(name):
    precision, step = name.split("/")
    try:
        return llama(precision).step(step)
    except Exception as error:  # whatever is raised is the outcome
        outcome = "not implemented" if refused(error) else "error"
        return {"outcome": outcome, "message": f"{type(error).__name__}: {words_of(error)}"}
