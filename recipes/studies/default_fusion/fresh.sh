#!/usr/bin/env bash
# The default's fusion with seeds and questions that did not choose it (README.md), after run.sh: about two hours on one core.
#   recipes/studies/default_fusion/fresh.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/environment.sh
environment plot
fresh=runs/default-fusion/fresh
[ -e $fresh/README.md ] || python recipes/quickstart/make.py --seed 2 --groups 24 --out $fresh
for sentences in 32 128 512; do
    longer=$fresh/contrastive.$sentences.tsv
    [ -e $longer ] && continue
    python recipes/quickstart/lengthen.py $fresh/contrastive.tsv --sentences $sentences --every 4 > $longer.part
    mv $longer.part $longer
done
docnmt-compare recipes/studies/default_fusion/fresh.yaml
docnmt-compare recipes/studies/default_fusion/fresh_seeds.yaml
