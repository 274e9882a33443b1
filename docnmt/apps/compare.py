"""docnmt compare: systems × seeds of one YAML file, trained, translated, scored → one table in Markdown and JSON.

    Plan ─ fair? ─ train (start, then systems; seed by seed) ─ fair as trained? ─ test sets and their foreign order
         ─ docnmt-generate each ─ docnmt-score --sys SEEDS --paired SEEDS --foreign SEEDS ─ contrastive ─ table

Every step is a command of its own, which writes its result whole; one whose result is there is not run again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import yaml

from docnmt.core.corpus import read_meta
from docnmt.core.read_corpus import side
from docnmt.core.scoring.config import DEFAULT, SAMPLES, SEED
from docnmt.core.scoring.discourse import read_contrastive
from docnmt.core.scoring.metrics import of_seeds, reservations
from docnmt.core.scoring.text_files import LineLayout, read_layout
from docnmt.core.training.checkpoint import read_header
from docnmt.options import checked_yaml
from docnmt.runtime.system import UserError, reading, write_json, write_text

Property = Literal["updates", "data", "starts"]
#: Options of docnmt-train that the comparison sets itself.
OURS = {"save_dir", "seed", "finetune_from_model", "data", "overwrite"}


class Plan(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The content of FILE.yaml (docs/guide/compare.md); paths are relative to the working directory.

    A system has further options of docnmt-train, and `start`, the name of what it is fine-tuned from, and `data`.
    """

    folder: str  # for models, translations and the table
    data: str  # folder of docnmt-preprocess, for all systems
    systems: dict[str, dict[str, Any]]  # the others are compared with the first
    train: dict[str, Any] = {}  # options of docnmt-train for every system and start
    starts: dict[str, dict[str, Any]] = {}  # only to start systems from; one with a `seed` is trained once, for all
    seeds: list[int] = msgspec.field(default_factory=lambda: [1, 2, 3])
    tests: dict[str, str] = {}  # prefixes of text (PREFIX.en, PREFIX.de)
    contrastive: dict[str, str] = {}  # files
    generate: dict[str, Any] = {}  # options of docnmt-generate
    metrics: list[str] = []  # further ones
    checkpoint: Literal["best", "last"] = "best"
    foreign: bool = True  # also translate the test sets with their sentences in other documents (true - foreign)
    unequal: list[Property] = []  # properties in which the systems may differ


@dataclass(frozen=True)
class Trained:
    """A system as trained with one seed; `updates` and `data` include those of its start."""

    updates: int
    parameters: int
    data: str
    start: str | None
    valid_loss: float


