"""Sentence vectors in use: the task nli, loaded encoders, docnmt-embed, translation summaries.

pairs and vector files → `preprocess_nli` → data folder → `Nli` → checkpoint → `SentenceEncoder` → vectors or codes
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import torch
from torch import nn

from docnmt.core.batch import collate_source, plan_batches, planned_units, sentence_costs
from docnmt.core.corpus import (
    META,
    ParallelCorpus,
    TokenArray,
    check_files,
    read_meta,
    stored_array,
    write_array,
    write_meta,
)
from docnmt.core.models.encoder_decoder import EncoderDecoder, TranslationTask
from docnmt.core.task import ModelClass, TaskState, built
from docnmt.core.training.checkpoint import load_model
from docnmt.options import to_dict
from docnmt.other_tasks.options import EmbedConfig, NliConfig, NliPreprocessConfig
from docnmt.other_tasks.sentence_vectors.data import (
    NLI_LABELS,
    Embeddings,
    PackedSentences,
    PairDataset,
    build_embeddings,
    by_length,
    random_embeddings,
    read_pairs,
    text_lines,
    words,
)
from docnmt.other_tasks.sentence_vectors.encoders import SentencePairModel
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import pick_device
from docnmt.runtime.progress import Progress
from docnmt.runtime.system import UsageError, UserError, check_folder, check_readable, replacing, replacing_folder

#: A sentence's vector, its code before thresholding (values between 0 and 1), or its code (0 or 1).
Representation = Literal["vectors", "soft", "codes"]


class SentenceEncoder:
    """A trained sentence encoder, `max_tokens` words at once. A vector does not depend on others encoded with it."""

    def __init__(
        self, model: SentencePairModel, embeddings: Embeddings, *,
        device: torch.device | str = "cpu", max_tokens: int = 4096,
    ) -> None:  # fmt: skip
        self.model, self.embeddings, self.max_tokens = model.to(device).eval(), embeddings, max_tokens
        self.device = torch.device(device)
        self.width = model.encoder.d_output
        self.bits = 0 if model.hash is None else model.hash.linear.out_features
        self.tokens = self.unknown = 0  # words encoded so far, and how many of them have no vector of any type

    @classmethod
    def load(cls, path: str | Path, *, device: torch.device | str = "cpu", max_tokens: int = 4096) -> SentenceEncoder:
        """Load the encoder of a checkpoint, or of the best one in a `--save-dir`."""
        loaded = load_model(path, device=device)
        task: object = loaded.task
        if not isinstance(loaded.model, SentencePairModel) or not isinstance(task, Nli):
            raise UserError(
                f"{path}: is a {loaded.arch}; sentence vectors come from a model of the task nli (inferlite)"
            )
        return cls(loaded.model, task.embeddings, device=device, max_tokens=max_tokens)

    @torch.no_grad()
    def features(self, sentences: Sequence[Sequence[str]], representation: Representation = "vectors") -> np.ndarray:
        """Encode tokenised sentences as (N, d or bits), float32."""
        hash = self.model.hash
        if hash is None and representation != "vectors":
            raise UserError("this model learned no binary codes; train one with --hash-bits 256, 1024 or 4096")
        out = np.zeros((len(sentences), self.width if representation == "vectors" else self.bits), np.float32)
        indices = [self.embeddings.indices(sentence) for sentence in sentences]
        self.tokens += sum(map(len, indices))
        self.unknown += sum(sentence.count(0) for sentence in indices)
        indices = [sentence or [0] for sentence in indices]
        for rows in by_length(np.array([len(sentence) for sentence in indices], dtype=np.int64), self.max_tokens):
            vectors = self.model.encode(PackedSentences.of([indices[row] for row in rows]).to(self.device))
            if hash is not None and representation != "vectors":
                vectors = hash(vectors) if representation == "codes" else hash.soft(vectors)
            out[rows] = vectors.float().cpu().numpy()
        return out

    def codes(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Encode tokenised sentences as codes (N, bits / 8), uint8, eight bits per byte."""
        return np.packbits(self.features(sentences, "codes") > 0.5, axis=1)


# The task `nli`: sentence encoders trained to tell entailment, neutrality and contradiction of a pair.

TASK = "nli"


