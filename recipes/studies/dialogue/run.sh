#!/usr/bin/env bash
# Dialogue: "you" is tu or vous, du or Sie, and who said so before decides. A sentence model is trained on games; from it, with
# as many further updates of the same schedule, sentence and document models. Asked of dialogues that nobody has seen: with
# nothing given; with the first third of each dialogue given; with another dialogue's first third in its place; and with the
# form of address told (--formality).
#   DATA=~/corpora recipes/studies/dialogue/run.sh
#   TARGET=fr|de     games_enfr and DiaBLa, or games_ende and every fourth dialogue of XDailyDialog (fr)
#   WORK=DIR         another folder than runs/dialogue-TARGET
#   UPDATES=N        of the sentence model (12000); FURTHER=N updates from it on (300)
#   SEEDS="1 2 3"    of the further updates; the scores over seeds are of these
#   SYSTEMS="…"      of sentence mixed shape concat concat4 hier source target both hier_cond levels steady choice forms; the first is
#                    the control (all)
#   SETS="…"         what is asked: games, diabla or xdailydialog, ctxpro (all)
#   SIZE=            of the models: _small (the default), _tiny, _big, or nothing for the base size
#   DIABLA=DIR       DiaBLa-corpus/dialogues of the corpus's repository: also score the lines that speakers wrote in English
#   PRECISION=--no-bf16  on a processor without bfloat16 products
# One core with bf16 takes some three hours for the sentence model, 5 for a further sentence model and 10 to 15 for a document model.
set -euo pipefail
DATA=$(realpath -- "${DATA:?give DATA=DIR, the folder of the corpora}")
cd "$(dirname "$0")/../../.."
. tools/environment.sh
. recipes/studies/tools/experiment.sh
environment plot

target=${TARGET:-fr}
case $target in
fr) games=games_enfr tests=(diabla="$DATA/diabla_enfr/test") every=1 ;;
de) games=games_ende tests=(xdailydialog="$DATA/xdailydialog_ende/train") every=4 ;; # nothing is trained on it
*) echo "error: TARGET=$target: expected fr or de" >&2 && exit 2 ;;
esac
size=${SIZE-_small}
work=${WORK:-runs/dialogue-$target} further=${FURTHER:-300} checkpoint=last
data=$work/data-bin text=$work/text languages=(--languages en "$target")
dialogues() { python recipes/studies/dialogue/dialogues.py "$@"; }
mkdir -p "$text" "$work/results"

if [ ! -e "$data/meta.json" ]; then
    say "text: dialogues without levels; a third of dev is for validation, another for choices"
    dialogues text "$DATA/$games/train" "$text/train" "${languages[@]}"
    dialogues text "$DATA/$games/dev" "$text/dev" "${languages[@]}" --every 3
    dialogues text "$DATA/$games/test" "$text/games" "${languages[@]}" --least 3 --most 250
    for test in "${tests[@]}"; do
        dialogues text "${test#*=}" "$text/${test%%=*}" "${languages[@]}" --every "$every"
    done
    for test in games "${tests[@]%%=*}"; do dialogues given "$text/$test" "${languages[@]}"; done
    say "preprocess, with the tags of --formality in the vocabulary"
    docnmt-preprocess -s en -t "$target" --trainpref "$text/train" --validpref "$text/dev" --destdir "$data" \
        --vocab-size 8000 --long-policy split --user-defined-symbols '<formal>' '<informal>'
fi
asked=$work/data-asked # lines whose form only their context tells
if [ ! -e "$asked/meta.json" ]; then
    say "text: ctxpro's questions of formality and auxiliaries"
    ctxpro=$DATA/ctxpro_devtest
    dialogues questions "$ctxpro/formality.en-$target.dev.jsonl" "$ctxpro/auxiliary.en-$target.dev.jsonl" \
        --train "$text/questions.jsonl" --held "$text/held.tsv"
    for kind in formality auxiliary; do
        dialogues questions "$ctxpro/$kind.en-$target.devtest.jsonl" --held "$text/$kind.tsv"
    done
    docnmt-preprocess -s en -t "$target" --srcdict "$data" --trainpref "$text/questions.jsonl" --destdir "$asked" \
        --long-policy split
fi

[ -e "$text/known.tsv" ] || # also where an earlier version began
    dialogues questions "$DATA/ctxpro_devtest/formality.en-$target.devtest.jsonl" --known --held "$text/known.tsv"

