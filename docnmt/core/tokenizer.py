"""SentencePiece: text → prepared (punctuation, language tag) → subwords, and back. Training; models of many languages.
A model begins with the five entries `SPECIAL`; how text is prepared for it is stored in it.
"""

from __future__ import annotations

import difflib
import functools
import io
import multiprocessing
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Literal, cast

import msgspec
import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from docnmt.runtime.system import UsageError, UserError

#: `<brk>` and `<mask>` are control symbols, as `<s>` and `</s>` are: no text is ever encoded to them.
UNK, BOS, EOS, BRK, MASK = 0, 1, 2, 3, 4
SPECIAL = ("<unk>", "<s>", "</s>", "<brk>", "<mask>")
#: What precedes the preparation in a model's list of training files, which SentencePiece does not read.
_PREPARED = "docnmt: "
#: SentencePiece's models depend on its number of training threads; a fixed one makes the same text give the same model.
_TRAINING_THREADS = 4
#: SentencePiece's own mark in training, which drops lines that have it.
_UNKNOWN_MARK = "▅"
#: Longer lines (in characters) are divided for training; SentencePiece takes minutes for one of a million.
LONGEST_LINE = 10_000
#: Signs between two words that are compared each with each.
_COMPARED = 64


@dataclass(frozen=True)
class Preparation:
    """The settings of preparing a text."""

    punctuation: str = ""  # the language by whose rules sacremoses normalises punctuation; "": it is unchanged
    tags: dict[str, str] = field(default_factory=dict)  # of models of several languages: each one's entry
    tag_of: Literal["source", "target"] = "source"  # the side that the tag names
    tag: str = ""  # the language whose tag precedes each text; "": none

    def __post_init__(self) -> None:
        if self.tag and self.tag not in self.tags:
            there = ", ".join(self.tags) or "none"
            raise UsageError(f"no tag for the language '{self.tag}': this model has {there}")

    @functools.cached_property
    def cleaned(self) -> Callable[[str], str]:
        """The function that normalises a text's punctuation."""
        return normalizer(self.punctuation) if self.punctuation else str

    @classmethod
    def of(cls, model: ModelProto) -> Preparation:
        """Return the preparation stored in a model; models of other toolkits have none, and get the default."""
        stored = next((text for text in model.trainer_spec.input if text.startswith(_PREPARED)), None)
        try:
            return cls() if stored is None else msgspec.json.decode(stored.removeprefix(_PREPARED), type=cls)
        except (msgspec.DecodeError, UsageError) as error:
            raise UserError(f"the vocabulary's way to prepare text is damaged: {error}") from error


@functools.cache
def normalizer(language: str) -> Callable[[str], str]:
    """Return a function that normalises punctuation by Moses' rules (sacremoses), as straight quotation marks."""
    from sacremoses import MosesPunctNormalizer

    return cast("Callable[[str], str]", MosesPunctNormalizer(lang=_moses(language)).normalize)


@functools.cache
def detokenizer(language: str) -> Callable[[str], str]:
    """Return a function that undoes Moses' tokenization of a line, spaces and escapes, by sacremoses."""
    from sacremoses import MosesDetokenizer

    rules = MosesDetokenizer(lang=_moses(language))
    return lambda line: str(rules.detokenize(line.split()))


def _moses(language: str) -> str:
    """Return `de` for de-AT; sacremoses has rules for such codes, and general ones for all others."""
    return re.split(r"[-_]", language.lower())[0]