class Nli:
    """Natural language inference on K types of frozen word vectors (Kiros and Chan 2018, section 3).

    `probability` (V,) is the relative frequency of each word in the training data.
    """

    Config = NliConfig
    metrics = ("soft_accuracy",)
    labels: Sequence[str] = NLI_LABELS

    def __init__(
        self, embeddings: Embeddings, probability: np.ndarray, *, data_dir: Path | None = None, fingerprint: str = ""
    ) -> None:
        self.embeddings, self.probability = embeddings, probability
        self.data_dir, self.fingerprint = data_dir, fingerprint

    @classmethod
    def load(cls, config: NliConfig, data_dir: str | Path) -> Nli:
        """Load the task of a folder written by `docnmt-preprocess --task nli`."""
        folder, meta = Path(data_dir), read_meta(Path(data_dir), task=TASK)
        check_files(folder, meta, "words.txt", "vectors.", "probability.")
        embeddings = Embeddings.open(folder, meta["vectors"], meta["files"])
        probability = stored_array(folder, "probability", meta["files"], "c")
        if probability.shape != (len(embeddings.words),) or probability.dtype != np.float32:
            raise UserError(f"{folder / 'probability.bin'}: is damaged: not a number for each word; preprocess again")
        return cls(embeddings, probability, data_dir=folder, fingerprint=str(meta["fingerprint"]))

    @classmethod
    def restore(cls, config: NliConfig, state: TaskState) -> Nli:
        """Restore the task of a checkpoint, without data."""
        names = state.json["vectors"]
        vectors = [state.tensors[f"vectors.{k}"].numpy() for k in range(len(names))]
        return cls(Embeddings(names, state.json["words"], vectors), state.tensors["probability"].numpy())

    def state(self) -> TaskState:
        """Return vocabulary and vectors, which suffice to encode new sentences."""
        tensors = {f"vectors.{k}": torch.as_tensor(table) for k, table in enumerate(self.embeddings.vectors)}
        return TaskState(
            {"vectors": list(self.embeddings.names), "words": list(self.embeddings.words)},
            {**tensors, "probability": torch.as_tensor(self.probability)},
        )

    def build_model(self, model_class: ModelClass, model_config: object) -> nn.Module:
        """Build the model of an architecture for these vectors and labels."""
        return built(model_class, model_config, self)

    def dataset(
        self, split: str, model: SentencePairModel, *, seed: int = 0, epoch: int = 0, training: bool = False
    ) -> PairDataset:
        """Return the pairs of a split."""
        if self.data_dir is None:
            raise ValueError("a task restored from a checkpoint has no data; load it from a folder")
        meta = read_meta(self.data_dir)
        if split not in meta["splits"]:
            raise UserError(f"{self.data_dir}: has no split '{split}'; there are {', '.join(sorted(meta['splits']))}")
        check_files(self.data_dir, meta, f"{split}.")
        return PairDataset.open(self.data_dir, split, meta["files"])

    @torch.no_grad()
    def evaluate(self, model: SentencePairModel, split: str, options: Mapping[str, object]) -> dict[str, float]:
        """Compute `soft_accuracy`, by codes before thresholding; hashing models' `accuracy` is by binary codes."""
        data = self.dataset(split, model)
        device = next(model.parameters()).device
        right = 0
        for units in plan_batches(data.sizes, int(str(options["max_tokens"])), seed=0, epoch=0, shuffle=False):
            batch = data.batch(units).to(device)
            vectors = model.encode(batch.text)
            logits = model.classify(vectors if model.hash is None else model.hash.soft(vectors))
            right += int((logits.argmax(1) == batch.labels).sum())
        return {"soft_accuracy": right / len(data.sizes)}


def preprocess_nli(config: NliPreprocessConfig, say: Callable[[str], None]) -> None:
    """Write the folder; `say` is called with each line of the report."""
    destination = Path(config.destdir)
    reads = (*config.vectors, *config.train, *config.valid, *config.test)
    check_folder(destination, marker=META, overwrite=config.overwrite, reads=reads)
    paths = [Path(file) for file in config.vectors]
    for path in paths:
        check_readable(path)  # before the texts, which take minutes
    tables = {"train": config.train, "valid": config.valid, "test": config.test}
    splits = {name: read_pairs(*map(Path, files)) for name, files in tables.items() if files}
    texts = {name: [words(text) for text in pairs.sentences] for name, pairs in splits.items()}
    counts = {name: Counter(word for text in split for word in text) for name, split in texts.items()}
    for name, pairs in splits.items():
        left_out = f"; {pairs.undecided:,} without a gold label left out" if pairs.undecided else ""
        say(f"{name}: {len(pairs.labels):,} pairs, {counts[name].total():,} words{left_out}")
    lines = {name: [" ".join(text).lower() for text in split] for name, split in texts.items()}
    keys = {name: list(zip(split[::2], split[1::2], strict=True)) for name, split in lines.items()}
    training = set(keys.pop("train"))
    for name, split in keys.items():
        if seen := sum(pair in training for pair in split):
            say(f"warning: {seen:,} pairs of {name} stand in the training data, too")
    if paths:
        embeddings, report = build_embeddings(paths, sum(counts.values(), Counter()), config.keep_words)
    else:
        embeddings, report = random_embeddings(counts["train"])
        say("warning: without --vectors every word gets a random vector; sentence vectors want pretrained ones")
    for line in report:
        say(line)
    with replacing_folder(destination, marker=META, overwrite=config.overwrite) as folder:
        files = embeddings.save(folder)
        frequency = np.zeros(len(embeddings.words))  # (V,) of each word in the training data
        for word, count in counts["train"].items():
            frequency[embeddings.index(word)] += count
        files |= write_array(folder / "probability.bin", frequency / max(frequency.sum(), 1), "<f4")
        for name, pairs in splits.items():
            sentences = [embeddings.indices(text) or [0] for text in texts[name]]
            tokens = TokenArray.from_lists(sentences, len(embeddings.words))
            files |= PairDataset(name, tokens, np.asarray(pairs.labels, dtype=np.uint8)).save(folder)
        write_meta(
            folder,
            task=TASK,
            files=files,
            vectors=list(embeddings.names),
            words=len(embeddings.words),
            splits={name: {"pairs": len(splits[name].labels), "words": counts[name].total()} for name in splits},
            options=to_dict(config),
            report=report,
        )
    say(f"{destination}: {len(embeddings.words):,} words, embedding types: {len(embeddings.vectors)}")


