"""Translations of a corpus, in its order, and the scores of given ones.

`translate_corpus`: corpus → memory's sentences before it (`with_memory`) → `Job` → `Scheduler` → `Translation`
`token_log_probs`: corpus with targets → units (`forced_batches`) → the forward pass of training → (n+1,) a sentence
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from docnmt.core.batch import (
    TranslationBatch,
    collate,
    last_sentence_units,
    plan_batches,
    planned_units,
    source_costs,
    unit_sizes,
)
from docnmt.core.corpus import ParallelCorpus, TextArray, TokenArray, offsets_of, ranges
from docnmt.core.models.encoder_decoder import AnyTranslationModel, TranslationTask
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.generators import Hypothesis, Prefix
from docnmt.core.search.glossary import Glossary, TermFinder, asked_terms
from docnmt.core.search.scheduler import Job, Scheduler
from docnmt.core.tokenizer import Tokenizer, tag_of
from docnmt.core.units import Units
from docnmt.functional.loss import label_log_probs
from docnmt.modules.attention import CrossAttention, SelfAttention
from docnmt.modules.document_context import SourceContext
from docnmt.modules.layers import FeedForward
from docnmt.registry import GENERATORS
from docnmt.runtime import jobs as ranks
from docnmt.runtime.languages import unspaced
from docnmt.runtime.launch import obtainable_memory
from docnmt.runtime.system import UserError, printable

if TYPE_CHECKING:
    from docnmt.core.scoring.discourse import ForcedExample

# Translation memories: sentence pairs of other documents that resemble a document and are read before it.

#: Sentences are compared by runs of up to this many subwords.
_RUN = 2
#: A run that occurs in more than this share of the memory's sentences is not looked up.
_FREQUENT = 0.05


@dataclass(frozen=True, eq=False)
class TranslationMemory:
    """Finds the memory's source sentences that share the rarest runs of subwords, by cosine of tf-idf vectors."""

    corpus: ParallelCorpus  # with references
    count: int = 2  # sentences read for each sentence of a document
    foreign: bool = False  # give each document the sentences found for the next one, as a control experiment

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Runs (K,), begins of their entries (K+1,), and sentence and weight of each entry."""
        runs, sentences = _runs(self.corpus.source)
        paired = self.corpus.has_partner(sentences)
        runs, sentences = runs[paired], sentences[paired]
        order = np.lexsort((sentences, runs))
        runs, sentences = runs[order], sentences[order]
        first = np.flatnonzero(np.r_[True, (np.diff(runs) != 0) | (np.diff(sentences) != 0)][: len(runs)])
        count = np.diff(np.r_[first, len(runs)])  # how often the sentence has the run
        runs, sentences = runs[first], sentences[first]
        keys, begins, entries = np.unique(runs, return_index=True, return_counts=True)
        idf = np.log1p(len(self.corpus.source) / entries)
        weights = (1 + np.log(count)) * np.repeat(idf, entries)
        norms = np.sqrt(np.bincount(sentences, weights**2, minlength=len(self.corpus.source)))
        weights *= np.repeat(idf, entries) / np.maximum(norms[sentences], 1e-12)
        return keys, np.r_[begins, len(runs)], sentences, weights

    def similar(self, tokens: np.ndarray) -> list[int]:
        """The `count` most similar sentences, best first, ties in order; fewer if few share a run."""
        keys, begins, sentences, weights = self._index
        if not len(keys):  # no sentence of the memory has a translation
            return []
        wanted = np.unique(_runs(TokenArray(tokens, np.array([0, len(tokens)])))[0])
        shared = np.searchsorted(keys, wanted)
        shared = shared[(shared < len(keys)) & (keys[np.minimum(shared, len(keys) - 1)] == wanted)]
        sizes = begins[shared + 1] - begins[shared]
        shared = shared[sizes <= max(_FREQUENT * len(self.corpus.source), 10)]
        if not len(shared):
            return []
        entries = np.concatenate([np.arange(begins[run], begins[run + 1]) for run in shared])
        sharing, where = np.unique(sentences[entries], return_inverse=True)
        best = np.lexsort((sharing, -np.bincount(where, weights[entries])))[: self.count]
        return [int(sentence) for sentence in sharing[best]]


def _runs(text: TokenArray) -> tuple[np.ndarray, np.ndarray]:
    """Subwords and runs of `_RUN` subwords as numbers, and the sentence of each."""
    tokens, lengths = np.asarray(text.tokens).astype(np.int64), np.diff(np.asarray(text.offsets))
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    together = sentences[1:] == sentences[:-1]
    pairs = ((tokens[:-1] + 1) << 32) + tokens[1:]
    return np.r_[tokens, pairs[together]], np.r_[sentences, sentences[1:][together]]


def with_memory(
    corpus: ParallelCorpus, given: Sequence[str | None] | None, memory: TranslationMemory
) -> tuple[ParallelCorpus, list[str | None], np.ndarray]:
    """The corpus with the memory's similar sentences before each document, their translations as given; and for each
    sentence of it its number in `corpus`, or -1. References and raw text are left out.

    Each is inserted once per document; the most similar ones come last, nearest to the document.
    """
    translations = memory.corpus.references[0]
    documents = list(pairwise(corpus.document_offsets.tolist()))
    if memory.foreign and len(documents) == 1:
        raise UserError("--memory-context foreign: there is only one document; give several, --input-format corpus")
    numbers: list[int] = []
    tokens: list[np.ndarray] = []
    known: list[str | None] = []
    lengths = []
    for document, (begin, end) in enumerate(documents):
        asked = range(*documents[(document + memory.foreign) % len(documents)])
        ranked = [memory.similar(corpus.source[n]) for n in asked]
        best_first = (similar[rank] for rank in range(memory.count) for similar in ranked if rank < len(similar))
        before = list(dict.fromkeys(best_first))[::-1]
        numbers += [-1] * len(before) + list(range(begin, end))
        tokens += [memory.corpus.source[n] for n in before] + [corpus.source[n] for n in range(begin, end)]
        known += [translations[n] for n in before]
        known += [None] * (end - begin) if given is None else given[begin:end]
        lengths.append(len(before) + end - begin)
    rows = np.array(numbers, dtype=np.int64)
    longer = replace(
        corpus,
        document_offsets=offsets_of(np.array(lengths, dtype=np.int64)),
        levels=np.where(rows[:, None] < 0, -1, corpus.levels[rows]).astype(corpus.levels.dtype),
        source=TokenArray(
            np.concatenate([corpus.source.tokens[:0], *tokens]), offsets_of(np.array(list(map(len, tokens))))
        ),
        target=None,
        source_text=TextArray.from_lines([]),
        references=[],
    )
    return longer, known, rows


# The memory check: refuse, beforehand, what cannot fit.

#: Texts longer than this many subwords get a warning that softmax attention takes quadratic time.
LONG_TEXT = 4_000


def check_memory(job: Job) -> None:
    """Refuse a document, before anything is translated, whose translation must run out of memory; warn on stderr of a
    text so long that its quadratic time matters.
    """
    if not job.corpus.num_sentences:
        return
    width = GENERATORS.get(job.options.generator)(job.search, job.device).width
    needs = []  # of each model: bytes at the least, and of the unit that needs them noun, first sentence and subwords
    for model, plan, units in zip(job.models, job.plans, job.units, strict=True):
        costs = source_costs(job.corpus, units)
        longest = int(costs.argmax())
        first, last = int(units.first[longest]), int(units.last[longest])
        written = int(job.lengths[first:last].sum()) if plan.joined else 0
        # encoding holds the inner activations twice, decoding the keys and values of each hypothesis, besides copies
        inner, source, target = _sizes(model)
        numbers = max(2 * inner * int(costs[longest]), source * int(costs[longest]) + target * width * written)
        least = next(model.parameters()).element_size() * numbers
        needs.append((least, plan.noun, first, int(costs[longest])))
    least, available = sum(need[0] for need in needs), None
    if job.device.type == "cuda":
        available = torch.cuda.mem_get_info(job.device)[0] + torch.cuda.memory_reserved(job.device)
    elif job.device.type == "cpu":
        available = obtainable_memory()
    parts = "--context-window N takes it in parts" if job.plans[0].whole_documents else "divide it"
    if available is not None and least > available:
        _, noun, first, cost = max(needs)
        raise UserError(
            f"{_named(job, noun, first, cost)} takes at least {least / 1e9:,.1f} GB of memory, and "
            f"{available / 1e9:,.1f} can be had on {job.device}; {parts}"
        )
    firsts, first_kept = job.texts.T
    total = np.concatenate([[0], np.cumsum(job.lengths)])
    lengths = total[np.append(first_kept, len(job.lengths))[1:]] - total[firsts]  # source subwords of each text
    longest = int(lengths.argmax())
    if lengths[longest] > LONG_TEXT and any(_sizes(model)[2] for model in job.models):
        parts = parts if job.plans[0].joined else "divide it"
        text = _named(job, "text", int(firsts[longest]), int(lengths[longest]))
        print(f"warning: {text} is written at once, which takes quadratic time; {parts}", file=sys.stderr)


def _named(job: Job, noun: str, first: int, length: int) -> str:
    """A unit's name for messages: `the document that begins with 'Once upon', 900 subwords,`."""
    texts = job.corpus.source_text  # empty if a memory's sentences are among them
    begins = f"'{printable(texts[first][:40])}'" if len(texts) else f"sentence {first + 1:,}"
    return f"the {noun} that begins with {begins}, {length:,} subwords,"


