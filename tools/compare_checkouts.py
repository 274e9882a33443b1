"""What one checkout computes in compare_checkouts.cases, and what differs between two; compare_checkouts.sh runs this.

inputs FOLDER LINES                    write what both checkouts read
run TREE INPUTS RESULTS UPDATES PARTS  compute cases: a file a part, of lines NAME tab TEXT; arrays are hashes in it
compare OLD NEW PARTS [--tolerance]    print what differs
command TREE COMMAND WORD ...          run one command of a checkout
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import importlib
import itertools
import json
import multiprocessing
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CASES = Path(__file__).with_suffix(".cases").read_text("utf-8")
WORDS = re.findall(r"\w+", re.search("^WORDS = (.*)", CASES, re.M)[1])
#: What differs from run to run: times, rates, memory, ports, lines of modules, dates, progress, torchrun's own words.
VARYING = [
    (r"([\d.]{1,9} \+ )?\b\d[\d.,]{0,15} ?(ms|s|min|h)\b(?!-)", "TIME"), (r"127\.0\.0\.1:\d+", "HOST"),
    (r"idle [\d.]+", "idle TIME"),
    (r"\b\d[\d.,]{0,15}[kMG]? ([\w-]{1,20})/s\b", r"RATE \1/s"), (r"\d[\d.,]{0,15} [kKMG]i?B\b", "MEMORY"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d\S{0,20})?", "DATE"), (r"site-packages/([\w./-]+):\d+", r"\1"),
    (r"TREE/docnmt/[\w/]+\.py(:\d+)?", "MODULE"), (r"(?m)^(\[?[WEI]\d{4}|.* TIME left).*\n", ""),
]  # fmt: skip
CLOCK = {"seconds", "encoding s", "classifier s", "wall", "speed", "time", "created", "id", "tokens_per_second"}
CLOCK |= {"idle", "busy", "slowest", "peak_memory", "version", "xxh3"}


def write_inputs(root: Path, lines: int) -> None:
    """Write what the cases read as in/...: lines of the cases, documents, plug-ins, the first lines of real corpora."""
    rng, words = random.Random(5), [""]
    texts: dict[str, list[str]] = defaultdict(list)

    def filled(match: re.Match[str]) -> str:
        if match[1].isdigit():
            words[:] = rng.choices(WORDS, k=rng.randint(1, int(match[1])))
        values = {"t": " ".join(word[::-1] for word in words), "e": rng.choice(WORDS), "g": rng.choice(WORDS)[::-1]}
        values |= {"n": str(number), "w": WORDS[number % len(WORDS)], "f": f"{rng.gauss(0, 1):.3f}"}
        values |= {"s": " ".join(words), match[1]: " ".join(words)} if match[1].isdigit() or match[1] == "s" else {}
        return values.get(match[1]) or rng.choice(match[1].split("|"))

    for names, count, template in re.findall(r"^in/(\S+?)(?: x(\d+))?: (.*)$", CASES, re.M):
        for number in range(int(count or 1)):  # noqa: B007 (read by `filled`)
            text = re.sub(r"\{([a-z]|\d+|\w+\|[\w|]+)\}", filled, template.replace(r"\n", "\n")) if count else template
            for line in text.split("\n"):
                for name, column in zip(names.split(","), line.split("\t") if "," in names else [line], strict=True):
                    texts[name].append(column)
    pages = "".join(path.read_text() for path in sorted((ROOT / "docs/extend").glob("*.md")))
    plugins = re.findall(r"```python\n# (mine/(?!test)\w+\.py)\n(.*?)```", pages, re.S)
    texts |= {name: code.split("\n") for name, code in plugins}
    data = Path(os.environ.get("DOCNMT_DATA") or Path.home() / ".cache" / "docnmt-data")
    for file in sorted(data.glob("*/*")) if lines else ():
        if f" in/{file.parent.name}/" in CASES and re.search(r"\.(..|levels\.tsv)$", file.name):
            texts[f"{file.parent.name}/{file.name}"] = file.read_text("utf-8").split("\n")[:lines]
    for name, rows in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(f"{row}\n" for row in rows), "utf-8")
    sys.path.insert(0, str(ROOT / "tests/support"))
    module = ast.parse((ROOT / "tests/support/sample_documents.py").read_text("utf-8"))
    module.body = [part for part in module.body if getattr(part, "name", "content") in ("content", "docx", "odt")]
    # The package's own parts are of one commit.
    module.body = [part for part in module.body if not re.search(r"\bdocnmt\b|\bkinds\.", ast.unparse(part))]
    exec(compile(module, "sample_documents.py", "exec"), samples := {})
    for kind in sorted({*samples["TEXTS"], *samples["MADE"], *samples["PACKAGES"]}):
        (root / f"x.{kind}").write_bytes(samples["content"](kind))


def contents(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of a file, but for times: arrays as hashes, weights with sums, their header apart."""
    raw = path.read_bytes()
    if path.suffix == ".safetensors":
        import torch
        from safetensors import safe_open

        lines = []
        with safe_open(path, "pt") as file:
            metadata = sorted((file.metadata() or {}).items())
            header = {key: json.loads(value) for key, value in metadata if value.startswith("{")}
            for name, tensor in sorted((name, file.get_tensor(name)) for name in file.keys()):  # noqa: SIM118
                raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
                sums = f"{tensor.double().sum():.17f} {tensor.double().norm():.17f}"  # how far two are apart
                lines.append(f"{name} {tensor.dtype} {list(tensor.shape)} {digest(raw)} {sums}")
        yield f"{path}:header", json.dumps(without_clock(header), indent=1)
        yield str(path), "\n".join(lines)
    elif path.suffix == ".onnx":
        graph = str(importlib.import_module("onnx").load(path, load_external_data=False))
        yield str(path), digest(re.sub(r"metadata_props \{(\n.*){2}", "", graph).encode())  # places in the source
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as package:
            yield str(path), "\n".join(f"{name} {digest(package.read(name))}" for name in package.namelist())
    elif b"\0" in raw or path.suffix in (".bin", ".model"):
        yield str(path), digest(raw)
    else:
        text = raw.decode(errors="backslashreplace")
        with contextlib.suppress(ValueError):
            parts = {".json": [text], ".jsonl": text.splitlines()}.get(path.suffix, [])
            text = "\n".join(json.dumps(without_clock(json.loads(part)), indent=1) for part in parts) or text
        yield str(path), text


