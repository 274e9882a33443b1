#!/usr/bin/env bash
# Europarl v7, by speaker turns (the field's document-translation sets, en-de). Their training text is
# public but not part of every collection: put it, in the field's `<d>` format or with empty lines between documents, as
# train.en and train.de beside dev and test.
#   DATA=~/corpora recipes/europarl/run.sh      other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=europarl vocabulary=16000
train=$DATA/europarl7_ende/train valid=$DATA/europarl7_ende/dev tests=("europarl=$DATA/europarl7_ende/test")
compare