def _sizes(model: AnyTranslationModel) -> tuple[int, int, int]:
    """How many numbers an inner activation has, and the keys and values of each source and each written word."""
    inner = source = target = 0
    if not isinstance(model, nn.Module):  # a plug-in's own
        return inner, source, target
    for module in model.modules():
        if isinstance(module, FeedForward):
            inner = max(inner, module.inner.out_features)
        elif isinstance(module, CrossAttention):
            source += 2 * module.heads * module.d_head
        elif isinstance(module, SelfAttention) and module.causal:
            target += 2 * module.heads * module.d_head
    for module in getattr(model, "decoder", model).modules():
        if isinstance(module, SourceContext) and module.attention.policy is not None:  # others keep summaries only
            source += 2 * module.attention.heads * module.attention.d_head
    return inner, source, target


# Given translations and prefixes, which are not searched, as tokens.


def given_tokens(given: Sequence[str | None] | None, sentences: int, tokenizer: Tokenizer) -> dict[int, list[int]]:
    """The tokens of the given target sentences by sentence number; None: of this sentence, or of all, none is given."""
    if given is None:
        return {}
    if len(given) != sentences:
        raise ValueError(f"given: expected an entry for each of {sentences} sentences, got {len(given)}")
    texts = {number: text for number, text in enumerate(given) if text is not None}
    return dict(zip(texts, tokenizer.encode(list(texts.values())), strict=True))


