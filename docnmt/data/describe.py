"""What a data folder holds, for people (`docnmt-inspect`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docnmt.data.meta import read_meta


def describe_folder(folder: Path) -> str:
    """A page on a data folder of any task.

    Raises:
        UserError: not a data folder, or a damaged one.
    """
    meta = read_meta(Path(folder))
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    lines = [
        f"{folder}: data for {meta['task']}, {size / 1e6:,.1f} MB, made by docnmt {meta.get('docnmt', '?')}",
        f"fingerprint: {meta.get('fingerprint', 'none')}",
    ]
    if "source_lang" in meta:
        vocabulary = meta["vocabulary"]
        sizes = f"{vocabulary['source']:,} subwords, joined"
        if not vocabulary["joined"]:
            sizes = f"{vocabulary['source']:,} and {vocabulary['target']:,} subwords"
        lines += [f"languages: {meta['source_lang']} to {meta['target_lang']}", f"vocabulary: {sizes}"]
    for name, counts in meta.get("splits", {}).items():
        shown = _split(counts) if "lengths" in counts else counts
        lines += ["", f"split {name}", *_indented(shown if isinstance(shown, Mapping) else {"rows": shown})]
    if meta.get("options"):
        lines += ["", "options", *_indented({k: v for k, v in meta["options"].items() if v not in (None, [], "")})]
    return "\n".join(lines)


def _split(counts: Mapping[str, Any]) -> dict[str, Any]:
    """A translation split's counts, in words."""
    shown: dict[str, Any] = {name: counts[name] for name in ("documents", "sentences", "levels", "references")}
    for side, lengths in counts["lengths"].items():
        shown[f"{side} subwords"] = f"{lengths['tokens']:,}, {lengths['unknown']:,} of them unknown"
        for what in ("sentence", "document"):
            median, ninety, most = lengths[f"{what}_percentiles"]
            shown[f"{side} {what} length"] = (
                f"median {median:,}, 90 % {ninety:,}, 99 % {most:,}, longest {lengths[f'longest_{what}']:,}"
            )
    for file, entry in counts["inputs"].items():
        shown[f"input {file}"] = f"{entry['bytes']:,} bytes, sha256 {entry['sha256'][:12]}…"
    return shown | {f"note {i}": note for i, note in enumerate(counts["notes"], 1)}


def _indented(values: Mapping[str, Any]) -> list[str]:
    return [f"  {key}: {f'{value:,}' if type(value) is int else value}" for key, value in values.items()]
