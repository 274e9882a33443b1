"""What translators' tools send to docnmt-serve, by their public code, written anew; what they read of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_system

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from served import started

from docnmt.apps.commands.models import LoadedModels
from docnmt.apps.commands.translating import Translating
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig

KEY = {"Authorization": "DeepL-Auth-Key any"}
TEXT = "The dog sees. A cat finds it."


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    loaded = LoadedModels((Path("m"),), (small_system.model("hier_cond_transformer_tiny"),), small_system.task())
    found = started(Translating(loaded, GenerationConfig(), BeamSearchConfig(beam=2)))
    yield found
    found.service.worker.stop()


@pytest.fixture(scope="module")
def expected(client: Any) -> str:
    text = client.post("/translate", json={"text": TEXT}).json()["text"]
    assert isinstance(text, str)
    return text


def test_weblate_by_deepl(client: Any, expected: str) -> None:
    """It asks for languages and glossaries first, then for several strings; what must stay it marks by <x>."""
    languages = {
        kind: {each["language"] for each in client.get("/v2/languages", params={"type": kind}, headers=KEY).json()}
        for kind in ("source", "target")
    }
    assert languages == {"source": {"EN"}, "target": {"DE"}}
    (pair,) = client.get("/v2/glossary-language-pairs", headers=KEY).json()["supported_languages"]
    assert (pair["source_lang"].upper(), pair["target_lang"].upper()) == ("EN", "DE")
    assert client.get("/v2/glossaries", headers=KEY).json()["glossaries"] == []
    glossary = {"name": "weblate:1:EN:DE:a", "source_lang": "EN", "target_lang": "DE", "entries": "dog\tthe river",
                "entries_format": "tsv"}  # fmt: skip
    assert client.post("/v2/glossaries", json=glossary, headers=KEY).is_success
    (kept,) = client.get("/v2/glossaries", headers=KEY).json()["glossaries"]
    asked = {"text": [TEXT], "source_lang": "EN", "target_lang": "DE", "formality": "default", "tag_handling": "xml",
             "ignore_tags": ["x"]}  # fmt: skip

    def texts(**more: Any) -> list[str]:
        answer = client.post("/v2/translate", json={**asked, **more}, headers=KEY)
        assert answer.status_code == 200, answer.text
        return [each["text"] for each in answer.json()["translations"]]

    assert texts() == [expected]
    assert "the river" in texts(glossary_id=kept["glossary_id"], model_type="prefer_quality_optimized")[0]
    marked = texts(text=['The <x id="4"></x> dog sees.', "A cat."], context="The old house.")
    assert len(marked) == 2
    assert '<x id="4"></x>' in marked[0]
    assert client.delete(f"/v2/glossaries/{kept['glossary_id']}", headers=KEY).status_code == 204
    wrong = client.post("/v2/translate", json={**asked, "target_lang": "FR"}, headers=KEY)
    assert "target_lang" in wrong.json()["message"]  # which it shows


def test_weblate_by_libretranslate(client: Any, expected: str) -> None:
    assert {each["code"] for each in client.get("/languages").json()} == {"en", "de"}
    form = {"api_key": "", "q": TEXT, "source": "en", "target": "de"}
    assert client.post("/translate", data=form).json()["translatedText"] == expected
    assert client.post("/translate", json=form).json()["translatedText"] == expected


def test_weblate_by_openai(client: Any, expected: str) -> None:
    """One string; its separator between several needs a model that follows instructions."""
    (model,) = client.get("/v1/models").json()["data"]
    prompt = "You translate text\nfrom language 'en'\nto language 'de'\nwith care. Reply with the translation only."
    chat = {"model": model["id"], "temperature": 0, "frequency_penalty": 0, "presence_penalty": 0,
            "messages": [{"role": "system", "content": prompt}, {"role": "user", "content": TEXT}]}  # fmt: skip
    answer = client.post("/v1/chat/completions", json=chat, headers={"Authorization": "Bearer any"})
    assert answer.json()["choices"][0]["message"]["content"] == expected


@pytest.mark.parametrize("more", [{}, {"split_sentences": "1"}])
def test_omegat_by_deepl(client: Any, expected: str, more: dict[str, str]) -> None:
    """A form of one text, as DeepL's Java library posts it; its older code also sends how tags are handled."""
    form = {"text": TEXT, "source_lang": "EN", "target_lang": "DE", **more}
    for also in ({}, {"tag_handling": "xml", "preserve_formatting": "1", "auth_key": "any", "split_sentences": "1"}):
        answer = client.post("/v2/translate", data={**form, **also}, headers=KEY).json()
        (translation,) = answer["translations"]
        assert (translation["detected_source_language"], translation["text"]) == ("EN", expected)


def test_omegat_by_libretranslate_is_refused_as_there(client: Any) -> None:
    """Its plug-in asks by GET, which LibreTranslate has not either."""
    answer = client.get("/translate", params={"q": TEXT, "source": "en", "target": "de"})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