def _prefixes_of(texts: Sequence[str | None] | None, tokenizer: Tokenizer, device: torch.device) -> dict[int, Prefix]:
    """The prefixes of translations by sentence number; no token goes on with a whole word in which one ends."""
    wanted = {number: text.strip() for number, text in enumerate(texts or ()) if text is not None and text.strip()}
    if not wanted:
        return {}
    begin = 0 if tag_of(tokenizer) is None else 1  # the slot has the tag
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    joining = torch.tensor([n for n, piece in enumerate(pieces) if piece[:1].isalnum()], device=device)
    whole = {number for number, text in wanted.items() if text[-1].isalnum() and not unspaced(text[-1])}
    encoded = zip(wanted.items(), tokenizer.encode(list(wanted.values())), strict=True)
    return {n: Prefix(tuple(tokens[begin:]), joining if n in whole else None, text) for (n, text), tokens in encoded}


def first_of_documents(references: Sequence[str], document_offsets: Sequence[int], share: float) -> list[str | None]:
    """The first floor(share * n) references of each document of n sentences; None for others and empty ones."""
    given: list[str | None] = [None] * len(references)
    for begin, end in pairwise(document_offsets):
        last = begin + int(Decimal(str(share)) * (end - begin))  # 0.29 of 100 is 29; of floats it would be 28
        given[begin:last] = [text or None for text in references[begin:last]]
    return given


