"""What one checkout of docnmt computes in compare_checkouts.cases, and what differs between two: see compare_checkouts.sh.

    inputs FOLDER LINES                  write what both checkouts read
    run TREE INPUTS RESULTS UPDATES PARTS  compute cases: a file a part, lines NAME tab JSON of a text with hashes of arrays
    compare OLD NEW PARTS TOLERANCE      print what differs; exit 1 if anything does
    command TREE COMMAND WORD …          one command of a checkout, in this process
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import difflib
import hashlib
import importlib
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import traceback
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CASES = Path(__file__).with_suffix(".cases").read_text("utf-8")
ENGLISH = "the a dog cat house tree sees finds old new in under and then it he they walks sleeps river you".split()
GERMAN = "die eine hund katze haus baum sieht findet alt neu in unter und dann es er sie geht schläft fluss du".split()
REAL = {"docmix": "docmix_ende", "ted": "ted_small_ende", "msctd": "msctd_ende", "diabla": "diabla_enfr"}
#: What differs from run to run: times, rates, memory, ports, places in site-packages, dates, lines of torchrun.
VARYING = [
    (r"\b\d[\d.,]*\s?(ms|s|min|h)\b", "TIME"), (r"\b\d[\d.,]*[kMG]? ([\w-]+)/s", r"RATE \1/s"), (r"\d[\d.,]* [kKMG]i?B\b", "MEMORY"),
    (r"127.0.0.1:\d+", "HOST"), (r"\S+/site-packages/(\S+?):\d+", r"\1"), (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d\S*)?", "DATE"),
    (r"(?m)^\[?[WEI]\d{4}.*\n", ""),
]  # fmt: skip
CLOCK = {"seconds", "wall", "tokens_per_second", "peak_memory", "version", "xxh3", "created", "speed", "time", "id"}


def write_inputs(root: Path, lines: int) -> None:
    """Write what the cases read as in/…, the same at each call."""
    rng = random.Random(5)

    def write(name: str, *rows: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")

    def words(longest: int) -> str:
        return " ".join(rng.choices(ENGLISH, k=rng.randint(1, longest)))

    def translated(line: str) -> str:
        return " ".join(GERMAN[ENGLISH.index(word)] for word in reversed(line.split()))

    def corpus(prefix: str, documents: int) -> list[list[tuple[str, str]]]:
        text = [[(s, translated(s)) for s in (words(9) for _ in range(rng.randint(1, 6)))] for _ in range(documents)]
        rows = [(f"{s.capitalize()}." if s else "", f"{t.capitalize()}." if s else "", str(n // 2) if s else "")
                for document in text for n, (s, t) in enumerate([*document, ("", "")])]  # fmt: skip
        for ending, column in (("en", 0), ("de", 1), ("levels.tsv", 2)):
            write(f"{prefix}.{ending}", *(row[column] for row in rows[:-1]))
        return text

    for name, rows in itertools.groupby(re.findall(r"^in/(\S+): (.*)$", CASES, re.M), lambda row: row[0]):
        write(name, *(row for _, row in rows))
    _, _, test = corpus("train", 60), corpus("valid", 4), corpus("test", 5)
    source, target = ((root / f"test.{ending}").read_text("utf-8").splitlines() for ending in ("en", "de"))
    for system in "ab":
        write(f"{system}.txt", *(" ".join(w for w in line.split() if rng.random() < 0.8) for line in target))
    for name, rows in (("refs.en", source), ("refs.de0", target), ("refs.de1", [line[:-1] for line in target])):
        write(name, *rows)
    write("only.en", *source)
    write("joined.txt", " ".join(line or "\n\n" for line in target))
    write("dirty.en", *source, "", "A &apos;dog &apos;s house .", "The cat .", "", *source)
    write("dirty.de", *target, "", "Ein &quot; Hund &quot; .", "", "", *target)
    write("marked.en", "<d>", "<p>", *filter(None, source), "<d>", "<p>", "A dog.")
    write("marked.de", "<d>", "<p>", *filter(None, target), "<d>", "<p>", "Ein Hund.")
    write("table.jsonl", *(json.dumps({"s": s, "t": t, "d": n}) for n, d in enumerate(test) for s, t in d))
    write("text.txt", *(f"{words(6).capitalize()}. You see {n} dogs? {words(3)}" if n % 4 else "" for n in range(1, 14)))
    write("given.txt", *("Die Katze." if n % 3 == 0 and n % 4 else "" for n in range(1, 14)))
    questions = [(d[0], d[1], n) for n, d in enumerate(test) if len(d) > 1]
    rows = [f"{n}\t{right}\t{c[0]}\t{q[0]}\t{c[1]}\t{q[1] if right else translated(words(5))}\t{n % 2}"
            for c, q, n in questions for right in (1, 0, 0)]  # fmt: skip
    write("contrastive.tsv", "group\tcorrect\tsrc_context\tsrc\ttgt_context\ttgt\tkind", *rows)
    rows = [f"hund\t{c[0]}\t{q[0]}\t{c[1]}" for c, q, _ in questions]
    write("questions.tsv", "expected\tsrc_context\tsrc\ttgt_context", *rows)
    write("answers.txt", *(q[1] for _, q, _ in questions))
    for split, size in (("", 60), ("-valid", 15)):
        write(f"texts{split}.tsv", *(f"{rng.choice('ab')}\t{words(20)}" for _ in range(size)))
        labels = [rng.choice(("entailment", "neutral", "contradiction")) for _ in range(size)]
        write(f"pairs{split}.tsv", "label\ttext\ttext2", *(f"{label}\t{words(9)}\t{words(9)}" for label in labels))
    for name, width in (("vectors.txt", 8), ("vectors2.txt", 5)):
        write(name, *(" ".join([word, *(f"{rng.gauss(0, 1):.3f}" for _ in range(width))]) for word in ENGLISH))
    write("counts.txt", *(f"{word} {n + 1}" for n, word in enumerate(ENGLISH)))
    write("senteval/MR/all.tsv", "label\ttext", *(f"{n % 2}\t{words(5)}" for n in range(60)))
    for split in ("train", "dev", "test"):
        rows = [f"{n % 6}\t{words(5)}\t{words(5)}" for n in range(20)]
        write(f"senteval/STSB/{split}.tsv", "score\ttext\ttext2", *rows)
    for split in ("train", "valid"):
        write(f"letters/{split}.txt", *source)
    repository = Path(__file__).parents[1]
    blocks = re.findall(r"```python\n# (mine/(?!test)\w+\.py)\n(.*?)```", (repository / "CONTRIBUTING.md").read_text("utf-8"), re.S)
    for name, code in blocks:  # plug-ins of every kind
        write(name, code)
    sys.path.insert(0, str(repository / "tests" / "support"))
    module = ast.parse((repository / "tests" / "support" / "sample_documents.py").read_text("utf-8"))
    module.body = [part for part in module.body if "docnmt" not in ast.unparse(part) and not hasattr(part, "bases")]
    module.body = [part for part in module.body if getattr(part, "name", "content") in ("content", "docx", "odt")]
    samples: dict[str, Any] = {}
    exec(compile(module, "sample_documents.py", "exec"), samples)  # without what imports the package
    for kind in samples["KINDS"]:
        write(f"documents/x.{kind}")
        (root / "documents" / f"x.{kind}").write_bytes(samples["content"](kind))
    data = Path(os.environ.get("DOCNMT_DATA") or Path.home() / ".cache" / "docnmt-data")
    for name, folder in REAL.items():
        for file in sorted((data / folder).glob("*")) if lines else ():
            if file.name.endswith((".en", ".de", ".fr", ".levels.tsv")):
                write(f"{name}/{file.name}", *file.read_text("utf-8").split("\n")[:lines])


def contents(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of a file, but for times: arrays as hashes, weights as hashes and sums, beside their header."""
    raw = path.read_bytes()
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            header = {key: json.loads(value) for key, value in (file.metadata() or {}).items() if value.startswith("{")}
            yield f"{path}:header", json.dumps(without_clock(header), indent=1)
            yield str(path), "\n".join(f"{name} {weights(file.get_tensor(name))}" for name in sorted(file.keys()))
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as package:
            yield str(path), "\n".join(f"{name} {digest(package.read(name))}" for name in package.namelist())
    elif b"\0" in raw or path.suffix == ".model":
        yield str(path), digest(raw)
    else:
        text = raw.decode(errors="backslashreplace")
        with contextlib.suppress(ValueError):
            if path.suffix in (".json", ".jsonl"):
                values = map(json.loads, text.splitlines() if path.suffix == ".jsonl" else [text])
                text = "\n".join(json.dumps(without_clock(value), indent=1) for value in values)
        yield str(path), text


