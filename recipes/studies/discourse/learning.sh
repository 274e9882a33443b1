#!/usr/bin/env bash
# What helps conditional attention to learn which sentences to read? Updates until validation is at most 0.01 nats a subword
# (without context it stays at 0.09), by start × schedule × scale of positions × form, all combinations under the same seeds:
#   equal | random     queries and keys start with the same projections, or not (--equal-start)
#   all | chosen       every sentence is read in the first 1,200 updates, or never (--read-all-updates)
#   0.1 | 0.7          what positions above the word are multiplied by at the start (--level-scale)
#   flat | tree        all sentences are compared, or those that a tree of means leads to (--merge mean)
# random-chosen-0.7-tree is nearest to the paper.
#   recipes/studies/discourse/learning.sh
# Five to eight minutes a training on one core, 48 of them. After an interruption the same command goes on. Everything is
# under runs/learning.
#   LEARNING_WORK=DIR     another folder (relative to the clone, or absolute)
#   LEARNING_SEEDS="1 2"  seeds (1 2 3)
#   LEARNING_ONLY="A B"   only these cells (names as equal-all-0.1-flat)
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=${LEARNING_WORK:-runs/learning}
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment test # SciPy
corpus=$work/corpus data=$work/data-bin

declare -A options=(
    [equal]=--equal-start [random]=--no-equal-start
    [all]="--read-all-updates 1200" [chosen]="--read-all-updates 0"
    [0.1]="--level-scale 0.1" [0.7]="--level-scale 0.7"
    [flat]="--arch cond_transformer_tiny" [tree]="--arch hier_cond_transformer_tiny --merge mean"
)
cells=$(echo {equal,random}-{all,chosen}-{0.1,0.7}-{flat,tree})
chosen=${LEARNING_ONLY:-$cells}
for cell in $chosen; do
    [[ " $cells " == *" $cell "* ]] || { echo "error: no cell '$cell'; there are: $cells" >&2; exit 2; }
done

discourse "$corpus" "$data"
for seed in ${LEARNING_SEEDS:-1 2 3}; do
    for cell in $chosen; do
        folder=$work/$seed/$cell
        IFS=- read -ra levels <<< "$cell"
        say "seed $seed, $cell"
        # shellcheck disable=SC2086  # the options are words
        python recipes/studies/discourse/until.py --nll 0.01 -- docnmt-train "$data" --config recipes/studies/discourse/common.yaml \
            --save-dir "$folder" --seed "$seed" --max-update 3000 --validate-interval-updates 100 \
            --context-sides encoder --ffn-dim 256 $(for level in "${levels[@]}"; do echo "${options[$level]}"; done)
    done
done
python recipes/studies/discourse/learning_time.py "$work" --most 3000 | tee "$work/report.md"
