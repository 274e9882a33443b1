"""What `docnmt-senteval` does once its options are resolved."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docnmt.config import to_dict
from docnmt.data.embeddings import Embeddings, build_embeddings
from docnmt.errors import UsageError, UserError
from docnmt.files import write_json
from docnmt.scoring.senteval.baselines import BagOfWordsBaseline, RandomProjections, read_frequencies, sif_weights
from docnmt.scoring.senteval.corpora import TASKS, TransferTask, read_task
from docnmt.scoring.senteval.evaluate import PROTOCOLS, Encode, evaluate
from docnmt.training.checkpoint import read_header
from docnmt.training.loading import find_checkpoint

#: Options that do not change a number.
NOT_COMPARED = ("tasks", "results_path", "overwrite", "data")


def run_transfer(config: Any) -> str:
    """Evaluate every task that the results file does not have yet; returns the table.

    Raises:
        UserError: data, vectors or model cannot be read, or the results file holds other settings.
    """
    if unknown := [name for name in config.tasks if name not in TASKS]:
        raise UsageError(f"--tasks: there is no {', '.join(unknown)}; there are {', '.join(TASKS)}")
    tasks = [TASKS[name] for name in config.tasks or TASKS]
    folder, path = Path(config.data), Path(config.results_path) if config.results_path else None
    settings = {k: v for k, v in to_dict(config).items() if k not in NOT_COMPARED} | _model(config.path)
    results = {} if path is None or not path.exists() or config.overwrite else _read_results(path, settings)
    missing = [task for task in tasks if task.name not in results]
    encode = _encoder(config, missing, folder) if missing else None
    for task in missing:
        assert encode is not None
        results[task.name] = evaluate(task, folder, encode, PROTOCOLS[config.protocol])
        print(f"{task.name}: {_figures(results[task.name])}", file=sys.stderr, flush=True)
        if path is not None:
            write_json(path, {"settings": settings, "tasks": results})
    return "\n".join(f"{task.name}\t{_figures(results[task.name])}" for task in tasks)


def _model(path: str | None) -> dict[str, str]:
    """What tells a checkpoint from any other at the same path, such as the same run trained further."""
    if path is None:
        return {}
    header = read_header(find_checkpoint(path))[0]
    return {"model": hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]}


def _encoder(config: Any, tasks: Sequence[TransferTask], folder: Path) -> Encode:
    if config.baseline is not None:
        return _baseline(config, tasks, folder)
    from docnmt.retrieval.encoder import SentenceEncoder
    from docnmt.retrieval.summaries import TranslationSummaries

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


def _read_results(path: Path, settings: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        old, results = stored["settings"], stored["tasks"]
        differing = [name for name in settings if old.get(name) != settings[name]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--results-path {path}: is not a file of docnmt-senteval ({error}); choose another") from error
    if differing:
        names = ["checkpoint at --path" if n == "model" else f"--{n.replace('_', '-')}" for n in differing]
        raise UserError(
            f"--results-path {path}: holds results with another {', '.join(names)}; give --overwrite or another name"
        )
    return dict(results)


def _figures(result: Mapping[str, float]) -> str:
    """The figures that are published, and the time."""
    shown = [f"{name} {result[name]:.2f}" for name in ("accuracy", "f1", "dev accuracy") if name in result]
    correlations = ("pearson", "pearson weighted", "spearman", "spearman weighted")
    shown += [f"{name} {100 * result[name]:.2f}" for name in correlations if name in result]
    return ", ".join([*shown, f"{result['encoding s']:.1f} + {result['classifier s']:.1f} s"])
