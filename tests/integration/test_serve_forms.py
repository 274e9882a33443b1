"""docnmt-serve in the forms of other services: their own clients, unchanged, get what docnmt-translate writes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import small_system
from commands import translated

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from served import ARCHITECTURES, Served, serve, started

from docnmt.apps.commands.models import LoadedModels
from docnmt.apps.commands.translating import Translating
from docnmt.apps.serve import ask as registers
from docnmt.apps.serve import kept as glossaries
from docnmt.apps.serve.chat import instructed, prompted
from docnmt.apps.serve.http import Refused
from docnmt.cli.translate import main as translate_command
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, SamplingConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.translation_task import DocumentTranslation
from docnmt.runtime.languages import unspaced

TEXTS = ["The dog sees. A cat finds it.", "the old house.", "", "It walks\nin the river."]
CONTEXT = "The cat sleeps. It walks."
TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    return small_system.save(path, "hier_cond_transformer_tiny", target_context="conditional")


@pytest.fixture(scope="module")
def service(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    log = tmp_path_factory.mktemp("service") / "log"
    with serve(log, "--path", str(checkpoint), "--beam", "2") as served:
        yield served
        assert "Traceback" not in log.read_text()


def command(checkpoint: Path, text: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> list[str]:
    return translated(checkpoint, text, monkeypatch, *more).removesuffix("\n").split("\n")


def shaped(lines: list[str], texts: list[str]) -> list[str]:
    """Lines as the texts have them."""
    waiting = iter(lines)
    return ["\n".join(next(waiting) for _ in text.split("\n")) for text in texts]


def test_deepls_own_client(service: Served, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the package deepl")
    client = deepl.Translator("any key", server_url=service.address)
    lines = "\n".join(TEXTS) + "\n"
    found = [each.text for each in client.translate_text(TEXTS, target_lang="DE")]
    assert found == shaped(command(checkpoint, lines, monkeypatch), TEXTS)
    found = client.translate_text(TEXTS, source_lang="EN", target_lang="DE", context=CONTEXT, formality="prefer_more")
    expected = shaped(command(checkpoint, f"{CONTEXT}\n{lines}", monkeypatch)[1:], TEXTS)
    assert [(each.text, each.detected_source_lang) for each in found] == [(text, "EN") for text in expected]
    assert expected != shaped(command(checkpoint, lines, monkeypatch), TEXTS)  # it is read
    with pytest.raises(deepl.DeepLException, match="formality"):
        client.translate_text("a dog", target_lang="DE", formality="more")
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        client.translate_text("a dog", target_lang="FR")
    assert [each.code for each in (*client.get_source_languages(), *client.get_target_languages())] == ["EN", "DE"]
    assert client.get_usage().character.count >= 2 * sum(map(len, TEXTS))
    monkeypatch.setattr(time, "sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.1)))
    (tmp_path / "a.md").write_text("# The *dog*\n\nA cat `sees` it.\n")
    client.translate_document_from_filepath(tmp_path / "a.md", tmp_path / "b.md", target_lang="DE")
    words = ["--path", str(checkpoint), "--beam", "2", "--device", "cpu", str(tmp_path / "a.md")]
    assert translate_command([*words, "-o", str(tmp_path / "c.md")]) == 0
    assert (tmp_path / "b.md").read_bytes() == (tmp_path / "c.md").read_bytes()


def test_deepls_glossaries(service: Served) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the package deepl")
    client = deepl.Translator("any key", server_url=service.address)
    (pair,) = client.get_glossary_languages()
    assert (pair.source_lang, pair.target_lang) == ("en", "de")
    entries = {"dog": "the river", "old house": "tree"}
    made = client.create_glossary("animals", "EN", "DE", entries)
    client.create_glossary_from_csv("other", "EN", "DE", 'cat,"a tree"\n')
    assert [each.name for each in client.list_glossaries()] == ["animals", "other"]
    assert client.get_glossary_entries(made) == entries
    assert client.get_glossary(made.glossary_id).entry_count == 2
    with_terms = client.translate_text_with_glossary("The dog sees.", made).text
    assert "the river" in with_terms
    assert with_terms != client.translate_text("The dog sees.", target_lang="DE").text
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)


def test_tags_stay_around_text(service: Served) -> None:
    """Weblate's form of a request, which marks what must stay by <x>; and HTML."""
    texts = ['The <x id="4"></x> dog &amp; cat.', "<g>The old <b>house</b></g><br/>"]
    body = {"text": texts, "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml", "ignore_tags": ["x"]}
    with service.client() as client:
        first, second = client.post("/v2/translate", json=body).json()["translations"]
        body = {"text": ["<p>The dog</p><p>A <b>cat</b>"], "target_lang": "DE", "tag_handling": "html"}
        (third,) = client.post("/v2/translate", json=body).json()["translations"]
        fourth = client.post("/translate", json={"q": body["text"], "source": "en", "target": "de", "format": "html"})
    assert first["text"].count('<x id="4"></x>') == 1
    assert [second["text"].count(tag) for tag in ("<g>", "<b>", "</b>", "</g>", "<br/>")] == [1] * 5
    assert third["text"].startswith("<p>")
    assert third["text"].count("</p><p>") == 1
    assert fourth.json() == {"translatedText": [third["text"]]}


