"""How translations are written: fairseq's `S- T- H- D- P-` lines, and a results folder."""

from __future__ import annotations

from collections.abc import Iterator

from docnmt.generation.translate import SentenceResult


def lines(result: SentenceResult, source: str, reference: str | None) -> Iterator[str]:
    """A sentence's lines: raw source and reference, and of each hypothesis its pieces, its text, its pieces' scores.

    Scores are natural logs; `H-` and `D-` carry the length-normalised one.
    """
    number = result.number
    yield f"S-{number}\t{source}"
    if reference is not None:
        yield f"T-{number}\t{reference}"
    for found in result.nbest:
        yield f"H-{number}\t{found.score:.6f}\t{' '.join(found.pieces)}"
        yield f"D-{number}\t{found.score:.6f}\t{found.text}"
        yield f"P-{number}\t{' '.join(f'{score:.4f}' for score in found.piece_scores)}"