def digest(raw: bytes) -> str:
    return f"#{hashlib.sha256(raw).hexdigest()[:16]} {len(raw)} bytes"


def without_clock(value: Any) -> Any:
    """Return parsed JSON without what depends on time, machine and version."""
    if isinstance(value, dict):
        kept = {key for key, item in value.items() if key not in CLOCK and (key != "docnmt" or isinstance(item, dict))}
        return {key: without_clock(item) for key, item in value.items() if key in kept}
    return [without_clock(item) for item in value] if isinstance(value, list) else value


class Checkout:
    """The cases of a checkout. Its commands run in copies of this process, which has imported torch."""

    def __init__(self, tree: Path) -> None:
        self.tree, self.command, self.needed = tree, [sys.executable, __file__, "command", str(tree)], set()
        self.scripts = dict(re.findall(r'^(docnmt[\w-]*) = "(.+)"$', (tree / "pyproject.toml").read_text(), re.M))

    def main(self, command: str, *words: str) -> Any:
        """Run a command in this process: docnmt-COMMAND, or docnmt COMMAND, or the module docnmt.cli.COMMAND."""
        script, more = (f"docnmt-{command}", []) if f"docnmt-{command}" in self.scripts else ("docnmt", [command])
        module, function = self.scripts.get(script, f"docnmt.cli.{command}:main").split(":")
        sys.argv = [script, *(more if script in self.scripts else []), *words]
        return getattr(importlib.import_module(module), function)()

    def copied(self, stdin: str, function: Callable[..., Any], *words: Any) -> tuple[int | None, str, str]:
        """Call a function in a copy of this process; return its exit status, stdout and stderr."""
        process = multiprocessing.get_context("fork").Process(target=redirected, args=(stdin, function, *words))
        process.start()
        process.join(900)
        process.kill()
        return process.exitcode, Path("stdout").read_text("utf-8"), Path("stderr").read_text("utf-8")

    def cases(self, updates: str) -> dict[str, str]:
        """Return name and command of every case."""
        listed = re.findall(r"^(\w+):\n((?:  .*\n)+)", self.copied(os.devnull, self.main, "train", "--list")[1], re.M)
        names = {kind: re.findall(r"^  (\w+)", block, re.M) for kind, block in listed}
        names["arch"] = [name for name in names["architecture"] if re.match("(?!fusion_c|inferlite).*_tiny$", name)]
        names["command"] = sorted(name[7:] for name in self.scripts if "-" in name)
        names["kind"] = sorted(file.suffix[1:] for file in Path("in").glob("x.*"))
        values, cases = {"UPDATES": updates}, {}
        for line in re.findall("^[^#\n].*", CASES, re.M):
            line = re.sub(r"\{([A-Z]+)\}", lambda match: values[match[1]], line)
            if match := re.fullmatch("([A-Z]+) = (.*)", line):
                values[match[1]] = match[2]
            elif match := re.fullmatch(r"((?!in/)[a-z]+/[\w{}-]+): (.*)", line):
                names["model"] = [name[8:] for name in cases if re.match("train data/toy(?!.*mine)", cases[name])]
                kind = re.search(r"\{(\w+)\}|$", match[1])
                for value in names[kind[1]] if kind[1] else [""]:
                    name, case = (text.replace(kind[0] or "{}", value) for text in match.groups())
                    cases[name] = case.replace("OUT", name)
        return cases

    def outputs(self, name: str) -> list[Path]:
        """Return the files that a case wrote: NAME, all that is in it, and NAME.*."""
        files = (file for top in Path().glob(f"{name}*") for file in [top, *top.rglob("*")])
        return sorted(file for file in files if re.match(rf"{name}(?![\w-])(?!.*\.lock)", str(file)) and file.is_file())

    def compute(self, name: str, cases: dict[str, str]) -> dict[str, str]:
        """Compute a case, and before it those whose files it reads; return its texts by name."""
        case, _, stdin = cases[name].partition(" < ")
        paths = re.findall(r"(?:in|data|updates|commands)/[\w-]+", f"{case} {stdin}")
        if missing := [path for path in paths if path.startswith("in/") and not [*Path("in").glob(f"{path[3:]}*")]]:
            print(f"not computed: {name}: there is no {missing[0]}", file=sys.stderr)
            return {}
        for path in paths:
            if path != name and path in cases and path not in self.needed and not self.outputs(path):
                self.needed.add(path)
                if not self.compute(path, cases)[path].startswith("exit 0"):
                    print(f"failed: {path}, which {name} reads", file=sys.stderr)
        for file in self.outputs(name):
            file.unlink()
        Path(name).parent.mkdir(exist_ok=True)
        command, *words = shlex.split(case.replace("TREE", str(self.tree)))
        if command == "copy":
            shutil.copytree(words[0], name, dirs_exist_ok=True)
            command, words = words[1], words[2:]
        ranks = ["torchrun", "--standalone", "--nproc-per-node", "2", *self.command[1:], *words]
        ways = {"fresh": (subprocess.call, [*self.command, *words]), "ranks": (subprocess.call, ranks)}
        ways |= {"print": (lambda path: print(Path(path).read_text("utf-8")), *words)}
        ways |= {"python": (translate, *words), "service": (serve, [*self.command, "serve", *words])}
        status, out, err = self.copied(stdin or os.devnull, *ways.get(command, (self.main, command, *words)))
        outputs = (text for file in self.outputs(name) for text in contents(file))
        return {name: f"exit {status}\n{out}--- stderr\n{err}", **dict(outputs)}

    def run(self, part: str, cases: dict[str, str]) -> None:
        """Compute the cases of a part and write their texts beside the folder of work."""
        version = importlib.import_module("docnmt").__version__
        part_file = Path("..", part.replace("/", "-"))
        with part_file.with_suffix(".part").open("w", encoding="utf-8") as file:
            for name in [name for name in cases if name.startswith(part)]:
                for key, text in self.compute(name, cases).items():
                    for old, new in ((str(self.tree), "TREE"), (str(Path.cwd()), "WORK"), (version, "VERSION")):
                        text = text.replace(old, new)
                    for pattern, new in VARYING if not key.endswith("safetensors") else ():
                        text = re.sub(pattern, new, text)
                    file.write(f"{key}\t{json.dumps(text)}\n")
        part_file.with_suffix(".part").rename(part_file.with_suffix(".tsv"))


