# To be sourced by a recipe, from the root of the clone: sentence, concatenation and document models compared on one corpus.
#
# `compare` wants name=NAME, train=PREFIX, valid=PREFIX, tests=(NAME=PREFIX …), vocabulary=N and, where the corpus has one,
# contrastive=FILE.tsv. All systems get the same text, vocabulary, number of updates and (within 0.1 %) of parameters;
# the document model spends the first half of its updates as a sentence model, `start`. A control besides, with the fewer
# parameters of `start`, is `continued`: that model trained on for the other half, what warming up a second time does alone.
#   DATA=DIR         where the corpora are
#   SETTING=cpu|tiny|gpu  small models on 2 CPU cores (the default), tiny ones where that takes too long, base models on one
#                    GPU; all in bf16
#   UPDATES=N        updates of every system (6000; gpu: 40000)
#   SEED=N           of all trainings (1)
#   BEAM=N           of the search (5)
#   WORK=DIR         another folder than runs/NAME; each choice of the four above needs its own

: "${DATA:?give DATA=DIR, the folder of the corpora}"
. tools/environment.sh
. tools/experiment.sh

compare() {
    environment plot
    local work=${WORK:-runs/$name} data prefixes=() names=() test system asked beam=${BEAM:-5}
    local systems="sentence continued concat document"
    data=$work/data-bin
    for test in "${tests[@]}"; do names+=("${test%%=*}"); prefixes+=("${test#*=}"); done
    if [ ! -e "$data/meta.json" ]; then
        say "preprocess"
        docnmt-preprocess -s en -t de --trainpref "$train" --validpref "$valid" --testpref "${prefixes[@]}" \
            --destdir "$data" --vocab-size "$vocabulary" --workers 2
    fi
    local size=_small wide=2051 updates=${UPDATES:-6000} shared=(--max-tokens 4000 --lr 1e-3 --warmup-updates 1000)
    case ${SETTING:-cpu} in
        cpu) ;;
        tiny) size=_tiny wide=1043 shared=(--max-tokens 4000 --lr 2e-3 --warmup-updates 1000) ;;
        gpu) size="" wide=4035 updates=${UPDATES:-40000} shared=(--max-tokens 25000 --lr 7e-4 --warmup-updates 4000) ;;
        *) echo "error: SETTING=$SETTING: expected cpu, tiny or gpu" >&2; return 2 ;;
    esac
    shared+=(--seed "${SEED:-1}")
    asked="${SETTING:-cpu}, $updates updates, seed ${SEED:-1}, beam $beam"
    mkdir -p "$work"
    [ -e "$work/asked" ] || echo "$asked" > "$work/asked"
    [ "$(cat "$work/asked")" = "$asked" ] || { # a document model of another start, translations of another beam
        echo "error: $work was begun with: $(cat "$work/asked"); now asked: $asked; give another WORK" >&2
        return 2
    }
    local document=(--arch "hier_cond_transformer$size" --merge mean --max-doc-tokens 4000)
    local settings=recipes/compare.yaml half=$((updates / 2))
    learn "$data" "$settings" "$work/sentence" --arch "transformer$size" --ffn-dim "$wide" --max-update "$updates" "${shared[@]}"
    learn "$data" "$settings" "$work/concat" --arch "concat_transformer$size" --source-context 1 --target-window 2 \
        --ffn-dim "$wide" --max-update "$updates" "${shared[@]}"
    learn "$data" "$settings" "$work/start" --arch "transformer$size" --max-update "$half" "${shared[@]}"
    learn "$data" "$settings" "$work/document" "${document[@]}" --finetune-from-model "$work/start/model" \
        --resolutions 1 4 0 --max-update "$half" "${shared[@]}"
    learn "$data" "$settings" "$work/continued" --arch "transformer$size" --finetune-from-model "$work/start/model" \
        --max-update "$half" "${shared[@]}"
    for system in $systems; do
        for test in "${!names[@]}"; do
            translate "$data" "$(split "$test")" "$work/$system" "${names[$test]}" --beam "$beam"
        done
        if [ -n "${contrastive:-}" ]; then
            choose "$contrastive" "$work/$system" true-context
            choose "$contrastive" "$work/$system" foreign-context --context foreign
        fi
    done
    for window in 1 4 10; do # does it matter how much of the document is read? On the first test set
        translate "$data" "$(split 0)" "$work/document" "${names[0]}-window-$window" --beam "$beam" \
            --context-window "$window"
    done
    for test in "${!names[@]}"; do
        for system in concat document; do
            against "${prefixes[$test]}.de" "$work/$system/${names[$test]}" "$work/sentence/${names[$test]}" \
                "$work/$system/${names[$test]}/against-sentence.txt"
        done
    done
    report | tee "$work/report.md"
}

split() { [ "$1" = 0 ] && echo test || echo "test$1"; } # NUMBER: how docnmt-preprocess names the splits of --testpref

report() {
    local file
    # shellcheck disable=SC2086
    python tools/results_table.py "$work" --systems $systems start
    for file in "$work"/{concat,document}/*/against-sentence.txt; do
        printf '\n%s\n\n' "${file#"$work"/}"
        sed 's/^/    /' "$file"
    done
}
