#!/bin/sh
# One data set of the fusion study from its corpus to tables and figures. Stopped, the same command goes on.
#   recipes/fusion_matters/run.sh novels33 ~/corpora/novels33 [jobs] [threads]
set -eu
study=${1:?data set: ag_news, imdb, novels33, scotus_oral or arxiv}
corpus=${2:?folder of the corpus}
jobs=${3:-1}
threads=${4:-1}
here=$(dirname "$0")
tools=$here/../../tools/fusion_matters
work=${WORK:-fusion}
length=$(sed -n 's/^  max-length: //p' "$here/$study.yaml")

[ -e "$work/tables/$study/test.jsonl" ] || python "$tools/make_data.py" "$study" "$corpus" "$work/tables/$study"
[ -e "$work/data/$study/meta.json" ] || docnmt-preprocess --task text_classification --destdir "$work/data/$study" \
    --train "$work/tables/$study/train.jsonl" --valid "$work/tables/$study/valid.jsonl" \
    --test "$work/tables/$study/test.jsonl"
[ -e "$work/runs/$study/svm.json" ] || python "$tools/baseline.py" "$work/tables/$study" --max-length "$length" \
    --output "$work/runs/$study/svm.json"
python "$tools/run.py" "$here/$study.yaml" --data "$work/data" --runs "$work/runs" --jobs "$jobs" --threads "$threads"
python "$tools/report.py" "$here/$study.yaml" --runs "$work/runs" --figures "$work/figures" > "$work/$study.md"
echo "$work/$study.md"
