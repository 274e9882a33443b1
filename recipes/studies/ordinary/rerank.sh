#!/usr/bin/env bash
# Ten best translations of the sentence models of batches.yaml, chosen by a language model of documents (lm.yaml), three
# seeds of both; weights are chosen on dev. Everything is under ordinary/; goes on after an interruption.
#   DATA=~/corpora recipes/studies/ordinary/rerank.sh     # after the commands of this folder's README
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
study=$(cd "$(dirname "$0")" && pwd)
rerank() { python "$study/rerank.py" "$@"; }
tests=(chat_bcontrast_ende kde_docs_ende libreoffice_help_ende oss_docs_ende php_manual_ende wesnoth_ende)
text=ordinary/text/plain

if [ ! -e ordinary/bin-test/meta.json ]; then
    python "$study/prepare.py" "$DATA/docmix_ende" ordinary/text --tests "${tests[@]/#/$DATA/docmix_tests/}"
    for side in en de; do
        for corpus in "${tests[@]}"; do cat "$text/$corpus.test.$side"; echo; done > $text/tests.$side
    done
    docnmt-preprocess -s en -t de --srcdict ordinary/bin-plain --testpref $text/tests --destdir ordinary/bin-test
fi
if [ ! -e ordinary/bin-weight/meta.json ]; then # weights are chosen on every third document of dev
    for side in en de; do awk -v RS= -v ORS='\n\n' 'NR % 3 == 1' $text/dev.$side > $text/weights.$side; done
    docnmt-preprocess -s en -t de --srcdict ordinary/bin-plain --testpref $text/weights --destdir ordinary/bin-weight
fi
if [ ! -e ordinary/bin-lm/meta.json ]; then
    for split in train dev; do rerank text $text/$split.de ordinary/text/lm.$split; done
    docnmt-preprocess -s en -t de --srcdict ordinary/bin-plain --trainpref ordinary/text/lm.train \
        --validpref ordinary/text/lm.dev --destdir ordinary/bin-lm --long-policy split
fi
docnmt-compare "$study/lm.yaml"
mkdir -p ordinary/rerank
score() { # SYSTEM CONTEXT …: of the candidates of $name and $seed
    local scores=$out.$1.jsonl
    [ -e $scores ] && return
    rerank score $out.nbest $text/$name.de ordinary/lm/$1/seed-$seed/model $scores.part --contexts "${@:2}"
    mv $scores.part $scores
}
for seed in 1 2 3; do
    for name in weights tests; do
        out=ordinary/rerank/$name.$seed
        if [ ! -e $out.nbest ]; then
            docnmt-generate ordinary/bin-${name%s} --path ordinary/batches/sentence/seed-$seed/model \
                --beam 10 --nbest 10 > $out.nbest.part
            mv $out.nbest.part $out.nbest
        fi
        score sentence none
        case $name in tests) contexts=(none true foreign) ;; *) contexts=(none true) ;; esac
        score document "${contexts[@]}"
    done
    for system in sentence document; do
        rerank choose ordinary/rerank/weights.$seed.$system.jsonl $text/weights.de ordinary/rerank/tests.$seed.$system.jsonl \
            $text/tests.de ordinary/rerank/$system.$seed > ordinary/rerank/$system.$seed.txt
    done
done

# Lines of the tests by set: all, those whose pair does not stand in training, each set; empty lines stay.
paste -d '\t' $text/train.en $text/train.de > ordinary/rerank/train.pairs
paste -d '\t' $text/tests.en $text/tests.de | awk 'NR == FNR {seen[$0]; next} $0 == "\t" || !($0 in seen) {print FNR}' \
    ordinary/rerank/train.pairs - > ordinary/rerank/unseen.lines
seq "$(wc -l < $text/tests.de)" > ordinary/rerank/tests.lines
first=1
for corpus in "${tests[@]}"; do
    last=$((first + $(wc -l < $text/$corpus.test.de) - 1))
    seq $first $last > ordinary/rerank/$corpus.lines
    first=$((last + 2))
done
scored() { # NAME SYSTEM PAIRED [FOREIGN]: of each set
    local name=$1 part file
    for part in tests unseen "${tests[@]}"; do
        for file in $text/tests.de ordinary/rerank/{document,sentence}.[123]/{best,none,true,foreign}; do
            [ -e $file ] || continue
            mkdir -p ordinary/rerank/$part/$(basename $(dirname $file))
            awk 'NR == FNR {wanted[$1]; next} FNR in wanted' ordinary/rerank/$part.lines $file \
                > ordinary/rerank/$part/$(basename $(dirname $file))/$(basename $file)
        done
        (cd ordinary/rerank/$part && docnmt-score --ref plain/tests.de --sys $2 --paired $3 ${4:+--foreign $4} --json \
            > $name.json)
    done
}
scored document "$(echo document.{1,2,3}/true)" "$(echo document.{1,2,3}/best)" "$(echo document.{1,2,3}/foreign)"
scored document-sentence "$(echo document.{1,2,3}/true)" "$(echo sentence.{1,2,3}/none)"
scored document-none "$(echo document.{1,2,3}/true)" "$(echo document.{1,2,3}/none)"
scored sentence "$(echo sentence.{1,2,3}/none)" "$(echo sentence.{1,2,3}/best)"
