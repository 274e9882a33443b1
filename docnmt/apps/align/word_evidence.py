"""Evidence of words for sentence alignment: names, numbers, signs and cognates are similar on both sides.

The evidence for a pair of sentences is the log of how many times as probable the target's words are beside the source's
as by themselves; a word of a translation is one of the source's with a small probability, and any word otherwise.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from docnmt.apps.align.aligned_side import AlignedSide

_WORD = re.compile(r"\w+|[^\w\s]")
#: Number of equal initial letters of similar words (Simard et al. 1992 take four). This and the next number
#: were chosen on documents of docmix's training part.
_ALIKE = 5
#: Probability that a word of a translation begins like one of the source.
_SHARE = 0.05
#: Upper bound of the evidence of one word.
_MOST = 5.0


def words_of(texts: Sequence[str]) -> list[Counter[str]]:
    """Count each sentence's words and signs, by their initial letters and without case."""
    return [Counter(word[:_ALIKE] for word in _WORD.findall(text.casefold())) for text in texts]


def word_evidence(source: AlignedSide, target: AlignedSide) -> np.ndarray:
    """Return evidence (n, m), float32, for `docnmt.apps.align.beads.align`."""
    here, there = words_of(source.texts), words_of(target.texts)
    counts = sum(there, Counter[str]())
    total = max(counts.total(), 1)
    places: dict[str, list[int]] = defaultdict(list)
    for j, words in enumerate(there):
        for word in words:
            places[word].append(j)
    none = np.log(1 - _SHARE)
    found = np.tile(np.array([none * len(words) for words in there], dtype=np.float32), (len(here), 1))
    for i, words in enumerate(here):
        for word in words.keys() & counts.keys():
            alike = _SHARE * words[word] / words.total()
            gain = np.log(1 - _SHARE + alike * total / counts[word])
            found[i, places[word]] += min(gain, _MOST) - none
    return found