def test_libretranslates_own_client(service: Served, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="needs the package libretranslatepy")
    client = libretranslatepy.LibreTranslateAPI(service.address)
    text = "\n".join(TEXTS)
    assert client.translate(text, "en", "de") == "\n".join(command(checkpoint, f"{text}\n", monkeypatch))
    assert client.detect(text) == [{"confidence": 0.0, "language": "en"}]
    assert [each["code"] for each in client.languages()] == ["en", "de"]
    with service.client() as plain:
        body = {"q": TEXTS, "source": "auto", "target": "de", "alternatives": 1}
        answer = plain.post("/translate", json=body).json()
        assert answer["translatedText"] == shaped(command(checkpoint, f"{text}\n", monkeypatch), TEXTS)
        assert ".docx" in plain.get("/frontend/settings").json()["supportedFilesFormat"]
        file = {"file": ("a.txt", b"The dog.\n\nA cat.\n")}
        told = plain.post("/translate_file", data={"source": "en", "target": "de"}, files=file).json()
        address = told["translatedFileUrl"]
        direct = plain.post("/translate/file?name=a.txt", content=b"The dog.\n\nA cat.\n").content
        assert plain.get(address).content == direct
        assert plain.get(address).status_code == 404  # once


def test_openais_own_client(service: Served, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openai = pytest.importorskip("openai", reason="needs the package openai")
    client = openai.OpenAI(api_key="any", base_url=f"{service.address}/v1", max_retries=0)
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id).id == model.id == "docnmt-en-de"
    chat: list[Any] = [
        {"role": "system", "content": "Translate from English to German."},
        {"role": "user", "content": "The cat sleeps."}, {"role": "assistant", "content": "the river"},
        {"role": "user", "content": "It walks."},
        {"role": "user", "content": [{"type": "text", "text": "\n".join(TEXTS)}]},
    ]  # fmt: skip
    (tmp_path / "given").write_text("the river\n" + "\n" * 6)
    source = "\n".join(["The cat sleeps.", "It walks.", *TEXTS]) + "\n"
    expected = "\n".join(command(checkpoint, source, monkeypatch, "--given", str(tmp_path / "given"))[2:])
    answer = client.chat.completions.create(model="gpt-4o", messages=chat, temperature=0.2)
    assert answer.choices[0].message.content == expected
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="", messages=chat, stream=True, stream_options=options))
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == expected
    assert (chunks[-2].choices[0].finish_reason, chunks[-1].usage) == (answer.choices[0].finish_reason, answer.usage)
    french: list[Any] = [{"role": "user", "content": "Translate from English to French: a dog"}]
    with pytest.raises(openai.BadRequestError, match="en to fr"):
        client.chat.completions.create(model="", messages=french)
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")


