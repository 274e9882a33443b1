"""The table of docs/results/index.md: each claim with its number, read or computed from docs/measured.

python tools/claims.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "recipes" / name) for name in ("fusion_matters", "discourse")]

import measured  # noqa: E402
from kept_tables import printed, tables  # noqa: E402

KEPT = ROOT / "docs" / "measured"


@cache
def read(path: str) -> Any:  # whatever the study wrote there
    """A JSON file inside a kept file."""
    return measured.read_json(KEPT / path)


def right(system: str, questions: str = "true-context", kept: str = "discourse") -> float:
    """Right answers in percent of a system of the discourse corpus."""
    return float(read(f"{kept}.jsonl/{system}.json")["contrastive"][questions]["accuracy"])


def span(*values: float, digits: int = 1) -> str:
    """`98.9 to 100.0`, or the one number."""
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def cell(command: str, table: int, row: str, *columns: str) -> list[str]:
    """Cells of a table that a command prints, by the beginning of the row and the titles of the columns."""
    lines = [[c.strip() for c in line[1:-1].split("|")] for line in tables(printed(command))[table - 1].splitlines()]
    found = next(line for line in lines if " | ".join(line).startswith(row))
    return [found[lines[0].index(column)] for column in columns]


def copied(path: str, row: str, column: int) -> str:
    """A cell of a table that was copied from the output of a run."""
    return next(line[column] for line in read(path)["rows"] if line[0].startswith(row))


def dialogue(system: str, given: str, value: str) -> float:
    """Of DiaBLa, seed 1."""
    rows = [r for r in map(json.loads, (KEPT / "dialogue.jsonl").read_text(encoding="utf-8").splitlines()) if (r.get("set"), r.get("system")) == ("diabla", system)]
    return float(next(r[value] for r in rows if r["given"] == given and r["seed"] == 1))


FUSION = "python recipes/fusion_matters/summary.py docs/measured/fusion.jsonl.xz"
TRANSLATION = "python recipes/fusion_translation/fusion_translation.py docs/measured/fusion-translation.json"
LENGTHS = "python recipes/scaleformer/lengths.py docs/measured/scaleformer.json"
LEARNING = "python recipes/discourse/learning_time.py docs/measured/learning.json --most 3000"
INFERLITE = "python recipes/inferlite/differences.py --results docs/measured/inferlite.jsonl.xz/stopped/results"
DOCMIX = "python tools/results_table.py docs/measured/docmix.jsonl --systems sentence concat document"
SEEN = "python recipes/manual/seen_tables.py docs/measured/seen.jsonl"


def delta(command: str, table: int, row: str, column: int) -> str:
    """A difference that stands in the column of that number."""
    line = next(line for line in tables(printed(command))[table - 1].splitlines() if line.startswith(f"| {row}"))
    return line.split("|")[column + 1].strip().replace("-", "−")


def docmix() -> str:
    """The range of s-BLEU differences of the document model to the sentence model."""
    lines = [line for line in tables(printed(DOCMIX))[3].splitlines() if "| document | sentence |" in line]
    found = [re.split(r" \| ", line)[3].split(" ")[0] for line in lines]
    return f"{min(found, key=float)} to {max(found, key=float)} on {len(found)} sets".replace("-", "−")


def memory(corpus: str) -> str:
    """A memory without a model on all lines and on unseen ones."""
    found = [read(f"memory.jsonl/{corpus}/{part}.json")["s-BLEU"] for part in ("all lines", "unseen lines")]
    return f"{found[0]:.1f}; unseen {found[1]:.1f}"


def seen(corpus: str) -> str:
    """The share of test lines that are seen, and of documents below a tenth."""
    row = read(f"seen.jsonl/{corpus}/test.json")
    lines = 100 * row["lines seen"] / row["lines"]
    return f"{lines:.0f} % of lines; {row['documents below a tenth seen']} of {row['documents']} documents below a tenth"


#: Page, claim, the number, seeds, the command that measures, the kept file.
CLAIMS: list[tuple[str, str, Callable[[], str], str, str, str]] = [
    ("real", "test lines of the PHP manual that are in training", lambda: seen("manual"), "–", "recipes/manual/seen.py", "seen.jsonl"),
    ("real", "… of LibreOffice's help", lambda: seen("help"), "–", "recipes/manual/seen.py", "seen.jsonl"),
    ("real", "pointer to a memory, manual, unseen lines: s-BLEU, sentence model 52.58", lambda: copied("real.jsonl/manual-lines.json", "lines that", 2), "2", "recipes/manual/run.sh", "real.jsonl"),
    ("real", "help, 53 pages: memory of .8 or more, else sentence model; pointer", lambda: "; ".join(copied("real.jsonl/help-memory.json", row, 1) for row in ("matches of .8", "copy")), "1", "not repeated", "real.jsonl"),
    ("real", "a memory without a model, help: s-BLEU", lambda: memory("help"), "–", "recipes/manual/memory_alone.py", "memory.jsonl"),
    ("real", "pointer with half of each manual page given", lambda: copied("real.jsonl/desk-manual.json", "50 %", 3), "2", "recipes/manual/run.sh", "real.jsonl"),
    ("discourse", "models that select sentences: right, %, 10 to 16 sentences", lambda: span(*(right(s) for s in ("hier_cond", "hier_cond-2", "hier_cond-3"))), "3", "recipes/discourse/run.sh", "discourse.jsonl"),
    ("discourse", "… behind 2,048 sentences (90 questions)", lambda: span(*(right(s, "2048-sentences") for s in ("hier_cond", "hier_cond-2", "hier_cond-3"))), "3", "recipes/discourse/run.sh", "discourse.jsonl"),
    ("discourse", "… with another document's context; chance 41.7", lambda: span(*(right(s, "foreign-context") for s in ("hier_cond", "hier_cond-2", "hier_cond-3"))), "3", "recipes/discourse/run.sh", "discourse.jsonl"),
    ("discourse", "look-up of the most similar sentence, nothing trained", lambda: f"{read('retrieval.jsonl/similar/contrastive.json')['right']:.1f}", "–", "recipes/discourse/retrieval.py", "retrieval.jsonl"),
    ("discourse", "attention to all words, untuned", lambda: span(right("doc"), right("doc-sinusoidal"), right("scaleformer"), right("scaleformer-relative")), "1", "recipes/discourse/run.sh", "discourse.jsonl"),
    ("discourse", "equal start: a random one takes so many times the updates", lambda: " ".join(f"({c})" if "to" in c else c for c in cell(LEARNING, 2, "random : equal", "updates", "95 %")), "3", "recipes/discourse/learning.sh", "learning.json"),
    ("discourse", "one or two sentences a word: right, %", lambda: f"{right('t-1', 'true-context', 'ablation'):.1f}; {right('t-2', 'true-context', 'ablation'):.1f}", "1", "recipes/ablation/run.sh", "ablation.jsonl"),
    ("discourse", "a tenth of the boundaries moved or merged at test", lambda: "; ".join(f"{right('right', name, 'boundaries'):.1f}" for name in ("move-0.1", "merge-0.1")), "1", "recipes/discourse/boundaries.sh", "boundaries.jsonl"),
    ("docmix", "document − sentence model after an hour: s-BLEU", docmix, "1", "recipes/docmix/run.sh", "docmix.jsonl"),
    ("dialogue", "*tu* or *vous* as the reference, first third given: document, sentence model, %", lambda: "; ".join(f"{dialogue(s, 'third', 'agreement'):.2f}" for s in ("both", "sentence")), "1", "recipes/dialogue/run.sh", "dialogue.jsonl"),
    ("fusion", "`gate_scalar` − `add`, AG News: points", lambda: delta(FUSION, 1, "`gate_scalar`", 2), "10", "recipes/fusion_matters/run.sh", "fusion.jsonl.xz"),
    ("fusion", "… IMDB", lambda: delta(FUSION, 1, "`gate_scalar`", 4), "5", "recipes/fusion_matters/run.sh", "fusion.jsonl.xz"),
    ("fusion", "no position − `add`, AG News", lambda: delta(FUSION, 1, "no position (", 2), "10", "recipes/fusion_matters/run.sh", "fusion.jsonl.xz"),
    ("fusion", "at the notebooks' setting, AG News: `gate_vector` − `add`", lambda: delta(FUSION, 2, "`gate_vector`", 2), "10", "recipes/fusion_matters/run.sh", "fusion.jsonl.xz"),
    ("fusion", "… a gate that sees no position", lambda: delta(FUSION, 2, "control: `gate_content`", 2), "10", "recipes/fusion_matters/run.sh", "fusion.jsonl.xz"),
    ("fusion", "translation: `concat` − `add`, nats", lambda: delta(TRANSLATION, 1, "multi_level.concat", 5), "3", "recipes/fusion_translation/run.sh", "fusion-translation.json"),
    ("fusion-order", "which mark is first: relative − `add`, points", lambda: delta(FUSION, 3, "which of two", 1), "3", "recipes/fusion_matters/run.sh", "fusion.jsonl.xz"),
    ("attention", "relative positions, horizon 4: right at twice and four times the length, %", lambda: "; ".join(cell(LENGTHS, 1, "r-4 ", "2 L: right, %", "4 L: right, %")), "3", "recipes/scaleformer/run.sh", "scaleformer.json"),
    ("attention", "… absolute positions", lambda: "; ".join(cell(LENGTHS, 1, "absolute", "2 L: right, %", "4 L: right, %")), "3", "recipes/scaleformer/run.sh", "scaleformer.json"),
    ("inferlite", "training on NLI − untrained: similarity, points", lambda: "{} ({})".format(*cell(INFERLITE, 2, "glove,1 − untrained,1", "points", "95 %")), "3", "recipes/inferlite/run.sh", "inferlite.jsonl.xz"),
    ("inferlite", "… classification", lambda: "{} ({})".format(*cell(INFERLITE, 1, "glove,1 − untrained,1", "points", "95 %")), "3", "recipes/inferlite/run.sh", "inferlite.jsonl.xz"),
]  # fmt: skip


def main() -> None:
    """Print the table."""
    print("| claim | number (95 %) | seeds | measured by | kept in |\n| --- | --- | ---: | --- | --- |")
    for page, claim, number, seeds, command, kept in CLAIMS:
        print(f"| [{claim}]({page}.md) | {number()} | {seeds} | `{command}` | `{kept}` |")


if __name__ == "__main__":
    main()
