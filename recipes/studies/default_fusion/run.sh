#!/usr/bin/env bash
# Which fusion of positions is the best default: `add`, `concat` or `concat_addition`? About four hours on one core; goes on after an
# interruption. Everything is under runs/default-fusion.
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=runs/default-fusion corpus=runs/default-fusion/corpus
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot
discourse $corpus $work/data-bin
for sentences in 32 128 512; do
    lengthen $corpus/contrastive.tsv $corpus/contrastive.$sentences.tsv --sentences $sentences --every 4
done
for sentences in 32 128; do
    for name in same-name other-name; do
        lengthen $corpus/contrastive.tsv $corpus/contrastive.$sentences.$name.tsv --sentences $sentences --every 4 --$name
    done
done
docnmt-compare recipes/studies/default_fusion/compare.yaml
