#!/usr/bin/env bash
# Everything of recipes/studies/gpu/run.sh that needs no card, so that a borrowed one does not wait for it: arrays of docmix and of
# its test sets (recipes/studies/docmix/run.sh says what they are).
#   DATA=~/corpora recipes/studies/gpu/prepare.sh
#   OUT=DIR      another folder than runs/gpu (relative to the clone, or absolute)
#   TRAIN=PREFIX VALID=PREFIX TESTS="NAME=PREFIX …"  another corpus, English–German
#   SETTING=toy  a vocabulary for a toy corpus
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../../.."
. recipes/studies/gpu/settings.sh
environment test
train=${TRAIN:-$DATA/docmix_ende/train} valid=${VALID:-$DATA/docmix_ende/dev}
tests=${TESTS:-ted=$DATA/ted_iwslt17_ende/test newstest2019=$DATA/wmt_news_ende/newstest2019 bible=$DATA/bible_ende/test wesnoth=$DATA/docmix_tests/wesnoth_ende/test}

if [ ! -e "$data/meta.json" ]; then
    prefixes=()
    mkdir -p "$out"
    : > "$out/tests.names.tmp"
    for test in $tests; do
        echo "${test%%=*}" >> "$out/tests.names.tmp"
        prefixes+=("${test#*=}")
    done
    docnmt-preprocess -s en -t de --trainpref "$train" --validpref "$valid" --testpref "${prefixes[@]}" \
        --destdir "$data" --vocab-size "$vocabulary"
    mv "$out/tests.names.tmp" "$out/tests.names"
fi
say "$out is prepared; with a card: recipes/studies/gpu/run.sh MINUTES"
