#!/usr/bin/env bash
# What a card borrowed for some minutes should do, in order of worth. Parts, all of them where none is named:
#   a  the tests that need a card, four minutes at most: the kernels first, then CUDA graphs, then pytest -m gpu
#   b  tables: a training step with and without the kernels, and as CUDA graphs, beside Hugging Face's Marian compiled;
#      each kernel beside what computes the same without it; beam search as CUDA graphs and without them, beside Marian's;
#      attention beside dense flash attention
#   c  dialogue, en-fr: base models of sentences and of documents (recipes/studies/dialogue), with their scores
#   d  docmix, en-de: a sentence model, a document model that starts from it, and the sentence model trained on for as
#      long; their scores, and ContraPro
#   e  cells of the fusion study in four layers of width 256 (recipes/studies/fusion_matters/*_notebook.yaml)
#   DATA=~/corpora recipes/studies/gpu/prepare.sh     before, without the card
#   recipes/studies/gpu/run.sh MINUTES [PART …]
# Every result is a small file in runs/gpu. What is there is not done again, so the same command goes on after an
# interruption or on the next card, a training where it was stopped. No step begins that the minutes left are too few for,
# and each is stopped in time for those behind it.
#   OUT=DIR      another folder (relative to the clone, or absolute)
#   DATA=DIR     the corpora, for c, for e and for ContraPro; these are left out, visibly, where it is not given
#   UPDATES=2000 MORE=800   of the first model of d, and of each that starts from it; twice as many for c
#   SETTING=toy  very small, on a CPU, to try the script
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
minutes=${1:?give MINUTES, how long the card is yours}
shift
parts=${*:-a b c d e}
cd "$(dirname "$0")/../../.."
. recipes/studies/gpu/settings.sh
for part in $parts; do
    case $part in a | b | c | d | e) ;; *) echo "error: PART $part: expected a, b, c, d or e" >&2; exit 2 ;; esac
done
[ -e "$out/tests.names" ] || { echo "error: $out is not prepared: run recipes/studies/gpu/prepare.sh first" >&2; exit 2; }
SECONDS=0 # bash counts from here
environment test
least=${LEAST:-15} # seconds: a step that has fewer does not begin
status=0

begins() { # FILE SHARE: sets `seconds`, this share in percent of what is left, or "SHARE:MOST"; fails where FILE is there
    # or that is too little
    local share=${2%%:*} most=${2##*:}
    [ ! -e "$out/$1" ] || return 1
    seconds=$(((minutes * 60 - SECONDS) * share / 100))
    if [ "$most" != "$2" ] && [ "$seconds" -gt "$most" ]; then seconds=$most; fi
    [ "$seconds" -ge "$least" ] || { say "$1: no time left"; status=75; return 1; }
    say "$1: at most $seconds s"
}

has() { # PART: is it wanted?
    case " $parts " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

needs_data() { # NAME: are there corpora?
    [ -z "${DATA:-}" ] || return 0
    say "$1: left out, DATA=DIR is not given"
    return 1
}

ended() { # FILE STATUS: says what became of it
    case $2 in
        124 | 143) say "$1: stopped, its time was over"; status=75 ;;
        *) say "$1: failed, see $out/$1.log"; status=1 ;;
    esac
}

result() { # FILE SHARE COMMAND …: what the command prints becomes FILE
    local file=$1 seconds found=0
    begins "$file" "$2" || return 0
    shift 2
    timeout --kill-after=60 "$seconds" "$@" > "$out/$file.tmp" 2> "$out/$file.log" || found=$?
    if [ $found = 0 ]; then
        mv "$out/$file.tmp" "$out/$file"
        rm "$out/$file.log"
    else
        cat "$out/$file.tmp" >> "$out/$file.log"
        rm "$out/$file.tmp"
        ended "$file" $found
    fi
}

train() { # SYSTEM SHARE UPDATES RATE OPTION …: its log becomes SYSTEM.jsonl when all updates are made
    local system=$1 limit=$3 rate=$4 warmup=$(($3 / 6)) seconds found=0
    begins "$system.jsonl" "$2" || return 0
    shift 4
    mkdir -p "$work/$system"
    timeout --kill-after=60 "$seconds" docnmt-train "$data" --save-dir "$work/$system/model" --device $device \
        "${shared[@]}" --max-update "$limit" --lr "$rate" --lr-scheduler cosine --warmup-updates "$warmup" \
        --lr-period-updates $((limit - warmup)) "$@" > "$out/$system.jsonl.log" 2>&1 || found=$?
    if [ $found = 0 ]; then
        cp "$work/$system/model/train.jsonl" "$out/$system.jsonl"
        rm "$out/$system.jsonl.log"
    else
        ended "$system.jsonl" $found
    fi
}

