"""What words say about which sentences belong together: names, numbers, signs and cognates are alike on both sides.

For each pair of sentences the log of how many times as probable the target's words are beside the source's as by
themselves, where a word of a translation is one of the source's with a small probability and any of the text otherwise.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from docnmt.apps.align.aligned_side import Side

_WORD = re.compile(r"\w+|[^\w\s]")
#: Words are alike if so many characters at their beginning are (Simard et al. 1992 take four). This and the next number
#: were chosen on documents of docmix's training part.
_ALIKE = 5
#: How probable it is that a word of a translation begins like one of the source.
_SHARE = 0.05
#: The most that one word can say.
_MOST = 5.0


def words_of(texts: Sequence[str]) -> list[Counter[str]]:
    """How often each word or sign, by its beginning and without case, stands in each sentence."""
    return [Counter(word[:_ALIKE] for word in _WORD.findall(text.casefold())) for text in texts]


def word_evidence(source: Side, target: Side) -> np.ndarray:
    """(n, m) float32 as `docnmt.apps.align.beads.align` takes it."""
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
