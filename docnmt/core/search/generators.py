"""How a translation grows: slots, rows and hypotheses; beam search, sampling, minimum Bayes risk.

`Slot` (a text to be written) → its `Row`s: logits (R, V) → `allowed` → candidates → those that live on, or end as
`Hypothesis`
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from docnmt.core.search import glossary
from docnmt.core.search.config import BeamSearchConfig, GreedyConfig, SamplingConfig, SearchConfig
from docnmt.core.search.glossary import TermProgress, Terms
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK, UNK, Tokenizer
from docnmt.runtime.device import to_device, to_lists

# Slots, rows and hypotheses: what every generator keeps of texts in translation.


@dataclass(frozen=True)
class Hypothesis:
    """A finished target text with its score."""

    tokens: tuple[int, ...]  # with `</s>` at the end, without `<s>`
    score: float  # sum of `token_scores` / (number of tokens that the search chose) ** lenpen
    token_scores: tuple[float, ...]  # natural log-probability of each token, given those before it; 0: it was given
    limited: bool = False  # it ends at the length limit

    def sentences(self, lenpen: float, tag: int = -1, prefixes: Mapping[int, Prefix] | None = None) -> list[Hypothesis]:
        """Split the hypothesis of a joined unit into one per sentence; each ends in its `<brk>`, the last in `</s>`.

        `tag` and `prefixes` are as in `Slot`: certain, and no tokens of the mean that a sentence's score is.
        """
        ends = [index + 1 for index, token in enumerate(self.tokens) if token == BRK]
        if not ends and (tag < 0 or self.tokens[0] != tag):
            return [self]
        certain = {number: len(prefix.tokens) for number, prefix in (prefixes or {}).items()}
        cuts = zip([0, *ends], [*ends, len(self.tokens)], strict=True)
        return [
            Hypothesis(
                self.tokens[a:b],
                sum(self.token_scores[a:b]) / (b - a - (self.tokens[a] == tag) - certain.get(number, 0)) ** lenpen,
                self.token_scores[a:b],
            )
            for number, (a, b) in enumerate(cuts)
        ]

    def text(self, tokenizer: Tokenizer) -> str:
        """Return the detokenised text without `</s>` and surrounding spaces."""
        return tokenizer.decode(self.tokens[:-1]).strip()


class Prefix(NamedTuple):
    """The tokens with which a sentence begins, the tokens that would go on with its last word, if that is whole, and
    its text, which the tokens may write otherwise: a character that is in no subword is lost in them."""

    tokens: tuple[int, ...]
    joining: Tensor | None = None
    text: str = ""


@dataclass(frozen=True)
class Slot:
    """One unit of text to be written."""

    number: int  # of its first kept sentence; results are ordered by it
    limits: tuple[int, ...]  # for each sentence the most tokens it may have, its end (`<brk>` or `</s>`) included
    before: int = 0  # number of the unit's sentences before those that are kept
    wanted: bool = True  # False for a copy whose result is not used (see `Scheduler`)
    #: Tokens, with the end, of the sentences that are not searched, by their place in the unit, in order.
    given: Mapping[int, tuple[int, ...]] = field(default_factory=dict, hash=False)
    #: Of sentences whose translation is to begin with some words, by their place in the unit.
    prefixes: Mapping[int, Prefix] = field(default_factory=dict, hash=False, compare=False)
    terms: Terms | None = field(default=None, hash=False)  # that its sentences must have, by a glossary
    encoding: Any = field(default=None, compare=False, repr=False)  # what it is written from; for the scheduler
    stream: int | None = None  # the number of its random stream, for sampling; None: `number`
    tag: int = -1  # the token that each of its sentences begins with; -1: none is prescribed

    @cached_property
    def given_tokens(self) -> int:
        """The number of tokens that are given, those of prefixes included."""
        return sum(map(len, self.given.values())) + sum(len(prefix.tokens) for prefix in self.prefixes.values())

    @cached_property
    def longest(self) -> int:
        searched = sum(self.limits) - sum(map(self.limits.__getitem__, self.given))
        return searched - sum(len(prefix.tokens) for prefix in self.prefixes.values())

    def begin(self, sentence: int) -> tuple[int, ...]:
        prefix = self.prefixes[sentence].tokens if sentence in self.prefixes else ()
        return prefix if self.tag < 0 else (self.tag, *prefix)


class Row(NamedTuple):
    """An unfinished hypothesis: that of `before` with one more token, so rows share their beginnings. A row is dead if
    its total is -inf."""

    total: float  # sum of the log-probabilities of its tokens
    before: Row | None = None  # None: nothing is written yet, and `token` is what the model reads first
    token: int = BOS
    log_prob: float = 0.0  # of `token`
    length: int = 0  # number of tokens written
    sentence: int = 0  # the number in its unit of the one being written
    begin: int = 0  # the length at which that one began
    progress: TermProgress | None = None  # through the terms of its text, if there are any

    def after(self, token: int, log_prob: float, total: float) -> Row:
        length = self.length + 1
        progress = None if self.progress is None else self.progress.after(token)
        if token == BRK:
            return Row(total, self, token, log_prob, length, self.sentence + 1, length, progress)
        return Row(total, self, token, log_prob, length, self.sentence, self.begin, progress)

    def written(self, begin: int = 0) -> tuple[list[int], list[float]]:
        """The tokens and their log-probabilities, from that at length `begin` on."""
        tokens, log_probs, row = [], [], self
        while row.before is not None and row.length > begin:
            tokens.append(row.token)
            log_probs.append(row.log_prob)
            row = row.before
        return tokens[::-1], log_probs[::-1]


@dataclass(frozen=True, eq=False)
class Advance:
    """The changes of one step."""

    rows: Tensor | None  # (R',) the previous numbers of the rows that live on; None if all stay in their order
    finished: list[tuple[Slot, list[Hypothesis]]]  # the slots that ended, each with its hypotheses, best first


class Generator(ABC):
    """A running search. It owns slots and rows and works on log-probabilities; it has no model.

    There are R = N * width rows, slot by slot. A row that has ended, or has not begun, is dead: its total is -inf.
    Subclasses choose: `admit` says how new rows begin, `advance` which token each row takes.
    """

    #: True if slots may have `terms`, which translations must contain.
    takes_terms: ClassVar[bool] = False

    def __init__(self, width: int, config: SearchConfig, device: torch.device | str = "cpu") -> None:
        self.width, self.config, self._device = width, config, device
        self.slots: list[Slot] = []
        self.rows: list[Row] = []
        self._finished: list[list[Hypothesis]] = []  # of each slot
        self._never = torch.tensor([BOS, MASK, BRK], device=device)

    @abstractmethod
    def admit(self, slots: Sequence[Slot]) -> None:
        """Add slots behind the others."""

    @abstractmethod
    def advance(self, logits: Tensor) -> Advance:
        """Choose one token for every row from the model's logits (R, V)."""

    @property
    def tokens(self) -> Tensor:
        """The tokens (R,) that the model reads next."""
        return self._there([row.token for row in self.rows])

    @property
    def totals(self) -> Tensor:
        """The rows' sums of log-probabilities (R,)."""
        return self._there([row.total for row in self.rows], torch.float32)

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Remove slots, given by their places, without a result; return the old numbers (R',) of the rows that stay."""
        rows = list(range(len(self.rows)))
        for n in sorted(slots, reverse=True):
            del self.slots[n], self._finished[n]
            for of_rows in (self.rows, rows):
                del of_rows[n * self.width : (n + 1) * self.width]
        return self._there(rows)

    def _there(self, numbers: Sequence[float], dtype: torch.dtype = torch.int64) -> Tensor:
        """Numbers on the model's device, to which they go without waiting."""
        return to_device([torch.tensor(numbers, dtype=dtype)], self._device)[0]

    def _enter(self, slots: Sequence[Slot], totals: Sequence[float]) -> None:
        """Append slots; `totals` (width,) has the initial totals of a slot's rows: 0, or -inf for a dead row."""
        for slot in slots:
            self.slots.append(slot)
            progress = None if slot.terms is None else slot.terms.begin()
            self.rows += [Row(total, progress=progress) for total in totals]
            self._finished.append([])

    def _sentence(self, number: int) -> tuple[Slot, int, int]:
        """A row's slot, the number in its unit of the sentence that it writes, and how long that is."""
        slot, row = self.slots[number // self.width], self.rows[number]
        return slot, min(row.sentence, len(slot.limits) - 1), row.length - row.begin  # a dead row may hold anything

    def room(self, number: int) -> int:
        """The number of tokens that a row's sentence may still have before its end."""
        slot, sentence, written = self._sentence(number)
        return slot.limits[sentence] - 1 - written

    def allowed(self, logits: Tensor) -> Tensor:
        """Log-probabilities (R, V), -inf for tokens that may not follow: each sentence must end exactly once.

        `<brk>` ends every sentence but the last and `</s>` the last, not before `min_len` tokens but always at the
        sentence's limit; `<s>` and `<mask>` are never written. In a given sentence only the next token may follow, with
        probability 1; likewise for the tag and the prefix that a sentence begins with, and no token goes on with a
        prefix's last word. Repeated tokens are scored as `--repetition-penalty` and `--no-repeat-ngram-size` demand.
        """
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        if self.config.unkpen:
            log_probs[:, UNK] -= self.config.unkpen
        breaks = max((len(slot.limits) for slot in self.slots), default=1) > 1
        log_probs.index_fill_(1, self._never[:-1] if breaks else self._never, -torch.inf)
        bound: list[int] = []  # the rows of slots whose one sentence may not go on, or may not end, at the next token
        for n, slot in enumerate(self.slots):
            first, length = n * self.width, self.rows[n * self.width].length  # a slot's rows are equally long
            free = max(self.config.min_len, slot.tag >= 0) <= length < slot.limits[0] - 1
            if breaks or slot.given or slot.prefixes or not free:
                bound += range(first, first + self.width)
        if bound:
            self._bind(log_probs, bound)
        if self.config.repetition_penalty != 1 or self.config.no_repeat_ngram_size:
            self._score_repeated(log_probs)
        return log_probs

    def _score_repeated(self, log_probs: Tensor) -> None:
        """Penalise and refuse (R, V) what a sentence has already, unless a glossary demands it or all is refused."""
        size, penalty, most = log_probs.shape[1], self.config.repetition_penalty, self.config.no_repeat_ngram_size
        penalised: list[int] = []  # places in rows × vocabulary
        refused: list[int] = []
        for number, row in enumerate(self.rows):
            slot, sentence, _ = self._sentence(number)
            if row.total > -torch.inf and sentence not in slot.given:
                tokens, _ = row.written(row.begin)
                penalised += [number * size + token for token in set(tokens)]
                if most:
                    last, windows = tokens[len(tokens) - most + 1 :], range(len(tokens) - most + 1)
                    repeating = {tokens[n + most - 1] for n in windows if tokens[n : n + most - 1] == last}
                    demanded = set() if row.progress is None else row.progress.steps  # by a glossary
                    refused += [number * size + token for token in repeating - demanded]
        scores = log_probs.view(-1)
        again, never = self._there(penalised), self._there(refused)
        scores.index_copy_(0, again, scores.index_select(0, again) * penalty)
        before = scores.index_select(0, never)
        scores.index_fill_(0, never, -torch.inf)
        nothing_left = (log_probs.amax(1) == -torch.inf).index_select(0, never // size)
        scores.index_copy_(0, never, before.where(nothing_left, -torch.inf))

    def _bind(self, log_probs: Tensor, rows: Sequence[int]) -> None:
        """Let each of these rows (R, V) go on only as its sentence must: one of four cases."""
        size = log_probs.shape[1]  # numbers in these lists count rows × vocabulary
        refused: list[int] = []
        ends: list[int] = []
        certain: list[int] = []
        for row in rows:
            slot, sentence, written = self._sentence(row)
            end, other_end = (EOS, BRK) if sentence == len(slot.limits) - 1 else (BRK, EOS)
            given = slot.given.get(sentence)
            begin = slot.begin(sentence) if slot.prefixes or slot.tag >= 0 else ()
            if given is not None:  # the next given token is certain
                certain.append(row * size + given[min(written, len(given) - 1)])
            elif written + 1 >= slot.limits[sentence]:  # there is room for its end only, whose probability stays
                ends.append(row * size + end)
            elif written < len(begin):  # its tag, or its prefix, is certain
                certain.append(row * size + begin[written])
            else:  # it is free, but for the other end, its own before `min_len`, and what would go on with a prefix
                refused.append(row * size + other_end)
                if written < self.config.min_len:
                    refused.append(row * size + end)
                if sentence in slot.prefixes and written == len(begin):
                    joining = slot.prefixes[sentence].joining
                    if joining is not None:
                        log_probs[row].index_fill_(0, joining, -torch.inf)
        scores = log_probs.view(-1)
        refused_at, ends_at, certain_at = map(self._there, (refused, ends, certain))
        scores.index_fill_(0, refused_at, -torch.inf)
        of_ends = scores.index_select(0, ends_at)
        log_probs.index_fill_(0, torch.cat([ends_at, certain_at]) // size, -torch.inf)
        scores.index_copy_(0, ends_at, of_ends).index_fill_(0, certain_at, 0.0)

    def extend(
        self, parents: Sequence[int], tokens: Sequence[int], log_probs: Sequence[float], totals: Sequence[float]
    ) -> None:
        """Replace row r by row `parents[r]` with one more token; `totals` are the new sums."""
        grown = zip(parents, tokens, log_probs, totals, strict=True)
        self.rows = [self.rows[parent].after(token, log_prob, total) for parent, token, log_prob, total in grown]

    def _finish(self, parent: int, log_prob: float, total: float) -> None:
        """Record row `parent` as finished, with the log-probability of `</s>` and the sum."""
        tokens, log_probs = self.rows[parent].written()
        chosen = len(tokens) + 1 - self.slots[parent // self.width].given_tokens
        hypothesis = Hypothesis((*tokens, EOS), total / chosen**self.config.lenpen, (*log_probs, log_prob))
        self._finished[parent // self.width].append(hypothesis)

    def _best(self, n: int) -> list[Hypothesis]:
        """The finished hypotheses of slot n, best first; among equal scores the one found first comes first."""
        return sorted(self._finished[n], key=attrgetter("score"), reverse=True)


# Beam search, and greedy search, which is a beam of one.

#: Tokens of a run of the vocabulary, of which the largest score is taken first.
_RUN = 64
#: How much more the log-probability of a live hypothesis is than that of each finished one, if these end nothing.
_SURE = math.log(1000)


class BeamSearch(Generator):
    """Beam search: the `beam` best unfinished hypotheses of every slot are kept at each step.

    Among the 2 * beam best continuations, those of the first `beam` that end are finished, and the `beam` best others
    live on (fairseq's rule). A slot ends when `beam` hypotheses are finished, unless a live one is 1,000 times as
    probable as each of them: fairseq ends there, too, and of a very sure model returns what it hardly believes. It ends
    earlier when `nbest` are finished and no live one can still beat them: a sum of log-probabilities only falls, so a
    live hypothesis can reach at most sum / limit ** lenpen. Given tokens count nowhere: sum and limit are over the
    tokens that the search chooses.
    """

    Config: ClassVar[type] = BeamSearchConfig
    takes_terms: ClassVar[bool] = True
    config: BeamSearchConfig

    def __init__(self, config: BeamSearchConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(config.beam, config, device)

    def admit(self, slots: Sequence[Slot]) -> None:
        """Add slots behind the others; the first row of each is alive and the others are dead."""
        self._enter(slots, [0.0] + [-torch.inf] * (self.width - 1))

    def advance(self, logits: Tensor) -> Advance:
        """Choose one token for every hypothesis from the model's logits (R, V)."""
        allowed, totals = self.allowed(logits), self.totals
        constrained = any(slot.terms is not None for slot in self.slots)
        if constrained:
            glossary.forbid(self.rows, self.width, allowed, self.room)
        candidates = best_continuations(allowed, totals, self.width)
        if constrained:
            glossary.choose(self.rows, self.width, candidates, allowed, totals)
        live: tuple[list[Any], ...] = [], [], [], []  # rows, tokens, log-probabilities and sums of what lives on
        for rows, tokens, scores, sums in zip(*to_lists(candidates), strict=True):  # of each slot, best first
            ends, others = divided(tokens, sums, self.width)
            for n in ends:
                self._finish(rows[n], scores[n], sums[n])
            for living, values in zip(live, (rows, tokens, scores, sums), strict=True):
                living += [values[n] for n in others]
        return self._grow(*live)

    def _grow(
        self, parents: list[int], tokens: list[int], log_probs: Sequence[float], totals: Sequence[float]
    ) -> Advance:
        self.extend(parents, tokens, log_probs, totals)
        done = list(filter(self._over, range(len(self.slots))))
        if not done and parents == list(range(len(parents))):
            return Advance(None, [])
        finished = [(self.slots[n], self._best(n)[: self.config.nbest]) for n in done]
        rows = self._there(parents)
        return Advance(rows[self.leave(done)] if done else rows, finished)

    def _over(self, n: int) -> bool:
        """True if slot n has all its hypotheses, or no live one can still be among the `nbest`."""
        live = max(row.total for row in self.rows[n * self.width : (n + 1) * self.width])
        if live == -torch.inf:
            return True
        if self._full(n):
            return live - _SURE <= max(sum(hypothesis.token_scores) for hypothesis in self._finished[n])
        reachable = live / self.slots[n].longest ** self.config.lenpen
        best, nbest = self._best(n), self.config.nbest
        return len(best) >= nbest and reachable <= best[nbest - 1].score

    def _full(self, n: int) -> bool:
        return len(self._finished[n]) >= self.width


class Greedy(BeamSearch):
    """Greedy search, which is beam search with a beam of one: follow the most probable token until it is `</s>`."""

    Config: ClassVar[type] = GreedyConfig

    def __init__(self, config: GreedyConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(BeamSearchConfig(**asdict(config), beam=1, nbest=1), device)


def divided(tokens: Sequence[int], totals: Sequence[float], count: int) -> tuple[list[int], list[int]]:
    """Return the places of a slot's candidates, best first, that end among the first `count`, and of the first `count`
    others."""
    if EOS not in tokens:
        return [], list(range(count))
    ends, others = list[int](), list[int]()
    for number, (token, total) in enumerate(zip(tokens, totals, strict=True)):
        (ends if token == EOS and total > -torch.inf else others).append(number)
    return [number for number in ends if number < count], others[:count]


def best_continuations(log_probs: Tensor, totals: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The 2 * width best continuations of each group of `width` rows, best first: log_probs (R, V), sums so far (R,) →
    row, token, log-probability and sum of each, (R // width, k).

    The best of a group are among the runs of `_RUN` tokens with the largest maxima, so only these runs are sorted.
    """
    groups, vocabulary = len(totals) // width, log_probs.shape[1]
    whole = vocabulary // _RUN * _RUN
    most, (runs, rest) = min(2 * width, width * vocabulary), _runs(width, vocabulary, log_probs.device)
    sums, scores = totals.view(groups, width), log_probs.view(groups, width * vocabulary)
    largest = (log_probs[:, :whole].view(groups, width, -1, _RUN).amax(3) + sums[:, :, None]).flatten(1)
    best = largest.topk(min(most, largest.shape[1]), dim=1).indices  # (G, runs)
    chosen = runs[best].flatten(1)  # (G, c), in rows × vocabulary
    if len(rest):
        chosen = torch.cat([chosen, rest.expand(groups, -1)], dim=1)
    total, which = (sums.gather(1, chosen // vocabulary) + scores.gather(1, chosen)).topk(most, dim=1)
    if math.isnan(float(total.sum())):  # no sum is +inf
        raise ValueError("the model's scores are NaN; its weights or its input are not finite")
    index = chosen.gather(1, which)
    rows = index // vocabulary + width * torch.arange(groups, device=log_probs.device)[:, None]
    return rows, index % vocabulary, scores.gather(1, index), total


@lru_cache(maxsize=4)  # of beam × vocabulary numbers each
def _runs(width: int, vocabulary: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The places in the rows × vocabulary of a group: of all whole runs (n, _RUN), and the others (m,)."""
    places = torch.arange(width * vocabulary, device=device).view(width, vocabulary)
    whole = vocabulary // _RUN * _RUN
    return places[:, :whole].reshape(-1, _RUN), places[:, whole:].flatten()


# Minimum Bayes risk decoding: among samples of a sentence, choose the one that is most like the others.


def ranking(search: SearchConfig, tokenizer: Tokenizer) -> Callable[[list[Hypothesis]], list[Hypothesis]]:
    """What orders a sentence's hypotheses, best first: `--mbr`, or the generator's own order.

    `--mbr` takes the sample of highest mean utility, where all samples represent the model's distribution (Eikema and
    Aziz 2020, "Is MAP Decoding All You Need?"; 2022, "Sampling-Based Approximations to Minimum Bayes Risk Decoding for
    Neural Machine Translation"). Utility is sacreBLEU's sentence chrF. Equally useful samples keep their order.
    """
    if not isinstance(search, SamplingConfig) or search.mbr is None:
        return lambda hypotheses: hypotheses
    nbest = search.nbest

    def by_utility(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        utilities = mean_utilities([hypothesis.text(tokenizer) for hypothesis in hypotheses])
        order = np.argsort(-np.array(utilities), kind="stable")
        return [hypotheses[n] for n in order[:nbest]]

    return by_utility


def mean_utilities(texts: Sequence[str]) -> list[float]:
    """Each text's mean chrF, in [0, 100], against the n - 1 others as references (n >= 2).

    A text that occurs twice counts twice. Sums are rounded once, so the order of the texts changes nothing.
    """
    distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    numbers = [distinct[text] for text in texts]
    scores = chrf_of_pairs(list(distinct))[np.ix_(numbers, numbers)]
    np.fill_diagonal(scores, 0.0)
    return [math.fsum(row) / (len(texts) - 1) for row in scores.tolist()]


def chrf_of_pairs(texts: Sequence[str]) -> np.ndarray:
    """sacreBLEU's sentence chrF (n, n) of text i with text j as its reference, equal to the last bit.

    N-grams are counted once per text. The number of matches, a sum of min(count, count), is the intersection of two
    sets in which an n-gram's k-th occurrence is a member of its own: a product of matrices of 0 and 1.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.helpers import extract_all_char_ngrams

    grams = [extract_all_char_ngrams(text, CHRF.CHAR_ORDER) for text in texts]
    precisions = np.zeros((len(texts), len(texts)))
    recalls, orders = precisions.copy(), precisions.copy()
    for counts in zip(*grams, strict=True):  # n-grams of one order, of each text
        columns: dict[tuple[str, int], int] = {}
        columns_of = [
            [columns.setdefault((gram, k), len(columns)) for gram, count in of_text.items() for k in range(count)]
            for of_text in counts
        ]
        members = np.zeros((len(texts), len(columns)), dtype=np.float32)  # whole numbers below 2^24 are exact
        for text, columns_of_text in zip(members, columns_of, strict=True):
            text[columns_of_text] = 1
        matches = (members @ members.T).astype(np.float64)  # n-grams that two texts have in common
        totals = members.sum(1, dtype=np.float64)
        counted = (totals[:, None] > 0) & (totals > 0)
        precisions += np.divide(matches, totals[:, None], out=np.zeros_like(matches), where=counted)
        recalls += np.divide(matches, totals, out=np.zeros_like(matches), where=counted)
        orders += counted
    precisions /= np.maximum(orders, 1)
    recalls /= np.maximum(orders, 1)
    factor = CHRF.BETA**2
    above, below = (1 + factor) * precisions * recalls, factor * precisions + recalls
    return 100 * np.divide(above, below, out=np.zeros_like(above), where=below > 0)


# Sampling: tokens drawn from the model's distribution, from a random stream of each sentence's own.


class Sampling(Generator):
    """Draws `samples` independent samples for every slot.

    A slot's draws come from the stream (seed, slot's `stream`): batch size, order and neighbours change nothing.
    Scores are the model's own log-probabilities, before temperature, top-k and top-p.
    """

    Config: ClassVar[type] = SamplingConfig
    config: SamplingConfig

    def __init__(self, config: SamplingConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(config.samples, config, device)
        self._streams: list[np.random.Generator] = []

    def admit(self, slots: Sequence[Slot]) -> None:
        self._enter(slots, [0.0] * self.width)
        numbers = [slot.number if slot.stream is None else slot.stream for slot in slots]
        self._streams += [np.random.default_rng([self.config.seed, number]) for number in numbers]

    def advance(self, logits: Tensor) -> Advance:
        log_probs = self.allowed(logits)
        if bool(log_probs.isnan().any()):
            raise ValueError("the model's scores are NaN; its weights or its input are not finite")
        # a token of probability 0 is never drawn: where the cumulative distribution reaches a number in (0, 1]
        probabilities = truncate(log_probs / self.config.temperature, self.config.top_k, self.config.top_p)
        cumulative = probabilities.double().cumsum(1)
        draws = np.concatenate([1.0 - stream.random(self.width) for stream in self._streams])
        points = torch.from_numpy(draws).to(cumulative.device) * cumulative[:, -1]
        tokens = torch.searchsorted(cumulative, points[:, None])[:, 0]
        drawn = log_probs.gather(1, tokens[:, None])[:, 0]
        columns = to_lists([tokens, drawn, self.totals + drawn])
        totals = []
        for row, (token, log_prob, total) in enumerate(zip(*columns, strict=True)):
            ends = token == EOS and total > -torch.inf
            if ends:
                self._finish(row, log_prob, total)
            totals.append(-torch.inf if ends else total)
        self.extend(range(len(totals)), columns[0], columns[1], totals)
        done = [n for n, hypotheses in enumerate(self._finished) if len(hypotheses) == self.width]
        if not done:
            return Advance(None, [])
        finished = [(self.slots[n], self._best(n)) for n in done]
        return Advance(self.leave(done), finished)

    def leave(self, slots: Sequence[int]) -> Tensor:
        """Remove slots, given by their places, and their random streams."""
        gone = set(slots)
        self._streams = [stream for n, stream in enumerate(self._streams) if n not in gone]
        return super().leave(slots)


def truncate(log_probs: Tensor, top_k: int, top_p: float) -> Tensor:
    """Probabilities (R, V) that sum to 1 over the tokens that may be drawn and are 0 elsewhere.

    `log_probs` (R, V), up to a constant per row; `top_k`: only the k most probable tokens, 0: all; `top_p`: only the
    fewest most probable tokens that hold at least this much probability.
    """
    if 0 < top_k < log_probs.shape[1]:
        best = log_probs.topk(top_k, dim=1)
        log_probs = torch.full_like(log_probs, -torch.inf).scatter_(1, best.indices, best.values)
    probabilities = log_probs.softmax(dim=1)
    if top_p < 1:
        ordered, tokens = probabilities.sort(dim=1, descending=True, stable=True)
        before = ordered.cumsum(1) - ordered
        ordered = ordered.masked_fill(before >= top_p, 0.0)
        probabilities = torch.zeros_like(probabilities).scatter_(1, tokens, ordered)
        probabilities = probabilities / probabilities.sum(1, keepdim=True)
    return probabilities
