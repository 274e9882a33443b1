"""Text whose score would mean little is named before it is scored."""

from __future__ import annotations

import pytest

from docnmt.core.scoring.text_files import doubts


@pytest.mark.parametrize(
    ("lines", "tokenizer", "told"),
    [
        (['<seg id="1">One.</seg>', "<p>", '<doc docid="a">'], "13a", "SGML"),
        (["The <b>seg</b> is one.", "Two."], "13a", ""),
        (["\u732b\u5728\u5bb6\u3002", "OK"], "13a", "--sacrebleu-tokenize"),
        (["\u732b\u5728\u5bb6\u3002", "OK"], "zh", ""),
        (["A cat called \u732b sleeps.", ""], "13a", ""),
        ([], "13a", ""),
    ],
)
def test_doubts(lines: list[str], tokenizer: str, told: str) -> None:
    found = list(doubts(lines, tokenizer))
    assert len(found) == bool(told)
    assert all(told in each for each in found)