def test_what_subtitle_edit_sends(service: Served) -> None:
    """Its bodies by its public code, written anew: a prompt and the text in one message; a text for LibreTranslate."""
    text = "The dog sees.\nA cat."
    prompt = "Translate from en to de, leave punctuation and line breaks as they are, and say nothing else:"
    chat = {"model": "gpt-4.1", "messages": [{"role": "user", "content": f"{prompt}\n\n{text}"}]}
    with service.client() as client:
        expected = client.post("/translate", json={"text": text}).json()["text"]
        answer = client.post("/v1/chat/completions", json=chat).json()
        assert answer["choices"][0]["message"]["content"] == expected
        answer = client.post("/translate", json={"q": text, "source": "en", "target": "de"}).json()
        assert answer == {"translatedText": expected}
        answer = client.post("/v2/translate", data={"text": text, "target_lang": "de", "source_lang": "en"}).json()
        assert answer["translations"][0]["text"] == expected


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Translate from English to German, and no more:\n\nA dog:\n\na cat", ("en", "de", "A dog:\n\na cat")),
        ("Translate from en to de-AT: A dog", ("en", "de", "A dog")),
        ("Please translate the following text into German (Austria):\nA dog", (None, "de", "A dog")),
        ("translate from Chinese (Simplified) to French.\n\nA dog", ("zh", "fr", "A dog")),
        ("Translate this: to be or not to be", (None, None, "Translate this: to be or not to be")),
        ("He went from France to Italy: a dog", (None, None, "He went from France to Italy: a dog")),
        ("Translate from English to German:\n\n", (None, None, "Translate from English to German:\n\n")),
    ],
)  # fmt: skip
def test_prompts_of_tools(content: str, found: tuple[str | None, str | None, str]) -> None:
    assert prompted(content) == found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("You translate. Translate the text below into German.", (None, "de")),
        ("Translate from English to German. Do not translate names to French.", ("en", "de")),
        ("You are a translator. Do what you are told to. German is fine.", (None, None)),
    ],
)
def test_instructions_of_systems(content: str, found: tuple[str | None, str | None]) -> None:
    assert instructed(content) == found


@pytest.mark.parametrize(("arch", "options"), ARCHITECTURES, ids=[arch for arch, _ in ARCHITECTURES])
def test_what_is_read_and_not_returned_is_part_of_the_document(arch: str, options: dict[str, Any]) -> None:
    """For models that read translations, and for those that do not, for which it is not written."""
    model, task, search = small_system.model(arch, **options), small_system.task(), BeamSearchConfig(beam=2)
    client = started(Translating(LoadedModels((Path("m"),), (model,), task), GenerationConfig(), search))
    before, texts = ["the cat.", "a dog sees it."], ["it walks.", "the old tree."]
    given = ["the river", None, None, None]
    messages = [{"role": "user", "content": before[0]}, {"role": "assistant", "content": given[0]}]
    messages += [{"role": "user", "content": before[1]}, {"role": "user", "content": "\n".join(texts)}]
    corpus = small_system.corpus([before + texts])
    results = list(translate_corpus([model], task, corpus, GenerationConfig(), search, given=given))
    answer = client.post("/v1/chat/completions", json={"messages": messages}).json()
    assert answer["choices"][0]["message"]["content"] == "\n".join(each.text for each in results[1:])
    results = list(translate_corpus([model], task, corpus, GenerationConfig(), search))
    body = {"text": texts, "context": "\n".join(before), "target_lang": "DE"}
    answer = client.post("/v2/translate", data=body).json()
    assert [each["text"] for each in answer["translations"]] == [each.text for each in results[2:]]
    client.service.worker.stop()


@pytest.fixture(scope="module")
def small() -> Translating:
    return Translating(
        LoadedModels((Path("m"),), (small_system.model(),), small_system.task()), GenerationConfig(),
        BeamSearchConfig(beam=2),
    )  # fmt: skip


@pytest.fixture(scope="module")
def open_client(small: Translating) -> Iterator[Any]:
    client = started(small, max_body=20_000, max_request_tokens=200)
    yield client
    client.service.worker.stop()


