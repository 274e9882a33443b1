"""What the translation task can be told. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.config import option


@dataclass(frozen=True)
class DocumentTranslationConfig:
    """How documents are cut, and how translations are judged in training."""

    max_doc_tokens: int | None = option(
        None, "cut training documents at sentence ends into pieces of at most this many subwords [never cut]"
    )
    eval_bleu_beam: int = option(1, "beam of the validation BLEU (it is computed when BLEU is the metric)")
    eval_bleu_documents: int | None = option(None, "validation BLEU on the first N documents only [all]")

    def problems(self) -> list[str]:
        """Values out of range."""
        return [
            f"--{name.replace('_', '-')}: must be at least 1, got {value}"
            for name in ("max_doc_tokens", "eval_bleu_beam", "eval_bleu_documents")
            if (value := getattr(self, name)) is not None and value < 1
        ]
