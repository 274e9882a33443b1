#!/usr/bin/env bash
# Does what a Scaleformer has learned at the length L hold in real documents of 2 L, 4 L and more, by a search that is free? Models
# of whole texts learn from single lines and pieces of 8 lines of dialogue (games, English to French) and translate DiaBLa's dialogues,
# 40 lines on average, in pieces of 8, 16 and 32 lines and whole. Linear attention with relative positions (the paper's) or sines, softmax
# attention with relative positions, sines or positions of several levels.
#   DATA=~/corpora recipes/studies/scaleformer/real.sh
#   WORK=DIR          another folder than runs/scaleformer-real
#   SYSTEMS="A B"     only these systems (names as below)
#   SEEDS="1 2"       of all trainings (1)
#   UPDATES=N         of each training (20000)
#   SIZE=             of the models: _small (the default), _tiny, or nothing for the base size
#   PRECISION=--no-bf16  on a processor without bfloat16 products
# For a card: nobody has run it to its end yet. One core makes some 2,000 updates an hour, which is too few: after 1,200 updates,
# with pieces of 8 lines alone, a model wrote the same few lines again and again. After an interruption the same command goes on.
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../../.."
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot

work=${WORK:-runs/scaleformer-real} size=${SIZE-_small}
text=$work/text data=$work/data-bin languages=(--languages en fr)
declare -A variants=(
    [linear-relative]="--arch scaleformer$size"
    [linear-sines]="--arch scaleformer$size --relative-horizon 0 --position sinusoidal"
    [softmax-relative]="--arch doc_transformer$size --position relative"
    [softmax-sines]="--arch doc_transformer$size --position sinusoidal"
    [softmax-levels]="--arch doc_transformer$size"
)
systems=${SYSTEMS:-linear-relative linear-sines softmax-relative softmax-sines softmax-levels}
for system in $systems; do
    [ -n "${variants[$system]:-}" ] || { echo "error: SYSTEMS: no system '$system'; there are: ${!variants[*]}" >&2; exit 2; }
done

if [ ! -e "$data/meta.json" ]; then
    mkdir -p "$text"
    python recipes/studies/dialogue/dialogues.py text "$DATA/games_enfr/train" "$text/train" "${languages[@]}"
    python recipes/studies/dialogue/dialogues.py text "$DATA/games_enfr/dev" "$text/dev" "${languages[@]}" --every 3
    python recipes/studies/dialogue/dialogues.py text "$DATA/diabla_enfr/test" "$text/diabla" "${languages[@]}"
    docnmt-preprocess -s en -t fr --trainpref "$text/train" --validpref "$text/dev" --destdir "$data" --vocab-size 8000 \
        --long-policy split
fi
for seed in ${SEEDS:-1}; do
    for system in $systems; do
        folder=$work/$seed/$system path=$work/$seed/$system/model/checkpoint_last.safetensors
        # shellcheck disable=SC2086  # the options are words
        learn "$data" recipes/studies/dialogue/config.yaml "$folder" --seed "$seed" --max-update "${UPDATES:-20000}" --lr 2e-3 \
            --warmup-updates 400 --resolutions 1 8 --max-doc-tokens 1500 ${variants[$system]}
        for lines in 8 16 32 whole; do
            out=$folder/$lines
            newer "$out.json" "$path" && continue
            say "$seed/$system: translate in pieces, of lines: $lines"
            if [ "$lines" = whole ]; then pieces=(); else pieces=(--context-window $((lines - 1))); fi
            docnmt-translate --path "$path" --input-format corpus --generator greedy --max-tokens 100000 --batch-size 144 \
                "${pieces[@]}" < "$text/diabla.en" > "$out.fr"
            docnmt-score --ref "$text/diabla.fr" --sys "$out.fr" --json > "$out.tmp"
            mv "$out.tmp" "$out.json"
        done
    done
done
python recipes/studies/scaleformer/pieces.py "$work" | tee "$work/report.md"
