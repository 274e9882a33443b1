"""A translation without the reference's sentences is divided into them, and nothing of it is lost."""

from __future__ import annotations

import logging
import random
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from scored import corpus, write

from docnmt.cli import score as command
from docnmt.core.scoring.text_files import divide, read_documents, read_layout, resegment
from docnmt.runtime.system import UserError

pytest.importorskip("mweralign")


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


def test_a_line_may_be_a_document(tmp_path: Path) -> None:
    reference, lines, rows = write(
        tmp_path,
        **{
            "r": "a b\nc d\n\ne f\n\ng h\n", "l": "a b\\nc d\ne f\ng h\n",
            "rows.jsonl": '{"hyp": "a b\\nc d"}\n{"hyp": "e f"}\n{"hyp": "g h"}\n',
        },
    )  # fmt: skip
    assert found(reference, lines) == found(reference, rows) == ["a b", "c d", "e f", "g h"]


def test_a_table_names_its_documents(tmp_path: Path) -> None:
    reference, table = write(
        tmp_path, **{"r": "a b\nc d\n\ne f\n\ng h\n", "t.tsv": "document\thypothesis\n1\ta b c d\n2\t\n3\tg\n3\th\n"}
    )
    assert read_documents(table) == [("1", "a b c d"), ("2", ""), ("3", "g h")]
    assert found(reference, table) == ["a b", "c d", "", "g h"]


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
    assert command.main(arguments) == 0
    assert lines.read_text() == "a b\nc d\n\n\ne f\n\ng h\n"
    assert read_layout(reference).align(lines) == ["a b", "c d", "", "e f", "g h"]


def test_sentences_without_a_reference_get_nothing() -> None:
    assert divide("x y z .", ["a b", "", "c d"], count_words) == ["x y", "", "z ."]
    assert divide("x y .", ["", ""], count_words) == ["x y .", ""]


def test_another_number_of_documents_is_refused(tmp_path: Path) -> None:
    reference, few, many = write(tmp_path, reference="a\n\nb\n\nc\n", few="a\n\nb c\n", many="a\n\nb\n\nc\n\nd")
    with pytest.raises(UserError, match="few:"):
        found(reference, few)
    with pytest.raises(UserError, match="many:"):
        found(reference, many)


def test_documents_of_unusual_length_are_scored_and_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reference, system = write(
        tmp_path, reference="a b c d .\n\ne f g h .\ni j k l .\n\nm .\n", system="<d>\na b c d .\n<d>\n<d>\nm m m m ."
    )
    output = tmp_path / "lines"
    arguments = ["--ref", str(reference), "--resegment", "--sys", str(system), "--resegmented", str(output)]
    assert command.main(arguments) == 0
    scores, said = capfd.readouterr()
    found = [re.fullmatch(rf"note: {system}: document (\d) .*", line) for line in said.splitlines()]
    assert [each and each[1] for each in found] == ["2", "3"]
    assert "300 %" in said
    assert output.read_text(encoding="utf-8") == "a b c d .\n\n\n\n\nm m m m .\n"
    assert command.main(["--ref", str(reference), "--sys", str(output)]) == 0
    assert capfd.readouterr().out == scores
    assert command.main(arguments) == 1
    assert "--overwrite" in capfd.readouterr().err
    assert command.main([*arguments, "--by", "position", "--plot", str(output), "--overwrite"]) == 2
    assert str(output) in capfd.readouterr().err
    assert command.main([*arguments, "--overwrite"]) == 0


def test_it_does_not_touch_logging_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (reference,) = write(tmp_path, reference="a\n")
    for name in [name for name in sys.modules if name.startswith("mweralign.")]:
        if not name.endswith("_mweralign"):  # a second copy of compiled code is refused
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "mweralign", raising=False)
    before = logging.getLogger().handlers[:], logging.getLogger().level
    assert found(reference, reference) == ["a"]
    assert (logging.getLogger().handlers, logging.getLogger().level) == before
    monkeypatch.setitem(sys.modules, "mweralign", None)
    assert command.main(["--ref", str(reference), "--resegment", "--sys", str(reference)]) == 1
    assert "pip install 'docnmt[evaluation]'" in capsys.readouterr().err
    assert command.main(["--ref", str(reference), "--sys", str(reference), "--resegmented", "x"]) == 2
    assert "--resegmented" in capsys.readouterr().err


def test_long_documents_in_random_lines(tmp_path: Path) -> None:
    """Words that all differ leave one best division: the true one."""
    rng = random.Random(2)
    sentences = [" ".join(f"w{rng.randrange(10**6)}" for _ in range(rng.randint(1, 30))) + "." for _ in range(80)]
    words = " ".join(sentences).split()
    text = "".join(word + rng.choice([" ", "\n"]) for word in words)
    reference, system = write(tmp_path, reference="\n".join(sentences), system=text)
    assert found(reference, system) == sentences
