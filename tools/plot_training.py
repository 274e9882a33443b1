"""Draw the curves of trainings from their own logs: loss, and how fast they went.

python tools/plot_training.py runs/bible/train.jsonl runs/docmix/train.jsonl --out curves.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from systems import read_log


def draw(logs: Sequence[Path], out: Path) -> None:
    figure, (losses, speeds) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for log in logs:
        lines = read_log(log)
        trained = [line for line in lines if line["event"] == "train"]
        judged = [line for line in lines if line["event"] == "valid"]
        name, minutes = log.parent.name, [line["wall"] / 60 for line in trained]
        (curve,) = losses.plot(minutes, [line["nll"] for line in trained], label=f"{name}, training")
        places, values = [line["wall"] / 60 for line in judged], [line["nll"] for line in judged]
        losses.plot(places, values, "o", color=curve.get_color(), label=f"{name}, validation")
        speeds.plot(minutes, [line["tokens_per_second"] for line in trained], label=name)
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
