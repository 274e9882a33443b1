"""Documents with separate sentences on each side, and links between these (DocHPLT)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import joined


def linked(source: object, target: object, links: object, place: str, *, backwards: bool) -> Iterator[tuple[str, str]]:
    """Yield sentence pairs in the order of the source, then target sentences without a source; "" means no partner.

    Several sentences of one link are joined.

    Args:
        source, target: objects with the lists `ids` and `sentences`.
        links: a list of objects with the lists of ids `src` and `tgt`. Unknown ids belong to empty sentences.
        backwards: True if the source is called `tgt` in the links.

    Raises:
        UserError: the objects are malformed, or two links share a sentence.
    """
    sides = (_sentences(source, place), _sentences(target, place))
    names = ("tgt", "src") if backwards else ("src", "tgt")
    places = [{str(key): n for n, key in enumerate(ids)} for ids, _ in sides]
    free = [set(range(len(texts))) for _, texts in sides]
    rows: list[tuple[int, str, str]] = []
    for link in _list(links, place):
        ends = [_list(link.get(name) if isinstance(link, Mapping) else None, place) for name in names]
        found = [sorted(n[str(key)] for key in end if str(key) in n) for n, end in zip(places, ends, strict=True)]
        if not all(found):
            continue
        for numbers, left in zip(found, free, strict=True):
            if not left.issuperset(numbers):
                raise UserError(f"{place}: a sentence stands in two links of the alignment, expected one at most")
            left.difference_update(numbers)
        one, other = (joined(texts[n] for n in numbers) for numbers, (_, texts) in zip(found, sides, strict=True))
        rows.append((found[0][0], one, other))
    rows += [(n, sides[0][1][n], "") for n in free[0]]
    yield from ((one, other) for _, one, other in sorted(rows, key=lambda row: row[0]))
    yield from (("", sides[1][1][n]) for n in sorted(free[1]))


def _sentences(side: object, place: str) -> tuple[Sequence[object], list[str]]:
    found = side if isinstance(side, Mapping) else {}
    ids, texts = _list(found.get("ids"), place), _list(found.get("sentences"), place)
    if len(ids) != len(texts) or not all(isinstance(text, str) for text in texts):
        raise UserError(f"{place}: expected a text for each of the document's ids, got {len(texts)} for {len(ids)}")
    return ids, [text for text in texts if isinstance(text, str)]


def _list(value: object, place: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise UserError(
            f"{place}: expected source and target with lists 'ids' and 'sentences', and an alignment that is a list of "
            f"links with lists 'src' and 'tgt', got {str(value)[:40]}"
        )
    return value
