#!/usr/bin/env bash
# The tests with exactly the lowest versions that pyproject.toml promises, in an environment of their own.
#   bash tools/test_floor.sh [PYTEST OPTION ...]
#   PYTHON=python3.10     the Python that makes it (the lowest by default, if it is there)
#   DOCNMT_FLOOR=DIR      where it is kept (.venv-floor)
# torch's lowest version brings CUDA (2.5 GB) where no index of CPU wheels has it. Not part of .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-$(command -v python3.10 || command -v python3)}
folder=${DOCNMT_FLOOR:-.venv-floor}
[ -x "$folder/bin/pip" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet tomli setuptools wheel
"$folder/bin/python" tools/floor.py > "$folder/constraints.txt"
cat "$folder/constraints.txt" >&2
"$folder/bin/python" -m pip install --constraint "$folder/constraints.txt" -e '.[test]'
exec "$folder/bin/python" -m pytest "$@"
