"""`python -m tpu_parity_torch.transformers.table`: tries every model type on CPU and writes models.json.

A process per type, for some of them kill theirs; `--only` tries some types again and leaves the others' lines alone. Nothing is
downloaded: a type that asks for a file from the hub cannot be made.
"""

import argparse
import copy
import fnmatch
import itertools
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch

from ..device import seed_cpu
from . import inputs, models, outputs, steps
from .models import Model

# Groups of rules to do without, the least of them first.
WITHOUT = (
    [],
    ["lists"],
    ["layers"],
    ["heads"],
    ["images", "lists", "positions"],
    ["widths", "heads", "lists", "images", "positions"],
)
COUNTS = re.compile(r"tokens:? (?:is )?\(?(\d+).*?features:? (?:is )?(?:torch\.Size\(\[|\[)?(\d+)", re.DOTALL)
# Of processor time, for one type.
SECONDS = 12


class Unmade(Exception):
    """A type cannot be made; says why."""


def words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:3]) if lines else ""
    text = re.sub(r"(/[\w.-]+){3,}", "…", text)
    return f"{type(error).__name__}: {text}"[:300]


def attempt(model_type: str) -> Model:
    """Raises Unmade."""
    reasons: list[str] = []
    end = time.process_time() + SECONDS * 0.7
    known = False
    # Classes whose failure no other configuration would mend.
    hopeless: set[str] = set()
    for without in WITHOUT:
        if time.process_time() > end:
            break
        try:
            config = models.configuration(model_type, without)
        except Exception as error:
            reasons.append(f"its configuration: {words(error)}")
            continue
        for auto in itertools.islice(models.auto_classes(config), 5):
            known = True
            if auto in hopeless:
                continue
            try:
                return make(model_type, config, auto, without, end)
            except Exception as error:
                if isinstance(error, inputs.NoInputs | ImportError):
                    hopeless.add(auto)
                reasons.append(words(error) if not isinstance(error, Unmade) else str(error))
        if not known:
            raise Unmade("no Auto class for models knows it")
    raise Unmade(reasons[0])


def make(model_type: str, config: Any, auto: str, without: list[str], end: float) -> Model:
    trial = Model(model_type, auto, {}, without)
    with torch.device("meta"):
        size = sum(p.numel() for p in _meta(config, auto).parameters())
    if size > models.MOST_PARAMETERS:
        raise Unmade(f"the rules leave it {size / 1e6:.0f} million parameters")
    model = models.build(copy.deepcopy(config), auto, trial.seed)
    plan, random = find_plan(model, trial.seed, end)
    given = inputs.make(plan, model.config, trial.seed)
    return Model(
        model_type,
        auto,
        plan,
        without,
        labels=find_labels(model, given),
        attention=getattr(model.config, "_attn_implementation", None) or "eager",
        random=random,
        generates=auto == models.CAUSAL and generates(model, given),
        unsaved=reload_reason(model, auto, given, trial.seed),
        no_gradient=gradient_reason(model, given),
        parameters=size,
    )


def _meta(config: Any, auto: str) -> torch.nn.Module:
    import transformers

    try:
        return getattr(transformers, auto).from_config(copy.deepcopy(config))
    except Exception:
        # Some initialise by values, which meta tensors have none of.
        return torch.nn.Module()


def forward(model: torch.nn.Module, given: dict[str, torch.Tensor], seed: int) -> tuple[dict[str, torch.Tensor], bool]:
    """(The outputs, whether random numbers were drawn)."""
    seed_cpu(seed)
    state = torch.get_rng_state()
    with torch.no_grad():
        found = dict(outputs.named_tensors(model(**given)))
    return found, not torch.equal(state, torch.get_rng_state())


def find_plan(model: torch.nn.Module, seed: int, end: float) -> tuple[inputs.Plan, bool]:
    """The first plan that the model takes."""
    first: Exception | None = None
    for plan in inputs.plans(model, model.config):
        for varied in _with_places(model, plan, seed):
            if time.process_time() > end:
                raise Unmade(f"not within {SECONDS} s; first: {words(first) if first else ''}")
            try:
                found, random = forward(model, inputs.make(varied, model.config, seed), seed)
            except Exception as error:
                first = first or error
                continue
            if not any(t.is_floating_point() and t.numel() for t in found.values()):
                first = first or Unmade("its forward pass returns no numbers")
            elif not all(
                bool(t.isfinite().all() or (t == float("-inf")).any()) for t in found.values() if t.is_floating_point()
            ):
                first = first or Unmade("its forward pass returns numbers that are not finite")
            else:
                return varied, random
    raise first or Unmade("no rule makes inputs for it")


def _with_places(model: torch.nn.Module, plan: inputs.Plan, seed: int) -> Iterator[inputs.Plan]:
    """The plan, then with as many tokens for an image (or sound) in its text as the model asks for in its error."""
    yield plan
    if "input_ids" not in plan or len(plan) < 2:
        return
    for kind in ("image", "audio", "video"):
        for count in (1, *_asked(model, plan, kind, seed)):
            yield plan | {"input_ids": f"tokens.{kind}{count}"}


