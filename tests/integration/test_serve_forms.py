"""docnmt-serve in the forms of other services: their own clients, unchanged, get what docnmt-translate writes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import small_system
from commands import SHORT, translated
from served import ARCHITECTURES, Served, started, translating

from docnmt.apps.commands.translating import Translating
from docnmt.apps.serve.chat import instructed, prompted
from docnmt.cli.translate import main as translate_command
from docnmt.core.search.translate import translate_corpus

Patch = pytest.MonkeyPatch
TEXTS = ["The dog sees. A cat finds it.", "the old house.", "", "It walks\nin the river."]
CONTEXT = "The cat sleeps. It walks."
TOKEN = "0123456789abcdef"


def command(document_model: Path, text: str, monkeypatch: Patch, *more: str) -> list[str]:
    return translated(document_model, text, monkeypatch, *SHORT, *more).removesuffix("\n").split("\n")


def shaped(lines: list[str], texts: list[str]) -> list[str]:
    """Lines as the texts have them."""
    waiting = iter(lines)
    return ["\n".join(next(waiting) for _ in text.split("\n")) for text in texts]


def test_deepls_own_client(running: Served, document_model: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the package deepl")
    client = deepl.Translator("any key", server_url=running.address)
    lines = "\n".join(TEXTS) + "\n"
    translations = [result.text for result in client.translate_text(TEXTS, target_lang="DE")]
    assert translations == shaped(command(document_model, lines, monkeypatch), TEXTS)
    results = client.translate_text(TEXTS, source_lang="EN", target_lang="DE", context=CONTEXT, formality="prefer_more")
    expected = shaped(command(document_model, f"{CONTEXT}\n{lines}", monkeypatch)[1:], TEXTS)
    assert [(result.text, result.detected_source_lang) for result in results] == [(text, "EN") for text in expected]
    assert expected != shaped(command(document_model, lines, monkeypatch), TEXTS)  # it is read
    with pytest.raises(deepl.DeepLException, match="formality"):
        client.translate_text("a dog", target_lang="DE", formality="more")
    with pytest.raises(deepl.DeepLException, match="target_lang"):
        client.translate_text("a dog", target_lang="FR")
    assert [lang.code for lang in (*client.get_source_languages(), *client.get_target_languages())] == ["EN", "DE"]
    assert client.get_usage().character.count >= 2 * sum(map(len, TEXTS))
    monkeypatch.setattr(time, "sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.1)))
    (tmp_path / "a.md").write_text("# The *dog*\n\nA cat `sees` it.\n")
    client.translate_document_from_filepath(tmp_path / "a.md", tmp_path / "b.md", target_lang="DE")
    words = ["--path", str(document_model), "--beam", "2", "--device", "cpu", *SHORT, str(tmp_path / "a.md")]
    assert translate_command([*words, "-o", str(tmp_path / "c.md")]) == 0
    assert (tmp_path / "b.md").read_bytes() == (tmp_path / "c.md").read_bytes()


def test_deepls_glossaries(running: Served) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the package deepl")
    client = deepl.Translator("any key", server_url=running.address)
    (pair,) = client.get_glossary_languages()
    assert (pair.source_lang, pair.target_lang) == ("en", "de")
    entries = {"dog": "the river", "old house": "tree"}
    made = client.create_glossary("animals", "EN", "DE", entries)
    client.create_glossary_from_csv("other", "EN", "DE", 'cat,"a tree"\n')
    assert [glossary.name for glossary in client.list_glossaries()] == ["animals", "other"]
    assert client.get_glossary_entries(made) == entries
    assert client.get_glossary(made.glossary_id).entry_count == 2
    with_terms = client.translate_text_with_glossary("The dog sees.", made).text
    assert "the river" in with_terms
    assert with_terms != client.translate_text("The dog sees.", target_lang="DE").text
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)


PROMPT = "Translate from en to de, leave punctuation and line breaks as they are, and say nothing else:\n\n"
CAREFUL = "You translate text\nfrom language 'en'\nto language 'de'\nwith care. Reply with the translation only."
FORM = {"text": "TEXT", "source_lang": "EN", "target_lang": "DE"}
TAGGED = {"tag_handling": "xml", "preserve_formatting": "1", "auth_key": "any", "split_sentences": "1"}
CHATS = [
    [{"role": "user", "content": f"{PROMPT}TEXT"}],  # Subtitle Edit
    [{"role": "system", "content": CAREFUL}, {"role": "user", "content": "TEXT"}],  # Weblate
]
SENT: list[tuple[str, str, dict[str, Any]]] = [
    *(("/v1/chat/completions", "json", {"model": "gpt-4.1", "temperature": 0, "messages": chat}) for chat in CHATS),
    ("/v2/translate", "data", FORM),  # OmegaT, by DeepL's Java library
    ("/v2/translate", "data", {**FORM, **TAGGED}),  # its older code
    ("/v2/translate", "json", {**FORM, "text": ["TEXT"], "tag_handling": "xml", "ignore_tags": ["x"]}),  # Weblate
    *(("/translate", kind, {"q": "TEXT", "source": "en", "target": "de", "api_key": ""}) for kind in ("data", "json")),
]
FOUND: dict[str, Callable[[Any], str]] = {
    "/v1/chat/completions": lambda answer: answer["choices"][0]["message"]["content"],
    "/v2/translate": lambda answer: answer["translations"][0]["text"],
    "/translate": lambda answer: answer["translatedText"],
}


@pytest.mark.parametrize(("path", "kind", "body"), SENT)
def test_what_translators_tools_send(running: Served, path: str, kind: str, body: dict[str, Any]) -> None:
    """By their public code, written anew, and what they read of the answers."""
    text = "The dog sees. A cat finds it."
    sent: dict[str, Any] = {kind: json.loads(json.dumps(body).replace("TEXT", text))}
    with running.client(headers={"Authorization": "DeepL-Auth-Key any"}) as client:
        expected = client.post("/translate", json={"text": text}).json()["text"]
        assert FOUND[path](client.post(path, **sent).json()) == expected


def test_tags_stay_around_text(running: Served) -> None:
    """Weblate's form of a request, which marks what must stay by <x>; and HTML."""
    texts = ['The <x id="4"></x> dog &amp; cat.', "<g>The old <b>house</b></g><br/>"]
    body = {"text": texts, "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml", "ignore_tags": ["x"]}
    with running.client() as client:
        first, second = client.post("/v2/translate", json=body).json()["translations"]
        body = {"text": ["<p>The dog</p><p>A <b>cat</b>"], "target_lang": "DE", "tag_handling": "html"}
        (third,) = client.post("/v2/translate", json=body).json()["translations"]
        fourth = client.post("/translate", json={"q": body["text"], "source": "en", "target": "de", "format": "html"})
    assert first["text"].count('<x id="4"></x>') == 1
    assert [second["text"].count(tag) for tag in ("<g>", "<b>", "</b>", "</g>", "<br/>")] == [1] * 5
    assert third["text"].startswith("<p>")
    assert third["text"].count("</p><p>") == 1
    assert fourth.json() == {"translatedText": [third["text"]]}


