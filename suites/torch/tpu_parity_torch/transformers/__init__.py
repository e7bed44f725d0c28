"""The suite `transformers`: every model type of Hugging Face's library of which a small random one can be made by rule, loaded as a
user loads it and taken through forward, compile, gradients, an optimizer's step, generation, and saving, against PyTorch on CPU.
"""

from .cases import cases, run

__all__ = ["cases", "run"]
