#!/bin/sh
# Prints the ratio of a run's wall time to that of a bare loop of the same PJRT calls: overhead.sh [ROUNDS [SELECT]]
set -eu
cd "$(dirname "$0")/.."
exec cargo bench --quiet --bench overhead -- "$@"
