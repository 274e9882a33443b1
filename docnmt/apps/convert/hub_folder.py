"""The files beside the checkpoint in a folder for the Hugging Face hub: a model card, and the search's settings."""

from __future__ import annotations

from pathlib import Path

from docnmt.apps.convert.pretrained_folder import GENERATION
from docnmt.core.data.tokenizer import BOS, EOS
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.training.model_card import model_card
from docnmt.runtime.files import BEST, write_json, write_text


def describe_for_hub(folder: Path, name: str) -> None:
    """Write README.md, which lists the parts that only the author can complete, and generation_config.json.

    Args:
        name: the model's name on the hub.
    """
    search = BeamSearchConfig()
    write_text(folder / "README.md", model_card(folder / BEST, name) + "\n")
    settings = {
        "num_beams": search.beam,
        "length_penalty": search.lenpen,
        "early_stopping": True,
        "bos_token_id": BOS,
        "decoder_start_token_id": BOS,
        "eos_token_id": EOS,
    }
    write_json(folder / GENERATION, settings)
