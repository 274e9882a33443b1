"""Rules for the values of options and for options together, as data, with their words for errors, help and docs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple


class Open(NamedTuple):
    """An end of `between` that is not a value itself: (0, Open(1)) is 0 ≤ value < 1."""

    end: float


#: Where values begin and end; None where they do not.
Between = tuple["float | Open | None", "float | Open | None"]


def inside(value: float, between: Between) -> bool:
    """Return True if a value is in the range."""
    least, most = between
    after = least is None or (value > least.end if isinstance(least, Open) else value >= least)
    return after and (most is None or (value < most.end if isinstance(most, Open) else value <= most))


def range_words(between: Between) -> str:
    """Return a range in words: `from 1 to 1,000`, `at least 1`, `above 0 and at most 1`."""
    least, most = between
    if isinstance(least, (int, float)) and isinstance(most, (int, float)):
        return f"from {least:,} to {most:,}"
    said = []
    for end, beyond, including in ((least, "above", "at least"), (most, "below", "at most")):
        if end is not None:
            said.append(f"{beyond} {end.end:,}" if isinstance(end, Open) else f"{including} {end:,}")
    return " and ".join(said)


class Except(frozenset[Any]):  # of values of any option
    """All values but these, as the `values` of `Needs`."""

    def __contains__(self, value: object) -> bool:
        return not super().__contains__(value)


#: All values by which something is asked for.
SET = Except((None, False, 0, "", ()))


class Needs(NamedTuple):
    """A condition on other options: if it does not hold, the option's value contradicts them, or nothing reads it.

    Fields:
        other: an option, or a property computed from several; of several names one is enough.
        values: the values of `other` with which the option has a meaning.
        says: the condition in words, if `other` and `values` do not express it.
        typed: True if only a typed option is refused: a `--config` file may serve several architectures.
    """

    other: str | tuple[str, ...]
    values: Collection[Any] = SET
    says: str = ""
    typed: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The options of which one is enough, as a tuple."""
        return (self.other,) if isinstance(self.other, str) else self.other

    def met(self, config: object) -> bool:
        """Return True if a configuration meets the condition."""
        return any(getattr(config, name) in self.values for name in self.names)

    def words(self) -> str:
        """Return the condition in words: `--by`, `--lr-scheduler cosine or plateau`."""
        if self.says:
            return self.says
        if self.values is SET:
            return " or ".join(map(flag, self.names))
        values = sorted(map(str, self.values)) if isinstance(self.values, Except) else list(self.values)
        if values in ([True], [False]):
            return with_value(self.names[0], values[0])
        *first, last = map(str, values)
        listed = f"{', '.join(first)} or {last}" if first else last
        return f"{flag(self.names[0])} {'other than ' * isinstance(self.values, Except)}{listed}"


#: As `option` takes it: a name alone is an option that must be given, a tuple of names options of which one must be.
SomeNeeds = str | tuple[str, ...] | Needs | list[Needs]


def as_needs(given: SomeNeeds) -> tuple[Needs, ...]:
    """Return the conditions that a short form stands for."""
    if isinstance(given, Needs):
        return (given,)
    if isinstance(given, list):
        return tuple(given)
    return (Needs(given),) if given else ()


def collected(config: type, name: str) -> list[Any]:
    """Return the entries of the tuple `name` in a class and in those that it extends, the most general first."""
    return [entry for part in reversed(config.__mro__) for entry in vars(part).get(name, ())]


def collected_needs(config: type) -> dict[str, tuple[Needs, ...]]:
    """Return the conditions in `also_needs` of a class and of those that it extends, by option."""
    found: dict[str, tuple[Needs, ...]] = {}
    for part in reversed(config.__mro__):
        for name, needs in vars(part).get("also_needs", {}).items():
            found[name] = found.get(name, ()) + as_needs(needs)
    return found


def flag(name: str) -> str:
    """Return the option of a field."""
    return "--" + name.replace("_", "-")


def with_value(name: str, value: object) -> str:
    """Return an option with a value as it is typed: `--merge mean`, `--no-gate`."""
    if isinstance(value, bool):
        return flag(name) if value else flag(f"no_{name}")
    return f"{flag(name)} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"
