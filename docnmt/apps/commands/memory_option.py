"""The option `--memory`: loading of a translation memory."""

from __future__ import annotations

from pathlib import Path

from docnmt.apps.commands.config import MemoryConfig
from docnmt.apps.commands.models import LoadedModels, check_vocabulary
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.search.translation_memory import TranslationMemory
from docnmt.runtime.errors import UsageError


def open_memory(config: MemoryConfig, loaded: LoadedModels) -> TranslationMemory | None:
    """Open the memory that `--memory` names, or return None.

    Raises:
        UserError: the folder has another vocabulary or no training split, or no model reads translations.
    """
    if config.memory is None:
        return None
    if not any(model.reading.reads_translations for model in loaded.models):
        raise UsageError(
            "--memory has no effect with models that read no translations; train --arch copy_transformer or one with "
            "--target-context"
        )
    folder = Path(config.memory)
    check_vocabulary(loaded, folder)
    corpus = ParallelCorpus.open(folder, "train")
    return TranslationMemory(corpus, count=config.memory_sentences, foreign=config.memory_context == "foreign")