DEEPL = {"text": ["a"], "target_lang": "DE"}
OWN = {"text": "a"}
CHAT = {"messages": [{"role": "user", "content": "a"}]}
LIBRE = {"q": "a", "source": "en", "target": "de"}
GLOSSARY = {"name": "g", "source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
HOSTILE: list[tuple[str, Any, int]] = [
    *(("/v2/translate", body, 400) for body in (
        b"", b"[]", b"{", b"[" * 15_000, {**DEEPL, "text": 1}, {**DEEPL, "text": ["a\0"]}, {"text": ["a"]},
        b'{"text": ["\\ud800"], "target_lang": "DE"}', {**DEEPL, "source_lang": "fr"}, {**DEEPL, "formality": "very"},
        {**DEEPL, "tag_handling": "pdf"}, {**DEEPL, "tag_handling": "xml", "text": ["<a>"]},
        {**DEEPL, "tag_handling": "xml", "text": ["</docnmt><docnmt>"]}, {**DEEPL, "split_sentences": "2"},
        {**DEEPL, "tag_handling": "xml", "text": ['<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>']},
        {**DEEPL, "style_id": "x"}, {**DEEPL, "glossary_ids": ["a", "b"]}, {**DEEPL, "target_lang": ""},
    )),
    ("/v2/translate", {**DEEPL, "text": ["dog " * 300]}, 413), ("/v2/translate", {**DEEPL, "text": [""] * 201}, 413),
    ("/v2/translate", b"a" * 20_001, 413), ("/v2/translate", {**DEEPL, "source_lang": "en", "glossary_id": "x"}, 404),
    *(("/v2/glossaries", body, 400) for body in (
        {**GLOSSARY, "entries": "a"}, {**GLOSSARY, "entries": "a\tb\na\tc"}, {**GLOSSARY, "target_lang": "fr"},
        {**GLOSSARY, "entries_format": "xls"}, {**GLOSSARY, "entries": ""}, {**GLOSSARY, "entries": "a\t\u4e16"},
        {**GLOSSARY, "entries_format": "csv", "entries": 'a,"b\nc,d\n'},
    )),
    ("/v2/document", b"", 415), ("/v2/document/x", {"document_key": "y"}, 404), ("/v2/nothing", {}, 404),
    *(("/translate", body, 400) for body in (
        {**LIBRE, "q": 1}, {"q": "a"}, {**LIBRE, "target": "fr"}, {**LIBRE, "source": "fr"}, {**LIBRE, "format": "pdf"},
        {**LIBRE, "q": "a\0"}, {**LIBRE, "q": "dog " * 300}, {**LIBRE, "q": [""] * 201}, {"source": "en"},
    )),
    ("/detect", {}, 400), ("/translate_file", b"", 400), ("/download_file/a.b.txt", None, 404),
    *(("/v1/chat/completions", body, 400) for body in (
        b"", b"{}", {"messages": []}, {"messages": [{"role": "assistant", "content": "a"}]}, {**CHAT, "n": 2},
        {"messages": [*CHAT["messages"], {"role": "assistant", "content": "b"}]}, {**CHAT, "tools": [{}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, {"messages": [{"role": "user"}]},
        {**CHAT, "response_format": {"type": "json_object"}}, {"messages": [{"role": "tool", "content": "a"}]},
        {"messages": [{"role": "user", "content": "a\0"}]},
    )),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "dog " * 300}]}, 413), ("/v1/nothing", {}, 404),
    ("/v3/glossaries", None, 404), ("/v2", {}, 404), ("/v2/translate", None, 405), ("/v1/chat/completions", None, 405),
    ("/v1", None, 404), ("/suggest", LIBRE, 404), ("/languages/x", None, 404), ("/detect", None, 405),
    ("/v1/chat/completions", {"messages": [{"role": "poet", "content": "a"}]}, 400),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status"), HOSTILE)
def test_what_is_wrong_is_told_in_the_form_of_the_request(path: str, body: Any, status: int, open_client: Any) -> None:
    sent = {"content": body} if isinstance(body, bytes) else {"json": body}
    headers = {"content-type": "application/json"} if isinstance(body, bytes) else {}
    answer = open_client.get(path) if body is None else open_client.post(path, **sent, headers=headers)
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert "--" not in answer.text.replace("--max-", "")  # options are the service's, not the client's
    if path.startswith(("/v2", "/v3")):
        assert list(told) == ["message"]
        assert isinstance(told["message"], str)
    elif path.startswith("/v1"):
        assert set(told["error"]) == {"message", "type", "param", "code"}
    else:
        assert list(told) == ["error"]
        assert isinstance(told["error"], str)


@pytest.mark.parametrize("more", [
    {"target_lang": "fr"}, {"source_lang": "fr"}, {"formality": "polite"}, {"formality": "formal"},
])  # fmt: skip
def test_the_own_form_names_fields_and_no_options(more: dict[str, str], open_client: Any) -> None:
    answer = open_client.post("/translate", json={**OWN, **more})
    (name,) = more
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"{name}: ")
    assert "--" not in answer.text


