#!/usr/bin/env bash
# News Commentary v11 and the newstests of 2015 and 2016 (the field's sets, en-de). Their training text is
# public but not part of every collection: put it, in the field's `<d>` format or with empty lines between documents, as
# train.en and train.de beside dev and test.
#   DATA=~/corpora recipes/news/run.sh      other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=news vocabulary=16000
train=$DATA/news_nc2016_ende/train valid=$DATA/news_nc2016_ende/dev tests=("news=$DATA/news_nc2016_ende/test")
compare