# The command docnmt-embed: lines → words → vectors or binary codes, block by block → one `.npy` file.

#: Number of lines that are read, encoded and written together.
CHUNK = 4096


class NpyWriter:
    """Appends rows to an `.npy` file whose number of rows is known only at the end."""

    def __init__(self, file: BinaryIO, columns: int, dtype: type[np.generic]) -> None:
        self.file, self.columns, self.dtype, self.rows = file, columns, np.dtype(dtype), 0
        self._header()

    def append(self, rows: np.ndarray) -> None:
        """Append rows (n, columns)."""
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).tobytes())
        self.rows += len(rows)

    def finish(self) -> None:
        """Write the number of rows into the header."""
        self.file.seek(0)
        self._header()

    def _header(self) -> None:
        """Write the header in NumPy's format 1.0: always 128 bytes, so that it can be overwritten."""
        text = repr({"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, self.columns)})
        self.file.write(np.lib.format.magic(1, 0) + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n")


def embed(config: EmbedConfig) -> None:
    """Write vectors, or packed codes, of lines to a `.npy` file, in order; of several ranks each encodes its share."""
    encoder = SentenceEncoder.load(config.path, device=pick_device(config.device), max_tokens=config.max_tokens)
    if ranks.world() > 1 and (config.input is None or not Path(config.input).is_file()):
        raise UsageError(f"--input {config.input or ''}: expected a file, of which every process reads its part")
    if config.codes and not encoder.bits:
        raise UserError("--codes: this model learned none; train one with --hash-bits 256, 1024 or 4096")
    lines = text_lines(None if config.input is None else Path(config.input))

    def _blocks() -> Iterator[np.ndarray]:
        """Yield the rows of `CHUNK` lines at a time, in order: in the first rank all of them, in others nothing."""
        while chunks := [texts for _ in range(ranks.world()) if (texts := [words(t) for t in islice(lines, CHUNK)])]:
            part = chunks[ranks.rank()] if ranks.rank() < len(chunks) else []
            rows = encoder.codes(part) if config.codes else encoder.features(part)
            yield from ranks.gather_rows(rows, list(map(len, chunks)))

    if ranks.rank():
        for _ in _blocks():
            pass
    else:
        columns, dtype = (encoder.bits // 8, np.uint8) if config.codes else (encoder.width, np.float32)
        with (
            replacing(Path(config.output)) as temporary,
            temporary.open("wb") as file,
            Progress(None, "encoding", unit="sentences") as progress,
        ):
            writer = NpyWriter(file, columns, dtype)
            for rows in _blocks():
                writer.append(rows)
                progress.update(len(rows))
            writer.finish()
    unknown, tokens = map(sum, zip(*ranks.exchange([encoder.unknown, encoder.tokens]), strict=True))
    share = 100 * unknown / max(tokens, 1)
    print(f"{unknown:,} of {tokens:,} words ({share:.2f} %) have no vector of any type", file=sys.stderr)


class TranslationSummaries:
    """The summaries by which a trained document model's decoder selects sentences, as sentence vectors.

    Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", eq. 1-2.
    """

    def __init__(self, path: str | Path, *, max_tokens: int = 4096) -> None:
        loaded = load_model(path)
        model, task = loaded.model, loaded.task
        summarise = model.decoder.summarise if isinstance(model, EncoderDecoder) else None
        if not isinstance(model, EncoderDecoder) or summarise is None or not isinstance(task, TranslationTask):
            raise UserError(
                f"{path}: this {loaded.arch} makes no sentence summaries; give a hier_ or cond_transformer whose "
                "decoder reads context (--context-sides both or decoder)"
            )
        self.summarise = summarise
        self.model, self.task, self.max_tokens = model, task, max_tokens

    @torch.no_grad()
    def __call__(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Encode tokenised sentences as (N, d), float32; every sentence is a document of its own."""
        lines = [" ".join(sentence) for sentence in sentences]
        corpus = ParallelCorpus.from_lines([[line] for line in lines], self.task.source_tokenizer)
        units = planned_units(self.model.reading, corpus)
        vectors = np.zeros((len(sentences), self.model.output.in_features), np.float32)
        for rows in by_length(sentence_costs(corpus), self.max_tokens):
            source = collate_source(corpus, units, rows, self.model.reading)
            vectors[rows] = self.summarise(self.model.encoder(source), source.layout).summaries.float().numpy()
        return vectors