def test_libretranslates_own_client(running: Served, document_model: Path, monkeypatch: Patch) -> None:
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="needs the package libretranslatepy")
    client = libretranslatepy.LibreTranslateAPI(running.address)
    text = "\n".join(TEXTS)
    assert client.translate(text, "en", "de") == "\n".join(command(document_model, f"{text}\n", monkeypatch))
    assert client.detect(text) == [{"confidence": 0.0, "language": "en"}]
    assert [lang["code"] for lang in client.languages()] == ["en", "de"]
    with running.client() as plain:
        body = {"q": TEXTS, "source": "auto", "target": "de", "alternatives": 1}
        answer = plain.post("/translate", json=body).json()
        assert answer["translatedText"] == shaped(command(document_model, f"{text}\n", monkeypatch), TEXTS)
        assert ".docx" in plain.get("/frontend/settings").json()["supportedFilesFormat"]
        file = {"file": ("a.txt", b"The dog.\n\nA cat.\n")}
        told = plain.post("/translate_file", data={"source": "en", "target": "de"}, files=file).json()
        address = told["translatedFileUrl"]
        direct = plain.post("/translate/file?name=a.txt", content=b"The dog.\n\nA cat.\n").content
        assert plain.get(address).content == direct
        assert plain.get(address).status_code == 404  # once


