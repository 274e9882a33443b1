"""Forms of address in requests."""

from __future__ import annotations

from typing import get_args

from docnmt.apps.commands.models import LoadedModels
from docnmt.apps.serve.http import Refused
from docnmt.core.formats.address import Form, Formality

#: DeepL's values of `formality`: the form of address, and True if models without forms of address ignore it.
FORMALITIES: dict[str, tuple[Form | None, bool]] = {
    "default": (None, True), "more": ("formal", False), "less": ("informal", False), "prefer_more": ("formal", True),
    "prefer_less": ("informal", True),
}  # fmt: skip


def form_of(formality: str | None, loaded: LoadedModels) -> Formality | None:
    """Return the form of address of a request in the service's own form; None if it names none.

    Raises:
        Refused: the form of address is unknown, or the models do not support any.
    """
    forms: dict[str, Formality] = {form: form for form in get_args(Formality)}
    if formality is None:
        return None
    if formality not in forms:
        expected = " or ".join(forms)
        raise Refused(400, "invalid_request", f"formality: expected {expected}, got '{formality[:40]}'")
    if not loaded.knows_formality:
        raise Refused(400, "no_formality", "formality: this model knows no forms of address; leave it out")
    return forms[formality]


def register_of(formality: str, loaded: LoadedModels) -> Form | None:
    """Return the form of address for DeepL's `formality`; None if it names none or may be ignored.

    Raises:
        Refused: the value is unknown, or it may not be ignored and the models do not support forms of address.
    """
    if formality not in FORMALITIES:
        expected = ", ".join(FORMALITIES)
        message = f"Value for 'formality' not supported: expected one of {expected}, got '{formality[:40]}'"
        raise Refused(400, "invalid_request", message)
    form, may_go = FORMALITIES[formality]
    if form is None or loaded.knows_formality:
        return form
    if may_go:
        return None
    message = f"formality '{formality}': this model was not trained with forms of address; send 'prefer_{formality}'"
    raise Refused(400, "no_formality", message)
