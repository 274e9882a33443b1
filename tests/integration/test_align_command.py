"""docnmt-align: two documents in, pairs of their sentences out, and a word on every sentence that is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small_system
from docx import Document

from docnmt.apps.align import AlignedSide, Bead, align, model_evidence
from docnmt.apps.documents.kinds import read
from docnmt.cli.align import main

Capture = pytest.CaptureFixture[str]

ENGLISH = [
    ("h", "The garden in spring"), ("p", "The snow melts in March. The first flowers come up near the old wall."),
    ("p", "Nobody knows who planted them. They are said to be a hundred years old, and every year there are more."),
    ("h", "The garden in summer"),
    ("p", "In July it is hot. Bees & wasps fly from flower to flower until the evening."),
]  # fmt: skip
GERMAN = [
    ("h", "Der Garten im Frühling"), ("p", "Im März schmilzt der Schnee, und an der alten Mauer kommen Blumen hervor."),
    ("p", "Niemand weiß, wer sie gepflanzt hat."),
    ("h", "Der Garten im Sommer"),
    ("p", "Im Juli ist es heiß. Bienen & Wespen fliegen bis zum Abend von Blüte zu Blüte."),
]  # fmt: skip
PAIRS = [
    ("The garden in spring", "Der Garten im Frühling"),
    ("The snow melts in March. The first flowers come up near the old wall.", GERMAN[1][1]),
    ("Nobody knows who planted them.", GERMAN[2][1]),
    ("The garden in summer", "Der Garten im Sommer"),
    ("In July it is hot.", "Im Juli ist es heiß."),
    ("Bees & wasps fly from flower to flower until the evening.",
     "Bienen & Wespen fliegen bis zum Abend von Blüte zu Blüte."),
]  # fmt: skip
LEFT = "They are said to be a hundred years old, and every year there are more."


def write(path: Path, parts: list[tuple[str, str]]) -> Path:
    """A document of the kind that its ending says."""
    kind = path.suffix
    if kind == ".docx":
        made = Document()
        for what, text in parts:
            made.add_heading(text, 1) if what == "h" else made.add_paragraph(text)
        made.save(str(path))
        return path
    marks = {
        ".md": {"h": "# {}\n\n", "p": "{}\n\n"}, ".txt": {"h": "{}\n\n", "p": "{}\n\n"},
        ".html": {"h": "<h1>{}</h1>\n", "p": "<p>{}</p>\n"},
    }[kind]  # fmt: skip
    texts = [(what, text.replace("&", "&amp;") if kind == ".html" else text) for what, text in parts]
    path.write_text("".join(marks[what].format(text) for what, text in texts), encoding="utf-8")
    return path


def pairs_of(path: Path, languages: tuple[str, str] = ("en", "de")) -> list[tuple[str, str | None]]:
    document = read(path.read_bytes(), "tmx", name=str(path), source_lang=languages[0], target_lang=languages[1])
    return [(segment.text, segment.translation) for segment in document.segments]


@pytest.mark.parametrize(("one", "other"), [(".docx", ".docx"), (".md", ".html"), (".html", ".md"), (".txt", ".txt")])
def test_documents_become_a_memory(tmp_path: Path, capsys: Capture, one: str, other: str) -> None:
    source, target = write(tmp_path / f"letter.en{one}", ENGLISH), write(tmp_path / f"letter.de{other}", GERMAN)
    assert main([str(source), str(target), "-o", str(tmp_path / "out.tmx")]) == 0
    assert pairs_of(tmp_path / "out.tmx") == PAIRS
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if LEFT in line] == [f"{source}: sentence 5 has no counterpart: {LEFT}"]
    assert not any("has no counterpart" in line and LEFT not in line for line in said)
    assert main([str(source), str(target), "-o", str(tmp_path / "out.tmx")]) == 1
    assert "--overwrite" in capsys.readouterr().err


def test_a_long_sentence_without_a_counterpart_is_shown_in_part(tmp_path: Path, capsys: Capture) -> None:
    more = [(what, text.replace("more.", "more" + ", and more" * 10 + ".")) for what, text in ENGLISH]
    source, target = write(tmp_path / "letter.en.txt", more), write(tmp_path / "letter.de.txt", GERMAN)
    assert main([str(source), str(target), "-o", str(tmp_path / "out.tmx")]) == 0
    (said,) = [line for line in capsys.readouterr().err.splitlines() if LEFT[:50] in line]
    assert said.count("and more") < 5


def test_languages_are_found_where_nothing_says_them(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    source, target = write(tmp_path / "one.md", ENGLISH), write(tmp_path / "two.md", GERMAN)
    assert main([str(source), str(target), "-o", str(tmp_path / "out.tmx")]) == 0
    assert pairs_of(tmp_path / "out.tmx") == PAIRS


@pytest.mark.parametrize(("given", "missing"), [
    ((), ("--source-lang", "--target-lang")), (("-s", "en"), ("--target-lang",)), (("-s", "en", "-t", "en"), ()),
])  # fmt: skip
def test_only_a_language_that_nobody_said_is_asked_for(
    tmp_path: Path, capsys: Capture, given: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    pytest.importorskip("py3langid")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("The old dog walks in the river. The cat sleeps under the tree.\n")
    words = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "-o", str(tmp_path / "out.tmx")]
    assert main([*words, *given]) == 2
    said = capsys.readouterr().err
    assert tuple(each for each in ("--source-lang", "--target-lang") if each in said) == missing


def test_a_corpus_becomes_a_corpus(tmp_path: Path, capsys: Capture) -> None:
    """Documents stay documents; a line is a sentence."""
    for language, texts in (("en", ["One two three four.", "Five six.\n\nSeven eight nine."]),
                            ("de", ["Eins zwei drei vier. Fünf sechs.\n\n\nSieben acht neun."])):  # fmt: skip
        (tmp_path / f"raw.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = [str(tmp_path / "raw.en"), str(tmp_path / "raw.de"), "-o", str(tmp_path / "out")]
    assert main(words) == 0
    assert (tmp_path / "out.en").read_text() == "One two three four. Five six.\n\nSeven eight nine.\n"
    assert (tmp_path / "out.de").read_text() == "Eins zwei drei vier. Fünf sechs.\n\nSieben acht neun.\n"
    (tmp_path / "raw.de").write_text("Eins.\n", encoding="utf-8")
    assert main([*words, "--overwrite"]) == 1
    assert "raw.de" in capsys.readouterr().err
    (tmp_path / "raw.de").write_text("\n", encoding="utf-8")
    assert main([*words, "--overwrite"]) == 1


@pytest.mark.parametrize(
    ("source", "target", "status", "named"),
    [
        ("a.en.txt", "missing.de.txt", 1, "missing.de.txt"), ("a.en.txt", "a.en.txt", 2, "SOURCE"),
        ("a.en.txt", "a.de", 2, "a.de"), ("a.en.txt", "b.en.txt", 2, "--target-lang"),
        ("a.en.txt", "bad.de.docx", 1, "bad.de.docx"), ("a.en.txt", "x.de.po", 1, "x.de.po"),
        ("a.en.txt", "control.de.txt", 1, "U+0001"),
        ("a.en.txt", "said.de.po", 1, "both languages"), ("said.de.xlf", "a.en.txt", 1, "both languages"),
    ],
)  # fmt: skip
def test_what_cannot_be_aligned_is_one_line(
    tmp_path: Path, capsys: Capture, source: str, target: str, status: int, named: str
) -> None:
    contents: dict[str, Any] = {
        "a.en.txt": "A lamp.\n", "b.en.txt": "A cup.\n", "a.de": "Eine Lampe.\n", "bad.de.docx": "no zip",
        "said.de.po": 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "A lamp."\nmsgstr "Eine Lampe."\n',
        "said.de.xlf": '<xliff version="1.2"><file source-language="en" target-language="de"><body/></file></xliff>',
        "x.de.po": 'msgid "A lamp."\nmsgstr "Eine Lampe."\n', "control.de.txt": "Eine\x01 Lampe.\n",
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert main([str(tmp_path / source), str(tmp_path / target), "-o", str(tmp_path / "out.tmx")]) == status
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if " error: " in line]) == 1
    assert named in said[-1]
    assert not (tmp_path / "out.tmx").exists()


def test_a_model_takes_part(tmp_path: Path) -> None:
    """Any model runs; what it says decides where lengths do not."""
    own = small_system.random_checkpoint(tmp_path / "own.safetensors")
    for language, texts in zip(("en", "de"), (["a b", "b a"], ["b b", "a a"]), strict=True):
        (tmp_path / f"raw.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = [str(tmp_path / "raw.en"), str(tmp_path / "raw.de"), "-o", str(tmp_path / "out"), "--path", str(own)]
    assert main([*words, "--device", "cpu"]) == 0
    assert (tmp_path / "out.en").exists()


def test_evidence_of_a_model_moves_sentences() -> None:
    """Equal lengths, one sentence missing in the middle: only the scores say which."""
    units = [("0", "0")] * 20
    rest = "begins a sentence that goes on and on for a hundred characters or so, like all others"
    texts = [f"{n:02} {rest}" for n in range(20)]
    source, target = AlignedSide(texts, units), AlignedSide(texts[:7] + texts[8:], units[1:])

    def score(sources: list[str], targets: list[str]) -> list[float]:
        return [-2.0 if one == other else -30.0 for one, other in zip(sources, targets, strict=True)]

    first = align(source, target)
    found = align(source, target, model_evidence(source, target, first, score))
    assert [bead for bead in found if len(bead.source + bead.target) != 2] == [Bead((7,), ())]
    assert first != found
