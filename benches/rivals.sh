#!/bin/sh
# Compares the rules of others, as computed here, with the libraries themselves: rivals.sh [JAX_PYTHON [TORCH_PYTHON]]
set -eu
cd "$(dirname "$0")/.."
clients=.tpu-parity/clients
exec cargo bench --quiet --bench rivals -- "${1:-$clients/jax/bin/python}" "${2:-$clients/torch/bin/python}"
