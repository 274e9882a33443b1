#!/usr/bin/env bash
# News Commentary v11 and the newstests of 2015 and 2016 (the field's sets, en-de). Their training text is
# public but not part of every collection: put the field's own files (concatenated_en2de_train_en.txt …) or train.en and
# train.de, with `<d>` lines or empty lines between documents, beside dev and test into DATA's news_nc2016_ende/.
#   DATA=~/corpora recipes/news/run.sh      other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=news vocabulary=16000
train=$(part "$DATA/news_nc2016_ende" train) valid=$(part "$DATA/news_nc2016_ende" dev) tests=("news=$(part "$DATA/news_nc2016_ende" test)")
compare