def redirected(stdin: str, function: Callable[..., Any], *words: Any) -> None:
    """Call a function with files as standard input and output."""
    for number, name in enumerate((stdin, "stdout", "stderr")):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY), number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, 1) for number, mode in enumerate("rww"))
    sys.exit(function(*words))


def translate(path: str) -> None:
    """Print how a model scores and translates in Python, with each of the options of stdin."""
    import docnmt

    sides = [Path(f"in/test.{side}").read_text("utf-8").strip().split("\n\n") for side in ("en", "de")]
    sources, targets = ([document.split("\n") for document in side] for side in sides)
    translator = docnmt.load(path)
    print(translator.score(sources, targets))
    half = [[text if number % 2 == 0 else None for number, text in enumerate(document)] for document in targets]
    for line, given in itertools.product(sys.stdin, (None, half)):
        print(line, given is not None)
        try:
            results = translator.translate(sources, given=given, max_len_a=0, max_len_b=12, **json.loads(line))
            print(*itertools.chain(*results), sep="\n")
        except Exception as error:
            print(type(error).__name__, error)


def serve(command: list[str]) -> None:
    """Print what the service answers to the requests of stdin."""
    process = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    address = next(match[0] for line in process.stdout if (match := re.search(r"http://[\d.:]+", line)))
    for line in sys.stdin:
        path, _, body = line.strip().partition("\t")
        request = urllib.request.Request(address + path, body.encode() or None, {"Content-Type": "application/json"})
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        print(line, answer.status, json.dumps(without_clock(json.load(answer)), indent=1))
    process.terminate()
    print(process.wait())


