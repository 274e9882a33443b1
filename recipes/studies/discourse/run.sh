#!/usr/bin/env bash
# Every architecture on documents in which only an earlier sentence decides the translation: which finds it, how far back?
#   recipes/studies/discourse/run.sh
# Three and a half hours on one core. Systems can be named, and run side by side. After an interruption the same command
# goes on. Everything is under runs/discourse.
#   DISCOURSE_WORK=DIR       another folder (relative to the clone, or absolute)
#   DISCOURSE_SYSTEMS="A B"  only these systems (names as below)
#   DISCOURSE_SETTING=gpu    models of the base size in bf16 on one GPU (58.8 million parameters each), instead of tiny ones;
#                            nobody has run it to its end yet
#   DISCOURSE_SEED=N         seed of all trainings (1)
#   DISCOURSE_UPDATES=N      of each training (3000); another number needs another folder
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=${DISCOURSE_WORK:-runs/discourse}
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot
corpus=$work/corpus data=$work/data-bin
checkpoint=last # all have the same number of updates, and none is chosen

setting=${DISCOURSE_SETTING:-cpu}
case $setting in
    cpu) size=_tiny cond=256 hier=143 linear=539 plain=545 group=256 top=1 han_encoder=308 han=149 shared=() ;;
    gpu) size="" cond=2048 hier=1727 linear=3198 plain=3201 group=2432 top=2 han_encoder=2758 han=2378 shared=(--bf16 --lr 3e-4) ;; # the smaller learning rate of wide models
    *) echo "error: DISCOURSE_SETTING=$setting: expected cpu or gpu" >&2; exit 2 ;;
esac
# System, options. All have equally many parameters, within 0.1 %, but `default`, which is the architecture without any
# option but those of common.yaml. Those with --read-all-updates read all sentences in the first 1,200 updates.
# --max-tokens counts the source of 2-to-1 twice: with twice as many it sees as many target sentences an update.
declare -A options=(
    [sentence]="--arch transformer$size --ffn-dim $plain"
    [2-to-1]="--arch concat_transformer$size --source-context 1 --target-window 1 --ffn-dim $plain --max-tokens 2000"
    [4-to-4]="--arch concat_transformer$size --source-context 3 --target-window 4 --ffn-dim $plain"
    [doc]="--arch doc_transformer$size --ffn-dim $plain"
    [doc-sinusoidal]="--arch doc_transformer$size --position sinusoidal --ffn-dim $plain"
    [scaleformer]="--arch scaleformer$size --relative-horizon 16 --position multi_level --ffn-dim $linear"
    [scaleformer-relative]="--arch scaleformer$size --relative-horizon 16 --ffn-dim $linear"
    [hier]="--arch hier_transformer$size --ffn-dim $hier"
    [cond]="--arch cond_transformer$size --context-sides encoder --ffn-dim $cond --read-all-updates 1200"
    [hier_cond]="--arch hier_cond_transformer$size --context-sides encoder --ffn-dim $cond --read-all-updates 1200"
    [tree]="--arch hier_cond_transformer$size --context-sides encoder --merge mean --ffn-dim $cond --read-all-updates 1200"
    [default]="--arch hier_cond_transformer$size"
    # published models as plug-ins; the upper one of two layers is global, as the upper two of six are in the paper
    [g_transformer]="--user-dir examples/baselines --arch g_transformer$size --global-layers $top --ffn-dim $group"
    [han_encoder]="--user-dir examples/baselines --arch han_encoder$size --ffn-dim $han_encoder"
    [han]="--user-dir examples/baselines --arch han$size --ffn-dim $han"
)
every="sentence 2-to-1 4-to-4 doc doc-sinusoidal g_transformer scaleformer scaleformer-relative han_encoder han hier cond hier_cond tree default"
systems=${DISCOURSE_SYSTEMS:-$every}
for system in $systems; do
    [ -n "${options[$system]:-}" ] || { echo "error: no system '$system'; there are: ${!options[*]}" >&2; exit 2; }
done

discourse "$corpus" "$data"
lengths="32 128 512" # the same questions in longer documents
for sentences in $lengths 2048 8192; do
    kept=4 # one block of questions of so many
    [ $sentences -le 512 ] || kept=24
    lengthen "$corpus/contrastive.tsv" "$corpus/contrastive.$sentences.tsv" --sentences $sentences --every $kept
done
joined() { # TIMES FILE: as many documents at a time become one
    awk -v times="$1" 'BEGIN { RS = "" } NR > 1 && NR % times == 1 { print "" } { print }' "$2"
}
joined_data=$work/data-joined # the test text in documents longer than those of training
if [ ! -e "$joined_data/meta.json" ]; then
    for times in 2 4; do
        for language in en de; do joined $times "$corpus/test.$language" > "$corpus/test-$times-times.$language"; done
    done
    docnmt-preprocess -s en -t de --srcdict "$data" --destdir "$joined_data" --testpref "$corpus"/test-{2,4}-times
fi
for system in $systems; do
    plugin=()
    [[ ${options[$system]} =~ (--user-dir)\ ([^ ]+) ]] && plugin=("${BASH_REMATCH[@]:1}")
    # shellcheck disable=SC2086  # the options are words
    learn "$data" recipes/studies/discourse/common.yaml "$work/$system" --seed "${DISCOURSE_SEED:-1}" \
        --max-update "${DISCOURSE_UPDATES:-3000}" "${shared[@]}" ${options[$system]}
    translate "$data" test "$work/$system" test "${plugin[@]}"
    translate "$joined_data" test "$work/$system" test-2-times "${plugin[@]}"
    translate "$joined_data" test1 "$work/$system" test-4-times "${plugin[@]}"
    choose "$corpus/contrastive.tsv" "$work/$system" true-context "${plugin[@]}"
    choose "$corpus/contrastive.tsv" "$work/$system" shuffled-context --context shuffled "${plugin[@]}"
    choose "$corpus/contrastive.foreign.tsv" "$work/$system" foreign-context "${plugin[@]}"
    long=
    case $system in cond | hier_cond | tree) long=2048 ;; default) long="2048 8192" ;; esac # others need minutes a question
    for sentences in $lengths $long; do
        choose "$corpus/contrastive.$sentences.tsv" "$work/$system" "$sentences-sentences" "${plugin[@]}"
    done
done
# shellcheck disable=SC2086
python recipes/studies/tools/results_table.py "$work" --systems $systems --plot "$work/accuracy.png" | tee "$work/report.md"