@pytest.mark.parametrize("more", [{}, {"split_sentences": "nonewlines"}, {"tag_handling": "xml"}])
def test_every_kind_of_line_break_is_one(more: dict[str, str], open_client: Any) -> None:
    found = [
        open_client.post("/v2/translate", json={**DEEPL, "text": [text], "context": f"{text}dog", **more}).json()
        for text in ("the cat.\na dog.\n", "the cat.\r\na dog.\r\n", "the cat.\ra dog.\r")
    ]
    texts = ["".join(each["translations"][0]["text"].split("\r")) for each in found]  # a tag's text ends as it did
    assert texts[0].split() == texts[1].split() == texts[2].split() != []


def test_a_term_is_no_line_break(open_client: Any) -> None:
    made = open_client.post("/v2/glossaries", json={**GLOSSARY, "entries": "a\u2028cat\ta\x0ctree\r\na\tdog"}).json()
    assert made["entry_count"] == 2
    entries = open_client.get(f"/v2/glossaries/{made['glossary_id']}/entries").text
    assert entries == "a cat\ta tree\na\tdog\n"
    assert open_client.delete(f"/v2/glossaries/{made['glossary_id']}").status_code == 204


def test_what_is_known_has_the_limits_of_what_is_translated() -> None:
    model = small_system.model("cond_transformer_tiny", target_context="conditional")
    loaded = LoadedModels((Path("m"),), (model,), small_system.task())
    used = Translating(loaded, GenerationConfig(), BeamSearchConfig(beam=2))
    client = started(used, max_request_tokens=60, max_sentence_tokens=40)
    for words, status in ((30, 200), (50, 413), (70, 413)):
        chat = [("user", "a dog."), ("assistant", "cat " * words), ("user", "a cat.")]
        body = {"messages": [{"role": role, "content": content} for role, content in chat]}
        assert client.post("/v1/chat/completions", json=body).status_code == status
        segments = [{"source": "a dog.", "translation": "cat " * words}, "a cat."]
        address = f"/sessions/{client.post('/sessions', json={'segments': segments}).json()['session']}"
        assert client.post(f"{address}/translate").status_code == status
    client.service.worker.stop()


def test_glossaries_name_fields_and_no_options(small: Translating, open_client: Any) -> None:
    asked = {"glossary": {"a": "\u4e16"}}
    assert open_client.post("/sessions", json=asked).json()["error"]["message"].startswith("glossary: ")
    answer = open_client.post("/v2/glossaries", json={**GLOSSARY, "entries": "a\t\u4e16"})
    assert answer.json()["message"].startswith("entries: ")
    drawn = started(replace(small, options=GenerationConfig(generator="sampling"), search=SamplingConfig()))
    told = drawn.post("/sessions", json={"glossary": {"a": "b"}}).json()["error"]
    drawn.service.worker.stop()
    assert told["message"].startswith("glossary: ")
    assert "--" not in told["message"]


def test_glossaries_have_few_terms_in_every_form(monkeypatch: pytest.MonkeyPatch, open_client: Any) -> None:
    monkeypatch.setattr(glossaries, "MOST_TERMS", 2)
    terms = {"cat": "dog", "dog": "cat", "tree": "tree"}
    entries = "\n".join("\t".join(pair) for pair in terms.items())
    assert open_client.post("/v2/glossaries", json={**GLOSSARY, "entries": entries}).status_code == 413
    assert open_client.post("/sessions", json={"glossary": terms}).status_code == 413


def test_a_pdf_is_refused_with_advice_in_every_form(open_client: Any) -> None:
    file = {"file": ("a.pdf", b"%PDF-1.7")}
    own = open_client.post("/translate/file?name=a.pdf", content=b"%PDF-1.7")
    kind = open_client.post("/translate/file?kind=pdf", content=b"%PDF-1.7")
    deepl = open_client.post("/v2/document", data={"target_lang": "DE"}, files=file)
    libre = open_client.post("/translate_file", data={"source": "en", "target": "de"}, files=file)
    assert [each.status_code for each in (own, kind, deepl, libre)] == [415, 415, 415, 400]
    assert all("convert it" in each.text and "?kind=" not in each.text for each in (own, kind, deepl, libre))


def test_an_error_in_a_stream_of_events_is_told(small: Translating) -> None:
    client = started(small, request_timeout=0.2)
    messages = [{"role": "user", "content": "\n".join(line for text in small_system.text(150, 20) for line in text)}]
    answer = client.post("/v1/chat/completions", json={"messages": messages, "stream": True})
    events = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert json.loads(events[-2])["error"]["code"] == "late"
    assert events[-1] == "[DONE]"
    client.service.worker.stop()


