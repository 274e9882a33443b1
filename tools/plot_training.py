"""Draw the curves of trainings from their own logs: loss, and how fast they went.

python tools/plot_training.py runs/bible/train.jsonl runs/docmix/train.jsonl --out curves.png
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt


def read(log: Path) -> list[dict[str, Any]]:
    """The lines of a `train.jsonl`.

    Raises:
        ValueError: a line is not JSON.
    """
    lines = []
    for number, line in enumerate(log.read_text(encoding="utf-8").splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{log}, line {number}: not a line of train.jsonl ({error})") from error
    return lines


def draw(logs: Sequence[Path], out: Path) -> None:
    figure, (losses, speeds) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for log in logs:
        lines = read(log)
        trained = [line for line in lines if line["event"] == "train"]
        judged = [line for line in lines if line["event"] == "valid"]
        name = log.parent.name
        (curve,) = losses.plot(
            [x["wall"] / 60 for x in trained], [x["nll"] for x in trained], label=f"{name}, training"
        )
        places, values = [x["wall"] / 60 for x in judged], [x["nll"] for x in judged]
        losses.plot(places, values, "o", color=curve.get_color(), label=f"{name}, validation")
        speeds.plot([x["wall"] / 60 for x in trained], [x["tokens_per_second"] for x in trained], label=name)
    losses.set(xlabel="minutes", ylabel="nats a target subword")
    speeds.set(xlabel="minutes", ylabel="target subwords a second", ylim=(0, None))
    for axes in (losses, speeds):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="a train.jsonl; its folder names the run")
    parser.add_argument("--out", type=Path, required=True, metavar="PNG", help="the picture to write")
    options = parser.parse_args(arguments)
    try:
        draw(options.logs, options.out)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
