"""Is one checkout slower than another? Trainings and searches of both, at once, each on a core of its own, in turns.

    python recipes/studies/speed/checkouts.py OLD NEW --text FOLDER --keep checkouts.jsonl [--rounds 3] [--only WORDS]
    python recipes/studies/speed/checkouts.py --table checkouts.jsonl

FOLDER has train.en, train.de, dev.en and dev.de. A round runs the same command in both checkouts, with much work and
with little, and takes the difference of the processor seconds: what starting and loading cost goes out. Cores are
swapped after each round. The active environment serves both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_TRAIN = "train {to}/%s --save-dir {to}/%s --overwrite --seed 1 --position-fusion add --lr 0.0005 --max-update {n} "
_TRAIN += "--validate-interval-updates 100000 --arch "
_SEARCH = "generate {to}/%s --path {to}/%s --gen-subset test --scoring none --min-len 20 --max-len-a 0 --max-len-b 24 "
_SEARCH += "--gen-first {n} "
_BOTH = "--context-sides both --target-context conditional"
#: Of each row: the command, and much work and little: updates or documents. Searches use the models of the trainings.
ROWS = {
    "training, `transformer_small`": (_TRAIN % ("plain", "s") + "transformer_small --max-tokens 2000", 18, 1),
    "training, `transformer_small --bf16`": (
        _TRAIN % ("plain", "s16") + "transformer_small --max-tokens 2000 --bf16", 30, 1,
    ),
    "training, `hier_cond_transformer_small --bf16`": (
        _TRAIN % ("plain", "h") + "hier_cond_transformer_small --max-tokens 2000 --bf16", 18, 1,
    ),
    "training, `cond_transformer_tiny`, 120 sentences": (
        _TRAIN % ("long", "c120") + "cond_transformer_tiny --max-tokens 4000", 36, 1,
    ),
    "training, `cond_transformer_tiny`, 12 sentences": (
        _TRAIN % ("short", "c12") + "cond_transformer_tiny --max-tokens 4000", 36, 1,
    ),
    "training, `hier_cond_transformer_tiny --merge mean`, 120 sentences": (
        _TRAIN % ("long", "t") + "hier_cond_transformer_tiny --merge mean --max-tokens 4000", 36, 1,
    ),
    "training, `scaleformer_tiny --relative-horizon 16`": (
        _TRAIN % ("short", "l") + "scaleformer_tiny --relative-horizon 16 --max-tokens 4000", 36, 1,
    ),
    "training, `cond_transformer_small`, target context": (
        _TRAIN % ("short", "b") + f"cond_transformer_small {_BOTH} --max-tokens 2000", 18, 1,
    ),
    "search, `transformer_small`, beam 5": (_SEARCH % ("plain", "s") + "--beam 5", 15, 1),
    "search, `transformer_small`, `--int8`": (_SEARCH % ("plain", "s") + "--beam 5 --int8", 15, 1),
    "search, `transformer_small`, `--bf16`": (_SEARCH % ("plain", "s") + "--beam 5 --bf16", 15, 1),
    "search, `transformer_small`, sampling": (_SEARCH % ("plain", "s") + "--generator sampling", 15, 1),
    "search, `hier_cond_transformer_small`, beam 5": (_SEARCH % ("plain", "h") + "--beam 5", 15, 1),
    "search, target context, greedy": (_SEARCH % ("short", "b") + "--generator greedy", 40, 1),
    "search, target context, beam 5": (_SEARCH % ("short", "b") + "--beam 5", 40, 1),
    "search, `scaleformer_tiny`, beam 5": (_SEARCH % ("short", "l") + "--beam 5", 40, 1),
}  # fmt: skip


def seconds(command: str, trees: list[Path], work: Path, *, swapped: bool) -> list[float]:
    """Processor seconds of a command in the old and in the new checkout, which run at once."""
    running = []
    for core, tree in enumerate(trees):
        words = command.format(to=work / str(core)).split()
        python = ["taskset", "-c", str(core ^ swapped), sys.executable, "-m", f"docnmt.cli.{words[0]}"]
        environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
        with (work / f"{core}.log").open("w") as log:
            process = subprocess.Popen([*python, *words[1:]], env=environment, stdout=log, stderr=log)
        running.append(process)
    spent = []
    for core, process in enumerate(running):
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"error: {trees[core]}: {(work / f'{core}.log').read_text(encoding='utf-8')[-800:]}")
        spent.append(usage.ru_utime + usage.ru_stime)
    return spent


def prepare(text: Path, trees: list[Path], work: Path) -> None:
    """Data folders of documents as they are, of 12 and of 120 sentences."""
    for name, length, vocabulary in (("plain", 0, 8000), ("short", 12, 4000), ("long", 120, 4000)):
        for split, most in (("train", 4800), ("dev", 480)):
            for language in ("en", "de"):
                content = (text / f"{split}.{language}").read_text(encoding="utf-8")
                if length:
                    lines = [line for line in content.splitlines() if line.strip()][:most]
                    documents = ["\n".join(lines[n : n + length]) for n in range(0, len(lines), length)]
                    content = "\n\n".join(documents) + "\n"
                (work / f"{name}-{split}.{language}").write_text(content, encoding="utf-8")
        files = f"--trainpref {work}/{name}-train --validpref {work}/{name}-dev --testpref {work}/{name}-dev"
        command = f"preprocess -s en -t de {files} --destdir {{to}}/{name} --vocab-size {vocabulary}"
        seconds(command, trees, work, swapped=False)


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown: the median of new / old, and every round."""
    lines = ["| | new / old | rounds |", "| --- | ---: | --- |"]
    for row in rows:
        ratios = [new / old for old, new in row["json"]]
        lines.append(f"| {row['file']} | {statistics.median(ratios):.2f} | {', '.join(f'{x:.2f}' for x in ratios)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs="*", metavar="CHECKOUT", help="the old one and the new one")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--keep", type=Path, help="each row is appended to this file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows with these words, and the trainings that they need")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text(encoding="utf-8").splitlines()]))
        return
    if len(options.trees) != 2 or options.text is None or options.keep is None:
        parser.error("expected OLD NEW --text FOLDER --keep FILE, or --table FILE")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for core in ("0", "1"):
            (work / core).mkdir()
        prepare(options.text, options.trees, work)
        for name, (command, much, little) in ROWS.items():
            measured = options.only in name
            if not measured and command.startswith("generate"):
                continue
            rounds = []
            for number in range(options.rounds if measured else 1):
                amounts = [command.replace("{n}", str(n)) for n in ((much, little) if measured else (little,))]
                spent = [seconds(words, options.trees, work, swapped=number % 2 == 1) for words in amounts]
                rounds.append([round(a - b, 2) for a, b in zip(spent[0], spent[-1], strict=True)])
            if measured:
                with options.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"file": name, "json": rounds}, ensure_ascii=False) + "\n")
                print(table([{"file": name, "json": rounds}]).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
