"""The commands that the documentation shows, found, resolved and run as a reader would."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "docs/*/*.md", "examples/*/README.md", "recipes/*/README.md")
    for path in ROOT.glob(pattern)
)
START = re.compile(r"(?:\w+=\S+ )*(docnmt-\w+|torchrun|python|bash|mkdir|cp|git|pip|ruff|mypy|pre-commit|\S+\.sh)\b")
SCRIPTS = dict(
    re.findall(r'^(docnmt-\S+) = "(.+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
)


@dataclass(frozen=True)
class Shown:
    """A command that stands on a page."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def words(self) -> list[str]:
        """Its words; settings of the environment before it are left out."""
        words = shlex.split(self.text)
        while "=" in words[0] and "/" not in words[0].partition("=")[0]:
            del words[0]
        if words[0] == "torchrun":  # as one process
            script = words.index("-m") + 1
            return [f"docnmt-{words[script].removeprefix('docnmt.cli.')}", *words[script + 1 :]]
        return words


def shown() -> list[Shown]:
    """Every command in a code block, and every one in a table cell of its own, of every page."""
    return [command for page in PAGES for command in commands(page)]


def commands(page: str) -> Iterator[Shown]:
    """The commands of one page."""
    fence: str | None = None  # the language of the fenced block around a line
    begun, parts = 0, ""
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            fence = line.strip("`") if fence is None else None
            continue
        if cell := re.search(r"\| `((?:docnmt-|python )[^`]+)` \|", line):
            yield Shown(page, number, cell[1])
        if not (line.startswith("    ") if fence is None else fence in ("", "sh", "bash")):
            continue
        words = re.sub(r"\s+#( .*|$)", "", line.strip())
        if not parts and not START.match(words):
            continue
        begun = begun if parts else number
        parts += words.removesuffix("\\") + " "
        if not words.endswith("\\"):
            yield Shown(page, begun, parts.strip())
            parts = ""


def files(page: str) -> dict[str, str]:
    """The Python blocks of a page that begin with a comment with a path: path → text."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(# (\S+\.py)\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {path: block for block, path in blocks}


def run(words: list[str]) -> int:
    """Run a docnmt command in this process, its `<` and `>` obeyed; the exit status."""
    module, _, function = SCRIPTS[words[0]].partition(":")
    arguments, files = [], {}
    rest = iter(words[1:])
    for word in rest:
        if word in ("<", ">"):
            files[word] = Path(next(rest))
        else:
            arguments.append(word)
    main = getattr(importlib.import_module(module), function)
    out, kept = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(files["<"].read_bytes() if "<" in files else b""), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out):
            status = main(arguments)
    finally:
        sys.stdin = kept
    if ">" in files:
        files[">"].write_bytes(out.buffer.getvalue())  # type: ignore[attr-defined]
    return int(status)


def options(words: list[str]) -> set[str]:
    """Every option that a docnmt command has beside the names that `words` chooses (architecture, task, generator)."""
    chosen = ("--arch", "--task", "--criterion", "--generator", "--user-dir")
    return _options(words[0], tuple(word for pair in pairwise(words) if pair[0] in chosen for word in pair))


@functools.cache
def _options(command: str, chosen: tuple[str, ...]) -> set[str]:
    module, _, function = SCRIPTS[command].partition(":")
    main = getattr(importlib.import_module(module), function)
    text = io.StringIO()
    for help in ("--help", "--help-all"):  # the first may show only the options that matter most
        if help == "--help" or help in text.getvalue():
            with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
                main([*chosen, help])
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text.getvalue()))


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in `folder`."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
