"""All operations that the evaluator knows: importing this registers them."""

from . import control, elementwise, indexing, linear, random_bits, structural, windows

__all__ = ["control", "elementwise", "indexing", "linear", "random_bits", "structural", "windows"]