class Tokenizer:
    """A SentencePiece model whose first five entries are `SPECIAL`; `preparation` is how each text is prepared first,
    and `model` has its settings and its pieces with their scores."""

    def __init__(self, model: bytes) -> None:
        self._bytes, self.model = model, ModelProto()
        try:
            self.model.ParseFromString(model)
            self._processor = sentencepiece.SentencePieceProcessor()
            self._processor.load_from_serialized_proto(model)
            self.preparation = Preparation.of(self.model)
            first = tuple(self.vocabulary()[: len(SPECIAL)])
        except (DecodeError, RuntimeError, OSError, UnicodeDecodeError, TypeError) as error:  # bytes that are no text
            raise UserError("this is not a SentencePiece model, or a damaged one") from error
        if first != SPECIAL:
            raise UserError(
                f"the tokenizer's first entries must be {' '.join(SPECIAL)}, these are {' '.join(first)}; "
                "it was not trained by docnmt-preprocess"
            )

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        *,
        exact: bool = True,
        model_type: Literal["unigram", "bpe"] = "unigram",
        character_coverage: float = 1.0,
        byte_fallback: bool = False,
        normalization: str = "nmt_nfkc",
        user_defined_symbols: Sequence[str] = (),
    ) -> Tokenizer:
        """Train a tokenizer on lines of text. The same lines in the same order give the same model, byte for byte.

        `vocab_size` counts the special entries; without `exact` it is a limit, and the text may support fewer. The
        options are those of docnmt-preprocess: `character_coverage` is a share of the text's characters,
        `byte_fallback` takes 256 entries, `normalization` is a SentencePiece rule, `user_defined_symbols` are never
        cut."""
        if taken := set(SPECIAL) & set(user_defined_symbols):
            raise UserError(f"--user-defined-symbols {' '.join(sorted(taken))}: every vocabulary has it, and no text")
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(line.replace(_UNKNOWN_MARK, " ") for line in lines),
                model_writer=model,
                vocab_size=vocab_size,
                hard_vocab_limit=exact,
                model_type=model_type,
                character_coverage=character_coverage,
                byte_fallback=byte_fallback,
                normalization_rule_name=normalization,
                num_threads=_TRAINING_THREADS,
                max_sentence_length=1 << 30,  # the default drops lines of more than 4,192 bytes without a word
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                pad_id=-1,
                control_symbols=list(SPECIAL[BRK:]),
                user_defined_symbols=list(user_defined_symbols),
                minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(_training_problem(str(error), vocab_size)) from error
        return cls(model.getvalue())

    @classmethod
    def from_bytes(cls, model: bytes) -> Tokenizer:
        """Load a tokenizer from the bytes that `to_bytes` returned."""
        return cls(model)

    def to_bytes(self) -> bytes:
        """Return the content of the SentencePiece model file."""
        return self._bytes

    def prepared(self, preparation: Preparation) -> Tokenizer:
        """Return a tokenizer of the same vocabulary with another preparation of text."""
        if preparation == self.preparation:
            return self
        model = ModelProto.FromString(self._bytes)
        others = [text for text in model.trainer_spec.input if not text.startswith(_PREPARED)]
        stored = _PREPARED + msgspec.json.encode(preparation, order="deterministic").decode()
        model.trainer_spec.input[:] = others if preparation == Preparation() else [*others, stored]
        return Tokenizer(model.SerializeToString(deterministic=True))

    @functools.cached_property
    def tag(self) -> int | None:
        """The number of the entry that precedes each text, or None."""
        name = self.preparation.tags.get(self.preparation.tag)
        if name is None:
            return None
        number: int = self._processor.piece_to_id(name)
        if number == UNK:
            raise UserError(f"the vocabulary has no entry '{name}', its tag for '{self.preparation.tag}'")
        return number

    @functools.cached_property
    def marks(self) -> tuple[int, ...]:
        """The numbers of entries that are no words: `<brk>` and other control symbols, tags, user-defined symbols."""
        tags = {self._processor.piece_to_id(name) for name in self.preparation.tags.values()} - {UNK}
        kinds = ModelProto.SentencePiece
        pieces = enumerate(self.model.pieces)
        return tuple(sorted(tags | {n for n, piece in pieces if piece.type in (kinds.CONTROL, kinds.USER_DEFINED)}))

    @functools.cached_property
    def vocab_size(self) -> int:
        """The number of entries V, special ones included."""
        return int(self._processor.get_piece_size())

    def vocabulary(self) -> list[str]:
        """Return every entry, by number."""
        return self.pieces(range(self.vocab_size))

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the subwords of each line, without `<s>` and `</s>`; if it has any, the tag comes before them."""
        different = list(dict.fromkeys(lines))  # contexts come once for each variant
        result: list[list[int]] = self._processor.encode(list(map(self.preparation.cleaned, different)), num_threads=1)
        if self.tag is not None:
            result = [[self.tag, *ids] if ids else ids for ids in result]
        if len(different) == len(lines):
            return result
        tokens = dict(zip(different, result, strict=True))
        return [tokens[line] for line in lines]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return begin and end in the text of each subword of `encode`, without white space before a word. A tag is at
        the beginning and has no character."""
        names = ("encode_as_proto", "encode_as_immutable_proto")  # the second is that of older versions
        cut = next(getattr(self._processor, name) for name in names if hasattr(self._processor, name))
        clean = self.preparation.cleaned(text)
        bare = clean.lstrip()  # SentencePiece drops leading white space and then miscounts
        if bare != clean and self._processor.encode(bare) != self._processor.encode(clean):
            bare = clean
        spans, begin = [], len(clean) - len(bare)
        for piece in cut(bare).pieces:
            end = begin + len(piece.surface)
            spans.append((end - len(piece.surface.lstrip()), end))
            begin = end
        if clean != text:
            places = _places(clean, text)
            spans = [(places[begin], places[end]) for begin, end in spans]
        return [(0, 0), *spans] if spans and self.tag is not None else spans

    def normalize(self, lines: Sequence[str]) -> list[str]:
        """Return each line as it is cut: normalised, with `▁` for spaces and in front."""
        return [self._processor.normalize(self.preparation.cleaned(line)) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of subwords; control symbols leave none."""
        return cast(str, self._processor.decode(list(map(int, ids))))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the entries with these numbers, as written in the vocabulary."""
        return [self._processor.id_to_piece(int(i)) for i in ids]


def tag_of(tokenizer: Tokenizer) -> int | None:
    """Return `Tokenizer.tag`, or None for a plug-in's tokenizer without it."""
    return getattr(tokenizer, "tag", None)


def _places(changed: str, text: str) -> list[int]:
    """Map each place in a changed text, its end included, to the place in the original text."""
    signs: list[list[int]] = [[], []]
    for compared in (str.isalnum, str.isalpha):
        pair = [[number for number, sign in enumerate(side) if compared(sign)] for side in (changed, text)]
        if [changed[number] for number in pair[0]] == [text[number] for number in pair[1]]:
            signs = pair
            break
    places: list[int] = []
    begin = 0
    for end, last in zip([*signs[0], len(changed)], [*signs[1], len(text)], strict=True):
        between, original = changed[len(places) : end], text[begin:last]
        if between == original:
            places += range(begin, last)
        elif max(len(between), len(original)) <= _COMPARED:
            matcher = difflib.SequenceMatcher(None, between, original, autojunk=False)
            for kind, left, right, before, behind in matcher.get_opcodes():
                equal = kind == "equal"
                places += range(begin + before, begin + behind) if equal else [begin + before] * (right - left)
        else:
            same = next((n for n, (one, other) in enumerate(zip(between, original, strict=False)) if one != other), 0)
            places += [*range(begin, begin + same), *[begin + same] * (len(between) - same)]
        if end < len(changed):
            places.append(last)
        begin = last + 1
    return [*places, len(text)]


def _training_problem(message: str, vocab_size: int) -> str:
    if match := re.search(r"value <= (\d+)", message):
        return f"--vocab-size {vocab_size} is more than this text supports: the largest that works is {match[1]}"
    if match := re.search(r"required_chars\W*(\d+) vs (\d+)", message):
        return (
            f"--vocab-size {vocab_size} is too small: the text's characters alone need {match[2]}; "
            "raise it, or for translation lower --character-coverage"
        )
    if vocab_size < len(SPECIAL):
        return f"--vocab-size {vocab_size} is too small: the special entries alone are {len(SPECIAL)}"
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return "the training text has no characters to make a vocabulary of; expected sentences"
    return f"SentencePiece cannot be trained on this text: {' '.join(message.split())}"


# Tokenizers of models for several languages, in which each text begins with the tag of a language.


Pair = tuple[Tokenizer, Tokenizer]


def known_languages(tokenizers: Pair, side: str) -> list[str]:
    """Return the languages that tags of the `source` or the `target` can name; none if there is only one."""
    tagged = (tokenizer.preparation for tokenizer in tokenizers if tokenizer.preparation.tag_of == side)
    return next((list(preparation.tags) for preparation in tagged if preparation.tags), [])


class UnknownLanguage(UsageError):
    """A language that a model does not have: the side, what was asked for, and in words what there is."""

    def __init__(self, side: str, wanted: str, expected: str) -> None:
        super().__init__(f"--{side}-lang {wanted}: expected {expected}")
        self.side, self.wanted, self.expected = side, wanted, expected


def directed(tokenizers: Pair, own: tuple[str, str], languages: tuple[str, str]) -> Pair:
    """Return the tokenizers of both sides, of the languages `own`, with the tags of these languages; `UnknownLanguage`
    is raised if the vocabulary has no tag."""
    for side, before, wanted in zip(("source", "target"), own, languages, strict=True):
        known = known_languages(tokenizers, side)
        if wanted != before and wanted not in known:
            there = f"one of {', '.join(known)}" if known else f"'{before}', the only one that this model has"
            raise UnknownLanguage(side, wanted, there)

    def tagged(tokenizer: Tokenizer) -> Tokenizer:
        preparation = tokenizer.preparation
        tag = languages[preparation.tag_of == "target"]
        return tokenizer.prepared(replace(preparation, tag=tag)) if tag in preparation.tags else tokenizer

    source = tagged(tokenizers[0])
    return source, source if tokenizers[0] is tokenizers[1] else tagged(tokenizers[1])


# Training in a process of its own, which can be ended: SentencePiece heeds no signal while it trains.


def train_in_process(lines: Iterable[str], **options: object) -> Tokenizer:
    """Run `Tokenizer.train(lines, **options)` so that SIGTERM and Ctrl-C end it at once."""
    context = multiprocessing.get_context("fork")  # it has the lines without a copy
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_trained, args=(sender, lines, options), daemon=True)
    process.start()
    sender.close()
    try:
        answer = receiver.recv()
    except EOFError:
        advice = "give less text (for translation, a lower --subword-sample)"
        raise UserError(f"training the vocabulary was killed (out of memory?); {advice}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if isinstance(answer, UserError):
        raise answer
    return Tokenizer(answer)


def _trained(sender: Connection, lines: Iterable[str], options: dict[str, Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.SIG_IGN)  # the parent ends it

    def train() -> None:
        try:
            sender.send(Tokenizer.train((piece for line in lines for piece in pieces(line)), **options).to_bytes())
        except UserError as error:
            sender.send(error)

    thread = threading.Thread(target=train)  # OpenMP waits for ever for the threads that this one had in the parent
    thread.start()
    thread.join()


def pieces(line: str) -> Iterator[str]:
    """Divide a line into pieces of at most `LONGEST_LINE` characters, between words if possible."""
    begin = 0
    while len(line) - begin > LONGEST_LINE:
        cut = line.rfind(" ", begin + LONGEST_LINE // 2, begin + LONGEST_LINE)
        cut = begin + LONGEST_LINE if cut < 0 else cut
        yield line[begin:cut]
        begin = cut
    yield line[begin:]
