#!/usr/bin/env bash
# What each mechanism of Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", is worth: one part
# changed at a time. Equations and sections below are this paper's.
#   recipes/studies/ablation/run.sh                      documents in which only an earlier sentence decides the translation
#   DATA=~/corpora recipes/studies/ablation/run.sh bible    real ones, with paragraphs and sections: 15 minutes of training each
# About 12 minutes a variant on one core (bible: 20). After an interruption the same command goes on. Everything is under
# runs/ablation (runs/ablation-bible).
#   ABLATION_WORK=DIR      another folder (relative to the clone, or absolute)
#   ABLATION_ONLY="A B"    only these variants (names as below)
#   ABLATION_SEED=N        seed of all trainings (1); another seed needs another folder
#   PRECISION=--no-bf16    (bible) on a processor without bfloat16 products
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
DATA=${DATA:+$(realpath -- "$DATA")}
cd "$(dirname "$0")/../../.."
text=${1:-discourse}
[ "$text" = discourse ] || [ "$text" = bible ] || { echo "error: no setting '$text'; there are: discourse bible" >&2; exit 2; }
work=${ABLATION_WORK:-runs/ablation}
[ -n "${ABLATION_WORK:-}" ] || [ "$text" = discourse ] || work=runs/ablation-$text
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot
corpus=$work/corpus data=$work/data-bin
checkpoint=last # all have the same number of updates, and none is chosen

# The base selects sentences by equation 7 (documents here are too short for blocks) and reads all of them in its first
# 40 % of updates. The options of a variant stand behind the base's and win. Parameters differ where a mechanism has its own; the table says how many there are.
all=1200 updates=3000 pieces=
until="--until 0.01" # nats; without context it stays at 0.09
[ "$text" = discourse ] || all=400 updates=1000 pieces="--max-doc-tokens 4000" until=
shared="--context-sides encoder --ffn-dim 256 --read-all-updates $all $pieces"
base="--arch hier_cond_transformer_tiny $shared"
whole="--arch doc_transformer_tiny --ffn-dim 545 $pieces"
declare -A variants=(
    [base]="$base"
    # what is read of the document: nothing, all of it, summaries alone (in the decoder, too)
    [no-context]="--arch transformer_tiny --ffn-dim 545"
    [whole-document]="$whole"
    [whole-document-small-levels]="$whole --level-scale 0.1" # as those with a context attention begin
    [summaries-only]="--arch hier_transformer_tiny --ffn-dim 143 $pieces"
    [summaries-heads]="--arch hier_transformer_tiny --ffn-dim 143 $pieces --context-placement heads"
    [not-all-first]="$base --read-all-updates 0"
    # positions: none (section 1.1.1), of the word alone (one level), counted from the document's start, all or the words';
    # several levels without a break token (1.2) against the token alone (1.3.1); learned tables
    [no-positions]="$base --position none"
    [no-context-no-positions]="--arch transformer_tiny --ffn-dim 545 --position none"
    [whole-document-no-positions]="$whole --position none"
    [word-positions]="$base --position sinusoidal"
    [break-token-word-positions]="$whole --position sinusoidal"
    [levels-no-break-token]="$whole --no-source-breaks"
    [document-count]="$base --position-count document"
    [mixed-count]="$base --position-count mixed"
    [learned]="$base --learned-levels --learned-words --max-positions 128"
    [level-scale-0.7]="$base --level-scale 0.7"
    # the tree
    [merge-mean]="$base --merge mean"
    [merge-source2token]="$base --merge source2token"
    [merge-plain]="$base --merge plain_source2token"
    [merge-multidim]="$base --merge multidim_source2token"
    [copies-once]="$base --merge mean --no-count-copies"
    [select-on-node]="$base --merge mean --select-on node"
    # sentences that a word and head reads
    [t-1]="$base --top-t 1"
    [t-2]="$base --top-t 2"
    [t-8]="$base --top-t 8"
    [own-sentence]="$base --always-own-sentence"
    # where the context attention stands
    [heads]="$base --context-placement heads"
    [replace]="$base --context-placement replace"
    [replace-all]="$base --context-placement replace --context-heads 4"
    [decoder]="$base --context-sides decoder"
    [both-sides]="$base --context-sides both"
    [summaries-of-embeddings]="$base --summary-input embeddings"
    [target-conditional]="$base --target-context conditional"
    # against the collapse of whole-document models: besides own-sentence, pieces of three sizes, masked words, half of the
    # updates spent on a sentence model that the other half starts from
    [resolutions]="$base --resolutions 1 4 0"
    [source-mask]="$base --source-mask 0.1"
    [fine-tuned]="$base --read-all-updates $((all / 2)) --max-update $((updates / 2)) --finetune-from-model $work/start/model"
)
# words and sentences, paragraphs, sections; the discourse corpus has words and sentences only
[ "$text" = discourse ] || variants+=([levels-2]="$base --levels 2" [levels-4]="$base --levels 4")
order="base no-context whole-document whole-document-small-levels summaries-only summaries-heads not-all-first no-positions
    no-context-no-positions whole-document-no-positions word-positions break-token-word-positions levels-no-break-token
    document-count mixed-count learned level-scale-0.7 merge-mean merge-source2token merge-plain merge-multidim copies-once
    select-on-node t-1 t-2 t-8 own-sentence heads replace replace-all decoder both-sides summaries-of-embeddings
    target-conditional resolutions source-mask fine-tuned"
# how positions join the embeddings; gate_conv reads the next position, which a decoder does not have
for fusion in concat gate_scalar gate_vector gate_mlp scale mul mlp; do
    variants+=([fusion-$fusion]="$base --position-fusion $fusion")
    order+=" fusion-$fusion"
done
[ "$text" = discourse ] || order+=" levels-2 levels-4"
chosen=${ABLATION_ONLY:-$order}
for variant in $chosen; do
    [ -n "${variants[$variant]:-}" ] || { echo "error: no variant '$variant'; there are:" $order >&2; exit 2; }
done

settings=recipes/studies/discourse/common.yaml
if [ "$text" = discourse ]; then
    discourse "$corpus" "$data"
else
    settings=recipes/studies/ablation/bible.yaml
    bible=${DATA:?give DATA=DIR, the folder of the corpora}/bible_ende
    [ -e "$data/meta.json" ] || docnmt-preprocess -s en -t de --trainpref "$bible/train" --validpref "$bible/dev" \
        --testpref "$bible/test" --destdir "$data" --vocab-size 8000
fi
for variant in $chosen; do
    [ "$variant" != fine-tuned ] || learn "$data" "$settings" "$work/start" --seed "${ABLATION_SEED:-1}" \
        --arch transformer_tiny --ffn-dim 256 --max-update $((updates / 2))
    # shellcheck disable=SC2086  # the options are words
    learn "$data" "$settings" "$work/$variant" --seed "${ABLATION_SEED:-1}" ${variants[$variant]}
    if [ "$text" = discourse ]; then # whoever picks a variant by these questions, or by the Bible's dev part, has not seen the test
        choose "$corpus/contrastive.valid.tsv" "$work/$variant" true-context
    else
        translate "$data" valid "$work/$variant" dev --beam 1
    fi
done
# shellcheck disable=SC2086
python recipes/studies/tools/results_table.py "$work" --systems $chosen $until | tee "$work/report.md"
