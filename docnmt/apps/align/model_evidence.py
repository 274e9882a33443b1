"""Evidence of a translation model for sentence alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from docnmt.apps.align.align import AlignedSide, Bead
from docnmt.apps.commands.models import LoadedModels
from docnmt.core.corpus import ParallelCorpus, TokenArray
from docnmt.core.search.forced import token_log_probs

#: Number of sentences before and after those of a first alignment that are also compared.
REACH = 3
#: Upper bound of a model's evidence for a pair.
_MOST = 10.0

#: A function that returns log p(target | source) of pairs of sentences, each by itself.
Score = Callable[[Sequence[str], Sequence[str]], Sequence[float]]


def model_evidence(source: AlignedSide, target: AlignedSide, beads: Sequence[Bead], score: Score) -> np.ndarray:
    """Return evidence (n, m), float32, for `align`: for the source that explains a target sentence best of all near
    it in `beads`, a first alignment, its lead over the second best. Other pairs get no evidence:
    unrelated sentences differ by chance, and a path through many of them would accumulate it."""
    pairs = sorted(_near(beads, len(source.texts), len(target.texts)))
    scores = score([source.texts[i] for i, _ in pairs], [target.texts[j] for _, j in pairs])
    by_target: dict[int, list[tuple[float, int]]] = {}
    for (i, j), value in zip(pairs, scores, strict=True):
        by_target.setdefault(j, []).append((value, i))
    evidence = np.zeros((len(source.texts), len(target.texts)), dtype=np.float32)
    for j, near in by_target.items():
        if len(near) > 1:
            second, best = sorted(near)[-2:]
            evidence[best[1], j] = min(best[0] - second[0], _MOST)
    return evidence


def _near(beads: Sequence[Bead], n: int, m: int) -> set[tuple[int, int]]:
    """Return the pairs of sentences at most `REACH` away from a place on the path of beads."""
    pairs: set[tuple[int, int]] = set()
    i = j = 0
    for bead in beads:
        pairs |= {
            (s, t)
            for s in range(max(i - REACH, 0), min(i + REACH + 1, n))
            for t in range(max(j - REACH, 0), min(j + REACH + 1, m))
        }
        i, j = i + len(bead.source), j + len(bead.target)
    return pairs


def scorer(loaded: LoadedModels, max_tokens: int = 8000) -> Score:
    """Return a function that sums a model's log-probabilities, with each pair as a document of its own."""
    task = loaded.task

    def score(sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        corpus = ParallelCorpus.from_lines([[text] for text in sources], task.source_tokenizer)
        tokens = task.target_tokenizer.encode(list(targets))
        target = TokenArray.from_lists(tokens, task.target_tokenizer.vocab_size)
        log_probs = token_log_probs(loaded.models, task, replace(corpus, target=target), max_tokens=max_tokens)
        return [float(each.sum()) for each in log_probs]

    return score