def test_keys_where_there_is_a_token(small: Translating) -> None:
    client = started(small, token=TOKEN)

    def status(path: str, key: str = "", scheme: str = "Bearer", **sent: Any) -> int:
        headers = {"authorization": f"{scheme} {key}"} if key else {}
        found: int = client.post(path, **sent, headers=headers).status_code
        return found

    for key, statuses in ((TOKEN, (200, 200, 200)), ("wrong", (403, 401, 401)), ("", (403, 401, 401))):
        found = [status("/v2/translate", key, "DeepL-Auth-Key", json=DEEPL)]
        found += [status(path, key, json=body) for path, body in (("/v1/chat/completions", CHAT), ("/translate", OWN))]
        assert tuple(found) == statuses
    for kind in ("json", "data"):
        assert status("/translate", **{kind: {**LIBRE, "api_key": TOKEN}}) == 200
        answer = client.post("/translate", **{kind: {**LIBRE, "api_key": "wrong"}})
        assert (answer.status_code, list(answer.json())) == (403, ["error"])
    assert status("/translate", json={**LIBRE, "api_key": TOKEN, "more": "a" * 300_000}) == 401
    assert status("/translate", json={"text": "a", "api_key": "wrong"}) == 401
    file = {"file": ("a.txt", b"A dog.")}
    fields = {"source": "en", "target": "de", "api_key": TOKEN}
    told = client.post("/translate_file", data=fields, files=file).json()
    assert client.get(told["translatedFileUrl"]).status_code == 200
    assert status("/translate_file", data={**fields, "api_key": "no"}, files=file) == 403
    assert client.get("/languages").status_code == 200
    assert client.get("/v2/usage").status_code == 403
    client.service.worker.stop()


def test_forms_of_address_are_asked_for_where_a_model_has_them() -> None:
    told, plain = (cast(LoadedModels, SimpleNamespace(knows_formality=knows)) for knows in (True, False))
    for formality, form in (("default", None), ("more", "formal"), ("prefer_less", "informal")):
        assert registers.register_of(formality, told) == form
    for formality in ("default", "prefer_more", "prefer_less"):
        assert registers.register_of(formality, plain) is None
    for formality in ("more", "less"):
        with pytest.raises(Refused) as caught:
            registers.register_of(formality, plain)
        assert caught.value.code == "no_formality"


