#!/usr/bin/env bash
# The docs as a site, in build/docs; a warning is an error, and so is prose that breaks a rule of CONTRIBUTING.md.
# Other options go to sphinx-build.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh
environment docs
python tools/prose.py
python -m sphinx -W --keep-going -q -b html -d build/doctrees "$@" docs build/docs
echo "build/docs/index.html" >&2
