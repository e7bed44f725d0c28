#!/bin/sh
# Prints how fast a comparison is beside the read bandwidth of a core and numpy's assert_allclose: compare.sh [PYTHON]
set -eu
cd "$(dirname "$0")/.."
exec cargo bench --quiet --bench compare -- "${1:-.tpu-parity/clients/jax/bin/python}"
