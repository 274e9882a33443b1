"""What stands between an old model's weights and a new one's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.core.training.start import settings_that_differ
from docnmt.options import option


@dataclass(frozen=True)
class Sines:
    position: str = option("sinusoidal", "family")
    width: int = option(8, "width")
    dropout: float = option(0.1, "changes no meaning")


@dataclass(frozen=True)
class Logarithms:
    """Of a family that has an option of its own."""

    position: str = option("logarithmic", "family")
    width: int = option(8, "width")
    dropout: float = option(0.2, "changes no meaning")
    doublings: int = option(4, "the family's own")


def test_all_that_changes_what_weights_mean_is_named() -> None:
    assert settings_that_differ(Sines(), Sines(dropout=0.3)) == []
    assert settings_that_differ(Sines(), Sines(width=9)) == ["--width is 8 there and 9 here"]


def test_an_option_that_only_the_old_family_has_is_named_too() -> None:
    assert settings_that_differ(Logarithms(), Sines()) == [
        "--position is logarithmic there and sinusoidal here", "--doublings is 4 there and None here",
    ]  # fmt: skip
