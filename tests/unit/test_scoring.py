"""Scores of translations: sacreBLEU called directly is the second route to every number."""

import json
import math
import random
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from scored import corpus, write

from docnmt.cli import score as command
from docnmt.core.scoring.config import DEFAULT
from docnmt.core.scoring.consistency import learn_lexicon, lexical_consistency
from docnmt.core.scoring.metrics import (
    evaluate,
    format_comparisons,
    lower_is_better,
    paired_bootstrap,
)
from docnmt.core.scoring.text_files import read_layout
from docnmt.registry import METRICS, register_metric
from docnmt.runtime.system import UserError

EVERY = METRICS.names()


def join(sentences, offsets):
    return [" ".join(filter(None, sentences[a:b])) for a, b in pairwise(offsets)]


@pytest.mark.parametrize("references", [1, 2])
@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_scores_are_sacrebleus(references, tokenize):
    hypothesis, reference, offsets = corpus(1)
    refs = [reference, corpus(2)[1]][:references]
    scores = evaluate(hypothesis, refs, offsets, tokenize=tokenize, metrics=EVERY).scores
    bleu = BLEU(tokenize=tokenize)
    assert scores["s-BLEU"] == pytest.approx(bleu.corpus_score(hypothesis, refs).score)
    assert scores["d-BLEU"] == pytest.approx(
        bleu.corpus_score(join(hypothesis, offsets), [join(r, offsets) for r in refs]).score
    )
    assert scores["chrF"] == pytest.approx(CHRF().corpus_score(hypothesis, refs).score)
    assert scores["TER"] == pytest.approx(TER().corpus_score(hypothesis, refs).score)
    assert scores["chrF++"] == pytest.approx(CHRF(word_order=2).corpus_score(hypothesis, refs).score)
    lower = BLEU(tokenize=tokenize, lowercase=True)
    assert scores["s-BLEU-lc"] == pytest.approx(lower.corpus_score(hypothesis, refs).score)
    assert {*DEFAULT, "TER", "chrF++", "s-BLEU-lc"} <= set(EVERY)
    assert scores.to_dict()["signatures"]["s-BLEU"] == str(bleu.get_signature())
    assert f"nrefs:{references}|" in str(scores)
    assert f"tok:{tokenize}" in str(scores)
    assert (scores.sentences, scores.documents) == (40, 8)


def test_scores_of_documents_are_sacrebleus():
    hypothesis, reference, offsets = corpus(3)
    by_document = evaluate(hypothesis, [reference], offsets, metrics=EVERY).of_documents()
    for a, b, scores in zip(offsets, offsets[1:], by_document, strict=False):
        assert scores["s-BLEU"] == pytest.approx(BLEU().corpus_score(hypothesis[a:b], [reference[a:b]]).score)
        assert scores["chrF"] == pytest.approx(CHRF().corpus_score(hypothesis[a:b], [reference[a:b]]).score)
        assert scores["TER"] == pytest.approx(TER().corpus_score(hypothesis[a:b], [reference[a:b]]).score)
        joined = [" ".join(filter(None, side[a:b])) for side in (hypothesis, reference)]
        assert scores["d-BLEU"] == pytest.approx(BLEU().corpus_score(joined[:1], [joined[1:]]).score)


def test_perfect_and_empty_translations():
    _, reference, offsets = corpus(4)
    perfect = evaluate(reference, [reference], offsets, metrics=EVERY).scores
    best = {name: 0 if METRICS.get(name).lower_is_better else 100 for name in EVERY}
    assert {name: round(perfect[name], 6) for name in EVERY} == best
    nothing = evaluate([""] * 40, [reference], offsets, metrics=EVERY).scores
    assert {name: nothing[name] for name in EVERY} == {name: 100 - score for name, score in best.items()}


