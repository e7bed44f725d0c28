"""The suite `transformers`: every model type of Hugging Face's library of which a small random one can be made by rule.

Each is loaded as a user loads it and taken through a forward pass, `torch.compile`, gradients, an optimizer's step,
generation and saving, against PyTorch on CPU. `table` finds out which types those are; listing reads what it wrote.
"""

import os

# TorchTPU, loaded by itself, would look for a TPU; device.py opens it when a case needs it.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

from .case import cases, run

__all__ = ["cases", "run"]
