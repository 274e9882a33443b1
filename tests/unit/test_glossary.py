"""Glossaries: which terms stand in a sentence, and that translations keep to them."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_system
import torch
from decoding import run
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.core.corpus import ParallelCorpus, TextArray, TokenArray, offsets_of
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.generators import BeamSearch, Slot
from docnmt.core.search.glossary import Glossary, TermFinder, Terms, asked_terms
from docnmt.core.search.translate import TranslationMemory, with_memory
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, UNK
from docnmt.runtime.system import UserError

WORDS = 12
FIRST = MASK + 1


@pytest.mark.parametrize(
    ("sentence", "targets"),
    [
        ("A cat.", ["Katze"]),
        ("CAT, cat and Cats", ["Katze"]),
        ("concat cat_ 3cat", []),
        ("the machine  translation of a machine", ["Maschinenübersetzung", "Maschine"]),
        ("an sap SAP", ["SAP SE"]),
        ("C++ and (C++)", ["C-Plusplus"]),
        ("日本語の猫が好き", ["Katze"]),
        ("a maſ, a machıne", ["Mas", "Maschine"]),
        ("", []),
    ],
)
def test_terms_are_whole_words(sentence: str, targets: list[str]) -> None:
    names = ["cat:Katze", "machine:Maschine", "machine translation:Maschinenübersetzung", "SAP:SAP SE", "mas:Mas"]
    terms = dict(name.split(":") for name in [*names, "C++:C-Plusplus", "猫:Katze"])
    assert Glossary(terms).found(sentence) == targets


def test_terms_that_begin_otherwise_take_no_time() -> None:
    """A pattern of 20,000 terms was tried at each of 60,000 characters."""
    glossary = Glossary({f"word{n} and": str(n) for n in range(20_000)} | {"日本語": "ja", "(c)": "©"})
    begun = time.process_time()
    assert glossary.found("and " * 5000 + "word7 and 日本語 (C)" + " another" * 5000) == ["7", "ja", "©"]
    assert time.process_time() - begun < 3


@pytest.mark.parametrize(
    ("fixed", "targets"),
    [([], ["Katze"]), ([(4, 9)], []), ([(0, 4), (4, 9)], []), ([(5, 7)], ["Katze"]), ([(9, 12)], ["Katze"])],
)
def test_a_term_inside_of_what_is_fixed_is_none(fixed: list[tuple[int, int]], targets: list[str]) -> None:
    text = "see {cat} now"
    assert Glossary({"cat": "Katze"}).found(text, fixed) == targets
    assert Glossary({"cat": "Katze"}).found(f"{text} cat", fixed) == ["Katze"]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("cat\tKatze\n\nthe  dog\tder Hund\ncat\tKatze\n", encoding="utf-8")
    assert Glossary.read(path).terms == {"cat": "Katze", "the dog": "der Hund"}
    for line, message in (("cat\tKater", ":5: 'cat' .*'Kater'.*'Katze'.*4"), ("cat", ":5: ")):
        path.write_text(f"cat\tKatze\n\nthe dog\tder Hund\ncat\tKatze\n{line}\n", encoding="utf-8")
        with pytest.raises(UserError, match=message):
            Glossary.read(path)
    with pytest.raises(UserError):
        Glossary.read(tmp_path / "nothing")
    assert Glossary({}).found("a") == []
    with pytest.raises(UserError, match="'the dog' is 'der Hund' and 'Hund'"):
        Glossary.of({"the dog": "der Hund", "the  dog": "Hund"})


def test_what_cannot_be_written_is_said() -> None:
    with pytest.raises(UserError, match="'Ω'"):
        TermFinder(Glossary({"cat": "Ω", "dog": "cat"}), small_system.tokenizer())
    with pytest.raises(UserError, match="--generator"):
        asked_terms(GenerationConfig(generator="sampling"), small_system.tokenizer(), Glossary({"cat": "dog"}))
    assert asked_terms(GenerationConfig(), small_system.tokenizer()) is None


class Chain:
    """A state of a model whose next token depends on the last one only."""

    def reorder(self, rows: torch.Tensor) -> None: ...

    def append(self, other: Chain) -> None: ...


def search(
    table: torch.Tensor, slots: list[Slot], beam: int, nbest: int = 1, **options: float
) -> list[list[tuple[int, ...]]]:
    config = BeamSearchConfig(beam=beam, nbest=nbest, **options)  # type: ignore[arg-type]
    results = run(lambda tokens, state: table[tokens], lambda new: Chain(), BeamSearch(config), slots)
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in results]


def holds(tokens: tuple[int, ...], term: tuple[int, ...]) -> bool:
    return any(tokens[n : n + len(term)] == term for n in range(len(tokens)))


token = st.integers(FIRST, FIRST + WORDS - 1)
term = st.lists(token, min_size=1, max_size=3).map(tuple)


@settings(max_examples=60)
@given(st.lists(st.lists(term, max_size=3).map(lambda x: tuple(dict.fromkeys(x))), min_size=1, max_size=4),
       st.integers(1, 5), st.integers(0, 99))  # fmt: skip
def test_every_hypothesis_has_all_terms_and_others_stay(
    wanted: list[tuple[tuple[int, ...], ...]], beam: int, seed: int
) -> None:
    table = 3 * torch.randn(FIRST + WORDS, FIRST + WORDS, generator=torch.Generator().manual_seed(seed))
    joins = torch.zeros(FIRST + WORDS, dtype=torch.bool)
    slots = [
        Slot(n, (5 + sum(map(len, terms)),), terms=Terms({0: terms}, joins) if terms else None)
        for n, terms in enumerate(wanted)
    ]
    constrained = search(table, slots, beam, nbest=beam)
    plain = search(table, [Slot(n, slot.limits) for n, slot in enumerate(slots)], beam, nbest=beam)
    for terms, hypotheses, free, slot in zip(wanted, constrained, plain, slots, strict=True):
        assert hypotheses
        for tokens in hypotheses:
            assert tokens[-1] == EOS
            assert len(tokens) <= slot.limits[0]
            assert not {BOS, BRK, MASK} & set(tokens)
            for phrase in terms:
                assert holds(tokens, phrase)
        if not terms:
            assert hypotheses == free
    if len(wanted) > 1:  # a text does not depend on its neighbours
        assert search(table, slots[:1], beam, nbest=beam) == constrained[:1]


def test_with_every_hypothesis_alive_the_best_with_the_term_is_found() -> None:
    """All texts of at most three tokens, scored by hand."""
    vocabulary, size = range(FIRST, FIRST + 3), FIRST + 3
    table = 2 * torch.randn(size, size, generator=torch.Generator().manual_seed(3))
    table[:, UNK] = -50.0
    wanted = (FIRST + 2, FIRST)
    allowed = torch.log_softmax(table.float(), -1)
    best = max(
        (
            sum(float(allowed[a, b]) for a, b in zip((BOS, *text), (*text, EOS), strict=True)) / (len(text) + 1),
            (*text, EOS),
        )
        for text in [wanted, *((a, *wanted) for a in vocabulary), *((*wanted, a) for a in vocabulary)]
    )
    terms = Terms({0: (wanted,)}, torch.zeros(size, dtype=torch.bool))
    assert search(table, [Slot(0, (4,), terms=terms)], 40)[0][0] == best[1]


def test_greedy_search_writes_its_text_before_a_term_that_it_would_not_write() -> None:
    """The model writes a b; the term is c d, whose tokens it never takes by itself."""
    a, b, c, d = range(FIRST, FIRST + 4)
    table = torch.full((FIRST + WORDS, FIRST + WORDS), -9.0)
    for before, token in ((BOS, a), (a, b), (b, EOS), (c, b), (d, EOS)):
        table[before, token] = 0.0
    terms = Terms({0: ((c, d),)}, torch.zeros(FIRST + WORDS, dtype=torch.bool))
    assert search(table, [Slot(0, (9,), terms=terms)], 1) == [[(a, b, c, d, EOS)]]


def test_a_term_may_begin_inside_of_one_that_was_broken_off() -> None:
    """Of a a a b the last three are the term a a b."""
    a, b = FIRST, FIRST + 1
    terms = Terms({0: ((a, a, b),)}, torch.zeros(FIRST + WORDS, dtype=torch.bool))
    progress = terms.begin()
    for number, token in enumerate((a, a, a, b)):
        progress = progress.after(token)
        assert progress.begun == ((a,), (a, a), (a, a), ())[number]
    assert (progress.left, progress.ended) == ((), True)


# A translation memory: what it finds, and how it stands before a document.


def corpus(documents: list[list[list[int]]], name: str) -> ParallelCorpus:
    """Sentences given as subwords; their text is `name` and their number."""
    sentences = [sentence for document in documents for sentence in document]
    lengths = np.array([len(document) for document in documents])
    texts = [f"{name}{n}" for n in range(len(sentences))]
    return ParallelCorpus(
        document_offsets=offsets_of(lengths),
        blank_lines=np.ones(len(documents) + 1, dtype=np.int32),
        levels=np.tile(np.arange(len(sentences), dtype=np.int32)[:, None], (1, 2)),
        source=TokenArray.from_lists(sentences, 100),
        target=None,
        source_text=TextArray.from_lines(texts),
        references=[TextArray.from_lines(text.upper() for text in texts)],
    )


def weights(sentence: list[int], documents: Counter[object], size: int) -> dict[object, float]:
    """tf-idf of subwords and pairs of them."""
    counts = Counter([*sentence, *itertools.pairwise(sentence)])
    return {run: (1 + np.log(n)) * np.log1p(size / documents[run]) for run, n in counts.items() if documents[run]}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_similar_sentences_are_those_of_largest_cosine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sentences = [rng.integers(0, 40, rng.integers(1, 9)).tolist() for _ in range(60)]
    memory = TranslationMemory(corpus([sentences], "m"), count=3)
    runs = Counter(run for s in sentences for run in {*s, *itertools.pairwise(s)})
    for _ in range(20):
        asked = rng.integers(0, 40, 6).tolist()
        ours = {run: np.log1p(60 / runs[run]) for run in {*asked, *itertools.pairwise(asked)} if runs[run]}
        ours = {run: value for run, value in ours.items() if runs[run] <= 10}  # frequent ones are not looked up
        scores = []
        for n, sentence in enumerate(sentences):
            theirs = weights(sentence, runs, 60)
            common = ours.keys() & theirs.keys()
            norm = sum(value**2 for value in theirs.values()) ** 0.5
            if common:
                scores.append((-sum(ours[run] * theirs[run] for run in common) / norm, n))
        expected = [n for _, n in sorted((round(score, 9), n) for score, n in scores)[:3]]
        assert memory.similar(np.array(asked)) == expected


def test_memory_stands_before_each_document_and_is_given() -> None:
    memory = TranslationMemory(corpus([[[50, 51], [60, 61]], [[70, 71]]], "m"), count=1)
    text = corpus([[[50, 51, 2], [3, 4]], [[60, 61], [70, 71]]], "s")
    joined, given, numbers = with_memory(text, ["S0", None, None, None], memory)
    assert numbers.tolist() == [-1, 0, 1, -1, -1, 2, 3]
    assert given == ["M0", "S0", None, "M2", "M1", None, None]
    assert joined.document_offsets.tolist() == [0, 3, 7]
    assert joined.levels[:, 0].tolist() == [-1, 0, 1, -1, -1, 2, 3]
    assert [joined.source[n].tolist() for n in (0, 1)] == [[50, 51], [50, 51, 2]]
    foreign = with_memory(text, None, replace(memory, foreign=True))
    assert foreign[1] == ["M2", "M1", None, None, "M0", None, None]


def test_terms_of_each_sentence_of_a_joined_text() -> None:
    table = 3 * torch.randn(FIRST + WORDS, FIRST + WORDS, generator=torch.Generator().manual_seed(1))
    first, second = ((FIRST, FIRST + 1),), ((FIRST + 5,), (FIRST + 7, FIRST + 7))
    terms = Terms({0: first, 2: second}, torch.zeros(FIRST + WORDS, dtype=torch.bool))
    for beam in (1, 3):
        tokens = search(table, [Slot(0, (7, 4, 8), terms=terms)], beam)[0][0]
        parts: list[tuple[int, ...]] = [()]
        for number in tokens:
            parts[-1] += (number,)
            if number in (BRK, EOS):
                parts.append(())
        assert len(parts) == 4
        assert all(holds(parts[0], phrase) for phrase in first)
        assert all(holds(parts[2], phrase) for phrase in second)


def test_a_term_stays_a_word() -> None:
    size = FIRST + 3
    table = torch.zeros(size, size)
    table[FIRST, FIRST + 1] = 9.0  # the term wants to go on
    joins = torch.zeros(size, dtype=torch.bool)
    for forbidden in (False, True):
        joins[FIRST + 1] = forbidden
        tokens = search(table, [Slot(0, (6,), terms=Terms({0: ((FIRST,),)}, joins))], 2)[0][0]
        assert holds(tokens, (FIRST, FIRST + 1)) is not forbidden
        assert FIRST in tokens
