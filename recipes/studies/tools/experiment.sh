# To be sourced by a recipe, from the root of the clone. A step is left out if its result is newer than what it is made of, so
# a recipe that was interrupted goes on. `checkpoint` says which checkpoint is judged: the best by validation loss, or `last`.
# PRECISION=--no-bf16 trains in float32 what a recipe trains in bfloat16: faster on a CPU without such products.
# LEARN="OPTION …" are further options of every training.

checkpoint=best

say() { echo "== $*" >&2; }

newer() { # FILE OTHER …: is the file newer than all the others?
    local file=$1 other
    shift
    for other; do [ "$file" -nt "$other" ] || return 1; done
}

discourse() { # CORPUS DATA: the corpus in which context decides, and its data folder
    if [ ! -e "$1/README.md" ]; then
        say "corpus: documents in which the right translation needs an earlier sentence"
        python recipes/quickstart/make.py --out "$1" --groups 24 >&2
    fi
    if [ ! -e "$2/meta.json" ]; then
        say "preprocess: checks, vocabulary, arrays"
        docnmt-preprocess -s en -t de --trainpref "$1/train" --validpref "$1/valid" --testpref "$1/test" \
            --destdir "$2" --subword-model bpe --vocab-size 1000
    fi
}

lengthen() { # QUESTIONS RESULT OPTION …: questions in longer documents
    [ -e "$2" ] && return 0
    python recipes/quickstart/lengthen.py "$1" "${@:3}" > "$2.part"
    mv "$2.part" "$2"
}

learn() { # DATA CONFIG FOLDER [OPTION …]: train until the configuration's limit; the checkpoints are in FOLDER/model
    local data=$1 config=$2 folder=$3
    shift 3
    say "${folder##*/}: train"
    docnmt-train "$data" --config "$config" --save-dir "$folder/model" "$@" ${PRECISION:-} ${LEARN:-}
}

translate() { # DATA SPLIT FOLDER NAME [OPTION …]: translate and score a split; FOLDER/NAME/scores.json
    local data=$1 split=$2 folder=$3 name=$4 path=$3/model/checkpoint_$checkpoint.safetensors
    shift 4
    newer "$folder/$name/scores.json" "$path" "$data/meta.json" && return 0
    say "${folder##*/}: translate and score $name"
    docnmt-generate "$data" --gen-subset "$split" --path "$path" --results-path "$folder/$name" --overwrite --quiet --metrics TER "$@" >&2
}

choose() { # FILE FOLDER NAME [OPTION …]: choose between right and wrong translations; FOLDER/NAME.json
    local file=$1 folder=$2 name=$3 path=$2/model/checkpoint_$checkpoint.safetensors
    shift 3
    newer "$folder/$name.json" "$path" "$file" && return 0
    say "${folder##*/}: choose between right and wrong translations, $name"
    docnmt-score --contrastive "$file" --path "$path" --json "$@" > "$folder/$name.json.tmp"
    mv "$folder/$name.json.tmp" "$folder/$name.json"
}

against() { # REFERENCE ONE OTHER FILE: are ONE's translations better than OTHER's? Paired bootstrap over documents
    local reference=$1 one=$2/hypotheses.txt other=$3/hypotheses.txt file=$4
    newer "$file" "$one" "$other" && return 0
    say "$file: paired bootstrap"
    docnmt-score --ref "$reference" --sys "$one" --paired "$other" --metrics TER --json > "$file.tmp"
    mv "$file.tmp" "$file"
}