def compare(old: str, new: str, parts: str, tolerance: str = "") -> int:
    """Print the texts that differ; return 1 if any does."""
    failed = False
    for part in parts.split(","):
        files = (Path(folder, f"{part.replace('/', '-')}.tsv").read_text().splitlines() for folder in (old, new))
        sides = [dict(line.split("\t") for line in lines) for lines in files]
        differing, largest = 0, (0.0, "")
        for name in dict.fromkeys([*sides[0], *sides[1]]):
            texts = [json.loads(side.get(name, '"absent"')) for side in sides]
            one, other = (re.split(r"(-?\d+\.\d+(?:e[-+]?\d+)?)", re.sub("#[0-9a-f]{16}", "#", text)) for text in texts)
            if tolerance and one[::2] == other[::2]:
                numbers = ((float(a), float(b)) for a, b in zip(one[1::2], other[1::2], strict=True) if a != b)
                largest = max([largest, *((abs(a - b) / max(abs(a), abs(b)), name) for a, b in numbers)])
            elif texts[0] != texts[1]:
                differing += 1
                diff = difflib.unified_diff(*(text.splitlines() for text in texts), n=0, lineterm="")
                print(name, *(line[:300] for line in itertools.islice(diff, 2, 14)), sep="\n    ")
        result = f"{differing} differ" if differing else "all are equal"
        result += f", numbers by at most {largest[0]:.2g} of themselves ({largest[1]})" if largest[0] else ""
        statuses = sorted(Counter(re.findall(r'^"exit (-?\d+)', "\n".join(sides[1].values()), re.M)).items())
        print(f"{part}: {len(sides[0])} and {len(sides[1])} texts, {result}; of NEW's commands", end=" ")
        print(*(f"{count} exit with {status}" for status, count in statuses), sep=", ")
        failed |= differing > 0
    return int(failed)


def main(verb: str, *words: str) -> Any:
    if verb == "inputs":
        return write_inputs(Path(words[0]), int(words[1]))
    if verb == "compare":
        return compare(*words)
    tree, checkout = Path(words[0]), Checkout(Path(words[0]))
    if verb == "command":
        return checkout.main(*words[1:])
    plugin = importlib.import_module("docnmt.plugin")  # and torch, once for all commands
    assert Path(plugin.__file__).is_relative_to(tree), f"docnmt is imported from {plugin.__file__}"
    work = Path(words[2], "work")
    if not work.exists():
        shutil.copytree(words[1], work / "in")
    os.chdir(work)
    cases = checkout.cases(words[3])
    for part in words[4].split(","):
        if not Path("..", f"{part.replace('/', '-')}.tsv").exists():
            checkout.run(part, cases)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