def _asked(model: torch.nn.Module, plan: inputs.Plan, kind: str, seed: int) -> list[int]:
    try:
        forward(model, inputs.make(plan | {"input_ids": f"tokens.{kind}1"}, model.config, seed), seed)
    except Exception as error:
        if kind[1:] in str(error) and (counts := COUNTS.search(str(error))):
            features = int(counts.group(2))
            hidden = inputs.Sizes(model.config).hidden
            return [
                n
                for n in dict.fromkeys([features // inputs.BATCH, features, features // hidden // inputs.BATCH])
                if 0 < n < 600
            ]
    return []


def find_labels(model: torch.nn.Module, given: dict[str, torch.Tensor]) -> str | None:
    for form in ("tokens", "classes", "transcript"):
        try:
            loss = model(**given, labels=inputs.labels(form, given, model.config)).loss
            if loss is not None and loss.requires_grad and bool(loss.isfinite()):
                return form
        except Exception:
            continue
    return None


def generates(model: torch.nn.Module, given: dict[str, torch.Tensor]) -> bool:
    try:
        with torch.no_grad():
            model.generate(**steps.generation(given))
        return True
    except Exception:
        return False


def reload_reason(model: torch.nn.Module, auto: str, given: dict[str, torch.Tensor], seed: int) -> str | None:
    want, random = forward(model, given, seed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again, _ = forward(models.load(folder, auto, "cpu", torch.float32), given, seed)
    except Exception as error:
        return words(error)
    same = want.keys() == again.keys() and all(
        torch.allclose(want[n].double(), again[n].double(), 1e-3, 1e-5, equal_nan=True) for n in want
    )
    return None if same or random else "the model loaded from its checkpoint computes something else"


def gradient_reason(model: torch.nn.Module, given: dict[str, torch.Tensor]) -> str | None:
    try:
        found = dict(outputs.named_tensors(model(**given)))
        loss = sum(t.float().square().mean() for t in found.values() if t.requires_grad and t.is_floating_point())
        if not isinstance(loss, torch.Tensor):
            return "no output of it has a gradient"
        loss.backward()
        model.zero_grad()
    except Exception as error:
        return words(error)
    return None


def in_process(model_type: str) -> dict[str, Any]:
    """The type's line, from a process of its own: {"made": …} or {"unmade": reason}."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            answer: dict[str, Any] = {"made": models.to_entry(attempt(model_type))}
        except BaseException as error:
            answer = {"unmade": str(error) if isinstance(error, Unmade) else words(error)}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if text:
        return json.loads(text)
    killer = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return {"unmade": f"not made within {SECONDS} s" if killer == signal.SIGPROF else f"the process died of signal {killer}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", metavar="GLOB", help="these types alone")
    parser.add_argument("--unmade", action="store_true", help="only those that could not be made so far")
    parser.add_argument("--missing", action="store_true", help="only those that the table does not have yet")
    parser.add_argument("--output", type=pathlib.Path, default=models.TABLE)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # What every process would have to import again.
    attempt("llama")
    before: dict[str, Any] = {"made": [], "unmade": {}}
    if (arguments.only or arguments.unmade or arguments.missing) and arguments.output.exists():
        before = json.loads(arguments.output.read_text())
    made = {entry["type"]: entry for entry in before["made"]}
    unmade = before["unmade"]
    for model_type in ordered(models.all_types()):
        if arguments.only and not any(fnmatch.fnmatchcase(model_type, glob) for glob in arguments.only):
            continue
        if arguments.unmade and model_type not in unmade:
            continue
        if arguments.missing and (model_type in made or model_type in unmade):
            continue
        begun = time.monotonic()
        answer = in_process(model_type)
        made.pop(model_type, None)
        unmade.pop(model_type, None)
        if "made" in answer:
            made[model_type] = answer["made"]
        else:
            unmade[model_type] = answer["unmade"]
        print(f"{time.monotonic() - begun:5.1f} s {model_type}: {json.dumps(answer)}", file=sys.stderr, flush=True)
        write(arguments.output, transformers.__version__, made, unmade)
    print(f"{len(made)} of {len(made) + len(unmade)} types can be made", file=sys.stderr)
    return 0


def ordered(types: list[str]) -> list[str]:
    """Language models first, then what else has a head, so that a run that is broken off has the most used."""
    from transformers.models.auto import modeling_auto

    heads = [modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
             modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
             modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, modeling_auto.MODEL_MAPPING_NAMES]  # fmt: skip
    return sorted(types, key=lambda name: next((rank for rank, head in enumerate(heads) if name in head), len(heads)))


def write(file: pathlib.Path, version: str, made: dict[str, Any], unmade: dict[str, str]) -> None:
    """A line per model, so that a change reads as one."""
    lines = ",\n".join("    " + json.dumps(made[name]) for name in sorted(made))
    reasons = ",\n".join(f"    {json.dumps(name)}: {json.dumps(unmade[name], ensure_ascii=False)}" for name in sorted(unmade))
    file.write_text(f'{{\n  "transformers": "{version}",\n  "made": [\n{lines}\n  ],\n  "unmade": {{\n{reasons}\n  }}\n}}\n')


if __name__ == "__main__":
    sys.exit(main())
