# To be sourced by the recipes here, from the root of the clone: $CORPUS chooses a corpus of $DATA; $work is the recipe's
# folder, $data the data folder, which is made, $test the prefix of the test text, $target its language, $last the updates
# of the last passes, while the rate falls to nothing.

corpus=${CORPUS:-manual}
work=${WORK:-runs/$corpus}
data=$work/data-bin
case $corpus in
manual) last=1722 ;;
handbooks) part=oss_docs_ende last=1230 ;; # of GIMP, GNOME and Debian; man pages
help) part=libreoffice_help_ende last=870 ;;
game) part=wesnoth_ende last=900 ;; # stories and dialogues
*) echo "error: CORPUS=$corpus: expected manual, handbooks, help or game" >&2 && exit 2 ;;
esac
[ -d "$DATA" ] || { echo "error: DATA=$DATA: no such folder" >&2 && exit 2; }
mkdir -p "$work"
if [ "$corpus" = manual ]; then
    text=$DATA/php_manual_enfr target=fr
    valid=$text/dev test=$text/test
else # a part of docmix, whose test set stands beside it
    text=$work/text target=de
    valid=$text/dev test=$DATA/docmix_tests/$part/test
    for split in train dev; do
        [ -e "$text/$split.de" ] || python recipes/studies/manual/part_of_corpus.py "$DATA/docmix_ende/$split" --languages en de \
            --column corpus --values "$part" --out "$text/$split" >&2
    done
fi
if [ ! -e "$data/meta.json" ]; then
    say "preprocess"
    docnmt-preprocess -s en -t "$target" --trainpref "$text/train" --validpref "$valid" --testpref "$test" \
        --destdir "$data" --vocab-size 8000 --workers 2
fi
