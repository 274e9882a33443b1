# To be sourced. `environment EXTRA` activates a Python in which this clone of docnmt works with what EXTRA needs.
#
# The active environment is used if it has all that; otherwise .venv in the clone, which is made if it is missing.
#   DOCNMT_ENV=none    use the active Python as it is, check and install nothing
#   DOCNMT_TORCH=X     version of torch to install: 2.13.0 (with CUDA, 2.7 GB) or 2.13.0+cpu (0.2 GB). Unset: +cpu where
#                      there is no NVIDIA GPU and an index that pip knows has it (PIP_EXTRA_INDEX_URL names more)
#   PYTHON=python3.11  the Python that makes .venv (python3)

environment() { # plot (docnmt and matplotlib), or an extra of pyproject.toml: docs, test, dev
    [ "${DOCNMT_ENV:-}" != none ] || return 0
    if [ -n "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ] && _environment_works "$1"; then return 0; fi
    if [ ! -x .venv/bin/pip ]; then
        echo "making $PWD/.venv" >&2
        "${PYTHON:-python3}" -m venv .venv
    fi
    . .venv/bin/activate
    if _environment_works "$1"; then return 0; fi
    _environment_torch >&2
    case $1 in plot) python -m pip install -e . matplotlib ;; *) python -m pip install -e ".[$1]" ;; esac >&2
    _environment_works "$1" || { echo "error: docnmt does not work in $PWD/.venv; delete it and try again" >&2; return 1; }
}

_environment_torch() { # Install torch, without CUDA where nothing could use it
    if [ -n "${DOCNMT_TORCH:-}" ]; then
        python -m pip install "torch==$DOCNMT_TORCH"
    elif command -v nvidia-smi || ! python -m pip install torch==2.13.0+cpu; then
        python -m pip install torch==2.13.0
    fi
}

_environment_works() { # Are docnmt of this clone and the modules that this extra brings importable?
    (root=$PWD && cd / && python - "$root" "$1" 2>/dev/null) <<'PYTHON'
import importlib.util
import os
import sys

root, extra = sys.argv[1:]
modules = {"plot": ["matplotlib"]}
modules["test"] = ["pytest", "hypothesis", "xdist", "babel", "sklearn", "scipy", "matplotlib", "mdit_py_plugins", "deepl", "openai"]
modules["docs"] = ["sphinx", "myst_parser", "furo", "translate", "mdit_py_plugins", "starlette"]
modules["dev"] = [*modules["test"], *modules["docs"], "ruff", "mypy"]
docnmt = importlib.util.find_spec("docnmt")
ours = docnmt is not None and os.path.realpath(docnmt.origin).startswith(os.path.realpath(root) + os.sep)
core = ["torch", "numpy", "sentencepiece", "sacrebleu", "sacremoses", "safetensors", "yaml", "tensorboard", "msgspec", "xxhash"]
sys.exit(not ours or not all(map(importlib.util.find_spec, core + modules[extra])))
PYTHON
}
