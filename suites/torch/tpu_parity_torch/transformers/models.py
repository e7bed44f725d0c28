"""The table of models (models.json): what each type is made of, or why it cannot be made; and the making of one.

A model is made by rule (small.py), its constant parameters perturbed, so that none of them drops out of what is compared. It is
loaded as a user loads one: saved as a checkpoint in f32, then `from_pretrained` with a `device_map`.
"""

import functools
import json
import pathlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from ..device import seed_cpu
from ..suite import seed_of
from . import exceptions
from .inputs import Plan
from .small import small_arguments

TABLE = pathlib.Path(__file__).with_name("models.json")
# A model with more parameters than this is not small.
MOST_PARAMETERS = 20_000_000

# The Auto classes to make a type with: the first that knows it and works. Heads come before the bare model: they have a loss.
AUTO_CLASSES = (
    "AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", "AutoModelForImageTextToText", "AutoModelForMultimodalLM",
    "AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModelForCTC", "AutoModelForZeroShotImageClassification",
    "AutoModelForImageClassification", "AutoModelForAudioClassification", "AutoModelForVideoClassification",
    "AutoModelForSemanticSegmentation", "AutoModelForTimeSeriesPrediction", "AutoModel",
    "AutoModelForSequenceClassification", "AutoModelForObjectDetection", "AutoModelForDepthEstimation",
    "AutoModelForImageToImage", "AutoModelForUniversalSegmentation", "AutoModelForInstanceSegmentation",
    "AutoModelForImageSegmentation", "AutoModelForZeroShotObjectDetection", "AutoModelForKeypointDetection",
    "AutoModelForKeypointMatching", "AutoModelForMaskGeneration", "AutoModelForMaskedImageModeling",
    "AutoModelForPreTraining", "AutoModelForVisualQuestionAnswering", "AutoModelForDocumentQuestionAnswering",
    "AutoModelForTableQuestionAnswering", "AutoModelForTextToSpectrogram", "AutoModelForTextToWaveform",
    "AutoModelForTextEncoding", "AutoModelForTextRecognition", "AutoModelForTableRecognition", "AutoModelForPoseEstimation",
    "AutoModelForImageMatting", "AutoBackbone",
)  # fmt: skip
CAUSAL = "AutoModelForCausalLM"


@dataclass(frozen=True)
class Model:
    """A type (or a kind of one, exceptions.KINDS) that can be made."""

    type: str
    # Its Auto class.
    auto: str
    plan: Plan
    # Rules that are left out in making its configuration.
    without: list[str] = field(default_factory=list)
    # What its own loss takes as labels; None where it has none that a rule can feed.
    labels: str | None = None
    # The attention it has by default: `sdpa`, or `eager` where it knows no other.
    attention: str = "eager"
    # It draws random numbers in its forward pass.
    random: bool = False
    # Greedy generation works on CPU.
    generates: bool = False
    # Why a saved checkpoint does not give the same model again, where that is so.
    unsaved: str | None = None
    # Why it cannot be differentiated on CPU, where that is so.
    no_gradient: str | None = None
    parameters: int = 0

    @property
    def seed(self) -> int:
        return seed_of("transformers", self.type)


def subject(model_type: str) -> str:
    """The type as it stands in a case's id."""
    return model_type.lower().replace("/", "-")


@functools.cache
def table() -> dict[str, Any]:
    """models.json: {"transformers": version, "made": [...], "unmade": {type: reason}}."""
    return json.loads(TABLE.read_text())


@functools.cache
def made() -> dict[str, Model]:
    """The models that can be made, by subject."""
    return {subject(entry["type"]): Model(**entry) for entry in table()["made"]}


def unmade() -> dict[str, str]:
    """Why the others cannot be made, by subject."""
    return {subject(name): reason for name, reason in table()["unmade"].items()}


def to_entry(model: Model) -> dict[str, Any]:
    """A model's line of the table, without what is as by default."""
    defaults = asdict(Model("", "", {}))
    return {name: value for name, value in asdict(model).items() if value != defaults[name]}


def all_types() -> list[str]:
    """Every type that AutoConfig knows, and the kinds that a default leaves out."""
    from transformers import CONFIG_MAPPING

    return sorted([*CONFIG_MAPPING.keys(), *exceptions.KINDS])


def configuration(model_type: str, without: list[str]) -> Any:
    """The small configuration of a type or kind. Raises what the configuration's class raises."""
    from transformers import CONFIG_MAPPING

    base, given = exceptions.KINDS.get(model_type, (model_type, {}))
    config_class = CONFIG_MAPPING[base]
    return config_class(**small_arguments(config_class, without, given))


def auto_classes(config: Any) -> Iterator[str]:
    """The Auto classes that know a configuration, the likeliest first."""
    import transformers

    for name in AUTO_CLASSES:
        auto = getattr(transformers, name, None)
        if auto is not None and type(config) in auto._model_mapping:
            yield name


def build(config: Any, auto: str, seed: int) -> torch.nn.Module:
    """The model with its seeded weights, in f32 on CPU, as it is saved."""
    import transformers

    seed_cpu(seed)
    model = getattr(transformers, auto).from_config(config, dtype=torch.float32).eval()
    perturb(model, seed)
    return model


def perturb(model: torch.nn.Module, seed: int) -> None:
    """Has parameters that initialisation left constant (scales, biases) differ, and gives those it left without values some."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in dict.fromkeys(model.parameters()):
            if not parameter.is_floating_point() or not parameter.numel():
                continue
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32).to(parameter.dtype)
            if not bool(parameter.isfinite().all()):
                parameter.copy_(0.1 * noise)
            elif bool((parameter == parameter.flatten()[0]).all()):
                parameter.add_(0.1 * noise)


def load(folder: str, auto: str, device: str, dtype: torch.dtype, attention: str | None = None) -> torch.nn.Module:
    """A saved checkpoint as a user loads it."""
    import transformers

    options = {} if attention is None else {"attn_implementation": attention}
    return getattr(transformers, auto).from_pretrained(folder, device_map=device, dtype=dtype, **options).eval()
