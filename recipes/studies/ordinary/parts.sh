#!/usr/bin/env bash
# The systems of choice.yaml by part of the tests, not planned: lines whose pair does not stand in training, and each of the
# six sets. Needs the lines' numbers of rerank.sh and what choice.yaml translated; goes on after an interruption.
#   recipes/studies/ordinary/parts.sh
set -euo pipefail
tests=(chat_bcontrast_ende kde_docs_ende libreoffice_help_ende oss_docs_ende php_manual_ende wesnoth_ende)
for part in unseen "${tests[@]}"; do
    out=ordinary/choice/parts/$part
    mkdir -p "$out"
    lines() { awk 'NR == FNR {wanted[$1]; next} FNR in wanted' "ordinary/rerank/$part.lines" "$1"; }
    lines ordinary/text/plain/tests.de > "$out/reference"
    for system in sentence sentence-pieces document; do
        for seed in 1 2 3; do
            lines "ordinary/choice/$system/seed-$seed/docmix/hypotheses.txt" > "$out/$system.$seed"
            [ "$system" != document ] ||
                lines "ordinary/choice/$system/seed-$seed/docmix-foreign/restored.txt" > "$out/foreign.$seed"
        done
    done
    scored() { # NAME SYSTEM BASELINE [OPTION …]
        [ -e "$out/$1.json" ] && return
        docnmt-score --ref "$out/reference" --sys "$out/$2".{1,2,3} --paired "$out/$3".{1,2,3} "${@:4}" --json > "$out/$1.part"
        mv "$out/$1.part" "$out/$1.json"
    }
    scored document document sentence --foreign "$out"/foreign.{1,2,3}
    scored pieces sentence-pieces sentence
    scored document-pieces document sentence-pieces
done
