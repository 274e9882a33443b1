"""Beam search of one model by docnmt and by other toolkits that are installed: CTranslate2, Hugging Face transformers.

    OMP_NUM_THREADS=1 python recipes/studies/speed/decoding.py [--width 512] [--batch-size 32 64 128]
    OMP_NUM_THREADS=1 python recipes/studies/speed/decoding.py --path runs/one --text test.en --ref test.de

An untrained sentence `transformer` over a made-up vocabulary is exported by docnmt-convert, and every toolkit writes
`--subwords` for each of the same sentences; with `--path` a trained model stops where it likes. Each toolkit works in a
process of its own, with one thread, cuts the text before the clock starts, sorts sentences by length as it does best,
and gets the batch size that was its fastest in a trial. Then they take turns. Rates are by processor time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from peers import Apart, in_turns, installed, random_model, ratio, sentences, spread
from translators import Pieces, Task, ctranslate2, docnmt, marian

from docnmt.apps.convert.convert import convert
from docnmt.apps.options import ConvertConfig
from docnmt.core.training.checkpoint import load_model
from docnmt.modules.linear_layers import BFloat16Linear, EightBitLinear, multiplies_bfloat16, multiplies_eight_bits
from docnmt.runtime.system import UserError

OURS, OURS_INT8, OURS_BF16 = "docnmt", "docnmt --int8", "docnmt --bf16"
CT2, INT8, MARIAN = "CTranslate2", "CTranslate2 int8", "Hugging Face Marian"


def exported(model: Path, form: str, name: str, folder: Path) -> Path | None:
    """The model in another form; if it has none, says so."""
    try:
        convert(ConvertConfig(input=str(model), output=str(folder), to=form), lambda line: None)  # type: ignore[arg-type]
    except UserError as error:
        print(f"{name}: left out: {error}", flush=True)
        return None
    return folder


def opened(model: Path, folder: Path, task: Task) -> dict[str, Apart]:
    """The toolkits that are there and can express the model."""
    toolkits = {OURS: Apart(partial(docnmt, None), model, task)}
    if multiplies_eight_bits():
        toolkits[OURS_INT8] = Apart(partial(docnmt, EightBitLinear), model, task)
    if multiplies_bfloat16():
        toolkits[OURS_BF16] = Apart(partial(docnmt, BFloat16Linear), model, task)
    if installed("ctranslate2", CT2) and (ct2 := exported(model, "ctranslate2", CT2, folder / "ct2")):
        toolkits[CT2] = Apart(partial(ctranslate2, "float32"), ct2, task)
        toolkits[INT8] = Apart(partial(ctranslate2, "int8"), ct2, task)
    if installed("transformers", MARIAN) and (hf := exported(model, "hf-marian", MARIAN, folder / "marian")):
        toolkits[MARIAN] = Apart(marian, hf, task)
    return toolkits


def fastest(toolkit: Apart, sizes: Sequence[int]) -> int:
    """The batch size of the shortest trial; a call before them warms up."""
    toolkit("translate", sizes[0])
    return min(sizes, key=lambda size: toolkit("translate", size)[0])


def bleu(model: Path, reference: Path, count: int) -> Callable[[Pieces], str]:
    """BLEU of translations in subwords."""
    import sacrebleu

    task: Any = load_model(model).task
    number = {piece: n for n, piece in enumerate(task.target_tokenizer.vocabulary())}
    lines = reference.read_text(encoding="utf-8").splitlines()
    right = [line for line in lines if line.strip()][:count]

    def score(translations: Pieces) -> str:
        texts = [task.target_tokenizer.decode([number[piece] for piece in pieces]) for pieces in translations]
        return f"{sacrebleu.corpus_bleu(texts, [right]).score:.2f}"

    return score


def compare(toolkits: dict[str, Apart], task: Task, sizes: Sequence[int], repeats: int, score: Any) -> None:
    """Print the table."""
    best = {name: fastest(toolkit, sizes) for name, toolkit in toolkits.items()}
    translations: dict[str, Pieces] = {}

    def once(name: str, _: int) -> float:
        seconds, translations[name] = toolkits[name]("translate", best[name])
        return seconds

    seconds = in_turns({name: partial(once, name) for name in toolkits}, repeats)
    print(f"| toolkit | batch | sentences a second | {OURS}'s time by its time | translations as {OURS}'s | BLEU |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, taken in seconds.items():
        pairs = zip(translations[OURS], translations[name], strict=True)
        alike = sum(ours == theirs[: task.subwords] for ours, theirs in pairs)
        rate = spread([len(task.lines) / cost for cost in taken], 1)
        print(f"| {name} | {best[name]} | {rate} | {ratio(seconds[OURS], taken)} | {alike / len(task.lines):.0%} | "
              f"{score(translations[name]) if score else '–'} |", flush=True)  # fmt: skip


def main() -> None:
    """Parse and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=3, help="of encoder and decoder each [3]")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--subwords", type=int, default=25, help="of each translation; sources vary around it [25]")
    parser.add_argument("--sentences", type=int, default=256, help="how many are translated [256]")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--repeats", type=int, default=3, help="rounds, after the trials and a round to warm up [3]")
    parser.add_argument("--path", type=Path, metavar="CKPT", help="a trained sentence model instead; needs --text")
    parser.add_argument("--text", type=Path, metavar="FILE", help="its source; empty lines are left out")
    parser.add_argument("--ref", type=Path, metavar="FILE", help="the translation of --text: adds BLEU")
    options = parser.parse_args()
    if bool(options.path) != bool(options.text) or (options.ref and not options.path):
        parser.error("--path and --text come together, and --ref with them")
    with tempfile.TemporaryDirectory() as name:
        folder, model, length = Path(name), options.path, options.subwords
        if model is None:
            model = folder / "own"
            random_model(model, options.vocabulary, options.layers, options.width)
            around = (max(3 * length // 5, 1), 7 * length // 5)
            task = Task(sentences(options.sentences, options.vocabulary, around, 1), options.beam, length)
        else:
            lines = [line for line in options.text.read_text(encoding="utf-8").splitlines() if line.strip()]
            task = Task(lines[: options.sentences], options.beam, None)
        score = bleu(model, options.ref, len(task.lines)) if options.ref else None
        toolkits = opened(model, folder, task)
        try:
            compare(toolkits, task, options.batch_size, options.repeats, score)
        finally:
            for toolkit in toolkits.values():
                toolkit.end()


if __name__ == "__main__":
    main()
