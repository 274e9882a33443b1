"""`docnmt.load` and `Translator`: trained models in a Python program.
Texts, sentences or documents in; `Translation`s in the same shape out, the same as from the commands.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter, signature
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, overload

from docnmt.apps.commands.translating import Given, LoadedModels, ProtectedText, Translating, open_memory, open_models
from docnmt.apps.explain.attention import AlignedPiece, Explanation, aligned, read
from docnmt.apps.options import MemoryConfig, Precision, check_memory_window
from docnmt.core.corpus import Document, ParallelCorpus, TokenArray
from docnmt.core.formality import Formality
from docnmt.core.read_corpus import TextLines, is_blank
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.core.search.glossary import Glossary
from docnmt.core.search.translate import Translation, TranslationMemory, sentence_score, token_log_probs
from docnmt.core.split_sentences import splitter as sentence_splitter
from docnmt.core.tables import one_line, text_of
from docnmt.options import Section, build, named_options, unknown_options
from docnmt.registry import GENERATORS
from docnmt.runtime.device import pick_device, tune
from docnmt.runtime.system import UsageError, UserError, address_of

# Documents from a Python program: a text, a list of sentences, or lists of these; and results in the same shape.

#: One document: a text, its sentences, or a `Document` with structure.
OneDocument: TypeAlias = str | Document | Sequence[str]
#: Several documents: each a list of sentences or a `Document`.
Documents: TypeAlias = Sequence[Sequence[str] | Document]
T = TypeVar("T")


@dataclass(frozen=True)
class InMemory:
    """Documents with the shape in which they were given."""

    documents: tuple[Document, ...]
    several: bool  # a list of documents was given
    before: tuple[int, ...] = ()  # how many first sentences of each are its context, if any have one

    @classmethod
    def of(cls, documents: object, name: str, split: Callable[[str], list[str]] | None = None) -> InMemory:
        """Check and convert a caller's documents, whose name is `name`; without `split`, texts are rejected."""
        if isinstance(documents, str):
            if split is None:
                raise UserError(f"{name}: expected a list of sentences, or of documents, got a text")
            lines = TextLines(io.BytesIO(text_of(documents, name).encode()), name=name)
            return cls((Document(tuple(sentence for line in lines for sentence in split(line))),), False)
        if isinstance(documents, Document):
            return cls((_document(documents, name),), False)
        parts = _listed(documents, name)
        texts = [isinstance(part, str) for part in parts]
        if all(texts):
            return cls((_document(parts, name),), False)
        if any(texts):
            raise UserError(
                f"{name}: entry {texts.index(True)} is a text, entry {texts.index(False)} is not; expected a list of "
                "sentences (one document) or a list of such lists"
            )
        return cls(tuple(_document(part, f"{name}: document {number}") for number, part in enumerate(parts)), True)

    def behind(
        self, context: object, given: Iterable[str | None], split: Callable[[str], list[str]]
    ) -> tuple[InMemory, list[str | None]]:
        """Return the documents behind their contexts, and of each sentence its translation, or None."""
        if context is None:
            return self, list(given)
        contexts = _listed(context, "context") if self.several else [context]
        if len(contexts) != len(self.documents):
            raise UserError(f"context: expected one for each of {len(self.documents)} documents, got {len(contexts)}")
        documents: list[Document] = []
        known: list[str | None] = []
        before: list[int] = []
        partners = iter(given)
        for document, one in zip(self.documents, contexts, strict=True):
            sentences, translations = _context(one, split)
            units = (("",) * len(document.units[0]),) * len(sentences) if document.units else ()  # a unit of its own
            documents.append(Document((*sentences, *document.sentences), (*units, *document.units)))
            known += [*translations, *islice(partners, len(document.sentences))]
            before.append(len(sentences))
        return InMemory(tuple(documents), self.several, tuple(before)), known

    @cached_property
    def sentences(self) -> list[str]:
        """All sentences, regardless of documents."""
        return [text for document in self.documents for text in document.sentences]

    @cached_property
    def places(self) -> list[int]:
        """The number of each sentence in its document, from 0."""
        return [number for document in self.documents for number in range(len(document.sentences))]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of sentences of each document without its context."""
        contexts = self.before or (0,) * len(self.documents)
        return [len(document.sentences) - before for document, before in zip(self.documents, contexts, strict=True)]

    @cached_property
    def own(self) -> list[bool]:
        """For each sentence, whether it is none of a context."""
        counts = zip([len(document.sentences) for document in self.documents], self.sizes, strict=True)
        return [number >= count - size for count, size in counts for number in range(count)]

    @cached_property
    def kept(self) -> list[int]:
        """The numbers of the sentences that are not blank."""
        return [n for n, text in enumerate(self.sentences) if not is_blank(text)]

    def corpus(self, models: LoadedModels, translations: Sequence[str] | None = None) -> ParallelCorpus:
        """Return a corpus of the sentences that have text, with the translations of all sentences if given."""
        task, documents = models.task, self.documents
        with_text = [one.take([n for n, text in enumerate(one.sentences) if not is_blank(text)]) for one in documents]
        corpus = ParallelCorpus.from_documents(with_text, task.source_tokenizer)
        if translations is None:
            return corpus
        tokens = task.target_tokenizer.encode([translations[n] for n in self.kept])
        return replace(corpus, target=TokenArray.from_lists(tokens, task.target_tokenizer.vocab_size))

    def explanations(
        self, translating: Translating, corpus: ParallelCorpus, pieces: Sequence[Sequence[str]], given: Given = None
    ) -> list[Explanation]:
        """Return explanations of all sentences, empty ones of those that `corpus` has not or that are given."""
        numbers = [self.places[n] for n in self.kept]
        explanations = translating.explanations(corpus, pieces, given, numbers=numbers)
        explained = dict(zip(self.kept, explanations, strict=True))
        return [explained.get(n) or Explanation(number, (), ()) for n, number in enumerate(self.places)]

    def shaped(self, values: Sequence[T]) -> list[T] | list[list[T]]:
        """Return values, one per sentence, in the shape of the documents as they were given, without contexts."""
        wanted = iter([value for value, own in zip(values, self.own, strict=True) if own])
        return [list(islice(wanted, size)) for size in self.sizes] if self.several else list(wanted)

    def partners(self, given: object, name: str) -> list[str | None]:
        """Return for each sentence its translation in `given`, which has the shape of the documents, or None."""
        if given is None:
            return [None] * len(self.sentences)
        lists = _sentences(given, name)
        parts = [_sentences(part, f"{name}: document {n}") for n, part in enumerate(lists)] if self.several else [lists]
        if (got := [len(part) for part in parts]) != self.sizes:
            entries = "entries, one for each sentence" + (" of each document" if self.several else "")
            raise UserError(f"{name}: expected {_shown(self.sizes)} {entries}, got {_shown(got)}")
        translations: list[str | None] = []
        for number, (part, document) in enumerate(zip(parts, self.documents, strict=True)):
            before = len(document.sentences) - len(part)
            for index, (text, source) in enumerate(zip(part, document.sentences[before:], strict=True)):
                where = f"{name}: {f'document {number}, ' if self.several else ''}sentence {index}"
                if text is not None and text_of(text, where).strip() and is_blank(source):
                    raise UserError(f"{where}: '{text[:40]}' translates a sentence without text")
            translations += [*[None] * before, *part]
        return translations


def _listed(parts: object, name: str) -> list[Any]:
    if isinstance(parts, (str, bytes, Mapping, AbstractSet, Document)) or not isinstance(parts, Iterable):
        raise UserError(f"{name}: expected a list, got {type(parts).__name__}")
    return list(parts)


def _sentences(part: object, name: str) -> list[Any]:
    return list(part.sentences) if isinstance(part, Document) else _listed(part, name)


def _document(part: object, name: str) -> Document:
    """Return a document with line breaks replaced by spaces, after checking that all sentences are texts."""
    document = part if isinstance(part, Document) else Document(tuple(_listed(part, name)))
    texts: list[str] = []
    for number, sentence in enumerate(document.sentences):
        if not isinstance(sentence, str):
            raise UserError(f"{name}, sentence {number}: expected a text, got {type(sentence).__name__}")
        texts.append(one_line(text_of(sentence, f"{name}, sentence {number}")))
    return replace(document, sentences=tuple(texts))


def _shown(sizes: Sequence[int]) -> str:
    return (", ".join(map(str, sizes[:5])) or "no") + (", …" if len(sizes) > 5 else "")


def _context(context: object, split: Callable[[str], list[str]]) -> tuple[list[str], list[str | None]]:
    """Return the sentences before one document, and for each its translation, or None."""
    if context is None:
        return [], []
    if isinstance(context, str):
        sentences = InMemory.of(context, "context", split).sentences
        return sentences, [None] * len(sentences)
    entries = [entry if isinstance(entry, (tuple, list)) else (entry, None) for entry in _listed(context, "context")]
    if wrong := [number for number, entry in enumerate(entries) if len(entry) != 2 or not isinstance(entry[0], str)]:
        raise UserError(f"context: sentence {wrong[0]}: expected a text, or a text and its translation")
    before = InMemory.of([source for source, _ in entries], "context")
    return before.sentences, before.partners([translation for _, translation in entries], "context")


def checked_window(models: LoadedModels, context_window: int | None) -> int | None:
    """Check and return a context window."""
    whole = isinstance(context_window, int) and not isinstance(context_window, bool)
    if context_window is not None and not (whole and context_window >= 0):
        raise UserError(f"context_window: must be a whole number of at least 0, got {context_window!r}")
    if context_window and not models.reads_context:
        raise UserError("context_window: has no effect: the model reads every sentence by itself")
    return context_window


def search_options(beam: int, options: Mapping[str, object]) -> tuple[GenerationConfig, SearchConfig]:
    """Resolve the options of generation by the command line's classes; `beam`: for generators that have one."""
    name = str(options.get("generator", GenerationConfig.generator))
    if name not in GENERATORS:
        raise UsageError(f"generator: no generator named '{name}'; there are {', '.join(GENERATORS.names())}")
    sections = [Section("generation", GenerationConfig), Section("search", GENERATORS.config(name))]
    known = {setting.name for section in sections for setting in section.settings} - {"nbest", "glossary"}
    if unknown := options.keys() - known:
        named = signature(Translator.translate).parameters.values()
        raise unknown_options(unknown, known | {item.name for item in named if item.kind == Parameter.KEYWORD_ONLY})
    resolved = build(sections, {}, {"beam": beam, **options})
    return resolved["generation"], resolved["search"]


