"""From an exception to an outcome: its kind, the stage it was raised at, and one line in the library's own words."""

import re
from dataclasses import dataclass

import torch

from .suite import Failed, Skipped

LONGEST = 600
# What PyTorch's tracer adds to a message: where in its graph it was.
TRACES = ("While executing", "GraphModule:", "Original traceback", "Set TORCH", "Use tlparse")

# What TorchTPU, XLA and the virtual TPU say where they do not offer something, rather than fail at it.
UNSUPPORTED = re.compile(
    r"not implemented for TPU|is not implemented|not yet (?:supported|implemented)|UNIMPLEMENTED|[Uu]nimplemented"
    r"|not supported (?:on|for|by) (?:the )?(?:TPU|tpu)|does not support|is not supported|[Uu]nsupported"
)
OUT_OF_MEMORY = re.compile(r"RESOURCE_EXHAUSTED|out of memory|OutOfMemory", re.IGNORECASE)
# Said by the compilers beneath TorchTPU, once they have a program.
COMPILER = re.compile(r"tpu_custom_call|XLA|HLO|\bMosaic\b|libtpu|compil", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """What became of a case that has no numbers to compare."""

    outcome: str
    stage: str | None
    message: str
    code: str | None


def words_of(error: BaseException) -> str:
    """The message in one line: its first two lines, for the first alone may only say whose message it is."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(TRACES)]
    return " ".join(lines[:2])[:LONGEST] or type(error).__name__


def _root(error: BaseException) -> BaseException:
    """Dynamo wraps what a backend raises; whose words are wanted is what it wraps."""
    inner = getattr(error, "inner_exception", None)
    return _root(inner) if isinstance(inner, BaseException) else error


def classify(error: BaseException, stage: str | None) -> Outcome:
    """The outcome of a case in which `error` was raised while `stage` was the last one announced."""
    if isinstance(error, Skipped):
        return Outcome("skipped", stage, words_of(error), None)
    if isinstance(error, Failed):
        return Outcome("fail", "compare", words_of(error), None)
    root = _root(error)
    words = words_of(root)
    code = type(root).__name__
    from_dynamo = isinstance(error, torch._dynamo.exc.TorchDynamoException)
    if isinstance(root, MemoryError) or OUT_OF_MEMORY.search(str(root)):
        outcome = "oom"
    elif isinstance(root, NotImplementedError) or UNSUPPORTED.search(words):
        outcome = "unsupported"
    else:
        outcome = "error"
    if stage in ("compile", "run"):
        if (from_dynamo and not COMPILER.search(words)) or (outcome == "unsupported" and "for TPU" in words):
            stage = "lower"
        elif COMPILER.search(words):
            stage = "compile"
    return Outcome(outcome, stage, words, code)
