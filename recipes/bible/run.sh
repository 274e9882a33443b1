#!/usr/bin/env bash
# The Bible, King James and Luther 1912 (public domain): chapters, sections, paragraphs and verses as documents.
#   DATA=~/corpora recipes/bible/run.sh        other variables: tools/compare.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=bible vocabulary=8000
train=$DATA/bible_ende/train valid=$DATA/bible_ende/dev tests=("bible=$DATA/bible_ende/test")
compare
