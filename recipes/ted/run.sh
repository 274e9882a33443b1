#!/usr/bin/env bash
# TED talks, tested on the set of IWSLT 2017. With the field's own training files (en-de talks in the `<d>` format, as in
# the G-Transformer release), point DATA at a folder whose ted_small_ende/ holds them as train.* and dev.*
# and whose ted_iwslt17_ende/ holds test.*.
#   DATA=~/corpora recipes/ted/run.sh          other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=ted vocabulary=8000
train=$DATA/ted_small_ende/train valid=$DATA/ted_small_ende/dev tests=("ted=$DATA/ted_iwslt17_ende/test")
compare
