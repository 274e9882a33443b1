"""What was measured of the systems of an experiment: read from the files of its commands, or kept without them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measured import read_json

BEST = Path("model") / "checkpoint_best.safetensors"


@dataclass(frozen=True)
class System:
    """What was measured of one model.

    Attributes:
        updates, minutes: of training, validation included in the minutes; `before`: those of the model it started from.
        speed: target subwords a second, the median over the lines of the log.
        memory: largest resident memory of training in GB.
        validations: update and negative log-likelihood on the validation text, nats a target subword.
        scores: by test set.
        contrastive: by contrastive set, in the order in which they were made; where the same questions were asked in
            `true-context`, `against_true` is how many were right only there and how many only here.
        paired: by test set and the other system's name, each metric's difference with its bootstrap.
    """

    name: str
    arch: str
    parameters: int
    updates: int
    minutes: float
    before: tuple[int, float]
    speed: float
    memory: float
    validations: list[tuple[int, float]]
    scores: dict[str, dict[str, Any]]
    contrastive: dict[str, dict[str, Any]]
    paired: dict[str, dict[str, list[dict[str, Any]]]]

    @classmethod
    def read(cls, folder: Path) -> System:
        """From a system's folder.

        Raises:
            OSError: a file is missing.
            UserError: the checkpoint is missing or not one.
            ValueError: a file is not what its name says.
        """
        from docnmt.core.training.checkpoint import read_header  # imports torch, which what is kept does not need

        header, shapes = read_header(folder / BEST)
        parameters = sum(math.prod(shape) for name, shape in shapes.items() if name.startswith("model."))
        log = read_log(folder / "model" / "train.jsonl")
        train = [line for line in log if line["event"] == "train"]
        updates, minutes = _cost(log)
        return cls(
            folder.name, header["arch"], parameters, updates, minutes, _cost_before(folder, header),
            speed=median([line["tokens_per_second"] for line in train] or [math.nan]),
            memory=max([line["peak_memory"] for line in train] or [math.nan]) / 1e9,
            validations=validations(log),
            scores={path.parent.name: _scores(path) for path in sorted(folder.glob("*/scores.json"))},
            contrastive=_contrastive(folder),
            paired=_paired(folder),
        )  # fmt: skip

    @property
    def valid_nll(self) -> tuple[float, float]:
        """The best validation, and the last; NaN without one."""
        values = [nll for _, nll in self.validations] or [math.nan]
        return min(values), values[-1]

    def updates_until(self, nll: float) -> int | None:
        """At which update a validation was first as good as this, or None."""
        return first_as_good(self.validations, nll)

    @classmethod
    def kept(cls, path: Path) -> System:
        """From the file that `--keep` wrote.

        Raises:
            OSError, ValueError: it is missing, or not such a file.
        """
        try:
            return cls(**_read(path))
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: not a file that --keep wrote ({error})") from error


def validations(log: Iterable[dict[str, Any]]) -> list[tuple[int, float]]:
    """Update and negative log-likelihood of each validation in the lines of a `train.jsonl`."""
    judged = [(line["update"], line["nll"]) for line in log if line["event"] == "valid"]
    return [(update, math.inf if nll is None else nll) for update, nll in judged]  # None: it was not finite


def first_as_good(judged: Iterable[tuple[int, float]], nll: float) -> int | None:
    """At which update a validation was first at most `nll`, or None."""
    return next((update for update, reached in judged if reached <= nll), None)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a `train.jsonl`.

    Raises:
        OSError: it cannot be read.
        ValueError: a line is not JSON.
    """
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: not a line of train.jsonl ({error})") from error
    return lines


def _cost(log: list[dict[str, Any]]) -> tuple[int, float]:
    """Updates and minutes."""
    return max(line["update"] for line in log), max(line.get("wall", 0.0) for line in log) / 60


def _cost_before(folder: Path, header: dict[str, Any]) -> tuple[int, float]:
    """Updates and minutes of the system beside this one that it was started from; 0 without one.

    Raises:
        OSError: it was started from something else.
    """
    start = header["config"]["training"].get("finetune_from_model")
    if start is None:
        return 0, 0.0
    return _cost(read_log(folder.parent / Path(start).parent.name / "model" / "train.jsonl"))


def _paired(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Of TEST/against-OTHER.json in a system's folder."""
    paired: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for path in sorted(folder.glob("*/against-*.json")):
        paired.setdefault(path.parent.name, {})[path.stem.removeprefix("against-")] = _read(path)["paired"]["metrics"]
    return paired


def _made(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = read_json(path)
    return content


def _scores(path: Path) -> dict[str, Any]:
    """Scores, signatures and speed; not the settings, which name folders of one machine."""
    return {name: value for name, value in _read(path).items() if name != "settings"}


def _contrastive(folder: Path) -> dict[str, dict[str, Any]]:
    """The contrastive reports in a system's folder without their single questions."""
    reports = {path.stem: _read(path) for path in sorted(folder.glob("*.json"), key=_made)}
    summaries = {
        n: {part: report[part] for part in ("accuracy", "chance", "groups", "by")} for n, report in reports.items()
    }
    true = reports.get("true-context", {}).get("solved", [])
    for name, report in reports.items():
        if name != "true-context" and len(true) == len(report["solved"]):
            pairs = Counter((a["solved"], b["solved"]) for a, b in zip(true, report["solved"], strict=True))
            summaries[name]["against_true"] = [pairs[True, False], pairs[False, True]]
    return summaries
