"""Languages that files of two languages say they are in, against those of the model."""

from __future__ import annotations

from docnmt.runtime.errors import UserError


def base(language: str) -> str:
    """`de-AT` → `de`."""
    return language.replace("_", "-").split("-")[0].lower()


def check_language(said: str | None, language: str, *, file: str, what: str) -> None:
    """Refuses a file in another language than the model's; one that says nothing is taken.

    Raises:
        UserError: it is in another one.
    """
    if said and base(said) != base(language):
        raise UserError(f"{file}: its {what} is '{said}', and the model's is '{language}'; use another model")
