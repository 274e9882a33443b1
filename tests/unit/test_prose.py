"""tools/prose.py: what counts as prose, and what breaks a rule."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import prose

PAGE = """# A heading with words

Two lines of *one*
paragraph with `some code` and [a link](https://x.y/z). A second sentence.

    an indented command --is code

```text
fenced output is code, too
```

- an item
  goes on
- another

| one | |
| --- | --- |
| two words | `x` |
"""


def test_prose_is_everything_but_code_and_headings() -> None:
    found = [(paragraph.line, paragraph.text) for paragraph in prose.paragraphs(PAGE)]
    whole = "Two lines of one paragraph with CODE and a link. A second sentence."
    cells = [(16, " one "), (18, " two words "), (18, " CODE ")]
    assert found == [(3, whole), (12, "an item goes on"), (14, "another"), *cells]
    assert prose.sentences(whole) == [whole[:48], whole[49:]]
    assert prose.words("CODE − 7 of a kind") == 5


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("word " * 35 + ".", 0),
        ("word " * 36 + ".", 1),
        ("1, 2, 3, 4, 5, 6, 7 and 8.", 0),
        ("1, 2, 3, 4, 5, 6, 7, 8 and 9.", 1),
        ("It stands for this.", 0),
        ("It stands on the page.", 1),
        ("```\nIt was judged.\n```", 0),
        ("line\n\n" * 61, 1),
    ],
)
def test_each_rule_is_kept_or_named(text: str, count: int, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert len(list(prose.faults(text))) == count
    assert prose.main([str(page)]) == (count > 0)


def test_readme_and_guides_keep_the_rules() -> None:
    assert prose.main([]) == 0
