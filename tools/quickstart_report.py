"""Table and plot of the quick start, from the files that its commands wrote.

    python tools/quickstart_report.py runs/quickstart

Prints Markdown and writes FOLDER/accuracy.png.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Folder of each system, and what it is called.
SYSTEMS = {"sentence": "sentence by sentence", "document": "whole document"}
#: Contrastive results, and what they are called.
CONTEXTS = {"contrastive": "true context", "contrastive.foreign": "foreign context"}
METRICS = ("s-BLEU", "d-BLEU", "chrF")


@dataclass(frozen=True)
class System:
    """What was measured of one model."""

    name: str
    arch: str
    parameters: int
    updates: int
    minutes: float
    scores: dict[str, Any]
    contrastive: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: Path, name: str) -> System:
        """From a folder with `model/`, `test/scores.json` and the contrastive results.

        Raises:
            OSError: a file is missing.
        """
        arch, parameters = _checkpoint(folder / "model" / "checkpoint_best.safetensors")
        log = [json.loads(line) for line in (folder / "model" / "train.jsonl").read_text(encoding="utf-8").splitlines()]
        wall = max((line["wall"] for line in log if "wall" in line), default=0.0)
        contrastive = {context: _read(folder / f"{context}.json") for context in CONTEXTS}
        updates = max(line["update"] for line in log)
        return cls(name, arch, parameters, updates, wall / 60, _read(folder / "test" / "scores.json"), contrastive)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _checkpoint(path: Path) -> tuple[str, int]:
    """Architecture and number of parameters; only the header is read."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    parameters = 0
    for name, tensor in header.items():
        if name.startswith("model."):
            count = 1
            for size in tensor["shape"]:
                count *= size
            parameters += count
    return json.loads(header["__metadata__"]["docnmt"])["arch"], parameters


def translation_table(systems: Sequence[System]) -> Iterator[str]:
    """Size, training and test scores of every system."""
    yield "| model | architecture | parameters | updates | minutes | " + " | ".join(METRICS) + " |"
    yield "| --- | --- |" + " ---: |" * (3 + len(METRICS))
    for system in systems:
        scores = " | ".join(f"{system.scores[metric]:.1f}" for metric in METRICS)
        size = f"{system.parameters:,} | {system.updates:,} | {system.minutes:.1f}"
        yield f"| {system.name} | `{system.arch}` | {size} | {scores} |"


def contrastive_table(systems: Sequence[System]) -> Iterator[str]:
    """Accuracy in percent by distance and by phenomenon, beside it what guessing gets."""
    columns = [f"{system.name}, {name}" for name in CONTEXTS.values() for system in systems]
    yield "| | chance | " + " | ".join(columns) + " | groups |"
    yield "| --- |" + " ---: |" * (len(columns) + 2)
    reports = [system.contrastive[context] for context in CONTEXTS for system in systems]
    yield _row("all", reports)
    for label in ("distance", "phenomenon"):
        for value in reports[0]["by"][label]:
            yield _row(f"{label} {value}", [report["by"][label][value] for report in reports])


def _row(name: str, cells: Sequence[dict[str, float]]) -> str:
    accuracies = " | ".join(f"{cell['accuracy']:.1f}" for cell in cells)
    return f"| {name} | {cells[0]['chance']:.1f} | {accuracies} | {cells[0]['groups']:,} |"


def plot(systems: Sequence[System], path: Path) -> None:
    """Accuracy by distance of the deciding sentence."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    styles = {"contrastive": ("-", "o"), "contrastive.foreign": ("--", None)}
    for system, colour in zip(systems, ("#0072b2", "#d55e00"), strict=True):
        for context, (line, marker) in styles.items():
            cells = system.contrastive[context]["by"]["distance"]
            accuracies = [cell["accuracy"] for cell in cells.values()]
            label = f"{system.name}, {CONTEXTS[context]}"
            axes.plot([int(d) for d in cells], accuracies, line, marker=marker, color=colour, label=label)
    chance = systems[0].contrastive["contrastive"]["chance"]
    axes.axhline(chance, color="grey", linewidth=1, linestyle=":", label=f"chance ({chance:.0f} %)")
    axes.set(xlabel="sentences back to the one that decides", ylabel="right translation preferred (%)", ylim=(0, 103))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 1.22), ncols=2)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="work folder of recipes/quickstart/run.sh")
    folder = parser.parse_args(arguments).folder
    try:
        systems = [System.read(folder / name, title) for name, title in SYSTEMS.items()]
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}; run recipes/quickstart/run.sh to its end first")
    picture = folder / "accuracy.png"
    plot(systems, picture)
    print(*translation_table(systems), "", *contrastive_table(systems), sep="\n")
    print(f"\nAccuracy by distance: {picture}")


if __name__ == "__main__":
    main()
