"""SentEval's download in its own form, tiny, through the tool and into the reader of docnmt-senteval."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_tools import tool

from docnmt.other_tasks.sentence_vectors.senteval import TASKS, read_task

senteval_tsv = tool("senteval_tsv")

SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\tA dog\tNo dog\t3.5\tCONTRADICTION\n"
MRPC = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t70\t71\tHe said "so .\tSo he said .\n'
FILES = {
    **{f"{name}/{file}": "" for name, files in senteval_tsv.BINARY.items() for file in files},
    "MR/rt-polarity.pos": "a fine  film\n\nfine\n",  # a text may be empty
    "MR/rt-polarity.neg": "caf\xe9 noir\x85 bad\n",
    "CR/custrev.pos": "good\n", "CR/custrev.neg": "bad\n",
    "SUBJ/subj.objective": "he goes\n", "SUBJ/subj.subjective": "so dull\n",
    "MPQA/mpqa.pos": "hope\n", "MPQA/mpqa.neg": "fear\n",
    **{f"SST/binary/sentiment-{split}": f"{split} film\t1\n" for split in ("train", "dev", "test")},
    **{f"SST/fine/sentiment-{split}": f"4 {split} film\n" for split in ("train", "dev", "test")},
    "TREC/train_5500.label": "DESC:manner How did it : end ?\nABBR:exp What is caf\xe9 ?\n",
    "TREC/TREC_10.label": "NUM:dist How far ?\n",
    "MRPC/msr_paraphrase_train.txt": MRPC, "MRPC/msr_paraphrase_test.txt": MRPC,
    **{f"SICK/SICK_{split}.txt": SICK.replace("\n", "\r\n") for split in ("train", "trial", "test_annotated")},
    **{f"STS/STSBenchmark/sts-{split}.csv": "main-news\tMSRpar\t2012\t0001\t4.200\ta b\tb a\n"
       for split in ("train", "dev", "test")},
}  # fmt: skip
for task in TASKS.values():
    if task.kind == "similarity":
        for subset in task.files:
            file = f"surprise.{subset}" if task.name == "STS12" and subset in ("OnWN", "SMTnews") else subset
            FILES[f"STS/{task.name}-en-test/STS.input.{file}.txt"] = "one a\tone b\ntwo\ttwo b\nthree\t3\n"
            FILES[f"STS/{task.name}-en-test/STS.gs.{file}.txt"] = "4.5\n\n0\n"
LATIN = ("MR/", "CR/", "SUBJ/", "MPQA/", "TREC/")


@pytest.fixture
def download(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "downstream" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1" if name.startswith(LATIN) else "utf-8"))
    return tmp_path / "downstream"


def test_every_task_is_read_as_it_was_downloaded(download: Path, tmp_path: Path) -> None:
    output = tmp_path / "senteval"
    senteval_tsv.main([str(download), str(output)])
    rows = {name: read_task(task, output) for name, task in TASKS.items()}
    assert rows["MR"]["all"].sides[0] == [[], ["fine"], ["café", "noir", "bad"], ["a", "fine", "film"]]
    assert rows["MR"]["all"].target.tolist() == [1, 1, 0, 1]
    assert rows["SUBJ"]["all"].sides[0] == [["so", "dull"], ["he", "goes"]]  # subjective is class 0
    assert rows["SST2"]["train"].sides[0] == rows["SST5"]["train"].sides[0] == [["train", "film"]]
    assert (rows["SST2"]["test"].target.tolist(), rows["SST5"]["test"].target.tolist()) == ([1], [4])
    assert rows["TREC"]["train"].sides[0] == [["What", "is", "café", "?"], ["How", "did", "it", ":", "end", "?"]]
    assert rows["TREC"]["train"].target.tolist() == [0, 1]  # ABBR and DESC, by the alphabet
    assert rows["TREC"]["test"].target.tolist() == [5]
    assert rows["MRPC"]["train"].sides[0] == [["He", "said", '"', "so", "."]]
    assert rows["MRPC"]["test"].sides[1] == [["So", "he", "said", "."]]
    assert rows["SICK-R"]["dev"].target.tolist() == [3.5]
    assert rows["SICK-E"]["test"].target.tolist() == [0]
    assert rows["SICK-E"]["train"].sides[1] == [["No", "dog"]]
    assert rows["STS-B"]["dev"].target.tolist() == [4.2]
    for name in ("STS12", "STS16"):
        assert list(rows[name]) == list(TASKS[name].files)
        for subset in rows[name].values():  # a pair without a score is left out
            assert subset.sides[0] == [["three"], ["one", "a"]]
            assert subset.target.tolist() == [0, 4.5]


def test_what_is_not_there_is_left_out_and_named(
    download: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (download / "TREC").rename(tmp_path / "elsewhere")
    (download / "STS/STS12-en-test/STS.input.MSRvid.txt").unlink()
    senteval_tsv.main([str(download), f"{tmp_path}/senteval"])
    assert capsys.readouterr().err.endswith(": TREC\n")
    assert "MSRvid" not in read_task(TASKS["STS12"], tmp_path / "senteval")


@pytest.mark.parametrize(("name", "text", "message"), [
    ("SICK/SICK_trial.txt", SICK + "2\tA dog\n", "SICK_trial.txt: line 3: expected 5 fields"),
    ("SST/fine/sentiment-dev", "3\n", "sentiment-dev: line 1: expected 2 fields"),
    ("TREC/TREC_10.label", "WHAT:ever Is it ?\n", "expected the classes DESC, ENTY"),
    ("STS/STS13-en-test/STS.gs.FNWN.txt", "4\n", "STS.gs.FNWN.txt: has 1 lines, STS.input.FNWN.txt beside it 3"),
    ("CR/custrev.pos", None, "custrev.pos: cannot be read"),
])  # fmt: skip
def test_a_file_that_is_another_is_one_clear_error(
    download: Path, tmp_path: Path, name: str, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (download / name).unlink()
    if text is not None:
        (download / name).write_text(text)
    with pytest.raises(SystemExit):
        senteval_tsv.main([str(download), f"{tmp_path}/senteval"])
    assert message in capsys.readouterr().err
    assert not (tmp_path / "senteval").exists()


def test_no_other_folder_is_touched(download: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (([download, download], "exists already"), ([tmp_path, tmp_path / "new"], "has none of")):
        with pytest.raises(SystemExit):
            senteval_tsv.main([str(path) for path in arguments])
        assert message in capsys.readouterr().err
