#!/usr/bin/env bash
# What do documents of the same domain take from the document model of choice.yaml? Each test set by itself (sets.yaml), then all
# sets together: true documents, those of any domain and those of the same. Goes on after an interruption.
#   recipes/studies/ordinary/sets.sh
set -euo pipefail
docnmt-compare "$(dirname "$0")/sets.yaml" --user-dir "$(dirname "$0")/choice"
out=ordinary/choice/same-domain
mkdir -p $out
document=ordinary/choice/document
for seed in 1 2 3; do
    for set in chat kde libreoffice oss php wesnoth; do # the order of the tests, an empty line between two
        [ $set = chat ] || echo
        cat $document/seed-$seed/$set-foreign/restored.txt
    done > $out/foreign.$seed
done
docnmt-score --ref ordinary/text/plain/tests.de --sys $document/seed-{1,2,3}/docmix/hypotheses.txt \
    --paired ordinary/choice/sentence/seed-{1,2,3}/docmix/hypotheses.txt --foreign $out/foreign.{1,2,3} --json > $out/all.json.part
mv $out/all.json.part $out/all.json
