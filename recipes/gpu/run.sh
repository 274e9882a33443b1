#!/usr/bin/env bash
# What a card borrowed for some minutes should do, in order of worth: the tests that need one; the kernels beside dense flash
# attention; a training step as a share of the peak; then models of the base size on docmix, a sentence model, a document
# model that starts from it, and the sentence model trained on for as long; their scores.
#   DATA=~/corpora recipes/gpu/prepare.sh     before, without the card
#   recipes/gpu/run.sh MINUTES
# Every result is a small file in runs/gpu. What is there is not done again, so the same command goes on after an
# interruption or on the next card, a training where it was stopped. No step begins that the minutes left are too few for,
# and each is stopped in time for those behind it.
#   OUT=DIR      another folder (relative to the clone, or absolute)
#   UPDATES=2000 MORE=800   of the first model, and of each that starts from it
#   SETTING=toy  very small, on a CPU, to try the script
#   DOCNMT_ENV, DOCNMT_TORCH, PYTHON: see tools/environment.sh
set -euo pipefail
minutes=${1:?give MINUTES, how long the card is yours}
cd "$(dirname "$0")/../.."
. recipes/gpu/settings.sh
[ -e "$out/tests.names" ] || { echo "error: $out is not prepared: run recipes/gpu/prepare.sh first" >&2; exit 2; }
SECONDS=0 # bash counts from here
environment test
least=${LEAST:-15} # seconds: a step that has fewer does not begin
status=0

begins() { # FILE SHARE: sets `seconds`, this share in percent of what is left; fails where FILE is there or that is too little
    [ ! -e "$out/$1" ] || return 1
    seconds=$(((minutes * 60 - SECONDS) * $2 / 100))
    [ "$seconds" -ge "$least" ] || { say "$1: no time left"; status=75; return 1; }
    say "$1: at most $seconds s"
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
            --path "$work/$system/model/checkpoint_best.safetensors" --results-path "$work/$system/$name" --overwrite --quiet
        number=$((number + 1))
    done < "$out/tests.names"
}

result tests.txt 40 python -m pytest -q -m gpu "${tested[@]}"
# shellcheck disable=SC2086  # the sizes are words
result attention.md 40 python recipes/gpu/gpu.py --device $device "${measured[@]}" attention --words $words
for arch in $stepped; do
    result "step-$arch.md" 20 python recipes/gpu/gpu.py --device $device "${measured[@]}" step --updates $steps \
        "$data" --arch "$arch$size" "${shared[@]}"
done
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
scored=()
for system in $systems; do
    [ "$(find "$out" -name "$system.*.txt" | wc -l)" != "$(wc -l < "$out/tests.names")" ] || scored+=("$system")
done
if [ ${#scored[@]} -gt 0 ]; then
    python tools/results_table.py "$work" --systems "${scored[@]}" > "$out/scores.md"
fi
if compgen -G "$out/*.md" > /dev/null; then cat "$out"/*.md; fi
exit $status # 75: the same command has more to do
