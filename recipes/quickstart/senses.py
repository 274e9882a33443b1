"""Ambiguous English nouns: three sentences that say nothing about the sense, and two topics a sense that do.

Every sentence begins with a name, which is left out here.
"""

from __future__ import annotations

from lexicon import AmbiguousWord, pairs


def _word(sentences: str, first: str, second: str, avoids: str = "") -> AmbiguousWord:
    """Rows `english | german, sense 1 | german, sense 2`, then two topics of each sense as `english | german` rows."""
    rows = [[side.strip() for side in row.split("|")] for row in sentences.strip().splitlines()]
    sources, one, two = (tuple(column) for column in zip(*rows, strict=True))
    return AmbiguousWord(
        sources, (one, two), (pairs(*first.strip().splitlines()), pairs(*second.strip().splitlines())), avoids
    )


WORDS = (
    _word(
        """walked to the bank. | ging zur Bank. | ging zum Ufer.
        waited at the bank. | wartete an der Bank. | wartete am Ufer.
        photographed the bank. | fotografierte die Bank. | fotografierte das Ufer.""",
        """needed some money. | brauchte etwas Geld.
        wanted to open an account. | wollte ein Konto eröffnen.""",
        """wanted to catch fish. | wollte Fische fangen.
        had fallen into the river. | war in den Fluss gefallen.""",
    ),
    _word(
        """waited for the match. | wartete auf das Spiel. | wartete auf das Streichholz.
        asked about the match. | fragte nach dem Spiel. | fragte nach dem Streichholz.
        remembered the match. | erinnerte sich an das Spiel. | erinnerte sich an das Streichholz.""",
        """was playing tennis. | spielte Tennis.
        loves football. | liebt Fußball.""",
        """wanted to light a candle. | wollte eine Kerze anzünden.
        was making a fire. | machte ein Feuer.""",
    ),
    _word(
        """discovered the spring. | entdeckte die Feder. | entdeckte die Quelle.
        looked for the spring. | suchte die Feder. | suchte die Quelle.
        showed us the spring. | zeigte uns die Feder. | zeigte uns die Quelle.""",
        """was repairing a clock. | reparierte eine Uhr.
        was building a robot. | baute einen Roboter.""",
        """was hiking in the mountains. | wanderte in den Bergen.
        was very thirsty. | hatte großen Durst.""",
    ),
    _word(
        """saw a bat. | sah eine Fledermaus. | sah einen Schläger.
        talked about the bat. | sprach über die Fledermaus. | sprach über den Schläger.
        looked for the bat. | suchte die Fledermaus. | suchte den Schläger.""",
        """was exploring a cave. | erforschte eine Höhle.
        slept in an old barn. | schlief in einer alten Scheune.""",
        """was practising baseball. | übte Baseball.
        was training with the team. | trainierte mit der Mannschaft.""",
        "animal",
    ),
    _word(
        """looked at the seal. | betrachtete die Robbe. | betrachtete das Siegel.
        described the seal. | beschrieb die Robbe. | beschrieb das Siegel.
        pointed at the seal. | zeigte auf die Robbe. | zeigte auf das Siegel.""",
        """was walking along the coast. | lief die Küste entlang.
        was visiting the zoo. | besuchte den Zoo.""",
        """was visiting a notary. | besuchte einen Notar.
        was working in the archive. | arbeitete im Archiv.""",
        "animal",
    ),
    _word(
        """admired the crane. | bewunderte den Kran. | bewunderte den Kranich.
        noticed the crane. | bemerkte den Kran. | bemerkte den Kranich.
        pointed at the crane. | zeigte auf den Kran. | zeigte auf den Kranich.""",
        """was working on a building site. | arbeitete auf einer Baustelle.
        was building a house. | baute ein Haus.""",
        """was watching birds. | beobachtete Vögel.
        was sitting by the lake. | saß am See.""",
        "animal",
    ),
    _word(
        """cleaned the pipe. | putzte die Pfeife. | putzte das Rohr.
        dropped the pipe. | ließ die Pfeife fallen. | ließ das Rohr fallen.
        looked at the pipe. | betrachtete die Pfeife. | betrachtete das Rohr.""",
        """wanted to smoke. | wollte rauchen.
        loves tobacco. | liebt Tabak.""",
        """was repairing the heating. | reparierte die Heizung.
        was kneeling under the sink. | kniete unter dem Waschbecken.""",
    ),
    _word(
        """could not find the key. | konnte den Schlüssel nicht finden. | konnte die Taste nicht finden.
        asked about the key. | fragte nach dem Schlüssel. | fragte nach der Taste.
        pointed at the key. | zeigte auf den Schlüssel. | zeigte auf die Taste.""",
        """stood in front of a locked door. | stand vor einer verschlossenen Tür.
        wanted to leave the house. | wollte das Haus verlassen.""",
        """was writing a program. | schrieb ein Programm.
        was sitting at the computer. | saß am Computer.""",
    ),
)
