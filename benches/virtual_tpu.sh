#!/bin/sh
# Prints what the virtual TPU costs over the two compilers, and over XLA CPU's execution: virtual_tpu.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet
exec cargo bench --quiet --bench virtual_tpu -- "$@"
