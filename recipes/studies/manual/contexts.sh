#!/usr/bin/env bash
# What other kinds of context are worth on a corpus of recipes/studies/manual: from the sentence model of recipes/studies/manual/run.sh, each
# with equal further updates of the same rate, whole models trained. The sentence control goes on in the same way.
#   DATA=~/corpora recipes/studies/manual/contexts.sh
#   CORPUS=NAME     manual, handbooks, help or game
#   WORK=DIR        where recipes/studies/manual/run.sh worked (runs/NAME)
#   UPDATES=N       further updates (400)
#   ONLY="A B"      these systems; with sentence among them, the others are compared with it
#   SEEDS="1 2 3"   seeds of the further updates (1)
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../../.."
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot

. recipes/studies/manual/corpus.sh
updates=${UPDATES:-400} beam=${BEAM:-4}
start=$work/sentence/model out=$work/contexts
checkpoint=last # all have the same number of updates, and none is chosen
both="--context-sides both" pieces="--max-doc-tokens 3000"
declare -A systems=(
    [sentence]="--arch transformer_small"
    [sentence-documents]="--arch transformer_small --unit-sentences 0 $pieces" # batches of whole documents, read one by one
    [concat]="--arch concat_transformer_small --source-context 1 --target-window 2"
    [doc]="--arch doc_transformer_small $pieces --resolutions 1 4 0"
    [hier]="--arch hier_transformer_small $pieces $both"
    [cond]="--arch cond_transformer_small $pieces $both"
    [cond-source]="--arch cond_transformer_small $pieces --context-sides encoder"
    [cond-target]="--arch cond_transformer_small $pieces --context-sides decoder --target-context conditional"
    [tree]="--arch hier_cond_transformer_small $pieces $both --merge mean"
)
order="sentence sentence-documents cond cond-target tree hier concat doc cond-source"
chosen=${ONLY:-$order} seeds=${SEEDS:-1}
for system in $chosen; do : "${systems[$system]:?no system $system; there are $order}"; done
for seed in $seeds; do
    for system in $chosen; do
        read -ra options <<< "${systems[$system]}"
        learn "$data" recipes/studies/manual/config.yaml "$out/$system-$seed" "${options[@]}" --max-tokens 3000 --lr 5e-4 \
            --lr-scheduler cosine --warmup-updates 50 --lr-period-updates $((updates - 50)) \
            --max-update "$updates" --seed "$seed" --finetune-from-model "$start"
        translate "$data" test "$out/$system-$seed" test --beam "$beam"
    done
done
files=()
for seed in $seeds; do
    for system in $chosen; do files+=("$out/$system-$seed/test/hypotheses.txt"); done
done
python recipes/studies/manual/unseen.py "$data" --reference "$test.$target" --out "$out/new" --files "${files[@]}"
[[ " $chosen " == *" sentence "* ]] || exit 0
for seed in $seeds; do
    for system in $chosen; do
        [ "$system" = sentence ] && continue
        say "$system, seed $seed, against the sentence model: documents that are new"
        docnmt-score --ref "$out/new/documents/reference.txt" --sys "$out/new/documents/$system-$seed-test.txt" \
            --paired "$out/new/documents/sentence-$seed-test.txt"
    done
done
