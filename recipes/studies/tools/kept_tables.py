"""The tables of README, docs and studies, made again from what the studies kept.

    python recipes/studies/tools/kept_tables.py           # write them into the pages
    python recipes/studies/tools/kept_tables.py --check   # name the tables that differ, and fail

A page shows the command that makes its tables and, below it, marks where they stand:

        python recipes/studies/tools/results_table.py recipes/studies/docmix/docmix.jsonl

    <!-- tables 2 1 -->
    <!-- end -->

The second and the first table of the command's output belong between these marks; `<!-- tables -->` takes all of them.
`<!-- output -->` takes all that is printed. `<!-- tables 2 1: SCRIPT WORDS -->` and `<!-- python SCRIPT WORDS -->` run
what the page does not show, the second for all that it prints. `<!-- = NAME -->…<!-- / -->` in a sentence is a
number of claims.py. A command with several marks runs once, without a shell, at the root of the clone.
`<!-- kept real.jsonl NAME -->` is a table that was copied from the output of a run, when the output itself was not
kept: real.jsonl of some study has its columns and rows as NAME.json. NAME.md is taken as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from difflib import unified_diff
from functools import cache
from pathlib import Path

from measured import kept, read_json, read_text

from docnmt.cli import command as cli
from docnmt.runtime.system import UserError, write_text

ROOT = Path(__file__).parents[3]
_MARK = re.compile(r"<!-- (tables(?: \d+)*|output|kept \S+ \S+|python [^<>]+?)(?:: (\S+\.py .*))? -->")
_NUMBER = re.compile(r"<!-- = (\S+) -->.*?<!-- / -->")
_END = "<!-- end -->"


def tables(text: str) -> list[str]:
    """The tables of a Markdown text, in their order."""
    return ["\n".join(lines) for lines in _runs(text.splitlines())]


def _runs(lines: list[str]) -> Iterator[list[str]]:
    run: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            run.append(line)
        elif run:
            yield run
            run = []


@cache
def printed(command: str) -> str:
    """What a command prints."""
    words = shlex.split(command, comments=True)
    done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise UserError(f"{command}: failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def copied(file: str, name: str) -> str:
    """A table of which columns and rows are kept as NAME.json, or the text of NAME.md."""
    try:
        if name.endswith(".md"):
            return read_text(kept(file) / name).strip()
        table = read_json(kept(file) / f"{name}.json")
    except OSError as error:
        raise UserError(f"{file}: has no {name}") from error
    rule = ["---:" if right else "---" for right in table["right"]]
    rows = [table["columns"], rule, *table["rows"]]
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows)


def filled(page: str, name: str, run: Callable[[str], str] = printed) -> str:
    """A page with its tables made again."""
    lines, made, command = iter(page.splitlines()), [], ""
    for line in lines:
        made.append(line)
        if line.startswith("    python "):
            command = line.strip()
            while command.endswith("\\"):
                made.append(next(lines))
                command = command.removesuffix("\\") + made[-1].strip()
        mark = _MARK.fullmatch(line)
        if mark is None:
            continue
        if mark[1].startswith("kept "):
            table = copied(*mark[1].split()[1:])
        elif mark[1].startswith("python "):
            table = run(mark[1])
        elif mark[2] or command:
            table = _wanted(mark[1], run(f"python {mark[2]}" if mark[2] else command), f"{name}: {line}")
        else:
            raise UserError(f"{name}: {line}: no `    python …` stands above it")
        made += ["", table, "", _END]
        if _END not in lines:  # what stood between the marks is left out
            raise UserError(f"{name}: {line}: no {_END} follows")
    if begun := re.search(r"^\s*<!-- = .*", "\n".join(made), re.MULTILINE):  # Markdown takes the whole line for HTML
        raise UserError(f"{name}: {begun[0].strip()}: a word must stand before the number")
    return _NUMBER.sub(lambda match: f"<!-- = {match[1]} -->{numbers()[match[1]]}<!-- / -->", "\n".join(made)) + "\n"


@cache
def numbers() -> dict[str, str]:
    """The numbers of sentences, by name (claims.py)."""
    values: dict[str, str] = json.loads(printed("python recipes/studies/tools/claims.py --numbers"))
    return values


def _wanted(mark: str, output: str, where: str) -> str:
    if mark == "output":
        return output
    blocks = tables(output)
    numbers = [int(word) for word in mark.split()[1:]] or range(1, len(blocks) + 1)
    if max(numbers, default=0) > len(blocks):
        raise UserError(f"{where}: the command prints {len(blocks)} tables")
    return "\n\n".join(blocks[number - 1] for number in numbers)


def pages() -> list[Path]:
    """Every page that may have such tables."""
    patterns = ("README.md", "docs/*/*.md", "recipes/*/README.md", "recipes/studies/*/*.md")
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def body(argv: list[str]) -> None:
    """Fill or compare every page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "pages", type=Path, nargs="*", metavar="PAGE.md", help="[all with such tables]"
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a table differs")
    options = parser.parse_args(argv)
    different, marks = [], 0
    for path in options.pages or pages():
        text = path.read_text(encoding="utf-8")
        marks += len(_MARK.findall(text)) + len(_NUMBER.findall(text))
        made = filled(text, path.name)
        if made == text:
            continue
        different.append(str(path))
        if options.check:
            sys.stderr.writelines(
                f"{line}\n" for line in unified_diff(text.splitlines(), made.splitlines(), lineterm="", n=0)
            )
        else:
            write_text(path, made)
    if options.check and different:
        raise UserError(f"{', '.join(different)}: other tables than the studies kept; run {Path(__file__).name}")
    print(
        f"{marks} places for tables; {len(different)} pages {'differ' if options.check else 'written'}", file=sys.stderr
    )


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return cli.run("kept_tables.py", body, argv)


if __name__ == "__main__":
    sys.exit(main())
