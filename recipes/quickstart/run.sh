#!/usr/bin/env bash
# From a fresh clone to tables, a plot and a translated document: does a model that reads the document use it?
#   recipes/quickstart/run.sh
# After an interruption the same command goes on. Everything is under runs/quickstart; delete it to start anew.
#   QUICKSTART_UPDATES=N   train both models so many updates instead of what sentence.yaml and document.yaml say
#   QUICKSTART_WORK=DIR    another folder (relative to the clone)
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${QUICKSTART_WORK:-runs/quickstart}
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot
SECONDS=0 # bash counts from here: the time of the work, without that of installing
corpus=$work/corpus data=$work/data-bin

discourse "$corpus" "$data"
for system in sentence document; do
    learn "$data" "recipes/quickstart/$system.yaml" "$work/$system" \
        ${QUICKSTART_UPDATES:+--max-update "$QUICKSTART_UPDATES"}
    translate "$data" test "$work/$system" test
    choose "$corpus/contrastive.tsv" "$work/$system" true-context
    choose "$corpus/contrastive.foreign.tsv" "$work/$system" foreign-context
done
python recipes/studies/tools/results_table.py "$work" --systems sentence document --plot "$work/accuracy.png" | tee "$work/report.md"
for system in sentence document; do
    docnmt-translate --path "$work/$system/model" < recipes/quickstart/street.txt > "$work/$system/street.de"
done
python - recipes/quickstart/street.txt "$work"/{sentence,document}/street.de <<'PYTHON' # the third column where it differs
import sys

texts = [open(path, encoding="utf-8").read().splitlines() for path in sys.argv[1:]]
print(f"\n{'street.txt':<41}{'sentence model':<40}document model, where it differs")
for line, sentence, document in zip(*texts, strict=True):
    print(f"{line:<41}{sentence:<40}{document if document != sentence else ''}".rstrip())
PYTHON
say "took $((SECONDS / 60)) min $((SECONDS % 60)) s"
