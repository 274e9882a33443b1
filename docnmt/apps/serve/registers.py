"""Forms of address: which of them the models can be asked for, and which one a request asks for."""

from __future__ import annotations

from typing import Literal

from docnmt.apps.serve.http_error import Refused
from docnmt.core.models.translation_model import TranslationTask

Register = Literal["formal", "informal"]
#: What DeepL's `formality` asks for, and whether it may be left out where the models have no such thing.
FORMALITIES: dict[str, tuple[Register | None, bool]] = {
    "default": (None, True), "more": ("formal", False), "less": ("informal", False), "prefer_more": ("formal", True),
    "prefer_less": ("informal", True),
}  # fmt: skip


def registers(task: TranslationTask) -> tuple[Register, ...]:
    """The forms of address that the models of a task were trained to write on request: of this version's models, none
    was."""
    return ()


def register_of(formality: str, task: TranslationTask) -> Register | None:
    """The form of address that a `formality` asks for, None if it asks for none.

    Raises:
        Refused: there is no such formality, or it must be kept to and the models cannot.
    """
    if formality not in FORMALITIES:
        expected = ", ".join(FORMALITIES)
        raise Refused(400, "invalid_request", f"formality: expected one of {expected}, got '{formality[:40]}'")
    register, may_go = FORMALITIES[formality]
    if register is None or register in registers(task):
        return register
    if may_go:
        return None
    message = f"formality '{formality}': this model was not trained with forms of address; send 'prefer_{formality}'"
    raise Refused(400, "no_formality", message)