# Translation of a corpus: the one path of validation BLEU, `docnmt-generate` and `docnmt-translate`.


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence.

    Its score is the natural log-probability of the subwords and `</s>` (`<brk>` inside a joined unit), divided by their
    number ** lenpen. A prescribed tag of the language is certain and not counted.
    """

    text: str  # detokenised, without spaces at its ends
    pieces: tuple[str, ...]  # its subwords without `</s>`
    score: float
    piece_scores: tuple[float, ...]  # natural log-probability of each piece
    explanation: Any = None  # what was read for it, if requested, from `docnmt.apps.explain`
    limited: bool = False  # it ends at the length limit (`max_len_a`, `max_len_b`): its end may be missing

    @classmethod
    def of_given(cls, text: str, tokenizer: Tokenizer) -> Translation:
        """A given translation, which is not searched and so has probability 1."""
        pieces = tuple(tokenizer.pieces(tokenizer.encode([text])[0]))
        return cls(text, pieces, 0.0, (0.0,) * len(pieces))

    @property
    def reads(self) -> Any:
        """For each piece, the sentences that each head of each layer read, with weights; None if not requested."""
        return None if self.explanation is None else self.explanation.reads


@dataclass(frozen=True)
class SentenceResult:
    """The translations of one source sentence, best first; in a joined unit, its parts of the unit's translations."""

    number: int
    nbest: tuple[Translation, ...]

    @property
    def text(self) -> str:
        return self.nbest[0].text


