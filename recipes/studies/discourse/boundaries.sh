#!/usr/bin/env bash
# What wrong sentence boundaries cost: Trankova and Rykunov name texts without a clear structure as a limitation.
#   recipes/studies/discourse/boundaries.sh
# 10, 30 and 50 % of the boundaries are moved or merged (recipes/studies/discourse/wrong_boundaries.py): at test for a model that was trained on
# right ones, and in training, too. About a quarter of an hour a training and its questions on one core, seven of them. After
# an interruption the same command goes on. Everything is under runs/boundaries.
#   BOUNDARIES_WORK=DIR     another folder (relative to the clone, or absolute)
#   BOUNDARIES_ONLY="A B"   only these trainings: right, move-0.1, move-0.3, move-0.5, merge-0.1, merge-0.3, merge-0.5
#   BOUNDARIES_SEED=N       seed of all trainings (1)
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=${BOUNDARIES_WORK:-runs/boundaries}
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot
corpus=$work/corpus data=$work/data-bin
checkpoint=last # all have the same number of updates, and none is chosen
kinds="move-0.1 move-0.3 move-0.5 merge-0.1 merge-0.3 merge-0.5"
chosen=${BOUNDARIES_ONLY:-right $kinds}
for training in $chosen; do
    [[ " right $kinds " == *" $training "* ]] || { echo "error: no training '$training'; there are: right $kinds" >&2; exit 2; }
done

discourse "$corpus" "$data"
for kind in $kinds; do
    wrong=(--how "${kind%-*}" --share "${kind#*-}")
    [ -e "$corpus/contrastive.$kind.tsv" ] ||
        python recipes/studies/discourse/wrong_boundaries.py "$corpus/contrastive.tsv" "$corpus/contrastive.$kind.tsv" "${wrong[@]}"
    [ ! -e "$work/data-$kind/meta.json" ] || continue
    for split in train valid test; do
        python recipes/studies/discourse/wrong_boundaries.py "$corpus/$split" "$corpus/$split.$kind" --languages en de "${wrong[@]}"
    done
    docnmt-preprocess -s en -t de --srcdict "$data" --trainpref "$corpus/train.$kind" --validpref "$corpus/valid.$kind" \
        --testpref "$corpus/test.$kind" --destdir "$work/data-$kind"
done
for training in $chosen; do
    trained=$data
    [ "$training" = right ] || trained=$work/data-$training
    learn "$trained" recipes/studies/discourse/common.yaml "$work/$training" --seed "${BOUNDARIES_SEED:-1}" \
        --arch hier_cond_transformer_tiny --context-sides encoder --ffn-dim 256 --read-all-updates 1200
    choose "$corpus/contrastive.tsv" "$work/$training" right-boundaries
    translate "$data" test "$work/$training" test
    for kind in $kinds; do
        choose "$corpus/contrastive.$kind.tsv" "$work/$training" "$kind"
        translate "$work/data-$kind" test "$work/$training" "test-$kind"
    done
done
# shellcheck disable=SC2086
python recipes/studies/tools/results_table.py "$work" --systems $chosen | tee "$work/report.md"
