"""Terms of the reference in translations: of the title, first and later mentions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import term_accuracy as tool

REFERENCE = ["Les fichiers", "Un fichier, les fichiers.", "Tous les fichiers ouverts", "Deux tampons", "Ces tampons"]


def test_mentions_are_of_the_kinds_that_they_say() -> None:
    mentions = [(m.sentence, m.term, m.kinds[1:]) for m in tool.mentions([*REFERENCE, "Autres tampons"], [0, 5, 6])]
    assert mentions == [
        (0, "fichiers", ("first",)),
        (1, "fichier", ("single",)),
        (1, "fichiers", ("title", "later")),
        (2, "fichiers", ("title", "later")),
        (2, "ouverts", ("single",)),
        (2, "tous", ("single",)),
        (3, "deux", ("single",)),
        (3, "tampons", ("first",)),
        (4, "tampons", ("later",)),
        (5, "autres", ("single",)),
        (5, "tampons", ("single",)),  # another document
    ]


def test_words_of_many_documents_are_no_terms() -> None:
    documents = [f"voici page{chr(97 + n)}" for n in range(40)]
    documents[:5] = [f"{text} rare" for text in documents[:5]]
    terms = {m.term for m in tool.mentions(documents, range(41))}
    assert "voici" not in terms
    assert "rare" not in terms  # five documents are more than a tenth of forty
    assert "pagea" in terms


def test_what_was_given_is_read_and_not_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ref, one, two, out = (tmp_path / name for name in ("ref", "one", "two", "out"))
    ref.write_text("\n".join(REFERENCE) + "\n\n" + "Autres\nAutres choses\n")
    one.write_text("les fichiers\nles tampons\nTAMPONS\n\nautres\n")
    two.write_text("\nDeux buffers\nbuffers\n\nautre chose\n")
    tool.main([str(ref), str(one), str(two), "--prefix-references", "0.5", "--json", str(out)])
    content = json.loads(out.read_text())
    accuracy = {kind: (content[kind]["mentions"], content[kind]["accuracy"]) for kind in tool.KINDS}
    # fichiers, ouverts, tous; deux, tampons; tampons; autres, choses
    assert accuracy["all"] == (8, pytest.approx([50.0, 12.5]))
    assert accuracy["title"] == (2, [100.0, 0.0])
    assert accuracy["later"] == (3, [100.0, 0.0])
    assert accuracy["first"] == (1, [100.0, 0.0])
    assert accuracy["single"] == (4, [0.0, 25.0])
    against = content["all"]["against"][0]
    assert against["difference"] == pytest.approx(37.5)
    assert against["low"] <= 37.5 <= against["high"]
    assert "later\t3\t100.0 %\t0.0 %" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        tool.main([str(ref), str(one)])
    assert "there must be one line for each of its lines" in capsys.readouterr().err
