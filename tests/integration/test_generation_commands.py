"""docnmt-generate and docnmt-translate as their users call them, with right and wrong input."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_system
from commands import SHORT, Run

import docnmt
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.config import GenerationConfig, SamplingConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.translation_task import DocumentTranslation

PLUGIN = ["--user-dir", str(Path(__file__).parents[2] / "examples" / "plugin")]


def test_generate_prints_every_sentence_in_order(run: Run, folder: Path) -> None:
    status, out, _ = run("generate", "data", "--path", "run", "--nbest", "2", *SHORT)
    assert status == 0
    source = [line for line in (folder / "test.en").read_text(encoding="utf-8").split("\n") if line]
    reference = [line for line in (folder / "test.de").read_text(encoding="utf-8").split("\n") if line]
    rows = [line.split("\t") for line in out.splitlines() if re.match(r"[STHDP]-\d+\t", line)]
    assert [row[1] for row in rows if row[0].startswith("S-")] == source
    assert [row[1] for row in rows if row[0].startswith("T-")] == reference
    assert [row[0] for row in rows] == [
        f"{kind}-{number}" for number in range(len(source)) for kind in ["S", "T", *["H", "D", "P"] * 2]
    ]
    metrics = out.splitlines()[len(rows) :]
    assert [line.split()[0] for line in metrics[:3]] == ["s-BLEU", "d-BLEU", "chrF"]
    assert all("version:" in line for line in metrics[:3])


def notes_of_limits(err: str) -> list[str]:
    return [line for line in err.splitlines() if "--max-len-a" in line]


def test_translations_that_end_at_the_length_limit_are_counted(run: Run, folder: Path) -> None:
    """In generate, of stdin, of files, and in Python, each in its way; where there is room, nothing is said."""
    drawn = ("--path", "run", "--generator", "sampling", "--temperature", "3", "--max-len-a", "0", "--max-len-b")
    status, out, err = run("generate", "data", "--scoring", "none", *drawn, "20")
    assert status == 0
    lengths = {}
    for name, *fields in (line.split("\t") for line in out.splitlines()):
        if name.startswith("H-"):
            lengths[name] = len(fields[1].split())
    full = [name for name, length in lengths.items() if length == 20]
    assert 0 < len(full) < len(lengths)
    assert max(lengths.values()) == 20
    [note] = notes_of_limits(err)
    assert [int(count) for count in re.findall(r"\b\d+\b", note.split(":")[1])[:2]] == [len(full), len(lengths)]
    assert re.findall(r"H-\d+", note) == full[:5]
    documents = small_system.text(3, 4, seed=2)
    options = {"generator": "sampling", "temperature": 3.0, "max_len_a": 0, "max_len_b": 20}
    translations = [
        translation for document in docnmt.load("run").translate(documents, **options) for translation in document
    ]
    assert [translation.limited for translation in translations] == [length == 20 for length in lengths.values()]
    (folder / "text.txt").write_text("\n".join(documents[0]) + "\n", encoding="utf-8")
    for command, stdin in (([], (folder / "text.txt").read_bytes()), (["text.txt"], b"")):
        status, _, err = run("translate", *command, *drawn, "20", stdin=stdin)
        assert status == 0
        [note] = notes_of_limits(err)
        cut = [source for source, translation in zip(documents[0], translations, strict=False) if translation.limited]
        assert all(f"'{source[:20]}" in note for source in cut[:5])
        assert not notes_of_limits(run("translate", *command, *drawn, "2000", stdin=stdin)[2])


@pytest.mark.parametrize("arch", ["transformer_tiny", "concat_transformer_tiny", "doc_transformer_tiny"])
def test_each_sentence_has_a_limit_and_words_of_its_own(arch: str) -> None:
    """Also where a model writes several as one text: there, what stands in another sentence may be written again."""
    corpus, search = small_system.corpus(small_system.text(4, 6)), SamplingConfig(temperature=3.0, max_len_b=4)
    for size in (0, 1):
        options = replace(search, no_repeat_ngram_size=size)
        results = translate_corpus(
            [small_system.model(arch)], small_system.task(), corpus, GenerationConfig(generator="sampling"), options
        )
        hypotheses = [result.nbest[0] for result in results]
        limits = [options.limit(int(length) + 1) for length in corpus.source.lengths()]
        assert [hypothesis.limited for hypothesis in hypotheses] == [
            len(hypothesis.pieces) + 1 == limit for hypothesis, limit in zip(hypotheses, limits, strict=True)
        ]
        assert 0 < sum(hypothesis.limited for hypothesis in hypotheses) < len(hypotheses)
        once = [len(set(hypothesis.pieces)) == len(hypothesis.pieces) for hypothesis in hypotheses]
        assert all(once) == bool(size)
        assert len({piece for hypothesis in hypotheses for piece in hypothesis.pieces}) < sum(
            len(hypothesis.pieces) for hypothesis in hypotheses
        )


@pytest.mark.parametrize("more", [("--nbest", "2", "--batch-size", "1"), ("--prefix-references", "0.4")])
def test_generate_prints_alignments_and_changes_nothing_else(run: Run, folder: Path, more: tuple[str, ...]) -> None:
    words = ("generate", "data", "--path", "run", *SHORT, *more)
    plain = run(*words)[1].splitlines()
    status, out, _ = run(*words, "--print-alignment", "--results-path", "aligned", "--overwrite")
    assert status == 0
    assert [line for line in out.splitlines() if not re.match(r"A-\d+\t", line)] == plain
    kept, texts = [], {}
    for name, *fields in (line.split("\t") for line in out.splitlines()):
        kind, _, number = name.partition("-")
        if kind in ("S", "D"):
            texts[kind] = fields[-1].split()
        if kind == "A":
            pairs = [tuple(map(int, pair.split("-"))) for pair in fields[0].split()]
            assert len(pairs) == len(set(pairs)) >= len(texts["D"])
            assert {j for _, j in pairs} == set(range(len(texts["D"])))  # every word stands for one
            assert {i for i, _ in pairs} <= set(range(len(texts["S"])))
            kept += [(number, fields[0])]
    best = [next(line for n, line in kept if n == number) for number in dict(kept)]
    lines = [
        (folder / "aligned" / f"{name}.txt").read_text(encoding="utf-8").split("\n")
        for name in ("hypotheses", "alignment")
    ]
    assert [bool(line) for line in lines[0]] == [bool(line) for line in lines[1]]
    assert list(filter(None, lines[1])) == best


def test_results_follow_the_source_file(run: Run, folder: Path) -> None:
    options = ["generate", "data", "--path", "run", "--results-path", "results", "--quiet", "--sacrebleu", *SHORT]
    options += ["--metrics", "TER", "chrF++"]
    status, out, _ = run(*options)
    assert status == 0
    assert not re.search(r"^[STHDP]-", out, re.MULTILINE)
    hypotheses = (folder / "results" / "hypotheses.txt").read_text(encoding="utf-8").split("\n")
    source = (folder / "test.en").read_text(encoding="utf-8").split("\n")
    assert [bool(line) for line in hypotheses] == [bool(line) for line in source]
    content = json.loads((folder / "results" / "scores.json").read_text(encoding="utf-8"))
    assert content["speed"]["tokens_per_second"] > 0
    for name in ("s-BLEU", "d-BLEU", "chrF", "chrF++", "TER"):
        assert f"{content[name]:.2f}" in out
        assert content["signatures"][name] in out
    status, _, err = run(*options)
    assert status == 1
    assert "--overwrite" in err
    assert run(*options, "--overwrite")[0] == 0


def test_generate_the_first_documents(run: Run, folder: Path) -> None:
    """What they are in the whole split; the results are scored as such a split would be."""
    command = ["generate", "data", "--path", "run", *SHORT]
    whole, first = run(*command)[1], run(*command, "--gen-first", "2", "--results-path", "first")[1]
    lines = (folder / "test.en").read_text(encoding="utf-8").split("\n")
    rows = [[line.split("\t") for line in out.splitlines()] for out in (whole, first)]
    texts = [[(row[0], row[-1]) for row in table if row[0].startswith(("S-", "D-"))] for table in rows]
    assert texts[1] == texts[0][: len(texts[1])]
    assert 0 < len(texts[1]) < len(texts[0])
    assert "2 documents" in first
    kept = (folder / "first" / "source.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert kept == lines[: len(kept)]
    assert len(list(filter(None, kept))) == len(texts[1]) // 2
    assert not lines[len(kept)]
    files = [f"first/{name}.txt" for name in ("reference", "hypotheses")]
    scored = json.loads(run("score", "--ref", files[0], "--sys", files[1], "--json")[1])
    content = json.loads((folder / "first" / "scores.json").read_text(encoding="utf-8"))
    assert content["gen_first"] == 2
    assert content["d-BLEU"] == scored["d-BLEU"]
    status, _, err = run(*command, "--gen-first", "0")
    assert status == 2
    assert "--gen-first" in err


RAW = [b"", b"\n", b"\n \n", b"A dog. The cat sees it!\n\n \nOld river\r\nthen", b"\xef\xbb\xbfit\n\n"]


@pytest.mark.parametrize("form", ["text", "corpus"])
@pytest.mark.parametrize("stdin", RAW)
def test_translate_keeps_lines(run: Run, form: str, stdin: bytes) -> None:
    status, out, err = run("translate", "--path", "run", "--input-format", form, *SHORT, stdin=stdin)
    assert status == 0, err
    lines = stdin.removeprefix(b"\xef\xbb\xbf").decode().split("\n")
    lines = lines if lines[-1] else lines[:-1]
    assert [bool(line) for line in out.split("\n")[:-1]] == [bool(line.strip()) for line in lines]


def test_rows_are_translated_as_the_documents_that_they_form(run: Run, folder: Path) -> None:
    lines = (folder / "test.en").read_text(encoding="utf-8").strip().split("\n")
    rows, document = [], 0
    for before, line in zip(["x", *lines], lines, strict=False):
        document += bool(line) and not before
        rows += [{"doc": document, "src": line}] if line else []
    options = ["--input-format", "jsonl", "--columns", "source=src", "document=doc"]
    stdin = "".join(json.dumps(row) + "\n" for row in rows).encode()
    status, out, _ = run("translate", "--path", "run", *options, *SHORT, stdin=stdin)
    assert status == 0
    written = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [{name: row[name] for name in ("doc", "src")} for row in written] == rows
    corpus = (folder / "test.en").read_bytes()
    plain = run("translate", "--path", "run", "--input-format", "corpus", *SHORT, stdin=corpus)[1]
    assert [row["hypothesis"] for row in written] == [line for line in plain.split("\n") if line]
    whole = "\n".join("\\n".join(text) for text in small_system.text(3, 4, seed=2))
    status, out, _ = run("translate", "--path", "run", "--input-format", "lines", *SHORT, stdin=f"{whole}\n".encode())
    assert [part for line in out.split("\n")[:-1] for part in line.split("\\n")] == [r["hypothesis"] for r in written]


def test_validation_bleu_is_that_of_generate(run: Run, folder: Path) -> None:
    task = DocumentTranslation.load(DocumentTranslationConfig(eval_bleu_beam=2), folder / "data")
    model = small_system.model("cond_transformer_tiny", of=task).train()
    bleu = task.evaluate(model, "test", {"max_tokens": GenerationConfig().max_tokens})["bleu"]
    out = run("generate", "data", "--path", "run", "--beam", "2", "--quiet")[1]
    assert f"{bleu:.2f}" == out.split("\n")[0].split()[2]
    assert model.training


#: A command, its exit status, a part of its message, and what stands on stdin.
WRONG: list[tuple[Any, ...]] = [
    ("generate data --path run --gen-subset dev", 1, "no split 'dev'"),
    ("generate nowhere --path run", 1, "nowhere"),
    ("generate data --path other.safetensors", 1, "other.safetensors"),
    ("generate data --path run:cut.safetensors", 1, "--max-doc-tokens"),
    ("generate data --path run:back.safetensors", 1, "back.safetensors de-en"),
    ("generate data --path run --sacrebleu-tokenize x", 2, "'x'"),
    ("generate data --path run --results-path new --explain new/page.html", 2, "--explain new/page.html: "),
    ("generate data --path run --results-path new --by position --plot new/plot.png", 2, "--plot new/plot.png: "),
    ("generate data --path run --results-path test.en", 1, "test.en"),
    ("generate data --path run --quiet --scoring none", 2, "--results-path"),
    ("generate data --path run --paired train.de", 1, "train.de: "),
    ("generate data --path run --beam 2 --nbest 3", 2, "--nbest"),
    ("translate --beam x --lenpen -1", 2, "--path"),
    ("translate --path run --lenpen -1e-1", 2, "'-1e-1'"),
    ("translate --path run --generator beam", 2, "beam_search, greedy, sampling"),
    ("translate --path run", 1, "stdin:2: 0xE4", b"a\nb\xe4\n"),
    ("translate --path run --input-format jsonl", 1, "stdin:1: ", b"{\n"),
    ("translate --path plain.safetensors --context-window 2", 2, "--context-window"),
    ("generate data --path run --print-alignment --quiet", 2, "--print-alignment"),
    ("translate *PLUGIN --path run --generator diverse_beam_search --diverse-beam-groups 2", 2, "--beam"),
    ("translate --path run", 1, "stdin:1: ", b"a\rb\n"),
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_an_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.suppress(OSError), open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stdout", full)
        status, _, err = run("score", "--ref", "test.de", "--sys", "test.de")
        assert status == 1
        assert "No space left on device" in err


def test_training_without_a_validation_split_is_refused_before_it_starts(run: Run, folder: Path) -> None:
    sides = ["--source-lang", "en", "--target-lang", "de", "--vocab-size", "45"]
    run("preprocess", *sides, "--trainpref", "train", "--destdir", "only-train")
    options = ["only-train", "--arch", "transformer_tiny", "--save-dir", "new-run", "--max-update", "0"]
    status, _, err = run("train", *options)
    assert status == 1
    assert "--disable-validation" in err
    assert not (folder / "new-run").exists()
    assert run("train", *options, "--disable-validation")[0] == 0


def test_a_line_has_a_translation_or_a_prefix_and_is_unknown_only_without(run: Run, folder: Path) -> None:
    (folder / "begin.de").write_text("\nthe\n", encoding="utf-8")
    (folder / "known.de").write_text("\nThe cat 漢.\n", encoding="utf-8")
    command, stdin = ["translate", "--path", "run", *SHORT, "--given", "known.de"], "a cat.\n漢 cat.\n".encode()
    status, out, err = run(*command, stdin=stdin)
    assert (status, out.splitlines()[1]) == (0, "The cat 漢.")
    assert "unknown" not in err
    status, out, err = run(*command, "--prefix", "begin.de", stdin=stdin)
    assert (status, out) == (1, "")
    assert "begin.de:2: " in err.splitlines()[-1]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong[0])
def test_what_is_wrong_is_said_on_one_line(run: Run, wrong: tuple[Any, ...]) -> None:
    command, expected, message, *stdin = wrong
    words = [word for part in command.split() for word in (PLUGIN if part == "*PLUGIN" else [part])]
    status, out, err = run(*words, stdin=stdin[0] if stdin else b"")
    assert (status, out) == (expected, "")
    assert message in err.splitlines()[-1]
    assert "Traceback" not in err


def test_generate_reports_what_score_does(run: Run, folder: Path) -> None:
    first = ["generate", "data", "--path", "run/second.safetensors", "--results-path", "other", "--quiet", *SHORT]
    assert run(*first)[0] == 0
    other = ["--paired", "other/hypotheses.txt", "--per-document", "--per-sentence", "--by", "position"]
    other += ["--metrics", "chrF++", "TER"]
    options = ["generate", "data", "--path", "run", "--results-path", "all", "--quiet", *SHORT, *other]
    status, out, _ = run(*options, "--lexical-consistency")
    assert status == 0
    files = ["--ref", "test.de", "--sys", "all/hypotheses.txt", "--src", "test.en", *other]
    assert run("score", *files)[1] == out
    content = json.loads((folder / "all" / "scores.json").read_text(encoding="utf-8"))
    scored = json.loads(run("score", *files, "--json")[1])
    assert {name: content[name] for name in scored} == scored
    assert {"paired", "of_documents", "of_sentences", "of_parts", "lexical_consistency"} <= scored.keys()
