#!/usr/bin/env bash
# The tests with exactly the lowest versions that pyproject.toml promises, in an environment of their own.
#   bash tools/test_floor.sh [PYTEST OPTION ...]
#   PYTHON=python3.11     the Python that makes it (the lowest by default, if it is there)
#   DOCNMT_FLOOR=DIR      where it is kept (.venv-floor)
# torch's lowest version brings CUDA (2.5 GB) where no index of CPU wheels has it. Extras whose packages want something newer
# than the lowest versions are left out, and said: their tests are skipped. Not part of .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
folder=${DOCNMT_FLOOR:-.venv-floor}
[ -x "$folder/bin/pip" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet setuptools wheel
"$folder/bin/python" tools/floor.py > "$folder/constraints.txt"
cat "$folder/constraints.txt" >&2
lowest() { "$folder/bin/python" -m pip install --quiet --constraint "$folder/constraints.txt" "$@"; }
lowest -e . "pytest>=8" "pytest-xdist>=3" "hypothesis>=6.100" "httpx>=0.27" \
    "python-docx>=1.1" "odfpy>=1.4" "python-pptx>=1.0" "openpyxl>=3.1" "langcodes>=3.3"
for extra in evaluation convert serve documents; do
    lowest -e ".[$extra]" || echo "left out: [$extra] has no version beside these" >&2
done
exec "$folder/bin/python" -m pytest "$@"
