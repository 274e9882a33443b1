#!/usr/bin/env bash
# The tests, from a fresh clone: makes an environment if none is active (environment.sh) and runs pytest.
#   tools/test.sh            the tests that take seconds
#   tools/test.sh --slow     all tests; other options go to pytest
#   tools/test.sh --studies  those of recipes/studies instead: their tools, and that every table equals its kept file
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh
environment test
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # the processes below share the cores
if [ "${1:-}" = --studies ]; then
    python recipes/studies/tools/kept_tables.py --check
    set -- recipes/studies "${@:2}"
fi
exec python -m pytest -n "${DOCNMT_TEST_PROCESSES:-2}" "$@"