paragraphs=$work/text-paragraphs levels=$work/data-levels # each utterance is a paragraph
if [ ! -e "$levels/meta.json" ]; then
    say "text: dialogues with utterances as paragraphs"
    mkdir -p "$paragraphs"
    dialogues text "$DATA/$games/train" "$paragraphs/train" "${languages[@]}" --levels
    for test in games "${tests[@]%%=*}"; do dialogues paragraphs "$text/$test" "$paragraphs/$test" "${languages[@]}"; done
    docnmt-preprocess -s en -t "$target" --srcdict "$data" --trainpref "$paragraphs/train" --validpref "$text/dev" \
        --destdir "$levels" --long-policy split
fi

learn "$data" recipes/studies/dialogue/config.yaml "$work/start" --arch "transformer$size" --lr 2e-3 --warmup-updates 400 \
    --max-update "${UPDATES:-12000}" --validate-interval-updates 500
pieces=(--resolutions 16 --max-doc-tokens 1500)
options() { # SYSTEM: its options, one a line
    local rate=(--lr 1e-3)
    case $1 in
    sentence) set -- "transformer$size" ;;
    mixed) set -- "transformer$size" --mix-data "$asked=6" ;;
    shape) set -- "transformer$size" --unit-sentences 16 ;; # in batches of document pieces
    concat) set -- "concat_transformer$size" --source-context 1 --target-window 2 ;;
    concat4) set -- "concat_transformer$size" --source-context 3 --target-window 4 ;;
    hier) set -- "hier_transformer$size" --target-context summaries "${pieces[@]}" ;;
    source) set -- "cond_transformer$size" "${pieces[@]}" ;;
    target) set -- "cond_transformer$size" --context-sides decoder --target-context conditional "${pieces[@]}" ;;
    both | levels) set -- "cond_transformer$size" --target-context conditional "${pieces[@]}" ;; # levels: of other data
    hier_cond) set -- "hier_cond_transformer$size" --target-context conditional "${pieces[@]}" ;;
    steady)
        rate=(--lr 2.5e-3 --finetune-lr-scale 0.4) # 1e-3 for what the sentence model has
        set -- "cond_transformer$size" --target-context conditional --target-top-t 16 "${pieces[@]}" \
            --criterion form_choice ;;
    choice)
        rate=(--lr 2.5e-3 --finetune-lr-scale 0.4) # 1e-3 for what the sentence model has
        set -- "cond_transformer$size" --target-context conditional "${pieces[@]}" --mix-data "$asked=6" \
            --criterion form_choice ;;
    forms)
        rate=(--lr 2e-3)
        set -- "transformer$size" --formality-share 0.5 --mix-data "$asked=6" --criterion form_choice ;;
    *) echo "error: SYSTEMS: no system '$1'" >&2 && return 2 ;;
    esac
    printf '%s\n' --arch "$@" "${rate[@]}"
}
search() { # RUN SET OUT [OPTION …] < SOURCE: all dialogues side by side
    local out=$3 path=$work/$1/model/checkpoint_last.safetensors
    newer "$out" "$path" "$text/$2.en" && return 0
    say "$1: translate $2, ${out##*/}"
    docnmt-translate --path "$path" --input-format corpus --generator greedy --max-tokens 100000 --batch-size 144 \
        "${@:4}" > "$out.tmp"
    mv "$out.tmp" "$out"
}
translated() { # RUN SET: nothing given; the first third; a foreign first third; where the model takes it, a form
    local run=$1 set=$2 out=$work/results/$2/$1 from=$text way
    mkdir -p "$out"
    case $run in levels*) from=$paragraphs ;; esac
    search "$run" "$set" "$out/none.$target" < "$from/$set.en"
    case $run in
    concat* | both* | levels* | steady* | choice* | target* | hier*)
        search "$run" "$set" "$out/third.whole" --given "$from/$set.third.$target" < "$from/$set.en"
        search "$run" "$set" "$out/foreign.whole" --given "$from/$set.foreign.third.$target" < "$from/$set.foreign.en"
        dialogues rest "$out/foreign.whole" "$text/$set.foreign.third.$target" > "$out/foreign.$target" ;;
    forms*)
        for way in formal informal; do search "$run" "$set" "$out/$way.whole" --formality "$way" < "$text/$set.en"; done
        search "$run" "$set" "$out/third.whole" --given "$text/$set.third.$target" --formality given < "$text/$set.en"
        search "$run" "$set" "$out/foreign.whole" --given "$text/$set.foreign.third.$target" --formality given \
            < "$text/$set.foreign.en"
        dialogues rest "$out/foreign.whole" "$text/$set.foreign.third.$target" > "$out/foreign.$target"
        dialogues asked "$text/$set" "$out/formal.whole" "$out/informal.whole" "${languages[@]}" > "$out/asked.$target" ;;
    esac
    [ -e "$out/third.whole" ] || ln -sf "none.$target" "$out/third.whole" # what is given cannot be read
    dialogues rest "$out/third.whole" "$text/$set.third.$target" > "$out/third.$target"
}
scored() { # RUN SET CONTROL: each translation beside the control's, that of the first third also beside the foreign third's
    local out=$work/results/$2/$1 way part control foreign
    for way in none third foreign asked; do
        [ -e "$out/$way.$target" ] || continue
        case $way in third | foreign) part=$2.rest control=third ;; *) part=$2 control=none ;; esac
        foreign=()
        [ "$way" != third ] || [ ! -e "$out/foreign.$target" ] || foreign=(--foreign "$out/foreign.$target")
        docnmt-score --src "$text/$part.en" --ref "$text/$part.$target" --sys "$out/$way.$target" --address "$target" \
            --paired "$work/results/$2/$3/$control.$target" "${foreign[@]}" --json > "$out/$way.json"
    done
    if [ "$2" = diabla ] && [ -n "${DIABLA:-}" ]; then # the corpus's own protocol
        for part in "$text/diabla.en" "$text/diabla.$target" "$work/results/diabla/$3/none.$target" "$out/none.$target"; do
            dialogues written "$DIABLA" --translation "$part" > "${part%.*}.written.${part##*.}"
        done
        docnmt-score --src "$text/diabla.written.en" --ref "$text/diabla.written.$target" --sys "$out/none.written.$target" \
            --address "$target" --paired "$work/results/diabla/$3/none.written.$target" --json > "$out/written.json"
    fi
}
over_seeds() { # SET SYSTEM: the same over all seeds, with intervals over documents
    local out=$work/results/$1/$2.seeds way name part seed system control foreign
    mkdir -p "$out"
    for way in none third written; do
        case $way in none) name=none part=$1 ;; third) name=third part=$1.rest ;; written) name=none.written part=$1.written ;; esac
        system=() control=() foreign=()
        for seed in $seeds; do
            system+=("$work/results/$1/$2$seed/$name.$target")
            control+=("$work/results/$1/${systems[0]}$seed/$name.$target")
            [ "$way" != third ] || [ ! -e "$work/results/$1/$2$seed/foreign.$target" ] ||
                foreign+=("$work/results/$1/$2$seed/foreign.$target")
        done
        [ -e "${system[0]}" ] || continue
        docnmt-score --ref "$text/$part.$target" --sys "${system[@]}" --paired "${control[@]}" \
            ${foreign:+--foreign "${foreign[@]}"} --json > "$out/$way.json"
    done
}
ask() { # RUN NAME QUESTIONS [OPTION …]: how many of ctxpro's questions are answered
    local out=$work/results/ctxpro/$1/$2 path=$work/$1/model/checkpoint_last.safetensors
    newer "$out.json" "$path" "$text/$3.tsv" && return 0
    say "$1: ctxpro, $2"
    mkdir -p "${out%/*}"
    docnmt-score --generative "$text/$3.tsv" --path "$path" --generator greedy --max-tokens 100000 --batch-size 256 --json \
        "${@:4}" > "$out.tmp"
    mv "$out.tmp" "$out.json"
}
answered() { # RUN: all questions; those whose context has a translation, without and with it
    local kind
    for kind in formality auxiliary known; do ask "$1" "$kind" "$kind"; done
    case $1 in
    concat* | both* | levels* | steady* | choice* | target* | hier*) ask "$1" given known --given-context ;;
    forms*) ask "$1" given known --given-context --formality given ;;
    esac
}
systems=(${SYSTEMS:-sentence mixed shape concat concat4 hier source target both hier_cond levels steady choice forms})
seeds=${SEEDS:-1 2 3} sets=${SETS:-games ${tests[*]%%=*} ctxpro} dialogue_sets=${sets//ctxpro/}
for seed in $seeds; do
    for system in "${systems[@]}"; do
        readarray -t chosen < <(options "$system")
        from=$data
        [ "$system" != levels ] || from=$levels
        learn "$from" recipes/studies/dialogue/config.yaml "$work/$system$seed" "${chosen[@]}" --lr-scheduler cosine \
            --warmup-updates 30 --lr-period-updates $((further - 30)) --max-update "$further" --seed "$seed" \
            --finetune-from-model "$work/start/model/checkpoint_last.safetensors"
        for set in $dialogue_sets; do
            translated "$system$seed" "$set"
            scored "$system$seed" "$set" "${systems[0]}$seed"
        done
        [ "$sets" = "$dialogue_sets" ] || answered "$system$seed"
    done
done
for set in $dialogue_sets; do
    for system in "${systems[@]}"; do over_seeds "$set" "$system"; done
    dialogues table "$work/results/$set"/*[0-9]/*.json
done
