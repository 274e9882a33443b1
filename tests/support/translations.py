"""A reference, its source and two systems' translations as files, for pages about them."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = ["the", "a", "cat", "dog", "house", "tree", "sees", "likes", "finds", "big", "small", "red", ",", ".", "!"]

#: What would run, close an element or load something if a page took it for HTML.
NASTY = "<script>hacked=1</script> </script><img src=//x onerror=hacked=2> &lt; \"'` <!-- \u202e\u2028 ]]>"


def documents(sizes: list[int], *, seed: int = 1) -> list[list[str]]:
    """Documents of so many sentences of two to twelve words."""
    draw = random.Random(seed)
    return [[" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(size)] for size in sizes]


def noised(texts: list[list[str]], share: float, *, seed: int) -> list[list[str]]:
    """The same with this share of words dropped or replaced."""
    draw = random.Random(seed)
    return [
        [" ".join(w if draw.random() > share else draw.choice([*WORDS, ""]) for w in line.split()) for line in text]
        for text in texts
    ]


def write(path: Path, texts: list[list[str]]) -> str:
    """A file of documents, an empty line between them; its name."""
    path.write_text("\n\n".join("\n".join(text) for text in texts) + "\n", encoding="utf-8")
    return str(path)