def with_targets(sources: object, targets: object) -> tuple[InMemory, list[str]]:
    """Return the sources, and a translation for each sentence."""
    in_memory = InMemory.of(sources, "sources")
    texts = in_memory.partners(targets, "targets")
    if None in texts:
        raise UserError(f"targets: sentence {texts.index(None)} is None; expected a text")
    return in_memory, [text or "" for text in texts]


class Translator:
    """One or several models that translate. Several threads may use one."""

    def __init__(self, models: LoadedModels) -> None:
        self.models = models

    def between(self, source_lang: str | None = None, target_lang: str | None = None) -> Translator:
        """Return the same models, of several languages, for another pair of them; None keeps a language."""
        if source_lang is None and target_lang is None:
            return self
        return Translator(self.models.between(source_lang, target_lang))

    # The shape decides the type of the result; the options are those of the definition.
    @overload
    def translate(self, documents: OneDocument, **options: Any) -> list[Translation]: ...
    @overload
    def translate(self, documents: Documents, **options: Any) -> list[list[Translation]]: ...
    def translate(
        self, documents: OneDocument | Documents, *, beam: int = 5, explain: bool = False,
        given: Sequence[Any] | None = None, prefix: Sequence[Any] | None = None,
        memory: TranslationMemory | str | Path | None = None,
        glossary: Glossary | Mapping[str, str] | str | Path | None = None, formality: Formality | None = None,
        context: object = None, context_window: int | None = None, splitter: str = "auto", protect: bool = True,
        source_lang: str | None = None, target_lang: str | None = None, **options: object,
    ) -> list[Translation] | list[list[Translation]]:  # fmt: skip
        """Translate one document, or several; return a translation in place of every sentence.

        A sentence without text has an empty translation, which no other sentence reads.

        Args:
            documents: a text, which is split into sentences (its line breaks end one, too); a list of sentences; a
                `Document`; or, for several, a list of lists or `Document`s.
            beam: number of hypotheses kept at every step.
            explain: also explain what was read for each, and what would change without the most read sentences
                (`Translation.reads`, `Translation.explanation`).
            given: in the shape of `documents`, for each sentence its translation, or None if there is none yet.
                They are returned as they are, with a score of 0, and models that read translations read them.
            prefix: in the shape of `documents`, for each sentence the words with which its translation begins, or None.
                They are certain and count nowhere in the score.
            context: what stands before the document: a text, or a list of sentences, each alone or in a pair with its
                translation. It is read as the document's beginning, and not returned. For several documents a list
                with one for each, or None. Sentences in `explanation` are numbered from the context's first.
            context_window: the most sentences of the document that are read before and after a sentence.
            memory, glossary, splitter, protect, source_lang, target_lang: as of docnmt-translate; a glossary may also
                be a mapping.
            formality: the form of address of every sentence, `formal` or `informal`; or `given`: that of the last given
                translation before it. For models that were trained to be told one (docnmt-train `--formality-share`).
            options: further options of docnmt-translate's groups generation and search, but for `--nbest`: `lenpen`,
                `max_len_a`, `no_repeat_ngram_size`, `batch_size`, `generator` and that generator's own.
        """
        models = self.between(source_lang, target_lang).models
        generation, search = search_options(beam, {"formality": formality, **options})
        split = sentence_splitter(splitter, models.task.source_lang)
        in_memory = InMemory.of(documents, "documents", split)
        in_memory, known = in_memory.behind(context, in_memory.partners(given, "given"), split)
        is_known = given is not None or any(known)
        if formality == "given" and not is_known:
            raise UserError("formality: given: no translations are given; expected given=…, too")
        window = checked_window(models, context_window)
        check_memory_window(memory, context_window)
        if memory is not None and not isinstance(memory, TranslationMemory):
            memory = open_memory(MemoryConfig(memory=str(memory)), models)
        translating = Translating(models, generation, search, window, memory, Glossary.of(glossary))
        words = None if prefix is None else [text and one_line(text) for text in in_memory.partners(prefix, "prefix")]
        for translation, begin in zip(known, words or (), strict=False):
            if translation is not None and begin:
                raise UserError(f"prefix: '{begin[:40]}' is beside a given translation; one of them must be None")
        return _translated(translating, in_memory, known if is_known else None, words, protect=protect, explain=explain)

    @overload
    def score(self, sources: OneDocument, targets: OneDocument, **options: Any) -> list[float]: ...
    @overload
    def score(self, sources: Documents, targets: Documents, **options: Any) -> list[list[float]]: ...
    @named_options  # type: ignore[misc]  # it does not take every option that there may be
    def score(
        self, sources: Document | Sequence[str] | Documents, targets: Document | Sequence[str] | Documents, *,
        lenpen: float = 1.0, context_window: int | None = None, max_tokens: int = 8000, source_lang: str | None = None,
        target_lang: str | None = None,
    ) -> list[float] | list[list[float]]:  # fmt: skip
        """Score given translations: natural log-probability / (subwords + 1) ** lenpen, as `Translation.score`.
        The tag of the target language with which a converted model's translations begin is not counted.

        Each sentence is scored in its document. Models that read translations read the others of `targets`.

        Args:
            sources, targets: of one shape: sentences of a document, or several such lists.
            lenpen: 0 gives the sum, which docnmt-score `--contrastive` compares.
            max_tokens: subwords that are scored at once; a larger document is scored by itself.
            context_window, source_lang, target_lang: see `translate`.
        """
        models = self.between(source_lang, target_lang).models
        generation, search = search_options(1, {"lenpen": lenpen, "max_tokens": max_tokens})
        in_memory, translations = with_targets(sources, targets)
        log_probs = token_log_probs(
            models.models, models.task, in_memory.corpus(models, translations), max_tokens=generation.max_tokens,
            context_window=checked_window(models, context_window),
        )  # fmt: skip
        scores = [sentence_score(log_prob, models.task, search.lenpen) for log_prob in log_probs]
        scored = dict(zip(in_memory.kept, scores, strict=True))
        return in_memory.shaped([scored.get(n, 0.0) for n in range(len(translations))])

    @named_options
    def explain(
        self, sources: Document | Sequence[str] | Documents, targets: Document | Sequence[str] | Documents
    ) -> list[Explanation] | list[list[Explanation]]:
        """Explain given translations like `translate` with `explain`; `sources` and `targets` as in `score`."""
        in_memory, translations = with_targets(sources, targets)
        tokenizer = self.models.task.target_tokenizer
        tokens = tokenizer.encode([translations[n] for n in in_memory.kept])
        translating = Translating(self.models, *search_options(1, {}))
        pieces = [tokenizer.pieces(encoded) for encoded in tokens]
        return in_memory.shaped(in_memory.explanations(translating, in_memory.corpus(self.models), pieces))

    @named_options
    def align(
        self, sources: Document | Sequence[str] | Documents, targets: Document | Sequence[str] | Documents
    ) -> list[list[AlignedPiece]] | list[list[list[AlignedPiece]]]:
        """Align each subword of given translations with its source subword, by the first model's cross attention.

        `sources` and `targets` are as in `score`. Each sentence has a list of `AlignedPiece`s, begin and end in the
        source and in the translation, in the order of the translation; it is empty without cross attention.
        """
        in_memory, translations = with_targets(sources, targets)
        lines = [[side[n] for n in in_memory.kept] for side in (in_memory.sentences, translations)]
        corpus = in_memory.corpus(self.models, translations)
        pairs = aligned(read(self.models.models[0], self.models.task, corpus, *lines))
        by_sentence = dict(zip(in_memory.kept, pairs, strict=True))
        return in_memory.shaped([by_sentence.get(n, []) for n in range(len(translations))])