def test_openais_own_client(running: Served, document_model: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    openai = pytest.importorskip("openai", reason="needs the package openai")
    client = openai.OpenAI(api_key="any", base_url=f"{running.address}/v1", max_retries=0)
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
    expected = "\n".join(command(document_model, source, monkeypatch, "--given", str(tmp_path / "given"))[2:])
    answer = client.chat.completions.create(model="gpt-4o", messages=chat, temperature=0.2)
    assert answer.choices[0].message.content == expected
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="", messages=chat, stream=True, stream_options=options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == expected
    assert (chunks[-2].choices[0].finish_reason, chunks[-1].usage) == (answer.choices[0].finish_reason, answer.usage)
    french: list[Any] = [{"role": "user", "content": "Translate from English to French: a dog"}]
    with pytest.raises(openai.BadRequestError, match="en to fr"):
        client.chat.completions.create(model="", messages=french)
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")


@pytest.mark.parametrize(
    ("read", "content", "expected"),
    [
        (prompted, "Translate from English to German, no more:\n\nA dog:\n\na cat", ("en", "de", "A dog:\n\na cat")),
        (prompted, "Translate from en to de-AT: A dog", ("en", "de", "A dog")),
        (prompted, "Please translate the following text into German (Austria):\nA dog", (None, "de", "A dog")),
        (prompted, "translate from Chinese (Simplified) to French.\n\nA dog", ("zh", "fr", "A dog")),
        (prompted, "Translate this: to be or not to be", (None, None, "Translate this: to be or not to be")),
        (prompted, "He went from France to Italy: a dog", (None, None, "He went from France to Italy: a dog")),
        (prompted, "Translate from English to German:\n\n", (None, None, "Translate from English to German:\n\n")),
        (instructed, "You translate. Translate the text below into German.", (None, "de")),
        (instructed, "Translate from English to German. Do not translate names to French.", ("en", "de")),
        (instructed, "You are a translator. Do what you are told to. German is fine.", (None, None)),
    ],
)  # fmt: skip
def test_prompts_and_instructions_of_tools(read: Callable[[str], object], content: str, expected: object) -> None:
    assert read(content) == expected


@pytest.mark.parametrize(("arch", "options"), [ARCHITECTURES[n] for n in (0, 1, 3, 5)])
def test_what_is_read_and_not_returned_is_part_of_the_document(arch: str, options: dict[str, Any]) -> None:
    """For models that read translations, and for those that do not, for which it is not written."""
    models = translating(arch, **options)
    client, task = started(models), models.loaded.task
    before, texts = ["the cat.", "a dog sees it."], ["it walks.", "the old tree."]
    given = ["the river", None, None, None]
    messages = [{"role": "user", "content": before[0]}, {"role": "assistant", "content": given[0]}]
    messages += [{"role": "user", "content": before[1]}, {"role": "user", "content": "\n".join(texts)}]
    corpus = small_system.corpus([before + texts])
    results = list(translate_corpus(models.loaded.models, task, corpus, models.options, models.search, given=given))
    answer = client.post("/v1/chat/completions", json={"messages": messages}).json()
    assert answer["choices"][0]["message"]["content"] == "\n".join(result.text for result in results[1:])
    results = list(translate_corpus(models.loaded.models, task, corpus, models.options, models.search))
    body = {"text": texts, "context": "\n".join(before), "target_lang": "DE"}
    answer = client.post("/v2/translate", data=body).json()
    assert [translation["text"] for translation in answer["translations"]] == [result.text for result in results[2:]]
    client.service.worker.stop()


@pytest.fixture(scope="module")
def small() -> Translating:
    return translating()


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


@pytest.mark.parametrize("more", [{}, {"split_sentences": "nonewlines"}, {"tag_handling": "xml"}])
def test_every_kind_of_line_break_is_one(more: dict[str, str], open_client: Any) -> None:
    replies = [
        open_client.post("/v2/translate", json={**DEEPL, "text": [text], "context": f"{text}dog", **more}).json()
        for text in ("the cat.\na dog.\n", "the cat.\r\na dog.\r\n", "the cat.\ra dog.\r")
    ]
    texts = ["".join(reply["translations"][0]["text"].split("\r")) for reply in replies]  # a tag's text ends as it did
    assert texts[0].split() == texts[1].split() == texts[2].split() != []


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
        code: int = client.post(path, **sent, headers=headers).status_code
        return code

    for key, statuses in ((TOKEN, (200, 200, 200)), ("wrong", (403, 401, 401)), ("", (403, 401, 401))):
        codes = [status("/v2/translate", key, "DeepL-Auth-Key", json=DEEPL)]
        codes += [status(path, key, json=body) for path, body in (("/v1/chat/completions", CHAT), ("/translate", OWN))]
        assert tuple(codes) == statuses
    for kind in ("json", "data"):
        assert status("/translate", **{kind: {**LIBRE, "api_key": TOKEN}}) == 200
        answer = client.post("/translate", **{kind: {**LIBRE, "api_key": "wrong"}})
        assert (answer.status_code, list(answer.json())) == (403, ["error"])
    assert status("/translate", json={**LIBRE, "api_key": TOKEN, "more": "a" * 300_000}) == 401
    assert status("/translate", json={"text": "a", "api_key": "wrong"}) == 401
    file = {"file": ("a.txt", b"A dog.")}
    fields = {"source": "en", "target": "de", "api_key": TOKEN}
    told = client.post("/translate_file", data=fields, files=file).json()
    assert client.head(told["translatedFileUrl"]).status_code == 200  # a look, which takes nothing away
    assert client.get(told["translatedFileUrl"]).status_code == 200
    assert status("/translate_file", data={**fields, "api_key": "no"}, files=file) == 403
    assert client.get("/languages").status_code == 200
    assert client.get("/v2/usage").status_code == 403
    client.service.worker.stop()