@pytest.fixture
def plugged():
    """A metric of a plug-in: the share of right words, where the documents' words count together."""
    before = dict(METRICS._entries)

    class RightWords:
        """Right words in percent."""

        def __init__(self, tokenize, references):
            assert tokenize == "13a"
            self._references, self.signature = references, f"nrefs:{len(references)}|words:right"

        def counts(self, lines):
            pairs = zip(lines, zip(*self._references, strict=True), strict=True)
            right = [max(sum((Counter(a.split()) & Counter(b.split())).values()) for b in all) for a, all in pairs]
            return np.array([[n, len(line.split())] for n, line in zip(right, lines, strict=True)], dtype=float)

        def score(self, sums):
            return 100 * sums[0] / sums[1] if sums[1] else 0.0

    register_metric("words")(RightWords)
    register_metric("document-words", of="documents")(RightWords)
    register_metric("wrong", lower_is_better=True)(RightWords)
    yield RightWords
    METRICS._entries = before


def test_a_metric_of_a_plug_in_is_one_of_the_report(plugged, tmp_path, capsys):
    """With every part that the package's own have; its numbers by a plain count."""
    text = "Das Haus ist alt .\nDas Haus ist rot .\n\nEin Hund bellt laut .\n"
    ref, sys_, other = write(tmp_path, ref=text, sys=text.replace("rot", "neu"), other=text.replace("Hund", "Huhn"))
    files = ["--ref", str(ref), "--sys", str(sys_), "--paired", str(other), "--samples", "9"]
    more = ["--per-sentence", "--per-document", "--by", "position"]
    assert command.main([*files, *more, "--json", "--metrics", "words", "document-words", "wrong", "chrF++"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["words"] == content["document-words"] == pytest.approx(100 * 14 / 15)
    assert content["signatures"]["words"] == "nrefs:1|words:right"
    assert [round(row["words"]) for row in content["of_sentences"]] == [100, 80, 100]
    assert "document-words" not in content["of_sentences"][0]
    assert [round(row["document-words"]) for row in content["of_documents"]] == [90, 100]
    assert {"words", "wrong", "chrF++"} < {row["metric"] for row in content["paired"]["metrics"]}
    assert "TER" not in content
    assert [lower_is_better(name) for name in ("wrong", "words", "TER", "loss")] == [True, False, True, True]
    with pytest.raises(ValueError, match="words"):
        register_metric("words", lower_is_better=True)(plugged)
    plugged.counts = lambda self, lines: np.zeros(3)
    assert command.main(["--ref", str(ref), "--sys", str(sys_), "--metrics", "words"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "'words'" in line
    assert command.main(["--ref", str(ref), "--sys", str(sys_), "--metrics", "nothing"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert all(name in line for name in ("--metrics", "chrF++", "TER", "COMET"))


def test_seeds_are_compared_by_their_means_on_the_same_documents():
    """The sampled difference is of sacreBLEU's means over seeds on the texts drawn; one seed thrice is one seed."""
    _, reference, offsets = corpus(6)
    seeds = [[corpus(n)[0] for n in numbers] for numbers in ((6, 10, 11), (7, 12))]
    systems = [[evaluate(h, [reference], offsets) for h in group] for group in seeds]
    results = paired_bootstrap(*systems, samples=1, seed=3)
    drawn = np.random.default_rng(3).multinomial(8, np.full(8, 1 / 8), size=1)[0]
    lines = [i for d, times in enumerate(drawn) for _ in range(times) for i in range(offsets[d], offsets[d + 1])]

    def mean(group, lines):
        right = [[reference[i] for i in lines]]
        return np.mean([CHRF().corpus_score([side[i] for i in lines], right).score for side in group])

    chrf = next(r for r in results if r.metric == "chrF")
    assert chrf.low == chrf.high == pytest.approx(mean(seeds[0], lines) - mean(seeds[1], lines))
    every = range(len(reference))
    assert (chrf.system, chrf.other) == pytest.approx((mean(seeds[0], every), mean(seeds[1], every)))
    assert chrf.system_seeds == pytest.approx([mean([side], every) for side in seeds[0]])
    content = chrf.to_dict()["seeds"]["other"]
    assert (content["least"], content["most"]) == (min(content["scores"]), max(content["scores"]))
    single = paired_bootstrap(systems[0][0], systems[1][0], samples=50)
    thrice = paired_bootstrap(systems[0][:1] * 3, systems[1][:1] * 2, samples=50)
    for one, three in zip(single, thrice, strict=True):
        assert (one.difference, one.low, one.high) == pytest.approx((three.difference, three.low, three.high))
        assert one.p_value == three.p_value
    assert not single[0].several
    assert "seeds" not in single[0].to_dict()


def test_the_command_compares_seeds_and_foreign_contexts(tmp_path, capsys):
    """A foreign file is compared as another system is; the order of seeds changes nothing."""
    _, reference, offsets = corpus(6)

    def file(number):
        lines = corpus(number)[0] if number >= 0 else reference
        path = tmp_path / str(number)
        path.write_text("\n\n".join("\n".join(lines[a:b]) for a, b in pairwise(offsets)) + "\n")
        return str(path)

    def said(*options):
        samples = ["--samples", "30"] if {"--paired", "--foreign"} & {*options} else []
        assert command.main(["--ref", file(-1), *samples, "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    both = said("--sys", file(6), "--paired", file(7), "--foreign", file(8))
    assert both["paired"] == said("--sys", file(6), "--paired", file(7))["paired"]
    assert both["foreign"] == said("--sys", file(6), "--paired", file(8))["paired"]
    row = both["foreign"]["metrics"][0]
    assert row["difference"] == pytest.approx(row["system"] - row["other"])
    assert 0 < row["p_value"] <= 1
    seeds = said("--sys", file(6), file(9), file(10), "--paired", file(7), file(11), file(12))
    assert seeds["chrF"] == pytest.approx(np.mean(seeds["seeds"]["chrF"]["scores"]))
    assert seeds["seeds"]["chrF"]["scores"] == [said("--sys", file(n))["chrF"] for n in (6, 9, 10)]
    other = said("--sys", file(10), file(6), file(9), "--paired", file(12), file(7), file(11))
    for one, two in zip(seeds["paired"]["metrics"], other["paired"]["metrics"], strict=True):
        names = ("system", "difference", "low", "high", "p_value")
        assert [one[name] for name in names] == pytest.approx([two[name] for name in names])
    text = ["--ref", file(-1), "--sys", file(6), file(9), "--paired", file(7), "--foreign", file(8), file(10)]
    assert command.main(text) == 0
    assert f"{seeds['seeds']['s-BLEU']['scores'][1]:.2f}" in capsys.readouterr().out
    for options, name in (
        (["--sys", file(6), file(9), "--foreign", file(8)], "--foreign"),
        (["--sys", file(6), file(9), "--per-document"], "--per-document"),
        (["--sys", file(6), "--paired", file(7), file(8), "--by", "position"], "--by"),
        (["--sys", file(6), file(9), "--resegment", "--resegmented", str(tmp_path / "x")], "--resegmented"),
    ):
        assert command.main(["--ref", file(-1), *options]) == 2
        assert name in capsys.readouterr().err


def test_bootstrap_tells_better_from_equal():
    hypothesis, reference, offsets = corpus(8, sentences=200, documents=40)
    worse = [" ".join(s.split()[:-2]) for s in hypothesis]
    evaluations = [evaluate(h, [reference], offsets) for h in (hypothesis, worse)]
    better = paired_bootstrap(*evaluations, samples=200)
    assert all(r.p_value < 0.05 for r in better)
    assert next(r for r in better if r.metric == "s-BLEU").low > 0
    assert better == paired_bootstrap(*evaluations, samples=200)
    mirrored = paired_bootstrap(*evaluations[::-1], samples=200)
    assert [r.difference for r in mirrored] == [-r.difference for r in better]
    same = paired_bootstrap(evaluations[0], evaluations[0], samples=50)
    assert all((r.difference, r.low, r.high, r.p_value) == (0, 0, 0, 1) for r in same)
    assert {"40", "200"} <= set(format_comparisons(better, 40, 200).split())


def test_lexical_consistency_counts_pairs_of_occurrences():
    """Three occurrences of `house`, two translated alike: one pair of three agrees."""
    sources = ["a house", "the house", "big house", "a garden", "one garden", "the dog"]
    targets = ["ein haus", "das haus", "grosses gebäude", "ein garten", "ein gartens", "der hund"]
    lexicon = learn_lexicon(sources * 3, targets * 3)
    consistency = lexical_consistency(sources, targets, [0, 3, 6], lexicon)
    assert (consistency.agreeing, consistency.pairs, consistency.terms) == (2, 4, 2)  # garten and gartens are one stem
    assert consistency.ratio == 50
    assert lexical_consistency(sources, targets, [0, 2, 4, 6], lexicon).pairs == 1
    for nothing in ("", "foo"):  # a missing translation is consistent with no other
        assert lexical_consistency(sources, [nothing] * 6, [0, 3, 6], lexicon).agreeing == 0
    alone = lexical_consistency(sources, targets, range(7), lexicon)
    assert math.isnan(alone.ratio)
    assert alone.to_dict()["ratio"] is None


def model_1(sources, targets, iterations=5):
    """IBM model 1 in plain loops (Brown et al. 1993): p(t | s) from expected counts, NULL as the word ""."""
    pairs = [(["", *s.split()], [t[:5] for t in text.split()]) for s, text in zip(sources, targets, strict=True)]
    p = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts, totals = Counter(), Counter()
        for s, text in pairs:
            for t in text:
                total = sum(p[word, t] for word in s)
                for word in s:
                    counts[word, t] += p[word, t] / total
                    totals[word] += p[word, t] / total
        p = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    return p


def test_the_lexicon_is_model_1():
    rng = random.Random(6)
    sources, targets = ([" ".join(rng.choices("abcdef", k=rng.randint(0, 6))) for _ in range(30)] for _ in range(2))
    targets[4] = ""
    lexicon = learn_lexicon(sources, targets)
    probabilities = {(s, t): value for s, row in lexicon.items() for t, value in row.items()}
    assert probabilities == pytest.approx(model_1(sources, targets))
    assert learn_lexicon(["", "a"], ["", ""]) == {"": {}, "a": {}}


def test_a_line_that_is_no_sentence_is_not_aligned_word_by_word(capsys):
    """Its words times those of the other side: a document a line took gigabytes."""
    lines = ["a b", "c " * 20000]
    lexicon = learn_lexicon(lines, lines)
    assert lexicon == learn_lexicon(lines[:1], lines[:1])
    assert "leaves out 1 lines" in capsys.readouterr().err
    assert lexical_consistency(lines, lines, [0, 2], lexicon).pairs == 0


@pytest.mark.parametrize("name", ["ref", "sys", "paired"])
@pytest.mark.parametrize("written", ["--resegmented", "--plot"])
def test_no_file_that_is_read_is_written(name, written, tmp_path):
    texts = {file: tmp_path / f"{file}.svg" for file in ("ref", "sys", "paired")}
    for file, path in texts.items():
        path.write_text(f"A {file}.\n")
    words = [word for file, path in texts.items() for word in (f"--{file}", str(path))]
    words += ["--resegment"] if written == "--resegmented" else ["--by", "position"]
    assert command.main([*words, written, str(texts[name]), "--overwrite"]) == 2
    assert texts[name].read_text() == f"A {name}.\n"


def test_empty_lines_are_what_the_reference_says(tmp_path):
    reference, line_by_line, flat, spaced = write(
        tmp_path, ref="A\nB\n\nC\nD\n", same="a\n\n\nc\n\n", flat="a\nb\nc\nd\n", spaced="a\nb\n\n\nc\r\nd\r\n\n"
    )
    layout = read_layout(reference)
    assert layout.document_offsets == (0, 2, 4)
    assert layout.align(line_by_line) == ["a", "", "c", ""]
    assert layout.align(flat) == layout.align(spaced) == ["a", "b", "c", "d"]


def test_marks_of_documents_and_paragraphs_are_no_sentences(tmp_path):
    reference, system = write(tmp_path, ref="<d>\nA\n<p>\nB\n<d>\nC\n", sys="a\n\nc\n")
    layout = read_layout(reference)
    assert layout.document_offsets == (0, 2, 3)
    assert layout.align(reference) == ["A", "B", "C"]
    assert layout.align(system) == ["a", "", "c"]
    generated, kept = write(
        tmp_path, generated="a\n\n\nc\n", kept="\na\n\n\n\nc\n"
    )  # one empty line a break; one a mark
    assert layout.align(generated) == layout.align(kept) == ["a", "", "c"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\n\nc\n", ": 3 .* 4 .*ref .* 4 .* 5"),
        ("a\nb\nc\n\nd\n", ".*ref; .* 2"),
        ("a\nb\nx\nc\nd\n", ": 5 .* 5 "),
        ("\n\n", ": 0 .* 2 "),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, text, message):
    reference, system = write(tmp_path, ref="A\nB\n\nC\nD\n", sys=text)
    with pytest.raises(UserError, match=message):
        read_layout(reference).align(system)


def test_command_prints_scores_and_json(tmp_path, capsys):
    ref, sys_, other, src = write(
        tmp_path,
        ref="Das Haus ist alt .\nDas Haus ist rot .\n\nEin Hund bellt laut .\n",
        sys="Das Haus ist neu .\nDas Haus ist rot .\n\n\n",
        other="Das Haus ist alt .\nHaus .\n\nEin Hund .\n",
        src="the house is old .\nthe house is red .\n\na dog barks loudly .\n",
    )
    more = ["--paired", str(other), "--src", str(src), "--per-document", "--samples", "10"]
    assert command.main(["--ref", str(ref), "--sys", str(sys_), *more]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()[:3]] == list(DEFAULT)  # TER only if asked for
    assert printed.splitlines()[3].startswith("(3 sentences in 2 documents)")
    assert "document\ts-BLEU" in printed
    assert command.main(["--ref", str(ref), str(ref), "--sys", str(sys_), *more, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["signatures"]["chrF"].startswith("nrefs:2|")
    assert len(content["of_documents"]) == 2
    assert content["lexical_consistency"]["reference"] == {"ratio": 100.0, "pairs": 1, "terms": 1}
    assert {row["metric"] for row in content["paired"]["metrics"]} == set(DEFAULT)


def test_translations_that_are_all_empty_are_scored(tmp_path, capsys):
    ref, sys_ = write(tmp_path, ref="Das Haus .\n\nEin Hund .\n", sys="\n\n\n")
    assert command.main(["--ref", str(ref), "--sys", str(sys_)]) == 0
    assert capsys.readouterr().out.startswith("s-BLEU =   0.00")
    assert command.main(["--ref", str(sys_), "--sys", str(ref)]) == 1
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(("text", "named"), [("<seg>A dog.\n", "SGML"), ("这是一个测试。\n", "13a"), ("A dog.\n", "")])
def test_texts_that_are_no_sentences_are_named(text, named, tmp_path, capsys):
    ref, sys_ = write(tmp_path, ref=text, sys=text)
    assert command.main(["--ref", str(ref), "--sys", str(sys_)]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert [named in note for note in notes] == [True] * bool(named)


def test_command_refuses_what_has_no_effect(capsys):
    for words, named in (
        ("--ref r --sys s --context none", "--contrastive"),
        ("--contrastive f.tsv --path c --ref r", "--contrastive"),
        ("--ref r --sys s --comet m", "--src"),
        ("--ref r --sys s --samples 9", "--samples"),
        ("--contrastive f.tsv --path c --context-seed 5", "--context-seed"),
    ):
        assert command.main(words.split()) == 2
        assert named in capsys.readouterr().err
