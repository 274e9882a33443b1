#!/bin/sh
# One study of Hallam and Tseng, "Fusion Matters", from its corpus to tables and figures. After an interruption the same
# command goes on.
#   recipes/studies/fusion_matters/run.sh novels33 ~/corpora/novels33 [jobs] [threads]
set -eu
study=${1:?study: the name of a file here, as ag_news, imdb, novels33 or order_first}
corpus=${2:?folder of the corpus (- for order_*, which are generated)}
jobs=${3:-1}
threads=${4:-1}
here=$(dirname "$0")
file=$here/$study.yaml
work=${WORK:-fusion}
[ -e "$file" ] || { echo "run.sh: error: $file: no such study" >&2; exit 2; }
base=$(sed -n 's/^base: *//p' "$file")
value() { cat "$file" ${base:+"$here/$base"} | sed -n "s/^ *$1: *\([^ ]*\).*/\1/p" | head -n 1; }
data=$(value data)
cells=$(value cells)
cells=$work/runs/${cells:-$study}
tables=$work/tables/$data
folder=$work/data/$data

[ -e "$tables/test.jsonl" ] || case $data in
order_*) python "$here/order_tasks.py" "${data#order_}" "$tables" ;;
*_shuffled) python "$here/make_data.py" "${data%_shuffled}" "$corpus" "$tables" --shuffle-words ;;
*) python "$here/make_data.py" "$data" "$corpus" "$tables" ;;
esac
[ -e "$folder/meta.json" ] || docnmt-preprocess --task text_classification --destdir "$folder" \
    --train "$tables/train.jsonl" --valid "$tables/valid.jsonl" --test "$tables/test.jsonl"
[ -e "$cells/svm.json" ] || python "$here/baseline.py" "$tables" --max-length "$(value max-length)" \
    --output "$cells/svm.json"
python "$here/run.py" "$file" --data "$work/data" --runs "$work/runs" --jobs "$jobs" --threads "$threads"
[ -e "$cells/latency.json" ] || OMP_NUM_THREADS=$threads python "$here/latency.py" "$file" \
    --length "$(value max-length)" --repeats 20 --warmup 2 --output "$cells/latency.json"
python "$here/report.py" "$file" --runs "$work/runs" --figures "$work/figures" --latency "$cells/latency.json" \
    > "$work/$study.md.part"
mv "$work/$study.md.part" "$work/$study.md"
for run in "$cells"/*gate*/seed-0/run; do
    variant=$(basename "${run%/seed-0/run}")
    [ ! -e "$run/checkpoint_best.safetensors" ] || python "$here/gates.py" "$run" "$folder" \
        --figure "$work/figures/fusion-$study-$variant.png" > "$work/$study.$variant.md"
done
echo "$work/$study.md"
