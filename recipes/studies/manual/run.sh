#!/usr/bin/env bash
# Manuals and their like, documents with sections and paragraphs. A sentence model is trained, its rate falls
# to nothing, and then it gets a pointer to earlier translations (copy_transformer) while it stays as it is. Does a
# document model translate pages better by itself, with a memory of the training pages, and where people have translated the
# first quarter, half or three quarters of a page (the translator's desk)?
#   DATA=~/corpora recipes/studies/manual/run.sh
#   CORPUS=NAME   manual (PHP's, English to French); English to German: handbooks (GIMP's, GNOME's, Debian's, man pages),
#                 help (of LibreOffice), game (Battle for Wesnoth)
#   WORK=DIR      another folder than runs/NAME
#   EPOCHS=N      passes of the sentence model at a falling rate, before the last three (7)
#   SEEDS="1 2"   of the pointer
#   BEAM=N        of the search (4)
#   PRECISION=--no-bf16  on a processor without bfloat16 products
# One thread of a processor with bf16 takes 9 minutes an epoch of the sentence model and 5 a pointer for the manual, 6 and 2 for
# the help.
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../../.."
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment test

. recipes/studies/manual/corpus.sh
epochs=${EPOCHS:-7} beam=${BEAM:-4}
transformer=(--arch transformer_small --max-tokens 3000)
learn "$data" recipes/studies/manual/config.yaml "$work/start" "${transformer[@]}" --lr 2e-3 --warmup-updates 500 \
    --max-epoch "$epochs"
learn "$data" recipes/studies/manual/config.yaml "$work/sentence" "${transformer[@]}" --lr 1e-3 --lr-scheduler cosine \
    --warmup-updates 22 --lr-period-updates $((last - 22)) --max-update $last --finetune-from-model "$work/start/model"
systems=(sentence)
for seed in ${SEEDS:-1 2}; do
    learn "$data" recipes/studies/manual/config.yaml "$work/copy-$seed" --arch copy_transformer_small --max-tokens 3000 \
        --max-doc-tokens 4000 --dropout 0 --lr 2e-3 --lr-scheduler cosine --warmup-updates 50 --lr-period-updates 190 \
        --max-update 240 --seed "$seed" --finetune-from-model "$work/sentence/model" --finetune-lr-scale 0
    systems+=("copy-$seed")
done
for system in "${systems[@]}"; do
    if [ "$system" = sentence ]; then memory=(); else memory=(--memory "$data"); fi
    translate "$data" test "$work/$system" test --beam "$beam" "${memory[@]}"
    for share in 25 50 75; do
        translate "$data" test "$work/$system" "given-$share" --beam "$beam" --prefix-references "0.$share"
        [ "$system" = sentence ] && continue
        translate "$data" test "$work/$system" "given-$share-memory" --beam "$beam" --prefix-references "0.$share" \
            "${memory[@]}"
    done
    [ "$system" = sentence ] && continue
    translate "$data" test "$work/$system" foreign-memory --beam "$beam" "${memory[@]}" --memory-context foreign
done
# A translation memory over the sentence model: exact matches, and matches of the similarity that is best on dev.
translate "$data" valid "$work/sentence" dev --beam "$beam"
replaced() { # PREFIX RESULTS OPTION …: a table over thresholds, none first
    python recipes/studies/manual/translation_memory.py "$1" "$2" --languages en "$target" --train "$text/train" "${@:3}"
}
say "a translation memory: its threshold on dev"
replaced "$valid" "$work/sentence/dev" --threshold 0.6 0.7 0.8 0.9 1 | tee "$work/memory-dev.tsv"
best=$(awk -F'\t' 'NR > 2 && $3 > most { most = $3; best = $1 } END { print best }' "$work/memory-dev.tsv")
for memory in exact=1 fuzzy="$best"; do
    mkdir -p "$work/${memory%=*}/test"
    replaced "$test" "$work/sentence/test" --threshold "${memory#*=}" --out "$work/${memory%=*}/test/hypotheses.txt"
done
compared() { # OUT OF REFERENCE NAME …: what is new of the sentence model's OF and of the copying models' NAMEs, against the sentence model
    local out=$1 name_of_sentence=$2 reference=$3 system name part files=("$work/sentence/$2/hypotheses.txt")
    shift 3
    for system in "${systems[@]:1}"; do
        for name; do files+=("$work/$system/$name/hypotheses.txt"); done
    done
    [ "$name_of_sentence" != test ] || files+=("$work"/{exact,fuzzy}/test/hypotheses.txt)
    python recipes/studies/manual/unseen.py "$data" --reference "$reference" --out "$out" --files "${files[@]}"
    for part in documents lines; do
        [ -e "$out/$part" ] || continue
        for system in "${systems[@]:1}"; do
            for name; do
                say "$system, $name, against the sentence model: $part that are new"
                docnmt-score --ref "$out/$part/reference.txt" --sys "$out/$part/$system-$name.txt" \
                    --paired "$out/$part/sentence-$name_of_sentence.txt"
            done
        done
        for memory in exact fuzzy; do
            [ -e "$out/$part/$memory-test.txt" ] || continue
            say "the memory, $memory, against the sentence model, and ${systems[1]} against the memory: $part that are new"
            docnmt-score --ref "$out/$part/reference.txt" --sys "$out/$part/$memory-test.txt" \
                --paired "$out/$part/sentence-test.txt"
            docnmt-score --ref "$out/$part/reference.txt" --sys "$out/$part/${systems[1]}-test.txt" \
                --paired "$out/$part/$memory-test.txt"
        done
    done
}
compared "$work/new" test "$test.$target" test foreign-memory
for share in 25 50 75; do
    compared "$work/new-$share" "given-$share" "$work/sentence/given-$share/reference.txt" "given-$share" "given-$share-memory"
done
