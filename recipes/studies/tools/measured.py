"""Keep what a study measured in one file, and read it there as in the study's folders.

    python recipes/studies/tools/measured.py runs/fusion fusion.jsonl.xz '*/*/seed-*/result.json' '*/svm.json'

A kept file is JSON Lines, compressed where its name ends in .xz. A line is a file of the folder,
`{"file": PATH, "json": VALUE}`, or with `"text"` what is not JSON. A path that leads through the kept file means a
file in it, as `fusion.jsonl.xz/imdb/svm.json`. So the same command makes a table while the study runs and when its
folders are gone.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from statistics import fmean, stdev
from typing import Any

from docnmt.cli import command as cli
from docnmt.runtime.system import UserError, replacing


def read_text(path: Path) -> str:
    """The text of a file, in a folder or in a kept file.

    Raises:
        OSError: there is none. UserError: the kept file is damaged.
    """
    file, name = _split(path)
    if file is None:
        return path.read_text(encoding="utf-8")
    row = _row(path, file, name)
    return str(row["text"]) if "text" in row else json.dumps(row["json"], ensure_ascii=False)


def read_json(path: Path) -> Any:  # whatever the study wrote there
    """The value of a JSON file, in a folder or in a kept file.

    Raises:
        OSError: there is none. ValueError: it is not JSON. UserError: the kept file is damaged.
    """
    file, name = _split(path)
    row = {} if file is None else _row(path, file, name)
    return row["json"] if "json" in row else json.loads(read_text(path))


def kept(name: str) -> Path:
    """The file of this name that a study kept.

    Raises:
        FileNotFoundError: there is none.
    """
    studies = Path(__file__).parents[1]
    for path in studies.glob(f"*/{name}"):
        return path
    raise FileNotFoundError(2, "no study kept it", name)


def find(folder: Path, pattern: str) -> list[Path]:
    """The files in a folder, or under a path in a kept file, that match a pattern, sorted; `*` is one step of it."""
    file, inside = _split(folder / "any")
    if file is None:
        return sorted(folder.glob(pattern))
    wanted = PurePosixPath(inside).parent / pattern
    names = [PurePosixPath(name) for name in rows(file)]
    return sorted(file / n for n in names if len(n.parts) == len(wanted.parts) and n.match(str(wanted)))


def score_of(compared: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    """What a comparison of docnmt-score says of one metric."""
    one: Mapping[str, Any] = next(one for one in compared["metrics"] if one["metric"] == metric)
    return one


def over_seeds(values: Sequence[float], digits: int) -> str:
    """Mean of the differences of two to six seeds, with its 95 % interval by Student's t; of one seed its value."""
    mean, half = fmean(values), 0.0
    if len(values) > 1:
        half = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}[len(values)] * stdev(values) / len(values) ** 0.5
    interval = f" ({mean - half:+.{digits}f} to {mean + half:+.{digits}f})" if half else ""
    return f"{mean:+.{digits}f}{interval}".replace("-", "−")


def keep(path: Path, files: Mapping[str, Any]) -> None:
    """Write values of JSON files, and texts of others, by name into a kept file; what else it has stays."""
    known = dict(rows(path)) if path.exists() else {}
    known |= {name: {"file": name, "json" if name.endswith(".json") else "text": files[name]} for name in files}
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for _, row in sorted(known.items())]
    content = "".join(lines).encode()
    with replacing(path) as temporary:
        temporary.write_bytes(lzma.compress(content, preset=9) if path.suffix == ".xz" else content)
    rows.cache_clear()


@lru_cache(maxsize=4)
def rows(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of a kept file by the names of what they hold."""
    try:
        content = path.read_bytes()
        text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode()
        return {row["file"]: row for row in map(json.loads, text.split("\n")[:-1])}
    except (lzma.LZMAError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: expected a file that measured.py writes: {error}") from error


def _split(path: Path) -> tuple[Path | None, str]:
    """The kept file that a path leads through, and the rest of the path; None where it leads through none."""
    file = next((above for above in path.parents if above.is_file()), None)
    return file, "" if file is None else path.relative_to(file).as_posix()


def _row(path: Path, file: Path, name: str) -> dict[str, Any]:
    try:
        return rows(file)[name]
    except KeyError:
        raise FileNotFoundError(2, "is not in the kept file", str(path)) from None


def body(argv: list[str]) -> None:
    """Parse, read, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the study, or a file that was kept")
    parser.add_argument("kept", type=Path, metavar="FILE.jsonl[.xz]", help="is written; what else it has stays")
    parser.add_argument("patterns", nargs="+", metavar="PATTERN", help="which files of FOLDER, as */*/result.json")
    options = parser.parse_args(argv)
    paths = sorted({path for pattern in options.patterns for path in find(options.folder, pattern)})
    if not paths:
        raise UserError(f"{options.folder}: no file is like {' or '.join(options.patterns)}")
    try:
        read = {path: read_json(path) if path.suffix == ".json" else read_text(path) for path in paths}
    except (OSError, ValueError) as error:
        raise UserError(f"{options.folder}: cannot be read: {error}") from error
    keep(options.kept, {path.relative_to(options.folder).as_posix(): content for path, content in read.items()})


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return cli.run("measured.py", body, argv)


if __name__ == "__main__":
    sys.exit(main())