def _translated(
    translating: Translating, in_memory: InMemory, known: Given, prefixes: Given, *, protect: bool, explain: bool
) -> list[Translation] | list[list[Translation]]:
    """Return the translations of documents, in their shape; `known` and `prefixes` are of all sentences."""
    models, corpus, kept = translating.loaded, in_memory.corpus(translating.loaded), in_memory.kept
    if not all(in_memory.own) and not models.reads_translations:  # nothing reads translations of the context
        texts = zip(known or [None] * len(in_memory.own), in_memory.own, strict=True)
        known = [text if own else text or "" for text, own in texts]
    given, begins = (None if texts is None else [texts[n] for n in kept] for texts in (known, prefixes))
    tagged = translating.tagged(corpus, given)
    protected = ProtectedText(corpus, given, models.task, prefixes=begins, on=protect)
    results = protected.results(translating, tagged)
    translations = [Translation("", (), 0.0, ())] * len(in_memory.sentences)  # of sentences without text
    for n in kept:
        text = None if known is None else known[n]
        is_given = None if text is None else Translation.of_given(text, models.task.target_tokenizer)
        translations[n] = is_given or next(results).nbest[0]
    if explain:
        explanations = in_memory.explanations(translating, tagged, [translations[n].pieces for n in kept], given)
        translations = [replace(t, explanation=e) for t, e in zip(translations, explanations, strict=True)]
    return in_memory.shaped(translations)


