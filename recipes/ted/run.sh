#!/usr/bin/env bash
# TED talks, tested on the set of IWSLT 2017. With the field's own training files (1,698 talks in the `<d>` format, as in
# the G-Transformer release), point DATA at a folder whose ted_small_ende/ holds them (concatenated_en2de_train_en.txt …,
# …_dev_…), and whose ted_iwslt17_ende/ holds the test set (…_test_…, or test.en and test.de).
#   DATA=~/corpora recipes/ted/run.sh          other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=ted vocabulary=8000
train=$(part "$DATA/ted_small_ende" train) valid=$(part "$DATA/ted_small_ende" dev)
tests=("ted=$(part "$DATA/ted_iwslt17_ende" test)")
compare
