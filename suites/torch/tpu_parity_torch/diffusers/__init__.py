"""The suite `diffusers`: tiny random models, every scheduler's step, and whole pipelines of random components.

Models are in models.py, schedulers in schedulers.py, pipelines in pipelines.py; this only tells their cases apart.
"""

from collections.abc import Iterator

from ..suite import CaseSpec, Context, Measured, Options, Skipped
from . import models, pipelines, schedulers

PARTS = {"model": models, "scheduler": schedulers, "pipeline": pipelines}


def cases(options: Options) -> Iterator[CaseSpec]:
    for part in PARTS.values():
        yield from part.cases(options)


def run(case_id: str, context: Context) -> Measured:
    match case_id.split("/"):
        case ["diffusers", subject, mode] if subject.split(".", 1)[0] in PARTS:
            part, _, name = subject.partition(".")
            return PARTS[part].run(case_id, name, mode, context)
    raise Skipped(f"{case_id} is no id of this suite")