def test_sentences_of_a_script_without_spaces_are_joined_by_nothing_in_every_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of sentences, which translates each as if it stood alone; docnmt-translate joins them likewise."""
    lines = ["你好世界。", "今天天气很好。", "我们走吧！", "“真的吗？”", "他说不去。", "世界很好吗？", "今天我们去吧。"]
    tokenizer = Tokenizer.train(lines * 5, 34)
    task = DocumentTranslation(DocumentTranslationConfig(), languages=("zh", "ja"), tokenizers=(tokenizer, tokenizer))
    path = small_system.save(tmp_path / "m.safetensors", of=task)
    model = small_system.model(of=task)
    client = started(Translating(LoadedModels((path,), (model,), task), GenerationConfig(), BeamSearchConfig(beam=2)))

    def translated(text: str) -> list[str]:
        """In each form of request; a stream of the last one, too."""
        libre = client.post("/translate", json={"q": text, "source": "zh", "target": "ja"}).json()
        deepl = client.post("/v2/translate", json={"text": [text], "target_lang": "JA", "split_sentences": "1"}).json()
        chat = {"messages": [{"role": "user", "content": text}]}
        openai = client.post("/v1/chat/completions", json=chat).json()
        stream = client.post("/v1/chat/completions", json={**chat, "stream": True}).text
        events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
        parts = [event["choices"][0]["delta"].get("content", "") for event in events if event["choices"]]
        return [
            libre["translatedText"], deepl["translations"][0]["text"], openai["choices"][0]["message"]["content"],
            "".join(parts),
        ]  # fmt: skip

    alone = [translated(line)[0] for line in lines[:3]]
    assert all(unspaced(text[0]) and unspaced(text[-1]) for text in alone)
    assert set(translated("".join(lines[:3]))) == {"".join(alone)}
    assert command(path, "".join(lines[:3]), monkeypatch) == ["".join(alone)]
    body = {"text": ["今天天\n气很好。我们走\n吧！"], "target_lang": "JA", "split_sentences": "nonewlines"}
    assert client.post("/v2/translate", json=body).json()["translations"][0]["text"] == "".join(alone[1:])
    client.service.worker.stop()


def test_a_document_that_fails_says_why(service: Served) -> None:
    fields = {"target_lang": "DE"}
    with service.client() as client:
        handle = client.post("/v2/document", data=fields, files={"file": ("a.docx", b"no zip")}).json()
        key, address = {"document_key": handle["document_key"]}, f"/v2/document/{handle['document_id']}"
        while (told := client.post(address, json=key).json())["status"] == "translating":
            time.sleep(0.01)
        assert told["status"] == "error"
        assert "a.docx" in told["error_message"]
        assert client.post(address, json={"document_key": "wrong"}).status_code == 404
        refused = client.post("/v2/document", data={**fields, "output_format": "pdf"}, files={"file": ("a.txt", b"a")})
        assert refused.status_code == 400
        assert client.post("/v2/document", data=fields, files={"file": ("a.exe", b"a")}).status_code == 415


OPTIONAL = {
    "/v2/translate": [
        "source_lang", "context", "formality", "glossary_id", "glossary_ids", "tag_handling", "split_sentences",
        "ignore_tags", "splitting_tags", "style_id", "translation_memory_id", "custom_instructions",
        "show_billed_characters", "model_type",
    ],
    "/v2/glossaries": ["entries_format"],
    "/translate": ["format", "alternatives", "api_key"],
    "/v1/chat/completions": ["model", "stream", "stream_options", "n", "tools", "response_format", "temperature"],
}  # fmt: skip
BODIES = {
    "/v2/translate": DEEPL, "/v2/glossaries": {**GLOSSARY, "entries": "dog\ta tree"}, "/translate": LIBRE,
    "/v1/chat/completions": CHAT,
}  # fmt: skip


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in OPTIONAL.items() for name in names])
def test_null_is_absent(path: str, name: str, open_client: Any) -> None:
    body = {key: value for key, value in BODIES[path].items() if key != name}
    answers = [open_client.post(path, json=sent) for sent in (body, {**body, name: None})]
    assert answers[0].status_code in (200, 201)
    assert answers[1].status_code == answers[0].status_code, answers[1].text
    if path in ("/v2/translate", "/translate"):
        assert answers[1].json() == answers[0].json()


@pytest.mark.parametrize("kind", ["json", "form", "multipart"])
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"target": "fr"}, "fr is not supported"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        ({"q": "a dog."}, None),
        ({"q": "<b>a dog.</b>", "format": "html"}, None),
    ],
)
def test_libretranslates_words_in_each_of_its_forms(
    kind: str, more: dict[str, str], words: str | None, open_client: Any
) -> None:
    body = {**LIBRE, **more}
    files = {name: (None, value) for name, value in body.items()}
    sent = {"json": {"json": body}, "form": {"data": body}, "multipart": {"files": files}}[kind]
    answer = open_client.post("/translate", **sent)
    if words is None:
        assert answer.json() == open_client.post("/translate", json=body).json()
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json()) == (400, {"error": words})


def test_libretranslates_words_of_files_and_keys(small: Translating) -> None:
    client = started(small, token=TOKEN)
    file, fields = {"file": ("a.txt", b"A dog.")}, {"source": "en", "target": "de", "api_key": TOKEN}
    for form, files, words in (
        ({**fields, "source": ""}, file, "Invalid request: missing source parameter"),
        (fields, {"file": ("a.exe", b"A")}, "Invalid request: file format not supported"),
        (fields, {"other": (None, b"A")}, "Invalid request: missing file parameter"),
    ):
        answer = client.post("/translate_file", data=form, files=files)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(words)
    multipart = {"files": {name: (None, value) for name, value in {**LIBRE, "api_key": TOKEN}.items()}}
    assert client.post("/translate", **multipart).status_code == 200
    missing, wrong = (client.post("/translate", json=body) for body in (LIBRE, {**LIBRE, "api_key": "x"}))
    assert (missing.status_code, "get an API key" in missing.json()["error"]) == (400, True)
    assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
    client.service.worker.stop()
