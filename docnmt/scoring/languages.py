"""Which sacreBLEU tokenizer goes with which language."""

from __future__ import annotations

#: As in sacreBLEU itself; every other language is cut by `13a`.
_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}


def bleu_tokenizer(language: str) -> str:
    """sacreBLEU's own choice for a target language."""
    return _TOKENIZERS.get(language.lower().replace("_", "-").partition("-")[0], "13a")
