#!/usr/bin/env bash
# Europarl v7, by speaker turns (the field's document-translation sets, en-de). Their training text is
# public but not part of every collection: put the field's own files (concatenated_en2de_train_en.txt …) or train.en and
# train.de, with `<d>` lines or empty lines between documents, beside dev and test into DATA's europarl7_ende/.
#   DATA=~/corpora recipes/europarl/run.sh      other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=europarl vocabulary=16000
train=$(part "$DATA/europarl7_ende" train) valid=$(part "$DATA/europarl7_ende" dev) tests=("europarl=$(part "$DATA/europarl7_ende" test)")
compare