translate_all() { # SYSTEM SHARE: every test set, one after the other; the scores become SYSTEM.NAME.txt
    local system=$1 share=$2 name number=0
    while read -r name; do
        result "$system.$name.txt" "$share" docnmt-generate "$data" --gen-subset "test${number/#0/}" --device $device \
            --path "$work/$system/model/checkpoint_best.safetensors" --results-path "$work/$system/$name" --overwrite --quiet --metrics TER
        number=$((number + 1))
    done < "$out/tests.names"
}

docmix() { # part d
    train start 70 "$updates" 1e-3 --arch "transformer$size"
    if [ -e "$out/start.jsonl" ]; then
        train document 45 "$more" 4e-4 --arch "hier_cond_transformer$size" --finetune-from-model "$work/start/model"
        if [[ $systems = *sentence* ]]; then
            train sentence 60 "$more" 4e-4 --arch "transformer$size" --finetune-from-model "$work/start/model"
        fi
    fi
    for system in $systems; do
        [ ! -e "$out/$system.jsonl" ] || translate_all "$system" 40
    done
    if [ -n "${DATA:-}" ]; then
        for system in $systems; do
            [ ! -e "$out/$system.jsonl" ] || result "$system.contrapro.json" 40 docnmt-score --json --device $device \
                --contrastive "$DATA/contrapro_ende/contrapro_half.tsv" \
                --path "$work/$system/model/checkpoint_best.safetensors"
        done
    fi
    local scored=() system
    for system in $systems; do
        [ "$(find "$out" -name "$system.*.txt" | wc -l)" != "$(wc -l < "$out/tests.names")" ] || scored+=("$system")
    done
    if [ ${#scored[@]} -gt 0 ]; then
        python recipes/studies/tools/results_table.py "$work" --systems "${scored[@]}" > "$out/scores.md"
    fi
}

if has a; then
    export DOCNMT_KERNELS=on
    result kernels.txt 40:60 python -m pytest -q "${at_once[@]}" "${kernel_tests[@]}"
    result graphs.txt 40:60 python -m pytest -q -m gpu tests/integration/test_gpu.py -k graphs
    result tests.txt 40:120 python -m pytest -q "${at_once[@]}" -m gpu "${tested[@]}" -k "not graphs"
fi
if has b; then
    export DOCNMT_KERNELS=on
    # shellcheck disable=SC2086  # the sizes are words
    {
        for arch in $stepped; do
            ways=(--graphs --no-kernels)
            [ "$arch" != transformer ] || ways+=("")
            for way in "${ways[@]}"; do
                result "step-$arch${way// /}.md" 20:45 python recipes/studies/gpu/gpu.py --device $device "${measured[@]}" step \
                    --updates $steps $way "$data" --arch "$arch$size" "${shared[@]}"
            done
        done
        result marian.md 25:120 python recipes/studies/gpu/marian.py "$data" --device $device --updates $steps "${measured[@]}" \
            "${marian[@]}"
        result kernels.md 25:90 python recipes/studies/gpu/kernels.py --device $device "${measured[@]}" "${kernels[@]}"
        for way in on off; do # with kernels, without
            result "decoding-$way.md" 25:60 env DOCNMT_KERNELS=$way python recipes/studies/gpu/decode.py \
                --device $device "${decoded[@]}" "$data" --arch "transformer$size"
        done
        result attention.md 25:60 python recipes/studies/gpu/gpu.py --device $device "${measured[@]}" attention --words $words
    }
fi
unset DOCNMT_KERNELS
if has c && needs_data dialogue; then
    result dialogue.md "$dialogue_share" env WORK="$work/dialogue" SIZE="$size" SEEDS=1 SYSTEMS="sentence both" \
        UPDATES=$((2 * updates)) FURTHER=$((2 * more)) LEARN="${dialogue[*]}" recipes/studies/dialogue/run.sh
fi
if has d; then
    docmix
fi
if has e && needs_data fusion; then
    for study in $studies; do
        result "$study.md" 45 env WORK="$work/fusion" recipes/studies/fusion_matters/run.sh "$study" "$DATA/${study%_notebook}" 4
    done
fi
if compgen -G "$out/*.md" > /dev/null; then cat "$out"/*.md; fi
exit $status # 75: the same command has more to do
