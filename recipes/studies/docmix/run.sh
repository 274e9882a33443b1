#!/usr/bin/env bash
# Sentence, concatenation and document models on one corpus, English to German:
#   ted       TED talks, tested on the set of IWSLT 2017; the field's own training files (1,698 talks in the `<d>` format, as in
#             the G-Transformer release) are concatenated_en2de_train_en.txt … in ted_small_ende/, the test set is in ted_iwslt17_ende/
#   news      News Commentary v11 and the newstests of 2015 and 2016, in news_nc2016_ende/
#   europarl  Europarl v7 by speaker turns, in europarl7_ende/
#   bible     three pairs of English and German versions, chapters with sections, paragraphs and verses: World English Bible and
#             Menge (1939), Basic English (1949) and Elberfelder (1905), American Standard (1901) and Textbibel (1906); public
#             domain, published as SWORD modules, chapters whose verse counts differ left out. Tested on Esther and Acts in
#             the first pair, which no version of the training text holds
#   docmix    a mix of free documents, 291,000 lines, tested on the field's sets: the German translations of LibreOffice's help,
#             the PHP manual, KDE's, GNOME's and Debian's documentation and the game Battle for Wesnoth (from their projects),
#             customer chats (BContrasT of WMT 2020), the World English Bible and Menge's, talks of TED; and ContraPro
# Training text of news and Europarl is public but not part of every collection: the field's own files, or train.en and train.de
# with `<d>` lines or empty lines between documents, stand beside dev and test.
#   DATA=~/corpora recipes/studies/docmix/run.sh CORPUS       other variables: compare.sh here
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
name=${1:?give a corpus: ted, news, europarl, bible or docmix}
cd "$(dirname "$0")/../../.."
. recipes/studies/docmix/compare.sh
vocabulary=16000
case $name in
ted)
    vocabulary=8000
    train=$(part "$DATA/ted_small_ende" train) valid=$(part "$DATA/ted_small_ende" dev)
    tests=("ted=$(part "$DATA/ted_iwslt17_ende" test)")
    ;;
news | europarl)
    folder=$DATA/europarl7_ende
    [ "$name" = europarl ] || folder=$DATA/news_nc2016_ende
    train=$(part "$folder" train) valid=$(part "$folder" dev) tests=("$name=$(part "$folder" test)")
    ;;
bible) vocabulary=8000 train=$DATA/bible_ende/train valid=$DATA/bible_ende/dev tests=("bible=$DATA/bible_ende/test") ;;
docmix)
    train=$DATA/docmix_ende/train valid=$DATA/docmix_ende/dev contrastive=$DATA/contrapro_ende/contrapro_half.tsv
    tests=(
        "ted=$DATA/ted_iwslt17_ende/test" "news=$DATA/news_nc2016_ende/test" "europarl=$DATA/europarl7_ende/test"
        "newstest2018=$DATA/wmt_news_ende/newstest2018" "newstest2019=$DATA/wmt_news_ende/newstest2019"
        "newstest2021=$DATA/wmt_news_ende/newstest2021" "bible=$DATA/bible_ende/test"
        "wesnoth=$DATA/docmix_tests/wesnoth_ende/test"
    )
    ;;
*) echo "error: no corpus '$name'; there are: ted news europarl bible docmix" >&2; exit 2 ;;
esac
compare
