# To be sourced by the recipes here, from the root of the clone: $CORPUS chooses a corpus of $DATA; $work is the recipe's
# folder, $data the data folder, which is made, $test the prefix of the test text, $target its language, $last the updates
# of three passes.

corpus=${CORPUS:-manual}
work=${WORK:-runs/$corpus}
data=$work/data-bin
mkdir -p "$work"
case $corpus in
manual)
    text=$DATA/php_manual_enfr target=fr
    valid=$text/dev test=$text/test last=1722
    ;;
handbooks) # the part of docmix that GIMP, GNOME, Debian and man pages are; its test set stands beside docmix
    text=$work/text target=de
    valid=$text/dev test=$DATA/docmix_tests/oss_docs_ende/test last=1230
    for split in train dev; do
        [ -e "$text/$split.de" ] || python tools/part_of_corpus.py "$DATA/docmix_ende/$split" --languages en de \
            --column corpus --values oss_docs_ende --out "$text/$split" >&2
    done
    ;;
*) echo "error: CORPUS=$corpus: expected manual or handbooks" >&2 && exit 2 ;;
esac
if [ ! -e "$data/meta.json" ]; then
    say "preprocess"
    docnmt-preprocess -s en -t "$target" --trainpref "$text/train" --validpref "$valid" --testpref "$test" \
        --destdir "$data" --vocab-size 8000 --workers 2
fi
