"""Placeholders and other code in text, family by family: what a file declares, and what is clear without that."""

from __future__ import annotations

import re
from functools import cache

from docnmt.runtime.languages import CJK, SOUTHEAST, WIDE_SIGNS

#: A letter or digit of a script that parts words by spaces.
SPACED = rf"[^\W{CJK}{SOUTHEAST}]"
#: What ends an address: a wide sign, or a letter without a space before it, as in 见https://a.b/c页.
_NO_ADDRESS = rf"(?![{WIDE_SIGNS}]|(?<=[A-Za-z0-9}}])[{CJK}{SOUTHEAST}])"
#: Placeholders by what a file calls them (the flags of a PO entry): what a checker of the format takes for one.
_PRINTF = (
    r"%(?:\d+\$)?[-+\ \#0'I]*(?:\d+|\*(?:\d+\$)?)?(?:\.(?:\d+|\*)?)?(?:hh|ll|[hlLqjzt])?"
    r"(?:<PRI\w+>|[diouxXeEfFgGaAcCsSpnm%@])"
)
_PYTHON = r"%(?:\([^()]*\))?[-+\ \#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]?[diouxXeEfFgGcrsa%]"
_BRACES = r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"
_PASCAL = r"%(?:\d+:)?-?(?:\d+|\*)?(?:\.(?:\d+|\*))?[dDeEfFgGmMnNpPsSuUxX%]"
_PERCENT = frozenset(
    {"c", "objc", "php", "perl", "javascript", "lua", "tcl", "awk", "elisp", "gcc-internal", "java-printf"}
)
_BRACED = frozenset({"python-brace", "csharp", "perl-brace", "rust"})
#: … and where nobody says it, what hardly is anything else; longer forms first, as the first that matches is taken.
_ADDRESSES = r"""
    (?:https?|ftp)://(?:\{\{[^{}\n]*\}\}|ENDS[^\s<>"'”»])*   # with templates, but
        (?:\{\{[^{}\n]*\}\}|ENDS[^\s<>"'”».,;:!?)\]}])      # without the full stop behind them
    | (?<!\w)www\.[\w-]+\.(?:ENDS[^\s<>"'”»])*ENDS[^\s<>"'”».,;:!?)\]}]
    | (?<!SPACED)(?<![.+-])(?:SPACED|[.+-])+@(?:SPACED|-)+(?:\.(?:SPACED|-)+)+
    | (?<![\w.\-/\\])(?:[A-Za-z]:\\|~/|\.{1,2}/|/(?=[\w.-]{1,80}/))[\w.\-/\\]*\w      # /usr/bin/env C:\temp
    | (?<![\w.\-/\\])(?:[\w.-]{1,80}[/\\]){0,20}[\w-][\w.-]{0,80}\.                  # images/logo.png
        (?:png|jpe?g|gif|svg|webp|ico|mp[34]|pdf|docx?|xlsx?|pptx?|txt|md|csv|html?|css|jsx?|tsx?|json|ya?ml|toml|xml
        |ini|cfg|conf|log|py|java|sh|exe|dll|zip|gz|tar)(?![\w-])
    | (?<![\w&\#])\#(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{6}|(?=[A-Fa-f]*\d)[0-9A-Fa-f]{3})(?!\w)   # a colour
""".replace("ENDS", _NO_ADDRESS).replace("SPACED", SPACED)
_PERCENTS = r"""
    %%[A-Za-z_]\w*%%                                            # %%VAR%%
    | %%(?:[dfsx](?![^\W_]))?                                     # %%s: a %s that another format will read
    | (?<![\d%])%[A-Za-z_][\w.]+%(?!\w)                         # %minutes%
    | %\{[^{}\s]*\} | %<\w+>[-+0]*\d{0,4}(?:\.\d+)?[a-z]        # %{x} %<x>d of Ruby
    | %\([\w.]+\)[-+\#0]*\d{0,4}(?:\.\d+)?[a-zA-Z]               # %(name)s of Python
    | (?<![\d%])%(?:\d+\$)?[-+\#0']*(?:\d{1,4}|\*)?(?:\.(?:\d+|\*))?(?:hh|ll|[hlLqjzt])?
      [diouxXeEfFgGaAcrspn@](?![^\W_])
    | (?<![\d%])%(?:[sd]|(?:\d{1,4}\$)?(?:0?\d{1,4})?(?:\.\d{1,4})?[dsfx](?<=\d.))   # … before a letter: %dx%d %.3fs
    | (?<![\d%])%[A-Za-z](?![^\W_])                             # %B of a date
    | (?<![\w%])(?:(?:%\d{1,2}%(?!\d))+|(?:%L?\d{1,2})+(?!\w)) # %1% of Boost, %1 of Qt, also in a row
"""
_TEMPLATES = r"""
    <%.{0,300}?%> | <\?.{0,300}?\?> | \{%.{0,300}?%\} | \{\#.{0,300}?\#\}
    | \{\{\{.{0,1000}?\}\}\} | [\#$]?\{\{.{0,1000}?\}\}
    | \{\s*[\w.-]+\s*,\s*(?:number|date|time|spellout|ordinal|duration|list)\s*(?:,[^{}]*)?\}   # {0,date,short} of ICU
    | \{\$[\w.-]+(?:\s[^{}]*)?\}                                # {$name} of Angular and MessageFormat 2
    | [\#$]\{[^{}\s]+\} | \{/?\s*(?:[\w.!\[\]-]+(?::[^{}\s]*)?\s*|:[^{}\s]*\s*)?\}  # ${name} {name} {x:>10}
    | \$t\([^()\s]+\) | \$\([A-Za-z_]\w*\) | \$[A-Za-z_][\w@]*\$(?!\w) | \$[A-Za-z_]\w*    # $NAME$ of Chrome
    | \\\(.{1,300}?\\\) | \\\[.{1,300}?\\\] | \$\$[^$]{1,300}\$\$    # formulas of TeX
"""
_MARKUP = r"""
    (?::[\w+.-]{1,40}){1,3}:`[^`]{1,300}` | ``[^`]{1,300}(?:`[^`]{1,300}){0,9}``              # roles and code of reST
    | (?<![\w`])`[^`'\s](?:[^`'\n]{0,300}[^`'\s])?`(?:__?|(?!\w))
    | (?<!\w)\|[\w](?:[\w\ .-]{0,60}\w)?\|(?!\w) | \[[\w*\#.-]{1,60}\]_    # substitutions and notes of reST
    | (?<!\w)[BCEFILSXZ]<(?:[^<>\s]|E<\w+>)+> | (?<!\w)[CFLX]<[^<>]{1,300}>   # POD
    | (?<!\w)[BCEFILSXZ]<<(?:[ ][^\n]{1,300}?[ ]|<[ ][^\n]{1,300}?[ ]>)>>(?!>)  # POD whose text has angle brackets
    | \\f(?:[A-Z0-9]|\([A-Z]{2}|\[\w*\]) | \\\*?\(\w\w | \\\*\w | \\\*\[\w+\] | \\[-&|] | \\e(?!\w)   # roff
    | </?[A-Za-z][\w:.-]*(?:\s[^<>]*)?/?> | </?\d{1,3}\s?/?>     # tags, also <0> of React
    | _x[0-9A-F]{4}_                                           # a character of Excel
    | \[\^[\w-]+\] | \[[ xX]\](?=\s) | \[![\w-]+\][+-]? | \[\[[^\[\]\n]{1,200}\]\]    # [^1] [x] [!NOTE] [[page]]
    | \{:?[ \t]*(?:[\#.]|[\w:-]+=)[^{}\n]{0,200}\}                 # {#name .class} behind a heading
    | \{\\[^{}]*\}                                             # {\an8} of subtitles
    | (?<![\w-])(?:--[A-Za-z][\w-]+|-[A-Za-z])(?![\w-])         # options of commands
    | &[A-Za-z][\w.]*; | &\#\w+; | (?<!\w)&(?:amp|copy|[gl]t|nbsp|not|quot|reg)(?!\w)    # browsers take these, too
"""
_NAMES = r"""
    (?<![\w-])__[A-Za-z]\w{0,60}?__(?!\w) | (?<![\w\#&])\#[A-Za-z_][\w.-]{0,60}\#(?!\w)       # __name__ #name#
    | (?<![\w~])~[A-Za-z_][\w.-]{0,60}~(?![\w~]) | \[X\d+X\]   # ~name~, and what Weblate puts for a placeholder
    | (?<![\w:/.@\\]):[a-z_][a-z0-9_]+:? (?![\w:])                 # :attribute :smile:
    | (?<![\w@./])@(?:\.\w+)?:(?:\([\w.-]+\)|\w[\w.-]*(?<=\w))    # @:key of Vue
    | (?<![\w@./])@[A-Za-z_][\w-]*                              # @count
    | (?<![\w\#&;])\#(?![\w\#])                                  # the number in a plural of ICU
    | [\U0001f1e6-\U0001faff\u2600-\u27bf](?:[\ufe0f\u200d\U0001f1e6-\U0001faff\u2600-\u27bf])*   # signs in pictures
"""
#: … and in the messages of a program, which a text for readers may have in another sense: [name] $1
_MESSAGES = r"""
    \[\$\d{1,2}(?=\s) | \[[A-Za-z_][\w.-]{0,60}\](?![(\[]) | (?<![\w$])\$\d{1,2}(?![\d.,]*\d)
"""
#: The flag of a message of a program.
MESSAGE = "message"