@named_options
def load(
    path: str | Path | Sequence[str | Path], *, device: str = "cpu", precision: Precision = "float32"
) -> Translator:
    """Load a checkpoint or a folder of checkpoints (its best), or several, whose probabilities are then averaged.

    A path that does not exist can be a model's name on the Hugging Face hub, `org/name` or `hf://org/name`.

    Sets how this process computes (`docnmt.runtime.tune`), as the commands do; `DOCNMT_TUNE=off` in the environment
    prevents it.

    Args:
        device: cpu, cuda, cuda:1 …; auto takes cuda if available.
        precision: float32; int8, on a CPU; fp16, on a GPU; or bf16 (`--int8` … of docnmt-translate).
    """
    expected = "load: expected a checkpoint, a folder of checkpoints or a list of such, got"
    if not isinstance(path, (str, Path, Sequence)):
        raise UserError(f"{expected} {type(path).__name__}")
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UserError(f"{expected} none")
    if wrong := [name for name in paths if not isinstance(name, (str, Path))]:
        raise UserError(f"{expected} one with {type(wrong[0]).__name__} in it")
    if precision not in get_args(Precision):
        raise UserError(f"load: precision: expected {', '.join(get_args(Precision))}, got {precision!r}")
    tune()
    return Translator(open_models([address_of(str(name)) for name in paths], pick_device(device), precision=precision))
