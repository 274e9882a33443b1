"""A translation without the reference's sentences is divided into them, and nothing of it is lost."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scored import corpus, write

from docnmt.apps.align import (
    BEADS,
    BOUNDARY,
    VARIANCE,
    AlignedSide,
    Bead,
    align,
    log_tail,
)
from docnmt.cli.score import main as score
from docnmt.core.formality import AddressRule, second_person
from docnmt.core.scoring.consistency import score_address
from docnmt.core.scoring.text_files import divide, read_documents, read_layout, resegment
from docnmt.runtime.system import UserError


def found(reference: Path, system: Path) -> list[str]:
    layout = read_layout(reference)
    return resegment(system, layout, layout.sentences)[0]


def test_true_sentences_are_found_whatever_the_lines(tmp_path: Path) -> None:
    reference, one, many = write(
        tmp_path,
        reference="Er kam spät.\n»Wirklich?«, fragte sie.\n\nDas Haus (am See) ist alt.\nEs steht leer!\n",
        one='Er kam spät. "Wirklich?", fragte sie.\n\n\nDas Haus (am See) ist alt. Es steht leer!',
        many='Er kam\nspät. "Wirklich?",\nfragte sie.\n\nDas Haus (am\nSee) ist alt. Es steht leer!\n',
    )
    true = ["Er kam spät.", '"Wirklich?", fragte sie.', "Das Haus (am See) ist alt.", "Es steht leer!"]
    assert found(reference, one) == found(reference, many) == true


def test_noise_moves_some_cuts_and_loses_no_character(tmp_path: Path) -> None:
    hypothesis, reference, offsets = corpus(5, sentences=60, documents=6)
    texts = {
        name: "\n\n".join(join.join(side[a:b]) for a, b in pairwise(offsets))
        for name, side, join in (("ref", reference, "\n"), ("sys", hypothesis, " "))
    }
    ref, sys_ = write(tmp_path, **texts)
    sentences = found(ref, sys_)
    assert len(sentences) == 60
    assert " ".join(" ".join(sentences).split()) == " ".join(" ".join(hypothesis).split())
    assert sum(a == b for a, b in zip(sentences, hypothesis, strict=True)) > 40  # of words without order, noisy


def count_words(reference: str, text: str) -> str:
    """An aligner that gives every sentence as many tokens as the reference has, ill-placed though they may be."""
    tokens, lines = iter(text.split()), reference.split("\n")
    return "\n".join(" ".join(next(tokens, "") for _ in line.split()) for line in lines[:-1]) + "\n" + " ".join(tokens)


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("Ja. „Nein.“ Gut.", ["a b c d e", "f"], ["Ja. „Nein.“", "Gut."]),  # a quotation mark stays with its word
        ("Ja. (Nein) Gut.", ["a b c", "d"], ["Ja.", "(Nein) Gut."]),
        ("U.S.A. 3,5 don't Ende.", ["a", "b c", "d", "e f"], ["U.S.A.", "3,5", "don't", "Ende."]),
        ("他来了。她走了。", ["a b c d", "e f g h"], ["他来了。", "她走了。"]),  # 。 is a token, and no space follows
        ("他来了。「走」了", ["a b c", "e f g h"], ["他来了。", "「走」了"]),
        ("हिन्दी भाषा", ["a b", "c"], ["हिन्दी", "भाषा"]),  # vowel signs are no letters
        ("### x ### y", ["a b c d", "e f g h"], ["### x", "### y"]),  # mweralign's own separator
        ("", ["a", "b"], ["", ""]),
    ],
)
def test_cuts_keep_words_and_their_punctuation(text: str, reference: list[str], expected: list[str]) -> None:
    assert divide(text, reference, count_words) == expected


def test_what_is_missing_leaves_its_own_sentences_empty(tmp_path: Path) -> None:
    """mweralign alone puts the first word into the first sentence, whatever it is."""
    reference, system = write(tmp_path, r="one two three .\nfour five .\nsix seven eight .\n", s="six seven eight .")
    assert found(reference, system) == ["", "", "six seven eight ."]


def test_documents_are_marked_by_empty_lines_or_by_marks(tmp_path: Path) -> None:
    blank, marked = write(tmp_path, blank="\na\nb\n\n\nc\n\n", marked="<d>\na\n\nb\n<p>\nc\n<d>\n<d>\nd\n")
    assert read_documents(blank) == [(None, "a b"), (None, "c")]
    assert read_documents(marked) == [(None, "a b c"), (None, ""), (None, "d")]


def test_documents_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    reference, answers = write(
        tmp_path,
        **{
            "r.tsv": "document\ttarget\n1\ta b\n1\tc d\n2\t\n2\te f\n3\tg h\n",
            "t.tsv": "document\thypothesis\n3\tg h\n1\ta b c\n1\td\n2\te f\n",
        },
    )
    assert found(reference, answers) == ["a b", "c d", "", "e f", "g h"]
    lines = tmp_path / "lines"
    arguments = ["--ref", str(reference), "--resegment", "--sys", str(answers), "--resegmented", str(lines)]
    assert score(arguments) == 0
    assert lines.read_text() == "a b\nc d\n\n\ne f\n\ng h\n"
    assert read_layout(reference).align(lines) == ["a b", "c d", "", "e f", "g h"]


# Forms of address: what the rules see in sentences, and what is counted of documents.


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
    ("language", "sentence", "expected"),
    [("en", "You're late.", True), ("en", "The young one, yours?", True), ("en", "Youth is short.", False),
     ("en_GB", "Know thyself", True), ("fr", "Tu ou vous ?", True), ("de", "Sie geht.", False)],
)  # fmt: skip
def test_words_of_the_second_person(language: str, sentence: str, expected: bool) -> None:
    assert second_person(language)(sentence) == expected


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
    report = score_address(sources, system, reference, offsets, language="fr").to_dict()
    ours, theirs = counted(sources, system), counted(sources, reference)
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a and b]
    assert report["agreement"] == pytest.approx(100 * sum(a == b for a, b in both) / len(both))
    assert (report["agreement_lines"], report["lines"]) == (len(both), len([a for a in ours if a]))
    for name, forms in (("consistency", ours), ("reference_consistency", theirs)):
        pairs = [pair for a, b in pairwise(offsets) for pair in pairwise(filter(None, forms[a:b]))]
        assert report[name] == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))
    rows = report["by_distance"]
    assert sum(row["lines"] for row in rows) == report["lines"]
    kept = sum(row["lines"] * row["consistency"] for row in rows if row["consistency"] is not None)
    assert kept / report["consistency_lines"] == pytest.approx(report["consistency"])
    if documents < 30:
        assert "agreement_interval" not in report
    else:
        low, high = report["agreement_interval"]
        assert low < report["agreement"] < high


def test_nothing_to_compare_is_no_number() -> None:
    assert score_address(["he"], ["tu"], ["tu"], [0, 1], language="fr").to_dict()["agreement"] is None


def test_the_command_reports_compares_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources, system, reference, offsets = sample(2, 150)
    for name, lines in (("s", sources), ("r", reference), ("h", system)):
        parts = ("\n".join(lines[a:b]) for a, b in pairwise(offsets) if a < b)
        (tmp_path / name).write_text("\n\n".join(parts) + "\n")
    words = ["--ref", str(tmp_path / "r"), "--sys", str(tmp_path / "h"), "--address"]
    assert score([*words, "fr", "--src", str(tmp_path / "s"), "--paired", str(tmp_path / "r"), "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    whole = score_address(sources, system, reference, sorted(set(offsets)), language="fr").to_dict()
    assert content["address"] == whole
    (compared,) = (metric for metric in content["paired"]["metrics"] if metric["metric"] == "agreement")
    assert (compared["system"], compared["other"]) == (whole["agreement"], 100)
    assert score([*words, "fr"]) == 2
    assert "--src" in capsys.readouterr().err
    assert score([*words, "xx", "--src", str(tmp_path / "s")]) == 2
    assert "--address" in capsys.readouterr().err


# Aligned sentences: costs against another formula, and paths against all paths there are.


def side(lengths: list[int], paragraphs: str = "") -> AlignedSide:
    return AlignedSide(["x" * n for n in lengths], [("0", paragraph) for paragraph in paragraphs or "a" * len(lengths)])


@pytest.mark.parametrize("z", [0.0, 0.5, 1.0, 2.5, 5.0])
def test_the_tail_is_that_of_the_normal_distribution(z: float) -> None:
    assert math.exp(log_tail(np.array(z))) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=1e-6)


def paths(n: int, m: int) -> Iterator[list[Bead]]:
    """Every way through n and m sentences."""
    if not n and not m:
        yield []
    for s, t in BEADS:
        if s <= n and t <= m:
            for rest in paths(n - s, m - t):
                yield [*rest, Bead(tuple(range(n - s, n)), tuple(range(m - t, m)))]


def cost(beads: list[Bead], source: AlignedSide, target: AlignedSide, evidence: np.ndarray) -> float:
    """The same sum, bead by bead."""
    ratio, total = target.lengths.sum() / source.lengths.sum(), 0.0
    for bead in beads:
        total -= math.log(BEADS[len(bead.source), len(bead.target)])
        if not (bead.source and bead.target):
            continue
        own, other = (text.lengths[list(n)].sum() for text, n in ((source, bead.source), (target, bead.target)))
        delta = abs(other - own * ratio) / math.sqrt(VARIANCE * (own + other / ratio) / 2)
        total -= float(log_tail(np.array(delta)))
        total += BOUNDARY[abs(source.begins[bead.source[0]] - target.begins[bead.target[0]])]
        total += sum(BOUNDARY[text.begins[n]] for text, own in ((source, bead.source), (target, bead.target))
                     for n in own[1:])  # fmt: skip
        total -= sum(evidence[i, j] for i, j in itertools.product(bead.source, bead.target))
    return total


def test_the_path_is_the_cheapest_of_all() -> None:
    draw = np.random.default_rng(3)
    for _ in range(40):
        n, m = draw.integers(1, 5, 2)
        source, target = (
            side(draw.integers(5, 120, size).tolist(), "".join(sorted(draw.choice(list("abc"), size))))
            for size in (n, m)
        )
        evidence = draw.normal(scale=3, size=(n, m)).astype(np.float32)
        path = align(source, target, evidence)
        assert [n for bead in path for n in bead.source] == list(range(n))  # nothing is lost, nothing twice
        assert [n for bead in path for n in bead.target] == list(range(m))
        least = min(cost(beads, source, target, evidence) for beads in paths(n, m))
        assert cost(path, source, target, evidence) == pytest.approx(least, abs=1e-6)


def test_documents_of_unusual_length_are_scored_and_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reference, system = write(
        tmp_path, reference="a b c d .\n\ne f g h .\ni j k l .\n\nm .\n", system="<d>\na b c d .\n<d>\n<d>\nm m m m ."
    )
    output = tmp_path / "lines"
    arguments = ["--ref", str(reference), "--resegment", "--sys", str(system), "--resegmented", str(output)]
    assert score(arguments) == 0
    scores, said = capfd.readouterr()
    notes = [re.fullmatch(rf"note: {system}: document (\d) .*", line) for line in said.splitlines()]
    assert [note and note[1] for note in notes] == ["2", "3"]
    assert "300 %" in said
    assert output.read_text(encoding="utf-8") == "a b c d .\n\n\n\n\nm m m m .\n"
    assert score(["--ref", str(reference), "--sys", str(output)]) == 0
    assert capfd.readouterr().out == scores
    assert score(arguments) == 1
    assert "--overwrite" in capfd.readouterr().err
    assert score([*arguments, "--overwrite"]) == 0


def test_another_number_of_documents_is_refused(tmp_path: Path) -> None:
    reference, few, many = write(tmp_path, reference="a\n\nb\n\nc\n", few="a\n\nb c\n", many="a\n\nb\n\nc\n\nd")
    with pytest.raises(UserError, match="few:"):
        found(reference, few)
    with pytest.raises(UserError, match="many:"):
        found(reference, many)
