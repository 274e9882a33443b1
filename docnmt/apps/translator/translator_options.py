"""Options of a search that are given by name in Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.registry.options import Section, build
from docnmt.registry.options.keywords import unknown_options
from docnmt.registry.registry import GENERATORS
from docnmt.runtime.errors import UsageError


def search_options(
    beam: int, options: Mapping[str, object], others: Collection[str] = ()
) -> tuple[GenerationConfig, SearchConfig]:
    """Resolve the options of generation by the command line's configuration classes.

    Args:
        beam: for generators that have one.
        others: names that are no options of a search and could be meant by an unknown one.

    Raises:
        UsageError: an option that is not known, or its value is wrong.
    """
    name = str(options.get("generator", GenerationConfig.generator))
    if name not in GENERATORS:
        raise UsageError(f"generator: no generator named '{name}'; there are {', '.join(GENERATORS.names())}")
    sections = [Section("generation", GenerationConfig), Section("search", GENERATORS.config(name))]
    known = {setting.name for section in sections for setting in section.settings} - {"nbest", "glossary"}
    if unknown := options.keys() - known:
        raise unknown_options(unknown, known | {*others})
    resolved = build(sections, {}, {"beam": beam, **options}, lambda key: "")
    return resolved["generation"], resolved["search"]
