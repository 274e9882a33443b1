"""Tables of the study of ordinary text: losses of dev, from what it kept.

    python recipes/studies/ordinary/tables.py recipes/studies/ordinary/ordinary.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measured import find, over_seeds, read_text, score_of

Losses = dict[str, float]  # nll, and of a model that reads context nll_foreign and nll_none


def losses(folder: Path) -> dict[int, Losses]:
    """The last validation of each seed of a system."""
    by_seed = {}
    for path in find(folder, "*/model/train.jsonl"):
        events = [json.loads(line) for line in read_text(path).splitlines()]
        seed = int(path.parts[-3].removeprefix("seed-"))
        by_seed[seed] = [event for event in events if event["event"] == "valid"][-1]
    return by_seed


def spread(values: Sequence[float]) -> str:
    """Mean (least to most), of one seed its value."""
    mean, least, most = (f"{value:.4f}" for value in (fmean(values), min(values), max(values)))
    return mean if len(values) == 1 else f"{mean} ({least} to {most})"


def oracle(kept: Path) -> Iterator[str]:
    """A table of the oracle."""
    yield "| nats a subword of dev | seed 1 | seed 2 | seed 3 | mean |\n| --- | ---: | ---: | ---: | ---: |"
    plain, tagged = (losses(kept / "oracle" / system) for system in ("sentence", "tagged"))
    for name, form, values in (
        ("sentence", ".4f", [plain[seed]["nll"] for seed in sorted(plain)]),
        ("sentence with the domain as a tag", ".4f", [tagged[seed]["nll"] for seed in sorted(plain)]),
        ("what the tag saves", "+.4f", [plain[seed]["nll"] - tagged[seed]["nll"] for seed in sorted(plain)]),
    ):
        cells = " | ".join(f"{value:{form}}" for value in (*values, fmean(values)))
        yield f"| {name} | {cells} |".replace("-", "−")


def systems(kept: Path, study: str, baselines: Mapping[str, str]) -> Iterator[str]:
    """A table of the systems of a comparison, each beside its baseline: means of the seeds, differences with 95 %."""
    trained = {name: losses(kept / study / name) for name in baselines}
    chooses = any("choice" in one for seeds in trained.values() for one in seeds.values())
    beside = BESIDE.get(study, next(iter(baselines)))
    header = f"nats a subword of dev | seeds | with its document (least to most) | − {beside} (95 %)"
    yield f"| {header} | foreign − true | none − true |{' of all, choices |' if chooses else ''}"
    yield f"| --- | ---: | --- | --- | --- | --- |{' --- |' if chooses else ''}"
    for name, seeds in trained.items():
        if not seeds:
            continue
        baseline = trained[baselines[name]]
        cells = [name, str(len(seeds)), spread([one["nll"] for one in seeds.values()]), *[""] * (4 if chooses else 3)]
        if baselines[name] != name:
            cells[3] = over_seeds([one["nll"] - baseline[seed]["nll"] for seed, one in seeds.items()], 4)
        for column, other in ((4, "nll_foreign"), (5, "nll_none")):
            if all(other in one for one in seeds.values()):
                cells[column] = over_seeds([one[other] - one["nll"] for one in seeds.values()], 4)
        if chooses:
            cells[6] = spread([one["choice"] for one in seeds.values()])
        yield f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|"


def change(one: Mapping[str, float]) -> str:
    """Difference of the means over seeds, its interval and p."""
    text = f"{one['difference']:+.2f} ({one['low']:+.2f} to {one['high']:+.2f}), p {one['p_value']:.3f}"
    return text.replace("-", "−")


def reranked(kept: Path, metric: str) -> Iterator[str]:
    """A table of what language models choose among ten translations, all tests together first."""
    yield (
        f"| {metric} | best | sentence − best | document − best | document − sentence | document, true − none "
        "| document, true − foreign |"
    )
    yield f"| --- | ---: |{' --- |' * 5}"
    order = ("tests", "unseen")
    for path in sorted(
        find(kept / "rerank", "*/document.json"),
        key=lambda path: (path.parts[-2] not in order, path.parts[-2] == order[1], path),
    ):
        read = {name: json.loads(read_text(path.parent / f"{name}.json")) for name in COMPARED}
        cells = [path.parts[-2].removesuffix("_ende")]
        for name, kind in (*((name, "paired") for name in COMPARED), ("document", "foreign")):
            one = score_of(read[name][kind], metric)
            cells.append(change(one))
            if name == "document" and kind == "paired":
                cells.insert(1, f"{one['other']:.2f}")
        yield f"| {' | '.join(cells)} |"


def by_part(kept: Path) -> Iterator[str]:
    """A table of the systems of choice.yaml on the lines of the tests that are not in training, and on each set."""
    yield "| s-BLEU | lines | document − sentence | pieces − sentence | document − pieces | document, true − foreign |"
    yield "| --- | ---: | --- | --- | --- | --- |"
    kinds = (("document", "paired"), ("pieces", "paired"), ("document-pieces", "paired"), ("document", "foreign"))
    folders = {path.parent for path in find(kept / "choice/parts", "*/document-pieces.json")}
    for folder in sorted(folders, key=lambda folder: (folder.name != "unseen", folder.name)):
        read = {name: json.loads(read_text(folder / f"{name}.json")) for name, _ in kinds}
        cells = (change(score_of(read[name][kind], "s-BLEU")) for name, kind in kinds)
        yield f"| {folder.name.removesuffix('_ende')} | {read['document']['sentences']:,} | {' | '.join(cells)} |"


def repaired(kept: Path) -> Iterator[str]:
    """A table of mended translations beside what was to be mended, all tests and unseen lines."""
    metrics = ("s-BLEU", "d-BLEU", "chrF")
    yield f"| lines | system | {' | '.join(f'{metric} | − first' for metric in metrics)} |"
    yield f"| --- | --- |{' ---: | --- |' * len(metrics)}"
    for part in ("tests", "unseen"):
        for system in ("sentence", "document", "group"):
            scores = json.loads(read_text(kept / "repair" / part / f"{system}.json"))["paired"]["metrics"]
            by = {one["metric"]: one for one in scores}
            if system == "sentence":
                yield f"| {part} | first | " + " ".join(f"{by[metric]['other']:.2f} | |" for metric in metrics)
            cells = (f"{by[metric]['system']:.2f} | {change(by[metric])}" for metric in metrics)
            yield f"| {part} | {system} | {' | '.join(cells)} |"


#: Comparisons of reranking, in the order of the table's columns.
COMPARED = ("sentence", "document", "document-sentence", "document-none")
#: The baseline of each system, by study, in the order of the tables.
BASELINES = {
    "composition": {
        "sentence": "sentence", "document": "sentence", "sentence-composed": "sentence-composed",
        "document-composed": "sentence-composed",
    },
    "batches": dict.fromkeys(("sentence", "sentence-documents", "document", "document-pieces"), "sentence"),
    "lm": {"sentence": "sentence", "document": "sentence"},
    "fusion": dict.fromkeys(("add", "concat", "concat-addition"), "add"),  # of ../fusion_translation
    "choice": {
        "sentence": "sentence", "sentence-choice": "sentence", "sentence-pieces": "sentence",
        "document": "sentence-pieces", "document-choice": "sentence-pieces",
    },
    "docrepair": dict.fromkeys(("sentence", "document", "group"), "sentence"),
}  # fmt: skip
#: Where systems have several baselines: what these have in common.
BESIDE = {"composition": "sentence, same text", "choice": "sentence, same batches"}


def main() -> None:
    """Print the tables, an empty line between two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path)
    kept = parser.parse_args().kept
    tables = [oracle(kept)]
    for study, baselines in BASELINES.items():
        if find(kept / study, "*/*/model/train.jsonl"):
            tables.append(systems(kept, study, baselines))
        if study == "lm" and find(kept / "rerank", "*/document.json"):
            tables += [reranked(kept, metric) for metric in ("s-BLEU", "chrF")]
        if study == "docrepair" and find(kept / "repair", "*/group.json"):
            tables.append(repaired(kept))
    if find(kept / "choice/parts", "*/document-pieces.json"):
        tables.append(by_part(kept))
    print("\n\n".join("\n".join(table) for table in tables))


if __name__ == "__main__":
    main()
