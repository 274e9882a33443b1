#!/usr/bin/env bash
# The tests, from a fresh clone: makes an environment if none is active (environment.sh) and runs pytest.
#   tools/test.sh            the tests that take seconds
#   tools/test.sh --slow     all tests; other options go to pytest
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh
environment test
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # the processes below share the cores
exec python -m pytest -n "${DOCNMT_TEST_PROCESSES:-2}" "$@"
