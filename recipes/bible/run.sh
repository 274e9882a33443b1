#!/usr/bin/env bash
# The Bible in three pairs of English and German versions: chapters are documents, with sections, paragraphs and verses.
# World English Bible and Menge (1939), Basic English (1949) and Elberfelder (1905), American Standard (1901) and Textbibel
# (1906): public domain, published as SWORD modules. One verse a line, chapters whose verse counts differ left out. Tested
# on Esther and Acts in the first pair, which no version of the training text holds.
#   DATA=~/corpora recipes/bible/run.sh        other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=bible vocabulary=8000
train=$DATA/bible_ende/train valid=$DATA/bible_ende/dev tests=("bible=$DATA/bible_ende/test")
compare
