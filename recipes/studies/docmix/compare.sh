# To be sourced by a recipe, from the root of the clone: sentence, concatenation and document models compared on one corpus.
#
# `compare` needs name=NAME, train=PREFIX, valid=PREFIX, tests=(NAME=PREFIX …), vocabulary=N and, where the corpus has one,
# contrastive=FILE.tsv. `sentence`, `concat` and `document` get the same text, vocabulary, number of updates and (within
# 0.1 %) of parameters. Each is a sentence model for the first two thirds of its updates and itself from then on: `document`
# begins as `start`, `sentence` and `concat` as `start-wide`, whose feed-forward blocks are wider by the parameters that
# the document model's own parts have. The learning rate falls to nothing by the end of each training.
#   DATA=DIR         where the corpora are; the recipe makes it absolute
#   SETTING=cpu|tiny|gpu  small models on 2 CPU cores (the default), tiny ones where that takes too long, base models on one
#                    GPU; all in bf16
#   UPDATES=N        updates of every system (6000; gpu: 40000)
#   SEED=N           of all trainings (1)
#   BEAM=N           of the search (5)
#   WORK=DIR         another folder than runs/NAME; each choice of the four above needs its own

. tools/environment.sh
. recipes/studies/tools/experiment.sh

compare() {
    environment plot
    local work=${WORK:-runs/$name} data prefixes=() names=() test system asked beam=${BEAM:-5}
    local systems="sentence concat document"
    data=$work/data-bin
    for test in "${tests[@]}"; do names+=("${test%%=*}"); prefixes+=("${test#*=}"); done
    local size=_small wide=2051 updates=${UPDATES:-6000} shared=(--max-tokens 4000 --lr 1e-3) warmup=400
    case ${SETTING:-cpu} in
        cpu) ;;
        tiny) size=_tiny wide=1043 shared=(--max-tokens 4000 --lr 2e-3) ;;
        gpu) size="" wide=4035 updates=${UPDATES:-40000} shared=(--max-tokens 25000 --lr 7e-4) warmup=4000 ;;
        *) echo "error: SETTING=$SETTING: expected cpu, tiny or gpu" >&2; return 2 ;;
    esac
    [ $((updates - updates * 2 / 3)) -gt $warmup ] || { # the last third has a warm-up of its own
        echo "error: UPDATES=$updates: expected more than $((3 * warmup)), three times the warm-up" >&2
        return 2
    }
    shared+=(--seed "${SEED:-1}")
    asked="${SETTING:-cpu}, $updates updates, seed ${SEED:-1}, beam $beam"
    compgen -G "$train[._]*" > /dev/null || { echo "error: no training text $train.en; see the head of the recipe" >&2; return 2; }
    mkdir -p "$work"
    [ -e "$work/asked" ] || echo "$asked" > "$work/asked"
    [ "$(cat "$work/asked")" = "$asked" ] || { # a document model of another start, translations of another beam
        echo "error: $work was begun with: $(cat "$work/asked"); now asked: $asked; give another WORK" >&2
        return 2
    }
    if [ ! -e "$data/meta.json" ]; then
        say "preprocess"
        docnmt-preprocess -s en -t de --trainpref "$train" --validpref "$valid" --testpref "${prefixes[@]}" \
            --destdir "$data" --vocab-size "$vocabulary" --workers 2
    fi
    if [ ! -e "$work/data-foreign/meta.json" ]; then
        python recipes/studies/tools/foreign_documents.py "${prefixes[0]}" "$work/foreign" --languages en de
        docnmt-preprocess -s en -t de --srcdict "$data" --destdir "$work/data-foreign" --testpref "$work/foreign"
    fi
    local first=$((updates * 2 / 3)) second transformer=(--arch "transformer$size") wider=(--ffn-dim "$wide")
    local from=(--finetune-from-model "$work/start/model") from_wide=(--finetune-from-model "$work/start-wide/model")
    second=$((updates - first))
    train start "$first" "${transformer[@]}"
    train start-wide "$first" "${transformer[@]}" "${wider[@]}"
    train document "$second" --arch "hier_cond_transformer$size" --max-doc-tokens 4000 --resolutions 1 4 0 \
        "${from[@]}"
    train concat "$second" --arch "concat_transformer$size" --source-context 1 --target-window 2 --window-stride 1 "${wider[@]}" \
        "${from_wide[@]}"
    train sentence "$second" "${transformer[@]}" "${wider[@]}" "${from_wide[@]}"
    for system in $systems; do
        for test in "${!names[@]}"; do
            translate "$data" "$(split "$test")" "$work/$system" "${names[$test]}" --beam "$beam"
        done
        if [ -n "${contrastive:-}" ]; then
            choose "$contrastive" "$work/$system" true-context
            choose "$contrastive" "$work/$system" foreign-context --context foreign
        fi
    done
    for system in $systems; do # does it matter that sentences stand in their own documents? On the first test set
        test=$work/$system/${names[0]}-foreign
        translate "$work/data-foreign" test "$work/$system" "${test##*/}" --beam "$beam"
        mkdir -p "$work/$system/restored"
        newer "$work/$system/restored/hypotheses.txt" "$test/hypotheses.txt" || python recipes/studies/tools/foreign_documents.py \
            "${prefixes[0]}" "$work/$system/restored/hypotheses.txt" --languages de --restore "$test/hypotheses.txt"
        against "$(side "${prefixes[0]}" de)" "$work/$system/${names[0]}" "$work/$system/restored" \
            "$work/$system/${names[0]}/against-foreign.json"
    done
    for window in 1 4 10; do # does it matter how much of the document is read? On the first test set
        for system in concat document; do
            translate "$data" "$(split 0)" "$work/$system" "${names[0]}-window-$window" --beam "$beam" \
                --context-window "$window"
        done
    done
    for test in "${!names[@]}"; do
        for system in concat document; do
            against "$(side "${prefixes[$test]}" de)" "$work/$system/${names[$test]}" "$work/sentence/${names[$test]}" \
                "$work/$system/${names[$test]}/against-sentence.json"
        done
    done
    # shellcheck disable=SC2086
    python recipes/studies/tools/results_table.py "$work" --systems $systems start start-wide | tee "$work/report.md"
}

train() { # SYSTEM UPDATES OPTION …: with the settings of `compare`; the learning rate ends at zero
    local system=$1 limit=$2
    shift 2
    learn "$data" recipes/studies/docmix/compare.yaml "$work/$system" "$@" "${shared[@]}" --max-update "$limit" \
        --warmup-updates "$warmup" --lr-period-updates $((limit - warmup))
}

side() { [ -e "$1_$2.txt" ] && echo "$1_$2.txt" || echo "$1.$2"; } # PREFIX LANGUAGE: the file, by both names of data.md

part() { # FOLDER SPLIT: the prefix of a split, called as in the field's own files where they are there
    local field=$1/concatenated_en2de_$2
    [ -e "${field}_en.txt" ] && echo "$field" || echo "$1/$2"
}

split() { [ "$1" = 0 ] && echo test || echo "test$1"; } # NUMBER: how docnmt-preprocess names the splits of --testpref
