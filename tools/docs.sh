#!/usr/bin/env bash
# The docs as a site, in build/docs; a warning is an error. Other options go to sphinx-build.
# Every page is read anew: a saved one hides a link to a heading that another page renamed.
#   tools/docs.sh --check   make every table of the pages again, from what the studies kept or the package, and fail where one differs
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh
if [ "${1:-}" = --check ]; then
    environment test
    exec python recipes/studies/tools/kept_tables.py "$@"
fi
environment docs
python -m sphinx -W --keep-going -q -E -b html "$@" docs build/docs
echo "build/docs/index.html" >&2
