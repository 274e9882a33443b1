#!/usr/bin/env bash
# How positions join embeddings, in translation: the operators of Hallam and Tseng in a document model, English to French, on
# manuals with sections and paragraphs (php_manual_enfr), positions on several levels or of the word alone, equal parameters.
#   DATA=~/corpora recipes/studies/fusion_translation/run.sh
# Learning rate and scale of the embeddings (times √d or not) are chosen for every operator by the dev part, under a seed that
# is not reported. Ten minutes a training on one core, four a choice; 42 and 56 of them. After an interruption the same command goes
# on. Everything is under runs/fusion-translation.
#   FUSION_WORK=DIR     another folder (relative to the clone, or absolute)
#   FUSION_SEEDS="1 2"  seeds that are reported (1 2 3)
#   FUSION_ONLY="A B"   only these (names as multi_level.add, sinusoidal.concat)
#   PRECISION=--no-bf16 on a processor without bfloat16 products
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../../.."
work=${FUSION_WORK:-runs/fusion-translation}
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment test # SciPy
data=$work/data-bin settings=recipes/studies/fusion_translation/config.yaml manual=$DATA/php_manual_enfr

# --ffn-dim gives all 2.25 million parameters; `project` is addition with a matrix behind it, as concatenation has
declare -A width=([add]=512 [concat]=448 [project]=480 [gate_scalar]=512 [gate_mlp]=416 [scale]=512 [gate_content]=512 [none]=512)
variants=$(echo {multi_level,sinusoidal}.{add,concat,project,gate_scalar,gate_mlp,scale} multi_level.{gate_content,none}) # the last two read no positions
chosen=${FUSION_ONLY:-$variants}
for variant in $chosen; do
    [[ " $variants " == *" $variant "* ]] || { echo "error: no variant '$variant'; there are: $variants" >&2; exit 2; }
done
[ -e "$data/meta.json" ] || docnmt-preprocess -s en -t fr --trainpref "$manual/train" --validpref "$manual/dev" \
    --testpref "$manual/test" --destdir "$data" --vocab-size 8000
for variant in $chosen; do
    fusion=${variant#*.}
    plugin=()
    [ "$fusion" != project ] || plugin=(--user-dir recipes/studies/fusion_translation/plugin)
    options=("${plugin[@]}" --position "${variant%.*}" --position-fusion "$fusion" --ffn-dim "${width[$fusion]}")
    for rate in 1e-3 3e-3; do
        for scale in scale no-scale; do
            folder=$work/choice/$variant/$rate.$scale
            learn "$data" "$settings" "$folder" "${options[@]}" --seed 100 --max-update 400 --lr $rate --$scale-embeddings
        done
    done
    best=$(python recipes/studies/fusion_translation/fusion_translation.py --best "$work/choice/$variant")
    for seed in ${FUSION_SEEDS:-1 2 3}; do
        folder=$work/$seed/$variant
        learn "$data" "$settings" "$folder" "${options[@]}" --seed "$seed" --lr "${best%.*}" --"${best#*.}"-embeddings
        translate "$data" test "$folder" test --beam 1 "${plugin[@]}"
    done
done
python recipes/studies/fusion_translation/fusion_translation.py "$work" | tee "$work/report.md"
