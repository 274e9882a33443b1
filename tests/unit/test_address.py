"""Forms of address: what the rules see in sentences, and what is counted of documents."""

from __future__ import annotations

import json
import random
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from docnmt.cli.score import main as score
from docnmt.core.formality import ADDRESS_WORDS, AddressRule, language_pair, second_person
from docnmt.core.scoring.consistency import address_doubt, score_address
from docnmt.runtime.system import UserError

F, I = "formal", "informal"  # noqa: E741


@pytest.mark.parametrize(
    ("language", "sentence", "form"),
    [
        ("fr", "Comment vas-tu ?", I), ("fr", "Qu’est-ce qui t’arrive ?", I), ("fr", "C'est VOTRE tour.", F),
        ("fr", "Tu crois que vous viendrez ?", None), ("fr", "Le têtu vouvoie.", None), ("fr_CA", "À vous !", F),
        ("de", "Kennst du ihn?", I), ("de", "Können Sie das?", F), ("de", "Sie kann das.", None),
        ("de", "Er fragt: „Sie auch?“", None), ("de", "Geht. Ihnen fehlt nichts.", None), ("de", "Das ist Ihr Hund", F),
        ("de", "Wie könnt Ihr nur? Wer hat Euch gerufen?", F), ("de", "Wer hat euch gerufen?", I),
        ("de", "Haben Sie dich gesehen?", None), ("de", "Ich sah sie.", None),
        ("es", "¿Cómo está usted?", F), ("es", "Tú no, y ustedes sí.", None), ("es", "Os lo digo.", I),
        ("es", "Uds saben.", F), ("es", "La salud.", None), ("pl", "Panie doktorze!", F), ("pl", "Panowie wiedzą?", F),
        ("it", "Come sta Lei?", F), ("it", "Lei sta bene.", None), ("it", "Ti amo.", I),
        ("nl", "Hebt u dat?", F), ("nl", "Dat is in de U.S. zo.", None), ("nl", "Heb je dat?", I),
        ("pl", "Czy pan wie?", F), ("pl", "Widzę cię.", I), ("ru", "Как вас зовут?", F), ("ru", "Твоя очередь.", I),
    ],
)  # fmt: skip
def test_the_one_form_of_a_sentence(language: str, sentence: str, form: str | None) -> None:
    assert AddressRule(language).form(sentence) == form


@pytest.mark.parametrize(
    ("language", "sentence", "form"),
    [("fr", "C'est le vôtre.", F), ("es", "El té.", None), ("pl", "Widzę cię.", I), ("ru", "Твой дом.", I)],
)
def test_an_accent_may_be_a_character_of_its_own(language: str, sentence: str, form: str | None) -> None:
    apart = unicodedata.normalize("NFD", sentence)
    assert apart != sentence
    assert AddressRule(language).form(apart) == AddressRule(language).form(sentence) == form


@pytest.mark.parametrize(
    ("wanted", "pair"),
    [("fr", ("en", "fr")), ("fr-CA", ("en", "fr")), ("de-DE", ("en", "de")), ("es-419", ("en", "es")),
     ("de-fr", ("de", "fr")), ("en_GB-fr_FR", ("en_GB", "fr")), ("FR-DE", ("FR", "de"))],
)  # fmt: skip
def test_a_region_is_no_target_language(wanted: str, pair: tuple[str, str]) -> None:
    assert language_pair(wanted) == pair


@pytest.mark.parametrize(
    ("language", "sentence", "found"),
    [("en", "You're late.", True), ("en", "The young one, yours?", True), ("en", "Youth is short.", False),
     ("en_GB", "Know thyself", True), ("fr", "Tu ou vous ?", True), ("de", "Sie geht.", False)],
)  # fmt: skip
def test_words_of_the_second_person(language: str, sentence: str, found: bool) -> None:
    assert second_person(language)(sentence) == found


@pytest.mark.parametrize("wanted", ["xx", "fr-xx", "xx-fr", "pt", "en", "", "en-en", "DE-PT", "de-PT-fr"])
def test_a_language_without_a_rule_is_refused(wanted: str) -> None:
    with pytest.raises(UserError, match=", ".join(ADDRESS_WORDS)):
        language_pair(wanted)


def sample(seed: int, documents: int) -> tuple[list[str], list[str], list[str], list[int]]:
    """Sources, a translation, its reference and where documents begin; of every kind of line some."""
    rng = random.Random(seed)
    lengths = [rng.randint(0, 9) for _ in range(documents)]
    texts = ["tu viens", "vous venez", "il vient", "tu ou vous"]
    sources = [rng.choice(["you come", "he comes"]) for _ in range(sum(lengths))]
    system, reference = ([rng.choice(texts) for _ in sources] for _ in range(2))
    return sources, system, reference, [0, *(sum(lengths[: n + 1]) for n in range(documents))]