@torch.inference_mode()
def translate_corpus(
    models: Sequence[AnyTranslationModel],
    task: TranslationTask,
    corpus: ParallelCorpus,
    options: GenerationConfig,
    search: SearchConfig | None = None,
    *,
    given: Sequence[str | None] | None = None,
    prefixes: Sequence[str | None] | None = None,
    memory: TranslationMemory | None = None,
    context_window: int | None = None,
    glossary: Glossary | None = None,
    fixed: Sequence[Sequence[tuple[int, int]]] | None = None,
    before: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Iterator[SentenceResult]:
    """Translate the sentences of a corpus that are not given: yield a result for each, in order, as they are ready.

    Args:
        models: one, or several whose probabilities are averaged; all in evaluation mode, on one device.
        search: the generator's own options; None takes their defaults.
        given: for each sentence its translation or None. Later sentences are written as if the models had written it.
        prefixes: for each sentence the words with which its translation begins, or None. They are certain, like given
            translations, and count nowhere.
        memory: sentences of other documents that are put before each document, with their translations as given.
        context_window: the most sentences of the document that are read before and after a sentence.
        glossary: terms that the translations of searched sentences must keep to; None: that of `options`.
        fixed: for each sentence its parts in which no terms are looked for, in order.
        before: number of sentences of the same text translated before this corpus; random streams continue from there.
        progress: called with a number of source subwords (`</s>` included) of the corpus whenever they are done.
    """
    search = GENERATORS.config(options.generator)() if search is None else search
    finished: dict[int, list[Hypothesis]] = {}
    job, own_numbers = job_of(
        models, task, corpus, options, search, finder=asked_terms(options, task.target_tokenizer, glossary),
        given=given, prefixes=prefixes, fixed=fixed, memory=memory, window=context_window, before=before,
        progress=progress, deliver=finished.__setitem__,
    )  # fmt: skip

    def results(ranges: Sequence[tuple[int, int]]) -> Iterator[SentenceResult]:
        """Search the sentences of these ranges that are not given; yield each, in order, once it is `finished`."""
        scheduler = Scheduler(job.models, job.options, job.search)
        scheduler.submit(job, ranges)
        for number in chain.from_iterable(range(first, last) for first, last in ranges):
            if number in job.given:
                continue
            while number not in finished and scheduler.jobs:
                scheduler.step()
            if number not in finished:
                raise RuntimeError(f"sentence {number + 1} went in and no translation came out; the model gave no </s>")
            tokenizer, prefix = task.target_tokenizer, job.prefixes.get(number)
            nbest = tuple(translation(hypothesis, tokenizer, prefix) for hypothesis in finished.pop(number))
            yield SentenceResult(int(own_numbers[number]), nbest)

    if ranks.world() == 1:
        yield from results(list(job.ranges()))
        return
    parts = job.chains()  # each is translated by one rank
    sizes = [int(job.lengths[part[0][0] : part[-1][1]].sum()) for part in parts]
    yield from chain.from_iterable(ranks.shared_out(sizes, lambda n: list(results(parts[n]))))


def job_of(
    models: Sequence[AnyTranslationModel], task: TranslationTask, corpus: ParallelCorpus, options: GenerationConfig,
    search: SearchConfig, *, finder: TermFinder | None, given: Sequence[str | None] | None,
    prefixes: Sequence[str | None] | None = None,
    fixed: Sequence[Sequence[tuple[int, int]]] | None = None, memory: TranslationMemory | None, window: int | None,
    before: int = 0, progress: Callable[[int], object] | None = None,
    deliver: Callable[[int, list[Hypothesis]], object],
) -> tuple[Job, np.ndarray]:  # fmt: skip
    """The job that translates a corpus, with the memory's sentences before its documents, and for each of its sentences
    the number in `corpus`, or -1. See `translate_corpus` and `Job`."""
    own_numbers = np.arange(corpus.num_sentences)
    terms = None if finder is None else finder.of(corpus.source_text, fixed)
    if memory is not None:
        corpus, given, own_numbers = with_memory(corpus, given, memory)
    corpus = replace(corpus, target=None)  # where documents are cut must not depend on the reference
    tokens = given_tokens(given, corpus.num_sentences, task.target_tokenizer)
    begun = _prefixes_of(prefixes, task.target_tokenizer, next(models[0].parameters()).device)
    begins = {n: begun[number] for n, number in enumerate(own_numbers.tolist()) if number in begun}
    numbers = np.where(own_numbers < 0, np.iinfo(np.int64).max, own_numbers)
    streams = np.minimum.accumulate(numbers[::-1])[::-1]  # of a memory's sentence: that of the next one after it
    job = Job(
        models, task, corpus, options, search, given=tokens, prefixes=begins, window=window,
        terms=None if terms is None else terms.renumbered(own_numbers.tolist()),
        streams=before + streams, asked=own_numbers >= 0, progress=progress, deliver=deliver,
    )  # fmt: skip
    check_memory(job)
    return job, own_numbers


def translation(hypothesis: Hypothesis, tokenizer: Tokenizer, prefix: Prefix | None = None) -> Translation:
    """The hypothesis as text, which begins with that of `prefix`, also with what no subword writes."""
    text = hypothesis.text(tokenizer)
    written = "" if prefix is None else tokenizer.decode(prefix.tokens).strip()
    if prefix is not None and text.startswith(written) and written != prefix.text:
        rest = text[len(written) :]
        text = prefix.text + (f" {rest.lstrip()}" if rest[:1].isspace() else rest)
    return Translation(
        text=text,
        pieces=tuple(tokenizer.pieces(hypothesis.tokens[:-1])),
        score=hypothesis.score,
        piece_scores=hypothesis.token_scores[:-1],
        limited=hypothesis.limited,
    )


# Forced scoring: log-probabilities of existing translations, in one pass over both sides, without search.

#: Upper bounds of what a rank scores at a time: examples, and their sentences with contexts (ContraPro has hundreds
#: per example).
_EXAMPLES, _SENTENCES = 1 << 11, 1 << 16


@torch.inference_mode()
def token_log_probs(
    models: Sequence[AnyTranslationModel],
    task: TranslationTask,
    corpus: ParallelCorpus,
    *,
    max_tokens: int,
    context_window: int | None = None,
    last_only: bool = False,
) -> list[np.ndarray]:
    """Natural log-probabilities (n+1,) of each sentence's target subwords and its end, given the prefix.

    Several models are averaged; those that read translations read those of the corpus.

    Args:
        max_tokens: subwords of a batch's longer side; a larger unit is a batch by itself.
        context_window: the most sentences of the document that are read before and after a sentence.
        last_only: score only each document's last sentence; it ends its unit, which has as many sentences before it as
            the model can read. All other sentences are NaN.
    """
    assert corpus.target is not None
    offsets = offsets_of(corpus.target.lengths() + 1)
    by_model = np.full((len(models), int(offsets[-1])), np.nan)
    for scores, model in zip(by_model, models, strict=True):
        batches = forced_batches(
            model, task, corpus, max_tokens=max_tokens, context_window=context_window, last_only=last_only
        )
        for units, batch in batches:
            rows = torch.arange(len(batch.labels), device=batch.labels.device)[batch.labels >= 0]
            log_probs = label_log_probs(model(batch), model.output, batch.labels, rows).double().cpu().numpy()
            numbers = ranges(units.kept, units.last)
            scores[ranges(offsets[numbers], offsets[numbers + 1])] = log_probs
    if tag_of(task.target_tokenizer) is not None:  # certain, as in search
        by_model[:, offsets[:-1][corpus.target.lengths() > 0]] = 0.0
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        log_probs = np.logaddexp.reduce(by_model, axis=0) - math.log(len(models))
    return np.split(log_probs, offsets[1:-1]) if len(offsets) > 1 else []


def sentence_score(log_probs: np.ndarray, task: TranslationTask, lenpen: float) -> float:
    """The sum of a sentence's log-probabilities (n+1,) / (tokens with `</s>`, without a language's tag) ** lenpen."""
    tagged = tag_of(task.target_tokenizer) is not None and len(log_probs) > 1
    return float(log_probs.sum() / (len(log_probs) - tagged) ** lenpen)


def forced_batches(
    model: AnyTranslationModel,
    task: TranslationTask,
    corpus: ParallelCorpus,
    *,
    max_tokens: int,
    context_window: int | None = None,
    last_only: bool = False,
) -> Iterator[tuple[Units, TranslationBatch]]:
    """Yield the units of a corpus, cut as in search, in batches with their targets, on the model's device."""
    source = replace(corpus, target=None)  # where documents are cut does not depend on the target
    plan, device = model.reading, next(model.parameters()).device
    units_of = last_sentence_units if last_only else planned_units
    units = units_of(plan, source, limit=task.max_doc_tokens, window=context_window)
    for chosen in plan_batches(unit_sizes(corpus, units, plan), max_tokens, seed=0, epoch=0, shuffle=False):
        yield units[chosen], collate(corpus, units, chosen, plan).to(device)


def forced_scores(
    models: Sequence[AnyTranslationModel],
    task: TranslationTask,
    examples: Sequence[ForcedExample],
    *,
    max_tokens: int = 4000,
    lenpen: float = 0.0,
    context_window: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[float]:
    """log p(target </s> | source, contexts) of every example, in order; see `token_log_probs` and `sentence_score`.

    `context_window`: the most sentences right before the last one that are read, on both sides; positions stay
    unchanged. `progress` is called with a number of examples whenever they are done.
    """
    portions, begin, sentences = list[Sequence["ForcedExample"]](), 0, 0
    for end, example in enumerate(examples, 1):
        sentences += len(example.source_context) + 1
        if end - begin == _EXAMPLES or sentences >= _SENTENCES or end == len(examples):
            portions.append(examples[begin:end])
            begin, sentences = end, 0

    def scored(number: int) -> list[float]:
        corpus = examples_as_documents(portions[number], task)
        log_probs = token_log_probs(
            models, task, corpus, max_tokens=max_tokens, context_window=context_window, last_only=True
        )
        last = [log_probs[n - 1] for n in corpus.document_offsets[1:].tolist()]
        if progress is not None:
            progress(len(last))
        return [sentence_score(of_sentence, task, lenpen) for of_sentence in last]

    shares = ranks.shared_out([len(portion) for portion in portions], scored)
    return [score for share in shares for score in share]


def examples_as_documents(examples: Sequence[ForcedExample], task: TranslationTask) -> ParallelCorpus:
    """A corpus in which each example is a document whose last sentence is the one to be scored."""
    sources, targets = [], []
    for example in examples:
        source_context, target_context = example.contexts()
        sources.append([*source_context, example.source])
        targets += [*target_context, example.target]
    target = TokenArray.from_lists(task.target_tokenizer.encode(targets), task.target_tokenizer.vocab_size)
    return replace(ParallelCorpus.from_lines(sources, task.source_tokenizer), target=target)
