#!/usr/bin/env bash
# Does what a Scaleformer has learned at the length L hold at 2 L and 4 L (Favier and Dal'Maz Silva, conclusion)? On a task
# that it can learn: a word's neighbour decides its translation (recipes/studies/scaleformer/neighbours.py). Horizons r of 0, 1, 4, 16 and
# 64, relative positions in cross-attention or not, absolute positions instead or besides, softmax attention: loss by
# position at each length.
#   recipes/studies/scaleformer/run.sh
# Five minutes a training on one core, 39 of them. After an interruption the same command goes on. Everything is under runs/scaleformer.
#   SCALEFORMER_WORK=DIR     another folder (relative to the clone, or absolute)
#   SCALEFORMER_ONLY="A B"   only these systems (names as below)
#   SCALEFORMER_SEEDS="1 2"  seeds of all trainings (1 2 3)
#   SCALEFORMER_UPDATES=N    of each training (2000)
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=${SCALEFORMER_WORK:-runs/scaleformer}
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot
corpus=$work/corpus data=$work/data-bin

base="--arch scaleformer_tiny"
declare -A variants=(
    [absolute]="$base --relative-horizon 0 --position sinusoidal"
    [both]="$base --relative-horizon 16 --position sinusoidal"
    [softmax-absolute]="--arch doc_transformer_tiny --position sinusoidal"
    [softmax-relative]="--arch doc_transformer_tiny --position relative"
)
order="absolute both softmax-absolute softmax-relative"
for horizon in 0 1 4 16 64; do
    variants+=([r-$horizon]="$base --relative-horizon $horizon")
    order+=" r-$horizon"
    [ $horizon = 0 ] && continue # no relative positions at all
    variants+=([r-$horizon-self]="$base --relative-horizon $horizon --no-cross-relative")
    order+=" r-$horizon-self"
done
chosen=${SCALEFORMER_ONLY:-$order}
for variant in $chosen; do
    [ -n "${variants[$variant]:-}" ] || { echo "error: no system '$variant'; there are:" $order >&2; exit 2; }
done

[ -e "$corpus/test-4-times.tgt" ] || python recipes/studies/scaleformer/neighbours.py --out "$corpus"
[ -e "$data/meta.json" ] || docnmt-preprocess -s src -t tgt --trainpref "$corpus/train" --validpref "$corpus/valid" \
    --testpref "$corpus/test" "$corpus/test-2-times" "$corpus/test-4-times" --destdir "$data" --subword-model bpe --vocab-size 220
for seed in ${SCALEFORMER_SEEDS:-1 2 3}; do
    for variant in $chosen; do
        folder=$work/$seed/$variant
        # shellcheck disable=SC2086  # the options are words
        learn "$data" recipes/studies/discourse/common.yaml "$folder" --seed "$seed" --max-update "${SCALEFORMER_UPDATES:-2000}" \
            --ffn-dim 256 ${variants[$variant]}
        path=$folder/model/checkpoint_last.safetensors
        newer "$folder/positions.json" "$path" || python recipes/studies/scaleformer/loss_by_position.py "$data" --path "$path" \
            --gen-subset test test1 test2 --width 50 --json "$folder/positions.json" > "$folder/positions.md"
        say "$folder/positions.md"
        cat "$folder/positions.md"
    done
done
python recipes/studies/scaleformer/lengths.py "$work" --plot "$work/lengths.png" | tee "$work/report.md"
