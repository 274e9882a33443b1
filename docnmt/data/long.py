"""What happens to sentences and documents above the declared limits (`--long-policy`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from docnmt.data.scan import Split
from docnmt.data.tokenizer import Tokenizer
from docnmt.data.translation_config import TranslationPreprocessConfig


def apply_long_policy(
    split: Split, tokenizers: Mapping[str, Tokenizer], config: TranslationPreprocessConfig, say: Callable[[str], None]
) -> list[str]:
    return []
