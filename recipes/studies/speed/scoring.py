"""What scoring costs, and what finding the reference's sentences again costs in accuracy.

    python recipes/studies/speed/scoring.py speed REFERENCE [--lines 10000]
    python recipes/studies/speed/scoring.py consistency REFERENCE --src SOURCE
    python recipes/studies/speed/scoring.py resegment REFERENCE [--sys FILE] [--noise 0 0.3 0.6] [--one-document]

REFERENCE has a sentence a line and empty lines between documents. Systems are FILE, or the reference with noise: of its
words a share replaced, dropped or followed by another, and blocks of words moved. `speed` prints processor time in
seconds. `consistency` is the lexical consistency of one system. `resegment` joins the lines of every document (or of
all of them, as one), has `docnmt.core.scoring.text_files` divide them, and compares the scores with those of the true
lines.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from docnmt.core.scoring.consistency import learn_lexicon, lexical_consistency
from docnmt.core.scoring.metrics import evaluate_systems, paired_bootstrap
from docnmt.core.scoring.text_files import divide, mweralign, read_layout

T = TypeVar("T")


def noisy(sentences: Sequence[str], share: float, seed: int) -> list[str]:
    """Sentences with so many of their words changed, and one or two blocks moved in most; 0 changes nothing."""
    rng = random.Random(seed)
    vocabulary = " ".join(sentences).split()

    def words(sentence: str) -> list[str]:
        kept: list[str] = []
        for word in sentence.split():
            draw = rng.random() / share if share else 2
            kept += {0: [rng.choice(vocabulary)], 1: [], 2: [word, rng.choice(vocabulary)]}.get(int(3 * draw), [word])
        for _ in range(rng.randint(0, 2) if share and len(kept) > 4 else 0):
            begin = rng.randrange(len(kept) - 1)
            block = kept[begin : (end := begin + rng.randint(1, 3))]
            del kept[begin:end]
            to = rng.randint(0, len(kept))
            kept[to:to] = block
        return kept

    return [" ".join(words(sentence)) for sentence in sentences]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Processor time in seconds, and what came of it."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def speed(reference: Path, lines: int) -> None:
    """One system, two with a bootstrap, and TER."""
    layout = read_layout(reference)
    sentences = layout.sentences[:lines]
    offsets = np.unique(np.minimum(layout.document_offsets, len(sentences)))
    systems = [noisy(sentences, share, seed) for seed, share in enumerate((0.4, 0.5))]
    print(f"{len(sentences):,} lines in {len(offsets) - 1:,} documents; seconds of processor time")
    seconds, _ = timed(lambda: evaluate_systems(systems[:1], [sentences], offsets))
    print(f"{seconds:6.1f}  s-BLEU, d-BLEU, chrF")
    seconds, scores = timed(lambda: evaluate_systems(systems, [sentences], offsets))
    more, _ = timed(lambda: paired_bootstrap(*scores, samples=1000))
    print(f"{seconds + more:6.1f}  the same of two systems, with 1,000 bootstrap samples")
    seconds, _ = timed(lambda: evaluate_systems(systems[:1], [sentences], offsets, metrics=("TER",)))
    print(f"{seconds:6.1f}  TER")


def consistency(reference: Path, source: Path) -> None:
    """The lexicon, and what one system and the reference have of it."""
    layout = read_layout(source)
    sources, target, offsets = layout.sentences, layout.align(reference), layout.document_offsets
    seconds, lexicon = timed(lambda: learn_lexicon(sources, target))
    systems = {"system": noisy(target, 0.4, seed=0), "reference": target}
    more, results = timed(lambda: [lexical_consistency(sources, lines, offsets, lexicon) for lines in systems.values()])
    print(f"{len(sources):,} lines; {seconds:.1f} s for the lexicon, {more:.1f} s for the pairs")
    for name, result in zip(systems, results, strict=True):
        print(f"{name}: {result}")


def resegment(reference: Path, system: Path | None, shares: Sequence[float], one_document: bool) -> None:
    """Scores of the true lines, what dividing adds to them, and how many lines are found exactly."""
    layout, align = read_layout(reference), mweralign()
    sentences = layout.sentences
    offsets = (0, len(sentences)) if one_document else layout.document_offsets
    print(f"{len(sentences):,} lines in {len(offsets) - 1:,} documents")
    systems = {f"noise {share}": noisy(sentences, share, seed=1) for share in shares}
    if system is not None:
        systems = {str(system): layout.align(system)}
    for name, true in systems.items():
        spans = list(pairwise(offsets))
        seconds, pieces = timed(
            lambda: [divide(" ".join(filter(None, true[a:b])), sentences[a:b], align) for a, b in spans]  # noqa: B023
        )
        divided = [line for document in pieces for line in document]
        before, after = evaluate_systems([true, divided], [sentences], offsets)
        bleu, chrf = ((before.scores[name], after.scores[name]) for name in ("s-BLEU", "chrF"))
        same = sum(map(str.__eq__, true, divided))
        print(
            f"{name}: s-BLEU {bleu[0]:.2f} {bleu[1] - bleu[0]:+.2f}, chrF {chrf[0]:.2f} "
            f"{chrf[1] - chrf[0]:+.2f}, {same:,} of {len(divided):,} lines exact, {seconds:.1f} s"
        )
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "consistency", "resegment"))
    parser.add_argument("reference", type=Path)
    parser.add_argument("--src", type=Path, help="of consistency")
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--sys", type=Path, help="a translation, line by line, instead of noise")
    parser.add_argument("--one-document", action="store_true")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.3, 0.6])
    options = parser.parse_args()
    if options.what == "speed":
        speed(options.reference, options.lines)
    elif options.what == "consistency":
        consistency(options.reference, options.src)
    else:
        resegment(options.reference, options.sys, options.noise, options.one_document)


if __name__ == "__main__":
    main()