@dataclass
class Comparison:
    """A plan, carried out in its folder."""

    plan: Plan
    plugins: tuple[str, ...] = ()
    dry_run: bool = False
    languages: tuple[str, str] = field(init=False)
    _blocks: dict[str, list[int]] = field(default_factory=dict)  # of each contrastive group, by test

    def __post_init__(self) -> None:
        self.folder = Path(self.plan.folder)
        meta = read_meta(Path(self.plan.data), task="document_translation")
        self.languages = meta["source_lang"], meta["target_lang"]

    def run(self) -> dict[str, Any]:
        """Carry out what is missing; return the table's content, {} with `dry_run`."""
        plan = self.plan
        for prefix in plan.tests.values():  # before anything is trained
            for language in self.languages:
                read_layout(side(prefix, language))
        for test, path in plan.contrastive.items():
            sources = [group.variants[0].source for group in read_contrastive(Path(path))]
            self._blocks[test] = [n for n, (_, same) in enumerate(groupby(sources)) for _ in same]
        names = sorted({**plan.starts, **plan.systems}, key=self._depth)
        runs = [(name, self._seed(name, seed)) for seed in plan.seeds for name in names]
        for name, seed in dict.fromkeys(runs):  # a start with a seed of its own is there for all
            self._train(name, seed)
        trained = {name: [] if self.dry_run else [self._trained(name, s) for s in plan.seeds] for name in plan.systems}
        for trait in (trait for trait in ("updates", "data") if trait not in plan.unequal and not self.dry_run):
            values = {name: sorted({str(getattr(one, trait)) for one in seeds}) for name, seeds in trained.items()}
            if len({tuple(value) for value in values.values()}) > 1:  # by patience, or other text in a folder
                shown = "; ".join(f"{name}: {', '.join(value)}" for name, value in values.items())
                raise UserError(f"{self.folder}: the systems were trained with unequal {trait} ({shown}); {say(trait)}")
        self._prepare_tests()
        for name in plan.systems:
            for seed in plan.seeds:
                for number, test in enumerate(plan.tests):
                    self._translate(name, seed, number, test)
                for test, path in plan.contrastive.items():
                    self._choose(name, seed, test, path)
        return {} if self.dry_run else self._collect(trained)

    # Training.

    def _options(self, name: str) -> dict[str, Any]:
        return {**self.plan.train, **{**self.plan.starts, **self.plan.systems}[name]}

    def _depth(self, name: str) -> int:
        start = self._options(name).get("start")
        return 0 if start is None else 1 + self._depth(start)

    def _seed(self, name: str, seed: int) -> int:
        return int(self.plan.starts.get(name, {}).get("seed", seed))

    def _model(self, name: str, seed: int) -> Path:
        return self.folder / name / f"seed-{self._seed(name, seed)}" / "model"

    def _checkpoint(self, name: str, seed: int) -> Path:
        return self._model(name, seed) / f"checkpoint_{self.plan.checkpoint}.safetensors"

    def _train(self, name: str, seed: int) -> None:
        """Train until docnmt-train says that its limit is reached; an interrupted training goes on."""
        options, model = self._options(name), self._model(name, seed)
        start, data = options.pop("start", None), options.pop("data", self.plan.data)
        options.pop("seed", None)
        words = [data, "--save-dir", str(model), "--seed", str(seed)]
        if start is not None:
            words += ["--finetune-from-model", str(self._checkpoint(start, seed))]
        last = model / "checkpoint_last.safetensors"
        config, limit = model.parent / "train.yaml", options.get("max_update")
        header = read_header(last)[0] if self._was_made(last, config, words, options) else None
        if header is not None and limit is not None and int(header["progress"].get("update", 0)) >= limit:
            if start is not None and not newer(last, self._checkpoint(start, seed)):
                raise UserError(f"{model}: its start {start} was trained anew since; delete {model} to train it, too")
            if header["fingerprint"] != read_meta(Path(data))["fingerprint"]:
                raise UserError(f"{model}: was trained on other data than {data} has now; delete {model}")
            return
        self._make("train", config, words, options)

    def _was_made(
        self, result: Path, config: Path, words: Sequence[str], options: Mapping[str, Any], *sources: Path
    ) -> bool:
        """Return whether a result was made with these words and options, which `config` keeps, and of these files."""
        is_same = config.exists() and config.read_text(encoding="utf-8") == _record(words, options)
        return is_same and result.exists() and newer(result, *sources)

    def _make(
        self, command: str, config: Path, words: Sequence[str], options: Mapping[str, Any], *,
        output: Path | None = None, finish: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        """Run a command; `output` takes what it prints. Only after it, and `finish`, `config` says how it was made."""
        if self.dry_run:
            self._command(command, *words, "--config", str(config))
            return
        begun = config.with_suffix(".begun.yaml")
        config.parent.mkdir(parents=True, exist_ok=True)
        write_text(begun, _record(words, options))
        config.unlink(missing_ok=True)
        text = self._command(command, *words, "--config", str(begun), output=output is not None)
        if output is not None:
            write_text(output, text)
        if finish is not None:
            finish()
        os.replace(begun, config)

    def _trained(self, name: str, seed: int) -> Trained:
        options = self._options(name)
        header, shapes = read_header(self._model(name, seed) / "checkpoint_last.safetensors")
        best, _ = read_header(self._checkpoint(name, seed))
        updates, data, start = int(header["progress"]["update"]), str(header["fingerprint"]), options.get("start")
        if start is not None:
            before = self._trained(start, seed)
            updates, data = updates + before.updates, f"{before.data} {data}"
        parameters = sum(int(np.prod(shape)) for tensor, shape in shapes.items() if tensor.startswith("model."))
        return Trained(updates, parameters, data, start, float(best["scores"].get("loss", float("nan"))))

    # Test sets.

    def _prepare_tests(self) -> None:
        """Make a data folder of all test sets, and one of the same sentences in other documents."""
        plan = self.plan
        kinds = {"tests": list(plan.tests.values())} if plan.tests else {}
        if plan.tests and plan.foreign:
            for test, prefix in plan.tests.items():
                if not self.dry_run:
                    self._write_foreign(prefix, self.folder / "foreign-text" / test)
            kinds["foreign"] = [str(self.folder / "foreign-text" / test) for test in plan.tests]
        source, target = self.languages
        texts = [side(prefix, language) for prefix in plan.tests.values() for language in self.languages]
        texts += [path for prefix in plan.tests.values() if (path := Path(f"{prefix}.levels.tsv")).exists()]
        for kind, prefixes in kinds.items():
            config, words = self.folder / f"{kind}.yaml", ["-s", source, "-t", target, "--srcdict", plan.data]
            words += ["--destdir", str(self.folder / kind), "--overwrite", "--testpref", *prefixes]
            if not self._was_made(self.folder / kind / "meta.json", config, words, {}, *texts):
                self._make("preprocess", config, words, {})

    def _write_foreign(self, prefix: str, out: Path) -> None:
        """Write a test set's sentences in documents of the same lengths, drawn from all; units stay where they were."""
        out.parent.mkdir(parents=True, exist_ok=True)
        for language in self.languages:
            layout = read_layout(side(prefix, language))
            sentences = [layout.sentences[number] for number in foreign_order(layout)]
            write_text(Path(f"{out}.{language}"), in_documents(sentences, layout))
        levels = Path(f"{prefix}.levels.tsv")
        if levels.exists():
            units = [row for row in levels.read_text(encoding="utf-8").splitlines() if row.strip()]
            write_text(Path(f"{out}.levels.tsv"), in_documents(units, layout))

    def _translate(self, name: str, seed: int, number: int, test: str) -> None:
        """Translate a test set, and the same sentences in other documents, whose lines then go back to their places."""
        checkpoint = self._checkpoint(name, seed)
        for kind in ("tests", "foreign")[: len(self._contexts)]:
            results = self._results(name, seed, test, kind)
            words = [str(self.folder / kind), "--gen-subset", f"test{number or ''}", "--path", str(checkpoint)]
            words += ["--results-path", str(results), "--overwrite", "--quiet"]
            config, is_foreign = results.parent / f"{results.name}.yaml", kind == "foreign"
            result = results / ("restored.txt" if is_foreign else "hypotheses.txt")
            sources = (checkpoint, self.folder / kind / "meta.json")
            if not self._was_made(result, config, words, self.plan.generate, *sources):
                finish = partial(self._restore, test, results) if is_foreign else None
                self._make("generate", config, words, self.plan.generate, finish=finish)

    def _restore(self, test: str, results: Path) -> None:
        """Write the translations of sentences in other documents at the places of these sentences."""
        target = read_layout(side(self.plan.tests[test], self.languages[1]))
        order = foreign_order(target)
        rows = tuple(in_documents([target.sentences[n] for n in order], target).splitlines())
        shuffled = LineLayout(target.path, rows, target.document_offsets, tuple(map(bool, rows)))
        lines = [line for _, line in sorted(zip(order, shuffled.align(results / "hypotheses.txt"), strict=True))]
        write_text(results / "restored.txt", in_documents(lines, target))

    def _results(self, name: str, seed: int, test: str, kind: str = "tests") -> Path:
        return self.folder / name / f"seed-{seed}" / (test if kind == "tests" else f"{test}-foreign")

    def _choose(self, name: str, seed: int, test: str, path: str) -> None:
        checkpoint = self._checkpoint(name, seed)
        for context in self._contexts:
            results = self.folder / name / f"seed-{seed}" / f"{test}.{context}.json"
            config, words = results.with_suffix(".yaml"), ["--contrastive", path, "--context", context]
            words += ["--path", str(checkpoint), "--json"]
            if not self._was_made(results, config, words, {}, checkpoint, Path(path)):
                self._make("score", config, words, {}, output=results)

    @property
    def _contexts(self) -> tuple[str, ...]:
        return ("true", "foreign") if self.plan.foreign else ("true",)

    # Scores.

    def _collect(self, trained: Mapping[str, Sequence[Trained]]) -> dict[str, Any]:
        """Score all translations; return the table's content and write it as JSON and Markdown."""
        plan = self.plan
        first = next(iter(plan.systems))
        rows: dict[str, Any] = {}
        for name, seeds in trained.items():
            row = rows[name] = {
                "start": seeds[0].start, "updates": sorted({one.updates for one in seeds}),
                "parameters": seeds[0].parameters, "valid_loss": of_seeds([one.valid_loss for one in seeds]),
                "tests": {test: self._score(name, first, test) for test in plan.tests}, "contrastive": {},
            }  # fmt: skip
            for test in plan.contrastive:
                solved, blocks = self._solved(name, test), self._blocks[test]
                _, low, high, _ = sampled_difference(solved, np.zeros_like(solved), blocks)
                scores = {"accuracy": of_seeds((100 * solved.mean(1)).tolist()), "low": low, "high": high}
                scores["warnings"] = reservations(len({*blocks}), "blocks of groups")
                others = {"paired": self._solved(first, test)} if name != first else {}
                others |= {"foreign": self._solved(name, test, "foreign")} if plan.foreign else {}
                for kind, other in others.items():
                    keys = ("difference", "low", "high", "p_value")
                    scores[kind] = dict(zip(keys, sampled_difference(solved, other, blocks), strict=True))
                row["contrastive"][test] = scores
        content = {"baseline": first, "seeds": plan.seeds, "unequal": plan.unequal, "systems": rows}
        write_json(self.folder / "comparison.json", content)
        write_text(self.folder / "comparison.md", markdown(content))
        return content

    def _score(self, name: str, first: str, test: str) -> dict[str, Any]:
        seeds = self.plan.seeds
        words = ["--ref", str(side(self.plan.tests[test], self.languages[1])), "--json"]
        words += ["--sys", *(str(self._results(name, seed, test) / "hypotheses.txt") for seed in seeds)]
        words += ["--metrics", *self.plan.metrics] if self.plan.metrics else []
        if name != first:
            words += ["--paired", *(str(self._results(first, seed, test) / "hypotheses.txt") for seed in seeds)]
        if self.plan.foreign:
            words += ["--foreign", *(str(self._results(name, s, test, "foreign") / "restored.txt") for s in seeds)]
        scores: dict[str, Any] = json.loads(self._command("score", *words, output=True))
        scores.setdefault("seeds", {metric: of_seeds([scores[metric]]) for metric in scores["signatures"]})
        return scores

    def _solved(self, name: str, test: str, context: str = "true") -> np.ndarray:
        """Return which groups were solved (seeds, groups)."""
        files = [self.folder / name / f"seed-{seed}" / f"{test}.{context}.json" for seed in self.plan.seeds]
        reports = [json.loads(path.read_text(encoding="utf-8"))["solved"] for path in files]
        return np.array([[group["solved"] for group in report] for report in reports], dtype=float)

    def _command(self, command: str, *words: str, output: bool = False) -> str:
        """Run `docnmt COMMAND`; its progress is ours, its standard output is returned or goes to stderr."""
        plugins = [word for folder in self.plugins for word in ("--user-dir", folder)]
        shown = " ".join(["docnmt", command, *words, *plugins])
        print(f"== {shown}", file=sys.stderr, flush=True)
        if self.dry_run:
            return ""
        call = [sys.executable, "-m", "docnmt", command, *words, *plugins]
        stdout = subprocess.PIPE if output else sys.stderr
        done = subprocess.run(call, stdout=stdout, text=True, encoding="utf-8", env=os.environ, check=False)
        if done.returncode < 0 or done.returncode in (130, 143):
            raise KeyboardInterrupt
        if done.returncode:
            raise UserError(f"status {done.returncode} of this command; mend it, then run this again: {shown}")
        return done.stdout or ""


def read_plan(path: Path) -> Plan:
    """Read and check a plan."""
    try:
        with reading(path):
            content = path.read_bytes()
        plan = msgspec.yaml.decode(content, type=Plan)
        checked_yaml(content, str(path), octal=False)
    except msgspec.MsgspecError as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}; docs/guide/compare.md has an example") from error
    problems = list(_problems(plan))
    if problems:
        raise UserError(f"{path}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if problems[1:] else ""))
    return plan


def _problems(plan: Plan) -> Iterator[str]:
    known = {**plan.starts, **plan.systems}
    if len(plan.systems) < 2 and not plan.foreign:
        yield "systems: expected at least two, or foreign: true"
    if not plan.systems or not plan.seeds or len(set(plan.seeds)) < len(plan.seeds):
        yield "expected at least one system and one seed, and every seed once"
    if both := plan.starts.keys() & plan.systems.keys():
        yield f"{min(both)}: is a system and a start; a system may be a start without standing in starts"
    for name in known:
        if not _names_a_folder(name) or name in ("tests", "foreign", "foreign-text"):
            yield f"{name!r}: expected a name that can be a folder's, and not tests, foreign or foreign-text"
    for name in (*plan.tests, *plan.contrastive):
        if not _names_a_folder(name) or name in ("model", "train") or name.endswith("-foreign"):
            yield f"{name!r}: expected a test's name that can be a folder's, not model or train, without -foreign"
    for name, options in {"train": plan.train, **known}.items():
        for option in sorted({option.replace("-", "_") for option in options} & OURS):
            allowed = option == "data" or (option == "seed" and isinstance(options.get("seed"), int))
            if not allowed or name == "train" or (option == "seed" and name not in plan.starts):
                yield f"{name}: {option} is set by the comparison; use seeds, folder, data and start"
    totals: dict[str, object] = {}
    starts: dict[str, object] = {}
    data: dict[str, object] = {}
    for name in plan.systems:
        chain = 0
        seen: list[str] = []
        link: str | None = name
        while link is not None:
            if link not in known:
                yield f"{seen[-1]}: start {link}: there is no such system or start; there are {', '.join(known)}"
                return
            if link in seen:
                yield f"{name}: its start is in a circle: {' from '.join([*seen, link])}"
                return
            seen.append(link)
            options = {**plan.train, **known[link]}
            if not isinstance(options.get("max_update"), int):
                yield f"{link}: give max_update, there or in train, so that updates can be compared"
                return
            chain += options["max_update"]
            link = options.get("start")
        totals[name], starts[name] = chain, seen[1:2]
        data[name] = [{**plan.train, **known[link]}.get("data", plan.data) for link in seen]
    for wanted, values in (("updates", totals), ("starts", starts), ("data", data)):
        different = {name: value for name, value in values.items() if value != values[next(iter(plan.systems))]}
        if different and wanted not in plan.unequal:
            name, value = next(iter(different.items()))
            first = next(iter(plan.systems))
            yield f"unequal {wanted}: {first} has {values[first] or 'none'}, {name} {value or 'none'}; {say(wanted)}"


def _names_a_folder(name: str) -> bool:
    return bool(name) and not name.startswith((".", "-")) and "/" not in name


def say(wanted: str) -> str:
    return f"make them equal, or say `unequal: [{wanted}]`"


def _record(words: Sequence[str], options: Mapping[str, Any]) -> str:
    """The text of a file of options, which also says the words beside them."""
    return f"# {' '.join(words)}\n{yaml.safe_dump(dict(options), sort_keys=False, allow_unicode=True)}"


def newer(result: Path, *inputs: Path) -> bool:
    return all(result.stat().st_mtime >= path.stat().st_mtime for path in inputs)


def foreign_order(layout: LineLayout, seed: int = 1) -> list[int]:
    """Return the numbers of all sentences in an order that their number and the seed alone decide."""
    numbers = list(range(layout.document_offsets[-1]))
    random.Random(seed).shuffle(numbers)
    return numbers


def in_documents(sentences: Sequence[str], layout: LineLayout) -> str:
    """Return a sentence a line, an empty line between documents of the layout's lengths."""
    documents = (sentences[a:b] for a, b in pairwise(layout.document_offsets))
    return "\n".join("".join(f"{sentence}\n" for sentence in document) for document in documents)


def sampled_difference(
    solved: np.ndarray, others: np.ndarray, blocks: Sequence[int]
) -> tuple[float, float, float, float]:
    """Compare accuracies in percent, means over seeds, by bootstrap over `blocks`, which has the number of each group's
    block; the others are (seeds, groups), 1 if solved.

    Returns:
        difference, the bounds of the middle 95 % of the sampled ones, and p (the share of samples that lie as far from
        their mean as the difference from zero).
    """
    per_group = 100 * (solved.mean(0) - others.mean(0))  # (G,)
    sums, sizes = np.bincount(blocks, per_group), np.bincount(blocks)  # (B,)
    generator = np.random.default_rng(SEED)
    drawn = (generator.integers(len(sums), size=len(sums)) for _ in range(SAMPLES))
    sampled = np.array([sums[block].sum() / sizes[block].sum() for block in drawn])
    difference = float(per_group.mean())
    low, high = np.quantile(sampled, [0.025, 0.975])
    p_value = (int((np.abs(sampled - sampled.mean()) >= abs(difference)).sum()) + 1) / (SAMPLES + 1)
    return difference, float(low), float(high), p_value


def markdown(content: Mapping[str, Any]) -> str:
    """Return the tables: what was trained, then a table a test set."""
    systems, first = content["systems"], content["baseline"]

    def begin(test: str, head: Sequence[str]) -> list[str]:
        return ["", f"**{test}**", "", f"| system | {' | '.join(head)} |", f"| --- |{' ---: |' * len(head)}"]

    lines = ["| system | start | updates | parameters | validation loss |", "| --- | --- | ---: | ---: | ---: |"]
    for name, row in systems.items():
        updates = ", ".join(f"{number:,}" for number in row["updates"])
        lines.append(
            f"| {name} | {row['start'] or ''} | {updates} | {row['parameters']:,} | {_spread(row['valid_loss'], 3)} |"
        )
    if content["unequal"]:
        lines += ["", f"The systems may differ in: {', '.join(content['unequal'])}."]
    for test in next(iter(systems.values()))["tests"]:
        example = systems[first]["tests"][test]["seeds"]
        metrics = [*DEFAULT, *(name for name in example if name not in DEFAULT)]
        lines += begin(test, [part for m in metrics for part in (m, f"− {first}", "true − foreign")])
        for name, row in systems.items():
            scores = row["tests"][test]
            cells = []
            for metric in metrics:
                cells.append(_spread(scores["seeds"][metric], 2))
                for kind in ("paired", "foreign"):
                    compared = {c["metric"]: c for c in scores.get(kind, {"metrics": []})["metrics"]}
                    cells.append(_difference(compared[metric]) if metric in compared else "")
            lines.append(f"| {name} | {' | '.join(cells)} |")
    for test in next(iter(systems.values()))["contrastive"]:
        lines += begin(test, ["accuracy, %", "95 %", f"− {first}", "true − foreign"])
        for name, row in systems.items():
            scores = row["contrastive"][test]
            cells = [_spread(scores["accuracy"], 1), f"{scores['low']:.1f} to {scores['high']:.1f}"]
            cells += [_difference(scores[kind]) if kind in scores else "" for kind in ("paired", "foreign")]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", f"Means of {len(content['seeds'])} seeds (least to most). Differences: [middle 95 % of samples], p."]
    lines.append("A sample draws whole documents, of contrastive sets groups, those of one source sentence together.")
    lines.append("It is the same for all seeds.")
    tests = [item for row in systems.values() for kind in ("tests", "contrastive") for item in row[kind].items()]
    warned = {
        f"{test}: {warning}."
        for test, scores in tests
        for part in (scores, scores.get("paired", {}), scores.get("foreign", {}))
        for warning in part.get("warnings", [])
    }
    lines += sorted(warned)
    return "\n".join(lines) + "\n"


def _spread(values: Mapping[str, Any], digits: int) -> str:
    mean, least, most = (f"{values[key]:.{digits}f}" for key in ("mean", "least", "most"))
    return mean if least == most else f"{mean} ({least} to {most})"


def _difference(compared: Mapping[str, float]) -> str:
    difference, low, high, p_value = (compared[key] for key in ("difference", "low", "high", "p_value"))
    return f"{difference:+.2f} [{low:+.2f}, {high:+.2f}] p {p_value:.3f}"
