#!/usr/bin/env bash
# A mix of free documents, tested on the field's sets. The mix: the German translations of LibreOffice's help, the PHP
# manual, KDE's, GNOME's and Debian's documentation and the game Battle for Wesnoth (from their projects), customer chats
# (BContrasT of WMT 2020), the World English Bible and Menge's, talks of TED; 291,000 lines. The sets: IWSLT 2017 TED,
# News Commentary 2016, Europarl 7, WMT newstests, and ContraPro.
#   DATA=~/corpora recipes/docmix/run.sh       other variables: tools/compare.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../.."
. tools/compare.sh
name=docmix vocabulary=16000
train=$DATA/docmix_ende/train valid=$DATA/docmix_ende/dev contrastive=$DATA/contrapro_ende/contrapro_half.tsv
tests=(
    "ted=$DATA/ted_iwslt17_ende/test" "news=$DATA/news_nc2016_ende/test" "europarl=$DATA/europarl7_ende/test"
    "newstest2018=$DATA/wmt_news_ende/newstest2018" "newstest2019=$DATA/wmt_news_ende/newstest2019"
    "newstest2021=$DATA/wmt_news_ende/newstest2021" "bible=$DATA/bible_ende/test"
    "wesnoth=$DATA/docmix_tests/wesnoth_ende/test"
)
compare
