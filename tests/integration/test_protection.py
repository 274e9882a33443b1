"""Placeholders, addresses and mails come through an untrained model, whichever way a text comes; and as in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_system
from commands import translated

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from served import started

import docnmt
from docnmt.apps.commands.translating import Translating, load_models
from docnmt.apps.options import ModelsConfig
from docnmt.cli.translate import main as translate_command
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig

BRIEF = ["--beam", "2", "--device", "cpu", "--max-len-a", "1", "--max-len-b", "2"]
SHORT: dict[str, Any] = {"beam": 2, "max_len_a": 1, "max_len_b": 2}
KEPT = ["a@b.org", "http://x.y/z", "{name}", "%s", "[X7X]", "__id__", "{$count}", "<b>", "</b>"]
LINES = [
    "the dog sees a cat.",
    "it walks to a@b.org or sees http://x.y/z",
    "the {name} finds %s and [X7X]. the __id__ tree",
    "",
    "{$count}",
    "a <b>river</b>",
]
TEXT = "\n".join(LINES)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("model") / "m.safetensors"
    return small_system.save(where, "cond_transformer_tiny", target_context="conditional")


def served(path: Path, **options: Any) -> Any:
    """A service in this process, which translates as docnmt-translate does."""
    loaded = load_models(ModelsConfig(str(path), device="cpu"))
    return started(Translating(loaded, GenerationConfig(), BeamSearchConfig(**SHORT)), **options)


@pytest.fixture(scope="module")
def client(path: Path) -> Any:
    return served(path)


def command(path: Path, text: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    return translated(path, text, monkeypatch, "--max-len-a", "1", "--max-len-b", "2", *more)


def test_a_text_keeps_all_by_every_way(client: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = command(path, TEXT + "\n", monkeypatch).removesuffix("\n")
    for said, line in zip(LINES, expected.split("\n"), strict=True):
        assert [kept for kept in KEPT if kept in line] == [kept for kept in KEPT if kept in said]
        assert all(line.count(kept) == said.count(kept) for kept in KEPT)
    assert expected.split("\n")[4] == "{$count}"
    (path.parent / "a.txt").write_text(TEXT + "\n")
    words = ["--path", str(path), *BRIEF, str(path.parent / "a.txt"), "--overwrite"]
    assert translate_command([*words, "-o", str(path.parent / "b.txt")]) == 0
    assert (path.parent / "b.txt").read_text() == expected + "\n"  # the same as of a file
    assert client.post("/translate", json={"text": TEXT}).json()["text"] == expected
    streamed = client.post("/translate", json={"text": TEXT}, headers={"accept": "application/x-ndjson"})
    events = [json.loads(line) for line in streamed.text.splitlines()]
    texts = {(event["line"], event["sentence"]): event["text"] for event in events if "text" in event}
    lines = [" ".join(texts[key] for key in sorted(texts) if key[0] == n) for n in range(len(LINES))]
    assert "\n".join(lines) == expected
    deepl = client.post("/v2/translate", json={"text": [TEXT], "target_lang": "DE"}).json()
    assert deepl["translations"][0]["text"] == expected
    libre = client.post("/translate", json={"q": TEXT, "source": "en", "target": "de"}).json()
    assert libre["translatedText"] == expected
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": TEXT}]}
    assert client.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]["content"] == expected
    chunks = client.post("/v1/chat/completions", json={**asked, "stream": True}).text.split("data: ")[1:]
    parts = [json.loads(chunk)["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk[0] == "{"]
    assert "".join(parts) == expected


def test_a_document_of_sentences_keeps_all(client: Any, path: Path) -> None:
    sentences = [line for line in LINES if line]
    translations = docnmt.load(str(path), device="cpu").translate(sentences, **SHORT)
    texts = [translation.text for translation in translations]
    for said, translation in zip(sentences, translations, strict=True):
        assert all(translation.text.count(kept) == said.count(kept) for kept in KEPT)
        assert translation.pieces
        assert len(translation.pieces) == len(translation.piece_scores)
    answer = client.post("/translate", json={"documents": [sentences], "explain": True}).json()
    assert (answer["documents"], len(answer["reads"][0])) == ([texts], len(sentences))
    session = client.post("/sessions", json={"segments": sentences}).json()["session"]
    told = client.post(f"/sessions/{session}/translate", json={}).json()["segments"]
    for said, segment in zip(sentences, told, strict=True):
        assert all(segment["translation"].count(kept) == said.count(kept) for kept in KEPT)


@pytest.mark.parametrize("form", ["text", "corpus", "lines", "tsv"])
def test_all_forms_of_stdin_keep_all_and_are_aligned(form: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alignments are of the text that is printed."""
    lines, options = LINES[:2], ["--input-format", form]
    said = "source\n" * (form == "tsv") + "".join(f"{line}\n" for line in lines)
    plain = command(path, said, monkeypatch, *options).splitlines()[form == "tsv" :]
    for line, source in zip(plain, lines, strict=True):
        assert all(line.rpartition("\t")[2].count(kept) == source.count(kept) for kept in KEPT)
    if form in ("text", "corpus"):
        aligned_lines = command(path, said, monkeypatch, *options, "--print-alignment").splitlines()
        printed = [line.split(" ||| ") for line in aligned_lines]
        assert [text for text, _ in printed] == plain
        for (text, aligned), source in zip(printed, lines, strict=True):
            pairs = [pair.split("-") for pair in aligned.split()]
            assert all(int(s) < len(source.split()) and int(t) < len(text.split()) for s, t in pairs)


