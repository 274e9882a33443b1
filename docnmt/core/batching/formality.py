"""Tags for forms of address: an entry of the vocabulary before a source sentence tells the model which one to use."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from docnmt.core.corpus import ParallelCorpus, TokenArray, offsets_of
from docnmt.core.data.random_draws import uniform
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.core.formats.address import AddressRule, Form
from docnmt.runtime.errors import UsageError

#: The tags, which `docnmt-preprocess --user-defined-symbols` adds to a vocabulary.
TAGS: dict[Form, str] = {"formal": "<formal>", "informal": "<informal>"}
_NONE, _FORMS = -1, tuple(TAGS)


def tag_numbers(tokenizer: Tokenizer) -> dict[Form, int]:
    """Return the numbers of `TAGS` in a vocabulary.

    Raises:
        UsageError: the vocabulary lacks one.
    """
    entries = tokenizer.vocabulary()
    if missing := [tag for tag in TAGS.values() if tag not in entries]:
        lacks, quoted = " and no ".join(missing), " ".join(map(repr, TAGS.values()))
        raise UsageError(
            f"--formality-share: the vocabulary has no {lacks}; preprocess with --user-defined-symbols {quoted}"
        )
    return {form: entries.index(tag) for form, tag in TAGS.items()}


def in_form(corpus: ParallelCorpus, form: Form, tokenizer: Tokenizer) -> ParallelCorpus:
    """Return the corpus with the tag of `form` before every source sentence that has words."""
    return _with_tags(corpus, np.full(corpus.num_sentences, tag_numbers(tokenizer)[form]))


def in_given_form(
    corpus: ParallelCorpus, given: Sequence[str | None], tokenizer: Tokenizer, language: str
) -> ParallelCorpus:
    """Return the corpus with a tag for the form of the last given translation before each sentence, in its document.

    Before the first one with a form, sentences have its form; in a document without any, they have no tag.
    """
    rule, numbers = AddressRule(language), tag_numbers(tokenizer)
    forms: list[Form | None] = [None if text is None else rule.form(text) for text in given]
    tags = np.empty(corpus.num_sentences, dtype=np.int64)
    for begin, end in pairwise(corpus.document_offsets.tolist()):
        form = next((each for each in forms[begin:end] if each is not None), None)
        for place in range(begin, end):
            form = forms[place] or form
            tags[place] = _NONE if form is None else numbers[form]
    return _with_tags(corpus, tags)


def note_formless(corpus: ParallelCorpus, told: ParallelCorpus) -> str | None:
    """Return a note on the documents to which `in_given_form` gave no form; None if each has one.

    Args:
        corpus, told: before and after it.
    """
    tagged = told.source.lengths() > corpus.source.lengths()
    pairs = pairwise(corpus.document_offsets.tolist())
    without = sum(not tagged[begin:end].any() for begin, end in pairs)
    if not without:
        return None
    found = f"{without:,} of {corpus.num_documents:,} documents"
    return f"note: --formality given: nothing given in {found} has a form of address; the model chooses it there"


@dataclass(frozen=True)
class ToldForms:
    """Adds tags for the form of address to training text.

    Attributes:
        share: of the documents; in each, either all sentences or none get tags.
        language: of the target. seeds: of the draws, which also depend on the document's number.
    """

    share: float
    language: str
    seeds: tuple[int, ...]

    def tell(self, corpus: ParallelCorpus, tokenizer: Tokenizer) -> ParallelCorpus:
        """Return the corpus with the form of each target sentence before its source, in the documents drawn.

        A sentence without a form gets the one of the nearest sentence with one in its document: so a tag does not
        demand a form where none belongs, and imperatives, whose form no word shows, have one. One with both forms gets
        no tag.
        """
        if not self.share:
            return corpus
        drawn = uniform(self.seeds, np.arange(corpus.num_documents)) < self.share
        forms = np.where(np.repeat(drawn, np.diff(corpus.document_offsets)), target_forms(corpus, self.language), _NONE)
        numbers = np.array([*tag_numbers(tokenizer).values(), _NONE])
        return _with_tags(corpus, numbers[forms])


@functools.lru_cache(maxsize=4)  # for the corpora of a run, used again in every epoch
def target_forms(corpus: ParallelCorpus, language: str) -> np.ndarray:
    """Return each target sentence's form (S,), or its nearest neighbour's, as a place in `TAGS`; -1: none."""
    rule = AddressRule(language)
    texts: Sequence[str] = corpus.references[0]
    found = [rule.form(text) for text in texts]
    forms = np.array([_NONE if form is None else _FORMS.index(form) for form in found], dtype=np.int64)
    mixed = np.array([form is None and rule.speaks(text) for form, text in zip(found, texts, strict=True)], dtype=bool)
    known = np.flatnonzero(forms != _NONE)
    if not len(known):
        return forms
    here = np.arange(len(forms))
    document = np.repeat(np.arange(corpus.num_documents), np.diff(corpus.document_offsets))
    after = np.searchsorted(known, here)
    before = known[np.maximum(after - 1, 0)]
    after = known[np.minimum(after, len(known) - 1)]
    far = 2 * len(forms)
    distances = [np.where(document[each] == document, np.abs(each - here), far) for each in (before, after)]
    nearest = np.where(distances[0] <= distances[1], before, after)
    return np.where(mixed | (np.minimum(*distances) == far), _NONE, forms[nearest])


def _with_tags(corpus: ParallelCorpus, tags: np.ndarray) -> ParallelCorpus:
    """Return the corpus with a token (S,) before each source sentence; -1: none.

    A sentence without words has none, so that its translation is empty as without a form.
    """
    source = corpus.source
    told = np.flatnonzero((tags != _NONE) & (source.lengths() > 0))
    words = np.asarray(source.at(slice(None)))
    tokens = np.insert(words, np.asarray(source.offsets)[told], tags[told].astype(words.dtype))
    lengths = source.lengths()
    lengths[told] += 1
    return replace(corpus, source=TokenArray(tokens, offsets_of(lengths)))
