"""The words of the discourse corpus: small on purpose, so that a tiny model learns them all in minutes.

A `{name}`, `{other}` … in a sentence is filled by `threads.py`. German nouns stand in the order masculine, feminine,
neuter: three nouns of one kind that differ in gender only form a *triple*.
"""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A sentence, phrase or pattern in both languages."""

    en: str
    de: str


class NounClass(NamedTuple):
    """Things of one kind, which share their adjectives."""

    adjectives: tuple[Pair, ...]
    triples: tuple[tuple[Pair, Pair, Pair], ...]


class AmbiguousWord(NamedTuple):
    """An English noun with two German senses. `avoids`: the noun class one of its senses belongs to."""

    sources: tuple[str, ...]
    senses: tuple[tuple[str, ...], tuple[str, ...]]
    topics: tuple[tuple[Pair, ...], tuple[Pair, ...]]
    avoids: str = ""


def pairs(*lines: str) -> tuple[Pair, ...]:
    """`"english | german"` lines as pairs."""
    return tuple(Pair(*(side.strip() for side in line.split("|"))) for line in lines)


def triples(*lines: str) -> tuple[tuple[Pair, Pair, Pair], ...]:
    """`"english german, english german, english german"` lines (masculine, feminine, neuter); `_` is a space."""
    rows = [[word.split() for word in line.split(",")] for line in lines]
    return tuple((_noun(m), _noun(f), _noun(n)) for m, f, n in rows)


def _noun(words: list[str]) -> Pair:
    return Pair(words[0].replace("_", " "), words[1])


NAMES = (
    "Anna", "Paul", "Maria", "Karl", "Lena", "Peter", "Clara", "Felix",
    "Julia", "Oskar", "Nina", "Simon", "Emma", "Jonas", "Sarah", "Max",
)  # fmt: skip

OPENINGS = pairs(
    "Here is the news from our village. | Hier sind die Neuigkeiten aus unserem Dorf.",
    "There was a lot going on in our street. | In unserer Straße war viel los.",
    "Our neighbours have a lot to tell. | Unsere Nachbarn haben viel zu erzählen.",
    "My grandmother likes to talk about the village. | Meine Großmutter spricht gern über das Dorf.",
)
FILLERS = pairs(
    "The sun was shining. | Die Sonne schien.",
    "Nobody was in a hurry. | Niemand hatte es eilig.",
    "The children were playing outside. | Die Kinder spielten draußen.",
    "The shops were already closed. | Die Geschäfte waren schon geschlossen.",
    "Everyone was in a good mood. | Alle hatten gute Laune.",
    "The bells were ringing. | Die Glocken läuteten.",
    "Tomorrow is a holiday. | Morgen ist ein Feiertag.",
    "Time passed quickly. | Die Zeit verging schnell.",
)

# Pronouns: a thing is introduced with an indefinite article, later it is only "it".
PRONOUNS = ("ihn", "sie", "es")
INDEFINITE = ("einen {}en", "eine {}e", "ein {}es")
INTRODUCTIONS = pairs(
    "{name} has chosen {thing}. | {name} hat {thing} ausgesucht.",
    "{name} showed us {thing}. | {name} zeigte uns {thing}.",
    "{name} talked about {thing}. | {name} sprach über {thing}.",
)
OBJECT_SENTENCES = pairs(
    "{name} likes it very much. | {name} mag {it} sehr.",
    "{name} wants to keep it. | {name} will {it} behalten.",
    "{name} described it in detail. | {name} beschrieb {it} genau.",
    "{name} needs it for the party. | {name} braucht {it} für das Fest.",
    "{name} will never forget it. | {name} wird {it} nie vergessen.",
)
CLASSES = {
    "instrument": NounClass(
        pairs("old | alt", "beautiful | schön"),
        triples(
            "grand_piano Flügel, guitar Gitarre, piano Klavier", "double_bass Kontrabass, trumpet Trompete, cello Cello"
        ),
    ),
    "vehicle": NounClass(
        pairs("old | alt", "new | neu"),
        triples("bus Bus, carriage Kutsche, car Auto", "tractor Traktor, limousine Limousine, motorcycle Motorrad"),
    ),
    "food": NounClass(
        pairs("big | groß", "simple | einfach"),
        triples("cake Kuchen, soup Suppe, omelette Omelett", "salad Salat, pizza Pizza, curry Curry"),
    ),
    "garment": NounClass(
        pairs("new | neu", "beautiful | schön"),
        triples("coat Mantel, jacket Jacke, dress Kleid", "hat Hut, cap Mütze, shirt Hemd"),
    ),
    "reading": NounClass(
        pairs("short | kurz", "old | alt"),
        triples("novel Roman, story Geschichte, poem Gedicht", "thriller Krimi, biography Biografie, book Buch"),
    ),
    "animal": NounClass(
        pairs("small | klein", "old | alt"),
        triples("dog Hund, cat Katze, horse Pferd", "donkey Esel, goat Ziege, sheep Schaf"),
    ),
}

# Form of address: somebody met under a surname (Sie) or a first name (du), later only "you".
SURNAMES = pairs(
    "Mrs Weber | Frau Weber", "Mr Koch | Herrn Koch", "Mrs Schulz | Frau Schulz",
    "Mr Wagner | Herrn Wagner", "Mrs Becker | Frau Becker", "Mr Vogel | Herrn Vogel",
)  # fmt: skip
MEETINGS = pairs(
    "{name} met {guest}. | {name} traf {guest}.",
    "{name} greeted {guest}. | {name} begrüßte {guest}.",
    "{name} visited {guest}. | {name} besuchte {guest}.",
)
UTTERANCE = Pair('{name} said: "{words}"', "{name} sagte: „{words}“")
#: English, German with Sie, German with du.
UTTERANCES = (
    ("Do you have time tomorrow?", "Haben Sie morgen Zeit?", "Hast du morgen Zeit?"),
    ("Can you help me?", "Können Sie mir helfen?", "Kannst du mir helfen?"),
    ("Where do you live?", "Wo wohnen Sie?", "Wo wohnst du?"),
    ("You are much too late.", "Sie sind viel zu spät.", "Du bist viel zu spät."),
    ("You look good today.", "Sie sehen heute gut aus.", "Du siehst heute gut aus."),
    ("What do you want to drink?", "Was möchten Sie trinken?", "Was möchtest du trinken?"),
    ("I have been waiting for you.", "Ich habe auf Sie gewartet.", "Ich habe auf dich gewartet."),
    ("I will call you tomorrow.", "Ich rufe Sie morgen an.", "Ich rufe dich morgen an."),
    ("Is this your ticket?", "Ist das Ihre Karte?", "Ist das deine Karte?"),
    ("Thank you for your letter.", "Danke für Ihren Brief.", "Danke für deinen Brief."),
)

# Ellipsis, the verb: "does too, just like Paul" repeats what Paul does.
ACTIVITIES = triples(
    "sings singt, dances tanzt, paints malt",
    "swims schwimmt, climbs klettert, fishes angelt",
    "cooks kocht, reads liest, knits strickt",
    "works arbeitet, studies lernt, travels reist",
)
HABITS = pairs(
    "{name} often {verb} in the evening. | {name} {verb} oft am Abend.",
    "{name} {verb} every Sunday. | {name} {verb} jeden Sonntag.",
    "{name} {verb} with friends. | {name} {verb} mit Freunden.",
)
DOES_TOO = pairs(
    "{name} does too, just like {other}. | {name} {verb} auch, genau wie {other}.",
    "Like {other}, {name} does too. | Wie {other} {verb} auch {name}.",
)
