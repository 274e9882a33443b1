"""Contrastive test sets: their files, what counts as solved, and contexts put in others' place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scored import write as write_files

from docnmt.apps.commands import generate as generation
from docnmt.cli import score as command
from docnmt.core.scoring.discourse import (
    ContrastiveGroup,
    ForcedExample,
    Question,
    contrastive_report,
    read_contrastive,
    read_questions,
    with_contexts,
)
from docnmt.runtime.system import UserError

HEADER = "group\tcorrect\tsrc_context\tsrc\ttgt_context\ttgt\tphenomenon\tdistance"
ROWS = (
    "7\t1\tA cup.<SEP>Rain.\tIt broke.\tEine Tasse.<SEP>Regen.\tSie zerbrach.\tpronoun\t2",
    "7\t0\tA cup.<SEP>Rain.\tIt broke.\tEine Tasse.<SEP>Regen.\tEr zerbrach.\tpronoun\t",
    "9\t0\t\tHi.\t\tHallo Sie.\taddress\t10",
    "9\t1\t\tHi.\t\tHallo du.\taddress\t10",
)


def write(tmp_path, *lines, name="test.tsv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_tsv(tmp_path):
    first, second = read_contrastive(write(tmp_path, HEADER, *ROWS))
    context, target = ("A cup.", "Rain."), ("Eine Tasse.", "Regen.")
    assert first.variants[0] == ForcedExample(context, "It broke.", target, "Sie zerbrach.")
    assert first.variants[1].target == "Er zerbrach."
    assert first.correct == 0
    assert first.labels == {"phenomenon": "pronoun", "distance": "2"}  # the right row's
    assert second.correct == 1
    assert second.variants[0].source_context == second.variants[0].target_context == ()
    (same,) = read_contrastive(write(tmp_path, HEADER, ROWS[0], ROWS[1].replace("Er", "Sie")))
    assert same.hopeless
    assert not first.hopeless


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["group\tcorrect\tsrc\ttgt"], r"test\.tsv:1"),
        ([HEADER, ROWS[0], "7\t0\tx"], r"test\.tsv:3"),
        ([HEADER, ROWS[0], ROWS[1].replace("\t0\t", "\tno\t", 1)], r"test\.tsv:3.*'correct'"),
        ([HEADER, ROWS[0], ROWS[0]], r"\b7\b.* 2 .* 2"),
        ([HEADER, ROWS[0]], r"\b7\b.* 1 .* 1"),
        ([HEADER, ROWS[0], ROWS[1].replace("It broke", "It fell")], r"\b7\b"),
        ([HEADER], "test.tsv"),
        ([HEADER.replace("tgt_context", "src"), ROWS[0]], r"test\.tsv:1.*'src'"),
        ([f"{HEADER}\tsolved", f"{ROWS[0]}\tx"], r"test\.tsv:1.*'solved'"),
        ([HEADER, ROWS[0].replace("broke", "bro\0ke")], ":2:"),
        ([HEADER, *(row.replace("Hi.", " ") for row in ROWS)], r"\b9\b"),
    ],
)
def test_faults_in_tsv_are_named(tmp_path, lines, message):
    with pytest.raises(UserError, match=message):
        read_contrastive(write(tmp_path, *lines))


CONTRAPRO = {
    "src segment": "It broke.",
    "ref segment": "Sie zerbrach.",
    "src pronoun": "It",
    "ref pronoun": "sie",
    "ante distance": 4,
    "document id": "film.de",
    "segment id": 3,
    "errors": [{"contrastive": "Er zerbrach."}, {"contrastive": "Es zerbrach."}],
}


def test_contrapro_json_with_and_without_documents(tmp_path):
    path = write(tmp_path, json.dumps([CONTRAPRO]), name="contrapro.json")
    (group,) = read_contrastive(path)
    assert [variant.target for variant in group.variants] == ["Sie zerbrach.", "Er zerbrach.", "Es zerbrach."]
    assert group.labels == {"pronoun": "it:sie", "distance": ">3"}
    assert group.variants[0].source_context == ()
    folder = tmp_path / "documents" / "2001"
    folder.mkdir(parents=True)
    write(folder, "Eine Tasse.", "Regen.", "Sie zerbrach.", "Ende.", name="film.de")
    write(folder, "A cup.", "Rain.", "It broke.", "End.", name="film.en")
    (group,) = read_contrastive(path, documents=tmp_path / "documents")
    assert group.variants[2].source_context == ("A cup.", "Rain.")
    assert group.variants[2].target_context == ("Eine Tasse.", "Regen.")
    with pytest.raises(UserError, match=r"'film\.de'"):
        read_contrastive(path, documents=tmp_path / "nowhere")


def test_discevalmt_json(tmp_path):
    targets = [
        {"correct": ["La tasse.", "Elle tombe."], "incorrect": ["La tasse.", "Il tombe."], "type": "f.sg"},
        {"semi-correct": ["Le bol.", "Il tombe."], "incorrect": ["Le bol.", "Elle tombe."], "type": "m.sg"},
    ]
    anaphora = {"1": {"inspired by": [], "src": ["The cup.", "It falls."], "trg": targets}}
    first, second = read_contrastive(write(tmp_path, json.dumps(anaphora), name="anaphora.json"))
    assert first.variants[0] == ForcedExample(("The cup.",), "It falls.", ("La tasse.",), "Elle tombe.")
    assert second.variants[1].target == "Elle tombe."
    assert second.labels == {"type": "m.sg", "antecedent": "semi-correct"}
    example = {"src": ["A match.", "He lit it."], "trg": {"correct": ["Une allumette.", "a"], "incorrect": ["x", "b"]}}
    choice = {"1": {"type": "disambig", "examples": [example, example]}}
    assert len(read_contrastive(write(tmp_path, json.dumps(choice), name="choice.json"))) == 2
    with pytest.raises(UserError):
        read_contrastive(write(tmp_path, '{"1": {}}', name="other.json"))


def groups(count=6, ways=3):
    """Groups of distinct sentences, each with its own context of four sentences."""
    made = []
    for number in range(count):
        context = tuple(f"c{number}{letter}" for letter in "abcd")
        examples = (
            ForcedExample(context, f"s{number}", tuple(c.upper() for c in context), f"t{n}") for n in range(ways)
        )
        made.append(
            ContrastiveGroup(tuple(examples), number % ways, {"parity": str(number % 2), "size": str(10 - number)})
        )
    return made


def test_a_group_is_solved_only_when_the_right_variant_is_strictly_best():
    group = groups(ways=3)[1]
    assert group.solved([-3.0, -1.0, -2.0])
    assert not group.solved([-1.0, -1.0, -2.0])
    assert not group.solved([-1.0, -3.0, -2.0])
    assert not group.solved([float("nan")] * 3)


def test_report_counts_by_label_and_knows_chance():
    all_groups = groups(6, 3) + groups(2, 2)
    right = {(g.variants[g.correct].source, g.variants[g.correct].target) for g in all_groups[:4]}

    def score(examples):
        return [float((example.source, example.target) in right) for example in examples]

    report = contrastive_report(all_groups, score)
    cell = report.by()[()]
    assert (cell["accuracy"], cell["groups"]) == (100 * sum(report.right) / 8, 8)
    assert cell["chance"] == pytest.approx(100 * (6 / 3 + 2 / 2) / 8)
    parts = report.by("parity").values()
    assert sum(part["accuracy"] * part["groups"] for part in parts) == pytest.approx(100 * sum(report.right))
    assert [key for (key,) in report.by("size")] == ["5", "6", "7", "8", "9", "10"]  # as numbers
    assert sum(part["groups"] for part in report.by("parity", "size").values()) == 8
    content = report.to_dict()
    assert content["by"]["parity"]["0"]["groups"] == 4
    assert [row["solved"] for row in content["solved"]] == list(report.right)
    assert "parity 1" in str(report)
    assert str(report).splitlines()[1].startswith("all ")


def test_contexts_put_in_others_place():
    given = groups(20)
    assert with_contexts(given, "true") == given
    for group, none, shuffled, foreign in zip(
        given, *(with_contexts(given, kind) for kind in ("none", "shuffled", "foreign")), strict=True
    ):
        own = group.variants[0]
        assert none.variants[0] == ForcedExample((), own.source, (), own.target)
        assert sorted(shuffled.variants[0].source_context) == sorted(own.source_context)
        for other in (shuffled, foreign):
            assert len({v.source_context for v in other.variants}) == 1
            assert tuple(c.upper() for c in other.variants[0].source_context) == other.variants[0].target_context
            assert [v.target for v in other.variants] == [v.target for v in group.variants]
            assert (other.correct, other.labels) == (group.correct, group.labels)
        assert not set(foreign.variants[0].source_context) & set(own.source_context)
    assert with_contexts(given, "shuffled") != given
    assert with_contexts(given, "foreign", seed=1) == with_contexts(given, "foreign", seed=1)
    assert with_contexts(given, "foreign", seed=1) != with_contexts(given, "foreign", seed=2)


def test_shuffled_is_never_the_true_order():
    pairs = [
        ContrastiveGroup((ForcedExample(("a", "b"), "c", target, "d"),), 0, {})
        for target in (("x", "y"), (), ("y",), ("v", "w", "y"))
    ]
    shuffled = [group.variants[0] for group in with_contexts(pairs, "shuffled")]
    assert {example.source_context for example in shuffled} == {("b", "a")}
    assert [example.target_context for example in shuffled] == [("y", "x"), (), ("y", ""), ("y", "v w")]


def test_command_reads_changes_contexts_and_reports(tmp_path, monkeypatch, capsys):
    seen = []

    def scorer(models):
        def score(examples):
            seen.append((models, examples))
            return [float(example.target.startswith("Sie")) for example in examples]

        return score

    monkeypatch.setattr(generation, "scorer", scorer)
    arguments = ["--contrastive", str(write(tmp_path, HEADER, *ROWS)), "--path", "run"]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].split() == ["all", "50.0%", "50.0%", "2"]
    assert "phenomenon pronoun" in printed
    assert command.main([*arguments, "--context-window", "1", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["by"]["distance"]["2"]
    assert scores == {"accuracy": 100.0, "chance": 50.0, "groups": 1}
    assert command.main([*arguments, "--context", "foreign"]) == 0
    assert [(models.path, models.context_window) for models, _ in seen] == [("run", None), ("run", 1), ("run", None)]
    assert seen[0][1][0].source_context == ("A cup.", "Rain.")
    assert seen[1][1] == seen[0][1]  # it is the model that reads less
    assert seen[2][1][0].source_context == ()
    assert command.main([*arguments, "--context", "none", "--context-window", "2"]) == 2
    assert command.main(["--contrastive", str(tmp_path / "none.tsv"), "--path", "run"]) == 1
    assert "none.tsv" in capsys.readouterr().err


# Generative evaluation: ctxpro's rule, its files, and the command on translations that are there.


@pytest.mark.parametrize(
    ("expected", "translation", "answered"),
    [
        ("er", "Er ist da.", True),
        ("er", "Da ist er", True),
        ("er", "Da ist »er«.", False),  # only ASCII punctuation is taken away
        ("er", "Da ist (er).", True),
        ("er", "Der Mann geht.", False),
        ("er", "Er's", False),  # ctxpro's rule makes one word of it
        ("geht los", "Es geht los!", True),
        ("geht los", "Es geht jetzt los!", False),
        ("Sie", "kommen sie", True),
        ("er", "", False),
        ("-du", "Kommst -du", False),  # nor is the expected form stripped
    ],
)
def test_the_rule(expected: str, translation: str, answered: bool) -> None:
    assert Question(ForcedExample((), "", (), ""), expected, {}).answered(translation) is answered


def test_a_table_says_what_is_expected(tmp_path: Path) -> None:
    full, least = write_files(
        tmp_path,
        full="expected\tsrc_context\tsrc\ttgt\trule\nEr\tA.<SEP>B.\tIt is.\tEr ist.\tanaphora\n\nsie\t\tIt.\tSie.\t-\n",
        least="pronoun\tnote\nes\tx\n",
    )
    first, second = read_questions(full)
    assert first == Question(ForcedExample(("A.", "B."), "It is.", (), "Er ist."), "Er", {"rule": "anaphora"})
    assert second.example.source_context == ()
    (only,) = read_questions(least)
    assert only == Question(ForcedExample((), "", (), ""), "es", {"pronoun": "es", "note": "x"})


def test_a_contrastive_test_set_asks_by_its_right_rows(tmp_path: Path) -> None:
    (path,) = write_files(
        tmp_path,
        path="group\tcorrect\tpronoun\tctx_en\tsrc_en\tctx_de\ttgt_de\n0\t1\tes\tA.\tIt.\tB.\tEs.\n0\t0\t\tA.\tIt.\tB.\tEr.\n",
    )
    (question,) = read_questions(path)
    assert question == Question(ForcedExample(("A.",), "It.", ("B.",), "Es."), "es", {"pronoun": "es"})


def test_ctxpros_and_contrapros_json(tmp_path: Path) -> None:
    entry = {"expected": "geht", "src segment": "It does.", "ref segment": "Es geht.", "rule": "DO.ELL", "more": 1}
    ctxpro, contrapro, other = write_files(
        tmp_path, **{"a.json": json.dumps([entry]), "b.json": json.dumps([CONTRAPRO]), "c.json": '[{"expected": 1}]'}
    )
    assert read_questions(ctxpro) == [
        Question(ForcedExample((), "It does.", (), "Es geht."), "geht", {"rule": "DO.ELL"})
    ]
    (question,) = read_questions(contrapro)
    assert (question.expected, question.example.target, question.labels["distance"]) == ("sie", "Sie zerbrach.", ">3")
    with pytest.raises(UserError, match=r"'str'.*'int'"):
        read_questions(other)


def test_the_command_counts_answers_by_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions, answers = write_files(
        tmp_path,
        questions="expected\ttgt\trule\ner\tEr.\tx\nes\tEs.\tx\nsie\tEr.\ty\n",
        answers="Dann kam er.\nSie kam.\n\n",
    )
    arguments = ["--generative", str(questions), "--sys", str(answers)]
    assert command.main(arguments) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert printed[1:3] == [["all", "33.3%", "66.7%", "3"], ["rule", "x", "50.0%", "100.0%", "2"]]
    assert command.main([*arguments, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [question["answered"] for question in content["answered"]] == [True, False, False]
    assert content["by"]["rule"]["x"] == {"accuracy": 50.0, "questions": 2, "reference": 100.0}
    for more, name in (
        ([*arguments[2:], "--path", "x"], "--path"),
        ([*arguments[2:], "--ref", "y"], "--ref"),
        ([], "--path"),
        (["--path", "x", "--last-sentence", "de"], "--last-sentence"),
    ):
        assert command.main([*arguments[:2], *more]) == 2
        assert name in capsys.readouterr().err
