"""The short tables of README.md here, from what was kept of the studies.

python recipes/studies/fusion_matters/summary.py recipes/studies/fusion_matters/fusion.jsonl.xz
"""

from __future__ import annotations

import argparse
from pathlib import Path

from choice import settled
from results import Results
from study import read_study
from tables import mean_sd

HERE = Path(__file__).parent
#: What stands in the rows: a name, and the variant.
OWN = {
    "no position (`none`)": "sinusoidal.none", "`add`": "sinusoidal.add", "`concat`": "sinusoidal.concat",
    "`gate_scalar`": "sinusoidal.gate_scalar", "`gate_vector`": "sinusoidal.gate_vector",
    "`gate_mlp`": "sinusoidal.gate_mlp", "`gate_conv`": "sinusoidal.gate_conv",
    "no position, a norm after fusion": "norm.none", "`add`, a norm after fusion": "norm.add",
    "control: two learned factors (`scale`)": "sinusoidal.scale",
    "control: one learned gate (`gate_constant`)": "sinusoidal.gate_constant",
    "control: a gate on the word alone (`gate_content`)": "sinusoidal.gate_content",
}  # fmt: skip
NOTEBOOKS = {"no position": "none", "`add`": "add", "`concat`": "concat", "`gate_scalar`": "gate_scalar",
             "`gate_vector`": "gate_vector", "`gate_mlp`": "gate_mlp", "control: `gate_content`": "gate_content",
             "control: `gate_constant`": "gate_constant", "control: `scale`": "scale"}  # fmt: skip
ORDER = {"which of two marks is first": "first", "the tenth word": "kth", "the word at a named place": "copy",
         "a distance": "distance", "the order of clauses": "clauses"}  # fmt: skip


def cells(results: Results, variant: str, reference: str) -> list[str]:
    """Accuracy, and the difference to the reference with 95 %; blanks where there is none.

    The interval is over seeds; where there is only one, over the texts of the test.
    """
    if variant not in results.cells:
        return ["", ""]
    accuracy = mean_sd(results.accuracy(variant))
    seeds, _ = results.pairs(variant, reference)
    if variant == reference or not seeds:
        return [accuracy, ""]
    if len(seeds) == 1:
        mean, half = results.gap(variant, reference)
        return [accuracy, difference(mean, (mean - half, mean + half))]
    comparison = results.comparison(variant, reference)
    return [accuracy, difference(comparison.mean, comparison.interval)]


def difference(mean: float, bounds: tuple[float, float]) -> str:
    """`+0.60 (0.27 to 0.92)`, with minus signs."""
    return f"{mean:+.2f} ({bounds[0]:.2f} to {bounds[1]:.2f})".replace("-", "−")


def show(titles: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    for row in (titles, ["---", *["---:"] * (len(titles) - 1)], *rows):
        print("|" + "".join(f" {cell} |" if cell else " |" for cell in row))
    print()


def main() -> None:
    """Parse, read, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder given to run.py, or what tools/measured.py kept of it")
    runs = parser.parse_args().runs

    def read(name: str) -> Results:
        return Results.read(settled(read_study(HERE / f"{name}.yaml"), runs), runs)

    both, large = [read("ag_news"), read("imdb")], read("ag_news_notebook")
    titles = ["", "AG News", "Δ to `add`", "IMDB", "Δ to `add`"]
    show(titles, [
        [name, *(cell for results in both for cell in cells(results, variant, "sinusoidal.add"))]
        for name, variant in OWN.items()
    ])  # fmt: skip
    further = ["AG News, ten times the rate", "Δ to `add`", "AG News, four layers of width 256", "Δ to `add`"]
    show([*titles, *further], [
        [name, *(cell for results in both for cell in cells(results, f"paper.{variant}", "paper.add")),
         *cells(both[0], f"wide.{variant}", "wide.add"),
         *cells(large, f"sinusoidal.{variant}", "sinusoidal.add")]
        for name, variant in NOTEBOOKS.items()
    ])  # fmt: skip
    rows = []
    for name, task in ORDER.items():
        study = read(f"order_{task}")
        variants = ("relative.add", "rope.add", "sinusoidal.gate_scalar")
        rows.append([name, *(cells(study, variant, "sinusoidal.add")[1] for variant in variants)])
    show(["the label is", "relative in attention", "rotary in attention", "`gate_scalar`"], rows)


if __name__ == "__main__":
    main()
