"""The worker that runs PyTorch programs on a TPU, real or virtual, beside PyTorch's own CPU, for tpu-parity to compare.

It lists cases and computes them; it judges no numbers and knows no expectations. `python -m tpu_parity_torch` is its door.
"""