def digest(raw: bytes) -> str:
    return f"#{hashlib.sha256(raw).hexdigest()[:16]} {len(raw)} bytes"


def weights(tensor: Any) -> str:
    """Return a tensor's type, shape, hash and two sums, which say how far apart two tensors are."""
    import torch

    raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    sums = f"{tensor.double().sum():.17f} {tensor.double().norm():.17f}" if tensor.is_floating_point() else ""
    return f"{tensor.dtype} {list(tensor.shape)} {digest(raw)} {sums}"


def without_clock(value: Any) -> Any:
    """Return parsed JSON without what depends on time, machine and version."""
    if isinstance(value, list):
        return [without_clock(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if key not in CLOCK and (key != "docnmt" or isinstance(item, dict))}
    return {key: without_clock(item) for key, item in kept.items()}


class Checkout:
    """A checkout's cases. Its commands run in copies of this process, which has imported torch."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.scripts = dict(re.findall(r'^(docnmt[\w-]*) = "(.+)"$', (tree / "pyproject.toml").read_text(), re.M))

    def main(self, command: str, words: list[str]) -> int:
        """Run a command in this process: docnmt-COMMAND, docnmt COMMAND or docnmt.cli.COMMAND."""
        script, more = (f"docnmt-{command}", []) if f"docnmt-{command}" in self.scripts else ("docnmt", [command])
        module, _, function = self.scripts.get(script, f"docnmt.cli.{command}:main").partition(":")
        sys.argv = [script, *more, *words] if script in self.scripts else [script, *words]
        status: int = getattr(importlib.import_module(module), function)()
        return status

    def copied(self, function: Callable[[], int | None], stdin: str = os.devnull) -> tuple[int, str, str]:
        """Call a function in a copy of this process; return its exit status, stdout and stderr."""
        sys.stdout.flush()
        if not (process := os.fork()):
            status = 1
            for number, name in enumerate((stdin, "stdout", "stderr")):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY), number)
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
            signal.alarm(900)
            try:
                status = function() or 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        return status, Path("stdout").read_text("utf-8"), Path("stderr").read_text("utf-8")

    def cases(self, updates: str) -> dict[str, str]:
        """Return name and command of every case, with names from docnmt-train --list in place of {…}."""
        listed = dict(re.findall(r"^(\w+):\n((?:  .*\n)+)", self.copied(lambda: self.main("train", ["--list"]))[1], re.M))
        names = {kind: re.findall(r"^  (\w+)", block, re.M) for kind, block in listed.items()}
        names["arch"] = [name for name in names["architecture"] if re.match("(?!fusion_c|inferlite).*_tiny$", name)]
        names["command"] = sorted(name[7:] for name in self.scripts if "-" in name)
        names["kind"] = sorted(file.suffix[1:] for file in Path("in/documents").iterdir())
        values, cases = {"UPDATES": updates}, {}
        for line in re.findall("^[^#\n].*", CASES, re.M):
            line = re.sub(r"\{([A-Z]+)\}", lambda match: values[match[1]], line)
            if match := re.fullmatch("([A-Z]+) = (.*)", line):
                values[match[1]] = match[2]
            elif match := re.fullmatch(r"((?!in/)[a-z]+/[\w{}-]+): (.*)", line):
                names["model"] = [name[8:] for name, case in cases.items() if re.match("train data/toy(?!.*in/mine)", case)]
                template = re.search(r"\{(\w+)\}", match[1])
                for name in names[template[1]] if template else [""]:
                    filled = [text.replace(template[0], name) if template else text for text in match.groups()]
                    cases[filled[0]] = filled[1].replace("OUT", filled[0])
        return cases

    def outputs(self, name: str) -> list[Path]:
        """Return the files that a case wrote: NAME, all that is in it, and NAME.*."""
        tops = [Path(name), *Path(name).parent.glob(f"{Path(name).name}.*")]
        return sorted(file for top in tops for file in [top, *top.rglob("*")] if file.is_file() and file.name != ".lock")

    def compute(self, name: str, cases: dict[str, str]) -> dict[str, str]:
        """Compute a case, and before it those whose files it reads; return its texts by name."""
        case, _, stdin = cases[name].partition(" < ")
        needed = re.findall(r"(?:in|data|updates|commands)/[\w-]+", f"{case} {stdin}")
        if missing := [path for path in needed if path.startswith("in/") and not [*Path("in").glob(f"{path[3:]}*")]]:
            print(f"not computed: {name}: there is no {missing[0]}", file=sys.stderr)
            return {}
        for other in needed:
            if other != name and other in cases and not self.outputs(other):
                self.compute(other, cases)
        for file in self.outputs(name):
            file.unlink()
        Path(name).parent.mkdir(exist_ok=True)
        command, *words = shlex.split(case)
        if command == "copy":
            shutil.copytree(words[0], name, dirs_exist_ok=True)
            command, *words = words[1:]
        own = [str(Path(__file__)), "command", str(self.tree)]
        ways: dict[str, Callable[[], int | None]] = {
            "fresh": lambda: subprocess.call([sys.executable, *own, *words]),
            "ranks": lambda: subprocess.call(["torchrun", "--standalone", "--nproc-per-node", "2", *own, *words]),
            "python": lambda: translate(words[0]),
            "serve": lambda: serve([sys.executable, *own, command, *words]),
        }
        way = ways.get(command, lambda: self.main(command, words))
        status, out, err = self.copied(way, stdin or os.devnull)
        texts = {name: f"exit {status}\n{out}--- stderr\n{err}"}
        return texts | dict(text for file in self.outputs(name) for text in contents(file))

    def run(self, part: str, cases: dict[str, str], results: Path) -> None:
        """Compute the cases of a part and write their texts."""
        version = importlib.import_module("docnmt").__version__
        fixed = {str(self.tree): "TREE", str(Path.cwd()): "WORK", version: "VERSION"}
        texts = {"options/options.txt": (self.tree / "tests/compat/options.txt").read_text()} if part == "options" else {}
        for name in [name for name in cases if name.startswith(f"{part}/")]:
            texts |= self.compute(name, cases)
        for name, text in texts.items():
            for old, new in fixed.items():
                text = text.replace(old, new)
            for pattern, new in VARYING if not name.endswith("safetensors") else ():
                text = re.sub(pattern, new, text)
            texts[name] = text
        results.write_text("".join(f"{name}\t{json.dumps(text)}\n" for name, text in texts.items()))


def translate(path: str) -> None:
    """Print how a model translates and scores in Python, with each of the options of stdin."""
    import docnmt

    blocks = [[Path(f"in/test.{side}").read_text("utf-8").split("\n\n") for side in ("en", "de")]]
    sources, targets = ([block.split("\n") for block in side] for side in (block for block in blocks[0]))
    translator = docnmt.load(path)
    print(translator.score(sources, targets))
    half = [[text if n % 2 == 0 else None for n, text in enumerate(document)] for document in targets]
    for line, given in itertools.product(sys.stdin, (None, half)):
        print(line, given is not None)
        try:
            found = translator.translate(sources, given=given, max_len_a=0, max_len_b=12, **json.loads(line))
            print(*itertools.chain(*found), sep="\n")
        except Exception as error:
            print(type(error).__name__, error)


def serve(command: list[str]) -> None:
    """Print what the service answers to the requests of stdin."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout
    address = next(match[0] for line in process.stdout if (match := re.search(r"http://[\d.:]+", line)))
    for line in sys.stdin:
        path, _, body = line.strip().partition("\t")
        request = urllib.request.Request(address + path, body.encode() or None, {"Content-Type": "application/json"})
        try:
            status, answer = 200, urllib.request.urlopen(request).read()
        except urllib.error.HTTPError as error:
            status, answer = error.code, error.read()
        print(line, status, json.dumps(without_clock(json.loads(answer)), indent=1))
    process.terminate()
    print(process.wait())


def compare(old: Path, new: Path, parts: list[str], tolerance: bool) -> int:
    """Print the texts that differ; return 1 if any does."""
    status = 0
    for part in parts:
        lines = [(folder / f"{part}.tsv").read_text("utf-8").splitlines() for folder in (old, new)]
        first, second = ({name: json.loads(text) for name, text in (line.split("\t", 1) for line in one)} for one in lines)
        differing, largest = 0, (0.0, "")
        for name in dict.fromkeys([*first, *second]):
            one, other = first.get(name), second.get(name)
            if one == other:
                continue
            if one is not None and other is not None and tolerance:
                (texts, numbers), (texts2, numbers2) = split_numbers(one), split_numbers(other)
                if texts == texts2:
                    apart = (abs(a - b) / max(abs(a), abs(b)) for a, b in zip(numbers, numbers2) if a != b)
                    largest = max(largest, (max(apart, default=0.0), name))
                    continue
            differing += 1
            print(f"{name}: only in {'NEW' if one is None else 'OLD'}" if one is None or other is None else f"{name}: differs")
            if one is not None and other is not None:
                diff = difflib.unified_diff(one.splitlines(), other.splitlines(), n=0, lineterm="")
                print(*(f"    {line[:300]}" for line in itertools.islice(diff, 2, 14)), sep="\n")
        print(f"{part}: {len(first)} and {len(second)} texts: {f'{differing} differ' if differing else 'equal'}", end="")
        print(f"; largest relative difference {largest[0]:.2g} {largest[1]}" if tolerance else "")
        status |= bool(differing)
    return status


def split_numbers(text: str) -> tuple[list[str], list[float]]:
    """Return a text's parts beside its numbers with a point, and these numbers, without hashes."""
    parts = re.split(r"(-?\d+\.\d+(?:e[-+]?\d+)?)", re.sub("#[0-9a-f]{16}", "#", text))
    return parts[::2], [float(part) for part in parts[1::2]]


def main(verb: str, *words: str) -> int:
    if verb == "inputs":
        write_inputs(Path(words[0]), int(words[1]))
        return 0
    if verb == "compare":
        return compare(Path(words[0]), Path(words[1]), words[2].split(","), words[3] == "yes")
    checkout = Checkout(Path(words[0]))
    if verb == "command":
        return checkout.main(words[1], list(words[2:]))
    import docnmt
    import docnmt.plugin  # noqa: F401 (imports torch, once for all commands)

    assert Path(docnmt.__file__).is_relative_to(words[0]), f"docnmt is imported from {docnmt.__file__}"
    results = Path(words[2])
    work = results / "work"
    if not work.exists():
        shutil.copytree(words[1], work / "in")
    os.chdir(work)
    cases = checkout.cases(words[3])
    for part in words[4].split(","):
        if not (file := results / f"{part}.tsv").exists():
            checkout.run(part, cases, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
