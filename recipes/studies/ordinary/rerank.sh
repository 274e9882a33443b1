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
        for each in "${tests[@]}"; do cat "$text/$each.test.$side"; echo; done > $text/tests.$side
    done
    docnmt-preprocess -s en -t de --srcdict ordinary/bin-plain --testpref $text/tests --destdir ordinary/bin-test
    # weights are chosen on every third document of dev
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
for seed in 1 2 3; do
    for name in weights tests; do
        out=ordinary/rerank/$name.$seed
        if [ ! -e $out.nbest ]; then
            docnmt-generate ordinary/bin-${name%s} --path ordinary/batches/sentence/seed-$seed/model \
                --beam 10 --nbest 10 > $out.nbest.part
            mv $out.nbest.part $out.nbest
        fi
        [ -e $out.sentence.jsonl ] || rerank score $out.nbest $text/$name.de \
            ordinary/lm/sentence/seed-$seed/model $out.sentence.jsonl --contexts none
        case $name in tests) contexts=(true foreign) ;; *) contexts=(true) ;; esac
        [ -e $out.document.jsonl ] || rerank score $out.nbest $text/$name.de \
            ordinary/lm/document/seed-$seed/model $out.document.jsonl --contexts "${contexts[@]}"
    done
    for system in sentence document; do
        rerank choose ordinary/rerank/weights.$seed.$system.jsonl $text/weights.de ordinary/rerank/tests.$seed.$system.jsonl \
            $text/tests.de ordinary/rerank/$system.$seed > ordinary/rerank/$system.$seed.txt
    done
done

scored() { # NAME SYSTEM PAIRED [FOREIGN]: of all tests and of each
    local name=$1 first=1 last each file
    for each in tests "${tests[@]}"; do
        case $each in
        tests) last=$(wc -l < $text/tests.de) ;;
        *) last=$((first + $(wc -l < $text/$each.test.de) - 1)) ;;
        esac
        for file in $text/tests.de ordinary/rerank/{document,sentence}.[123]/{best,none,true,foreign}; do
            [ -e $file ] || continue
            mkdir -p ordinary/rerank/$each/$(basename $(dirname $file))
            sed -n "${first},${last}p" $file > ordinary/rerank/$each/$(basename $(dirname $file))/$(basename $file)
        done
        case $each in tests) ;; *) first=$((last + 2)) ;; esac
        (cd ordinary/rerank/$each && docnmt-score --ref plain/tests.de --sys $2 --paired $3 ${4:+--foreign $4} --json \
            > $name.json)
    done
}
scored document "$(echo document.{1,2,3}/true)" "$(echo document.{1,2,3}/best)" "$(echo document.{1,2,3}/foreign)"
scored document-sentence "$(echo document.{1,2,3}/true)" "$(echo sentence.{1,2,3}/none)"
scored sentence "$(echo sentence.{1,2,3}/none)" "$(echo sentence.{1,2,3}/best)"
