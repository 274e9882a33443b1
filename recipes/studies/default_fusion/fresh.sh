#!/usr/bin/env bash
# The default's fusion with seeds and questions that did not choose it (README.md), after run.sh: about two hours on one core.
#   recipes/studies/default_fusion/fresh.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot
fresh=runs/default-fusion/fresh
[ -e $fresh/README.md ] || python recipes/quickstart/make.py --seed 2 --groups 24 --out $fresh
for sentences in 32 128 512; do
    lengthen $fresh/contrastive.tsv $fresh/contrastive.$sentences.tsv --sentences $sentences --every 4
done
docnmt-compare recipes/studies/default_fusion/fresh.yaml
docnmt-compare recipes/studies/default_fusion/fresh_seeds.yaml