def test_given_translations_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / "given.de").write_text("\n".join(["Ein Hund.", "", "", "", "", "Fluss"]) + "\n")
    lines = command(path, TEXT + "\n", monkeypatch, "--given", str(path.parent / "given.de")).splitlines()
    assert (lines[0], lines[4], lines[5]) == ("Ein Hund.", "{$count}", "Fluss")
    assert "a@b.org" in lines[1]
    assert "http://x.y/z" in lines[1]


def lost(text: str) -> list[str]:
    return [kept for kept in KEPT if text.count(kept) != TEXT.count(kept)]


def test_it_can_be_turned_off_everywhere(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[Callable[[], str]] = [
        lambda: command(path, TEXT, monkeypatch, "--no-protect"),
        lambda: "\n".join(
            translation.text
            for translation in docnmt.load(str(path), device="cpu").translate(LINES, **SHORT, protect=False)
        ),
    ]
    for way in ways:
        assert lost(way())
    (path.parent / "c.txt").write_text(TEXT)
    words = ["--path", str(path), *BRIEF, "--overwrite", "--no-protect"]
    assert translate_command([*words, str(path.parent / "c.txt"), "-o", str(path.parent / "d.txt")]) == 0
    assert lost((path.parent / "d.txt").read_text())
    client = served(path, protect=False)
    assert lost(client.post("/translate", json={"text": TEXT}).json()["text"])
    html = {"text": [f"<p>{TEXT}</p>"], "target_lang": "DE", "tag_handling": "html"}
    said = client.post("/v2/translate", json=html).json()["translations"][0]["text"]
    assert set(lost(said)) == set(lost(said)) - {"<b>", "</b>"} != set()  # of tags the format says it


TERM = "river walks old"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("md", "the cat sees `dog` then.\n"),
        ("html", "<p>the cat sees <code>dog</code> then</p>\n"),
        ("txt", "the cat sees {dog} then\n"),
        ("txt", "it walks to http://dog.org/dog or sees\n"),
    ],
)
def test_a_term_inside_of_code_asks_for_nothing(
    kind: str, said: str, path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(text: str) -> str:
        (path.parent / f"g.{kind}").write_text(text)
        glossary = ["--glossary", str(path.parent / "terms.tsv"), "--overwrite"]
        words = ["--path", str(path), *BRIEF, str(path.parent / f"g.{kind}"), *glossary]
        assert translate_command([*words, "-o", str(path.parent / f"h.{kind}")]) == 0
        return (path.parent / f"h.{kind}").read_text()

    (path.parent / "terms.tsv").write_text(f"dog\t{TERM}\n")
    assert TERM not in written(said)
    assert TERM in written(said.replace("the cat", "the dog").replace("it walks", "dog walks"))
    if "http" in said:
        ways = [
            lambda text: command(path, text, monkeypatch, "--glossary", str(path.parent / "terms.tsv")),
            lambda text: (
                docnmt.load(str(path), device="cpu").translate([text], **SHORT, glossary={"dog": TERM})[0].text
            ),
        ]
        for way in ways:
            assert TERM not in way(said.strip())
            assert TERM in way(f"a dog {said.strip()}")
        asked = {"segments": [said.strip(), f"a dog {said.strip()}"], "glossary": {"dog": TERM}}
        session = client.post("/sessions", json=asked).json()["session"]
        told = client.post(f"/sessions/{session}/translate", json={}).json()["segments"]
        assert [TERM in segment["translation"] for segment in told] == [False, True]
