#!/usr/bin/env bash
# DocRepair: models that mend translations of a sentence model, taught by round trips of German text (docrepair.yaml), three
# seeds. Half of docmix's documents teach to translate, of the others only the German side is read. Everything is under
# ordinary/; after the commands of this folder's README and rerank.sh, whose data it needs. It goes on after an interruption.
#   recipes/studies/ordinary/docrepair.sh
set -euo pipefail
study=$(cd "$(dirname "$0")" && pwd)
plain=ordinary/text/plain text=ordinary/text/repair
mkdir -p $text

translated() { # DATA SPLIT MODEL REFERENCE OUT: greedily; an empty translation is a full stop
    local results=ordinary/repair/$(basename "$5")
    [ -e "$5" ] && return
    docnmt-generate "$1" --gen-subset "$2" --path "$3" --beam 1 --results-path "$results" --overwrite --quiet --scoring none
    paste -d '\n' "$results/hypotheses.txt" "$4" | awk 'NR % 2 { line = $0; next } { print line == "" && $0 != "" ? "." : line }' \
        > "$5.part"
    mv "$5.part" "$5"
}

for side in en de; do
    [ -e $text/german.$side ] && continue
    awk -v RS= -v ORS='\n\n' 'NR % 2 == 1' $plain/train.$side > $text/pairs.$side
    awk -v RS= -v ORS='\n\n' 'NR % 2 == 0' $plain/train.$side > $text/german.$side.part
    mv $text/german.$side.part $text/german.$side
done
[ -e ordinary/bin-forth/meta.json ] || docnmt-preprocess -s en -t de --srcdict ordinary/bin-plain --trainpref $text/pairs \
    --validpref $plain/dev --testpref $plain/tests --destdir ordinary/bin-forth --long-policy split
[ -e ordinary/bin-back/meta.json ] || docnmt-preprocess -s de -t en --srcdict ordinary/bin-plain --trainpref $text/pairs \
    --validpref $plain/dev --testpref $text/german --destdir ordinary/bin-back --long-policy truncate
for way in forth back; do
    docnmt-train ordinary/bin-$way --config "$study/docrepair_pairs.yaml" --save-dir ordinary/repair/$way
done
translated ordinary/bin-back test ordinary/repair/back $text/german.de $text/there.en
cp -p $text/german.de $text/there.de
[ -e ordinary/bin-round/meta.json ] || docnmt-preprocess -s en -t de --srcdict ordinary/bin-plain --testpref $text/there \
    --destdir ordinary/bin-round --long-policy truncate
translated ordinary/bin-round test ordinary/repair/forth $text/german.de $text/train.en # German as translated, for `en`
translated ordinary/bin-forth valid ordinary/repair/forth $plain/dev.de $text/dev.en
translated ordinary/bin-forth test ordinary/repair/forth $plain/tests.de $text/tests.en
cp -p $text/german.de $text/train.de
cp -p $plain/dev.de $plain/tests.de $text
[ -e ordinary/bin-repair/meta.json ] || docnmt-preprocess -s en -t de --srcdict ordinary/bin-plain --trainpref $text/train \
    --validpref $text/dev --destdir ordinary/bin-repair --long-policy split
docnmt-compare "$study/docrepair.yaml"
for part in tests unseen; do # all lines; those whose pair does not stand in training (rerank.sh)
    out=ordinary/repair/$part
    mkdir -p $out
    kept() { awk 'NR == FNR {wanted[$1]; next} FNR in wanted' ordinary/rerank/$part.lines "$1"; }
    kept $plain/tests.de > $out/reference
    kept $text/tests.en > $out/first
    for system in sentence document group; do
        for seed in 1 2 3; do kept ordinary/docrepair/$system/seed-$seed/docmix/hypotheses.txt > $out/$system.$seed; done
        docnmt-score --ref $out/reference --sys $out/$system.{1,2,3} --paired $out/first $out/first $out/first --json \
            > $out/$system.json
    done
done
