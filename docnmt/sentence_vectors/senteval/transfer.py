"""What `docnmt-senteval` does once its options are resolved."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docnmt.config import to_dict
from docnmt.errors import UsageError, UserError
from docnmt.files import write_json
from docnmt.sentence_vectors.embeddings import Embeddings, build_embeddings
from docnmt.sentence_vectors.senteval.baselines import (
    BagOfWordsBaseline,
    RandomProjections,
    read_frequencies,
    sif_weights,
)
from docnmt.sentence_vectors.senteval.corpora import TASKS, TransferTask, read_task, task_files
from docnmt.sentence_vectors.senteval.evaluate import PROTOCOLS, Encode, evaluate
from docnmt.training.checkpoint import read_header
from docnmt.training.loading import find_checkpoint

#: Options that do not change a number, and `data`, whose files each task's result is compared with.
NOT_COMPARED = ("tasks", "results_path", "overwrite", "data")
#: Settings that are the contents of files, and what they are called in an error.
CONTENTS = {
    "model": "checkpoint at --path",
    "vectors_sha256": "content of --vectors",
    "frequencies_sha256": "content of --frequencies",
}


def run_transfer(config: Any) -> str:
    """Evaluate every task that the results file does not have yet; returns the table.

    Raises:
        UserError: data, vectors or model cannot be read, or the results file holds other settings or is of other data.
    """
    if unknown := [name for name in config.tasks if name not in TASKS]:
        raise UsageError(f"--tasks: there is no {', '.join(unknown)}; there are {', '.join(TASKS)}")
    tasks = [TASKS[name] for name in config.tasks or TASKS]
    folder, path = Path(config.data), Path(config.results_path) if config.results_path else None
    settings = {k: v for k, v in to_dict(config).items() if k not in NOT_COMPARED} | _contents(config)
    results = {} if path is None or not path.exists() or config.overwrite else _read_results(path, settings)
    _check_data(path, results, tasks, folder)
    missing = [task for task in tasks if task.name not in results]
    encode = _encoder(config, missing, folder) if missing else None
    for task in missing:
        assert encode is not None
        result = evaluate(task, folder, encode, PROTOCOLS[config.protocol])
        results[task.name] = result | {"files_sha256": _task_fingerprint(task, folder)}
        print(f"{task.name}: {_figures(results[task.name])}", file=sys.stderr, flush=True)
        if path is not None:
            write_json(path, {"settings": settings, "tasks": results})
    return "\n".join(f"{task.name}\t{_figures(results[task.name])}" for task in tasks)


def _contents(config: Any) -> dict[str, str]:
    """What tells files from others at the same paths, such as the same run trained further."""
    contents = {}
    if config.path is not None:
        header = read_header(find_checkpoint(config.path))[0]
        contents["model"] = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]
    if config.vectors:
        contents["vectors_sha256"] = _fingerprint(map(Path, config.vectors))
    if config.frequencies is not None:
        contents["frequencies_sha256"] = _fingerprint([Path(config.frequencies)])
    return contents


def _task_fingerprint(task: TransferTask, folder: Path) -> str:
    return _fingerprint(path for paths in task_files(task, folder).values() for path in paths)


def _fingerprint(paths: Iterable[Path]) -> str:
    """16 hexadecimal digits of the SHA-256 of files' SHA-256.

    Raises:
        UserError: one cannot be read.
    """
    whole = hashlib.sha256()
    for path in paths:
        one = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    one.update(block)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
        whole.update(one.digest())
    return whole.hexdigest()[:16]


def _encoder(config: Any, tasks: Sequence[TransferTask], folder: Path) -> Encode:
    if config.baseline is not None:
        return _baseline(config, tasks, folder)
    from docnmt.sentence_vectors.encoder import SentenceEncoder
    from docnmt.sentence_vectors.summaries import TranslationSummaries

    if read_header(find_checkpoint(config.path))[0]["task"] == "document_translation":
        if config.representation != "vectors":
            raise UsageError("--representation: a translation model has vectors only")
        return TranslationSummaries(config.path)
    encoder = SentenceEncoder.load(config.path)
    return lambda sentences: encoder.features(sentences, config.representation)


def _baseline(config: Any, tasks: Sequence[TransferTask], folder: Path) -> Encode:
    """A baseline on the word vectors of the tasks' words."""
    counts: Counter[str] = Counter()
    for task in tasks:
        for rows in read_task(task, folder).values():
            for side in (rows.first, rows.second or []):
                counts.update(word for sentence in side for word in sentence)
    paths = [Path(name) for name in config.vectors]
    embeddings, report = build_embeddings(paths, counts, keep_words=0, unit=config.unit_vectors)
    print("\n".join(report), file=sys.stderr)
    return make_baseline(config, embeddings)


def make_baseline(config: Any, embeddings: Embeddings) -> Encode:
    """The encoder that `--baseline` names."""
    if config.baseline == "bow":
        return BagOfWordsBaseline(embeddings)
    if config.baseline == "sif":
        weight = sif_weights(embeddings, read_frequencies(Path(config.frequencies)))
        return BagOfWordsBaseline(embeddings, weight=weight, remove_common=True)
    pooling = config.baseline.removeprefix("borep-")
    return RandomProjections(embeddings, width=config.width, pooling=pooling, seed=config.seed)


def _read_results(path: Path, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        old, results = stored["settings"], stored["tasks"]
        # Files of older versions say nothing of what the vectors were.
        unknown = [name for name in settings if name.endswith("_sha256") and name not in old]
        differing = [name for name in settings if name not in unknown and old.get(name) != settings[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--results-path {path}: is not a file of docnmt-senteval ({error}); choose another") from error
    if differing:
        names = [CONTENTS.get(name, f"--{name.replace('_', '-')}") for name in differing]
        raise UserError(
            f"--results-path {path}: holds results with another {', '.join(names)}; give --overwrite or another name"
        )
    return dict(results)


def _check_data(
    path: Path | None, results: Mapping[str, Mapping[str, Any]], tasks: Sequence[TransferTask], folder: Path
) -> None:
    """Refuse results of files that are others now; those of older versions do not say what they were."""
    known = [task for task in tasks if "files_sha256" in results.get(task.name, {})]
    differing = [t.name for t in known if results[t.name]["files_sha256"] != _task_fingerprint(t, folder)]
    if differing:
        raise UserError(
            f"--results-path {path}: holds {', '.join(differing)} of other files than --data {folder} has now; "
            "give --overwrite to start anew, or another name"
        )


def _figures(result: Mapping[str, Any]) -> str:
    """The figures that are published, and the time."""
    shown = [f"{name} {result[name]:.2f}" for name in ("accuracy", "f1", "dev accuracy") if name in result]
    correlations = ("pearson", "pearson weighted", "spearman", "spearman weighted")
    shown += [f"{name} {100 * result[name]:.2f}" for name in correlations if name in result]
    return ", ".join([*shown, f"{result['encoding s']:.1f} + {result['classifier s']:.1f} s"])