def _compiled(*families: str) -> re.Pattern[str]:
    """An expression in which letters of scripts without spaces are no part of the word beside them."""
    whole = "|".join(families)
    for edge in ("(?!", "(?<!"):
        whole = whole.replace(rf"{edge}\w)", f"{edge}{SPACED})").replace(rf"{edge}[\w", f"{edge}{SPACED}){edge}[")
    return re.compile(whole.replace(r"(?![^\W_])", rf"(?![^\W_{CJK}{SOUTHEAST}])"), re.VERBOSE)


@cache
def _placeholders(flags: tuple[str, ...]) -> re.Pattern[str] | None:
    """What the format that a file declares takes for placeholders; None if it declares none that is known."""
    said = {flag.removesuffix("-format") for flag in flags}
    families = [_PYTHON] if "python" in said else []
    families += [_PRINTF] if said & _PERCENT else []
    families += [_BRACES] if said & _BRACED else []
    families += [_PASCAL] if "object-pascal" in said else []
    return _compiled(*families) if families else None


@cache
def pattern(flags: tuple[str, ...]) -> re.Pattern[str]:
    """What finds all that is not to be translated in a text with such placeholders."""
    declared = _placeholders(flags)
    own = () if declared is None else (declared.pattern,)
    plain = (_PERCENTS,) if declared is None else ()
    messages = (_MESSAGES,) if MESSAGE in flags else ()
    return _compiled(_ADDRESSES, *own, *plain, _TEMPLATES, _MARKUP, *messages, _NAMES)


def placeholders(text: str, flags: tuple[str, ...]) -> list[str]:
    """The placeholders that the declared format finds in a text, sorted; none if nothing is declared."""
    declared = _placeholders(flags)
    return [] if declared is None else sorted(match[0] for match in declared.finditer(text))


#: Placeholders that neither have a name nor a number: what they stand for depends on their order.
_ORDERED = re.compile(r"%(?!\d+\$|[({<%L])[^%]*[A-Za-z@]|\{(?:![rsa])?(?::[^{}]*)?\}")


def ordered(text: str, flags: tuple[str, ...]) -> list[str]:
    """The placeholders of a text whose order has a meaning."""
    return [match[0] for match in pattern(flags).finditer(text) if _ORDERED.fullmatch(match[0])]


def without_placeholders(text: str, flags: tuple[str, ...]) -> str:
    """A text in which the declared format finds none: its signs stand for themselves."""
    said = {flag.removesuffix("-format") for flag in flags}
    if "python" in said or said & _PERCENT:
        text = text.replace("%", "%%")
    if said & (_BRACED - {"perl-brace"}):
        text = text.replace("{", "{{").replace("}", "}}")
    return text