def counted(sources: list[str], texts: list[str]) -> list[str | None]:
    """The form of each line, by another way."""
    forms = {"tu viens": I, "vous venez": F}
    return [forms.get(text) if "you" in source else None for source, text in zip(sources, texts, strict=True)]


@pytest.mark.parametrize("documents", [5, 150])
def test_shares_are_those_of_a_plain_count(documents: int) -> None:
    sources, system, reference, offsets = sample(documents, documents)
    found = score_address(sources, system, reference, offsets, language="fr").to_dict()
    ours, theirs = counted(sources, system), counted(sources, reference)
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a and b]
    assert found["agreement"] == pytest.approx(100 * sum(a == b for a, b in both) / len(both))
    assert (found["agreement_lines"], found["lines"]) == (len(both), len([a for a in ours if a]))
    for name, forms in (("consistency", ours), ("reference_consistency", theirs)):
        pairs = [pair for a, b in pairwise(offsets) for pair in pairwise(filter(None, forms[a:b]))]
        assert found[name] == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))
    rows = found["by_distance"]
    assert sum(row["lines"] for row in rows) == found["lines"]
    kept = sum(row["lines"] * row["consistency"] for row in rows if row["consistency"] is not None)
    assert kept / found["consistency_lines"] == pytest.approx(found["consistency"])
    if documents < 30:
        assert "agreement_interval" not in found
    else:
        low, high = found["agreement_interval"]
        assert low < found["agreement"] < high


def test_a_text_agrees_with_itself_and_nothing_to_compare_is_no_number() -> None:
    sources, system, _, offsets = sample(1, 9)
    assert score_address(sources, system, system, offsets, language="fr").to_dict()["agreement"] == 100
    nothing = score_address(["he"], ["tu"], ["tu"], [0, 1], language="fr")
    assert nothing.to_dict()["agreement"] is None
    assert "no such lines" in str(nothing)


def test_the_command_reports_compares_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources, system, reference, offsets = sample(2, 150)
    for name, lines in (("s", sources), ("r", reference), ("h", system)):
        parts = ("\n".join(lines[a:b]) for a, b in pairwise(offsets) if a < b)
        (tmp_path / name).write_text("\n\n".join(parts) + "\n")
    words = ["--ref", str(tmp_path / "r"), "--sys", str(tmp_path / "h"), "--address"]
    assert score([*words, "fr", "--src", str(tmp_path / "s"), "--paired", str(tmp_path / "r"), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    whole = score_address(sources, system, reference, sorted(set(offsets)), language="fr").to_dict()
    assert found["address"] == whole
    (compared,) = (each for each in found["paired"]["metrics"] if each["metric"] == "agreement")
    assert (compared["system"], compared["other"]) == (whole["agreement"], 100)
    assert score([*words, "fr"]) == 2
    assert "--src" in capsys.readouterr().err
    assert score([*words, "xx", "--src", str(tmp_path / "s")]) == 2
    assert "--address" in capsys.readouterr().err


FRENCH = ["Comment vas-tu ?", "C'est ton chien.", "Où est votre chat ?", "Il te voit.", "Vous venez."] * 4
GERMAN = ["Wie geht es dir?", "Das ist dein Hund.", "Wo ist Ihre Katze?", "Er sieht dich.", "Kommen Sie."] * 4


@pytest.mark.parametrize(("texts", "own"), [(FRENCH, "fr"), (GERMAN, "de")])
def test_another_language_than_the_text_has_is_doubted(texts: list[str], own: str) -> None:
    sources = ["How are you?"] * len(texts)
    assert address_doubt(sources, texts, own) is None
    for other in ADDRESS_WORDS.keys() - {own}:
        assert f"in '{own}'?" in (address_doubt(sources, texts, other) or "")
    assert address_doubt(sources[:2], texts[:2], own) is None
    assert address_doubt(sources[:2], ["Non.", "Oui."], own) is not None  # nothing to count
    assert address_doubt(["A dog."], texts[:1], own) is not None


def test_the_command_doubts_and_says_none_where_nothing_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fr").write_text("\n".join(FRENCH) + "\n", encoding="utf-8")
    (tmp_path / "en").write_text("How are you?\n" * len(FRENCH), encoding="utf-8")
    words = ["--ref", str(tmp_path / "fr"), "--sys", str(tmp_path / "fr"), "--src", str(tmp_path / "en")]
    assert score([*words, "--address", "de"]) == 0
    said = capsys.readouterr()
    assert "--address" in said.err
    assert "nan" not in said.out
    assert score([*words, "--address", "fr"]) == 0
    assert "--address" not in capsys.readouterr().err
