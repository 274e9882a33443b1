#!/bin/sh
# Kiros and Chan, "InferLite": from word vectors and NLI pairs to their tables 2 and 3. After an interruption the same
# command goes on.
#   DATA=folder recipes/studies/inferlite/run.sh [figure2] [hash] [baselines] [ablation] [evaluate] [tables]    # all without an argument
# DATA holds nli/ (or SNLI's and MultiNLI's .jsonl, see TRAIN and VALID), vectors/ and imdb/ with the files named below, and
# senteval/ as docs/reference/sentence-vectors.md has it.
set -eu
DATA=${DATA:?folder with nli, vectors, senteval and imdb}
WORK=${WORK:-inferlite}
WHAT=${*:-all}
for part in $WHAT; do
    case $part in
        figure2|hash|baselines|ablation|evaluate|tables|all) ;;
        *) echo "run.sh: error: there is no part '$part'; there are figure2, hash, baselines, ablation, evaluate, tables" >&2; exit 2 ;;
    esac
done
here=$(dirname "$0")
nli=$DATA/nli
TRAIN=${TRAIN:-"$nli/ling_in_loop/train.tsv $nli/semi_automatic_wiki/train.tsv $nli/cad_snli/train.tsv"}
VALID=${VALID:-"$nli/snli_dev_test/dev.tsv $nli/ling_in_loop/val.tsv"}
TEST=${TEST:-"$nli/snli_dev_test/test.tsv"}
glove=${GLOVE:-$DATA/vectors/glove.6B.50d.top100k.npz} # .npz is brought to word2vec's .bin
news=${NEWS:-$DATA/vectors/en_core_web_md-3.8.0.300d.npz}
reviews=$WORK/reviews.bin   # a third type: our own, from film reviews
EPOCHS=${EPOCHS:-100}          # at most: three validations without a new best end a training
SEEDS=${SEEDS:-1 2 3}
HASH_STEPS=${HASH_STEPS:-2000} # updates until the codes are sharp
ONLY=${ONLY:-}                 # trains these runs alone, as ONLY="glove,1 glove+news,1"
BILSTM=${BILSTM:-512}          # width of BiLSTM-max; at the others' 4,096 it reads 39 sentences a second
# SentEval's settings: 17 minutes of one core for six of the tasks (width 4,096); PROTOCOL=fast is two to eight times faster
PROTOCOL=${PROTOCOL:-default}
# bfloat16 products train three times faster on a CPU that has them; PRECISION= (empty) computes in single precision
PRECISION=${PRECISION---bf16}

data() { # name, vector files
    name=$1; shift
    [ -e "$WORK/data/$name/meta.json" ] || docnmt-preprocess --task nli --train $TRAIN --valid $VALID --test $TEST \
        --vectors "$@" --destdir "$WORK/data/$name"
}
train() { # run, data, options
    run=$1; folder=$2; shift 2
    case " ${ONLY:-$run} " in *" $run "*) ;; *) return 0 ;; esac
    for seed in $SEEDS; do # RUN is seed 1, RUN@2 seed 2 …
        name=$run; [ "$seed" = 1 ] || name=$run@$seed
        docnmt-train "$WORK/data/$folder" --save-dir "$WORK/runs/$name" --max-epoch "$EPOCHS" --patience 3 --seed "$seed" \
            --best-checkpoint-metric accuracy --max-tokens 2000 --lr 0.001 --warmup-updates 200 $PRECISION "$@"
    done
}
vectors() { # a file's name as docnmt reads it
    case $1 in *.npz) ;; *) echo "$1"; return ;; esac
    bin=$WORK/$(basename "$1" .npz).bin
    [ -e "$bin" ] || python "$here/npz_vectors.py" "$1" "$bin"
    echo "$bin"
}
evaluate() { # name, options
    name=$1; shift
    [ -e "$WORK/results/$name.json" ] || docnmt-senteval --data "$DATA/senteval" --results-path "$WORK/results/$name.json" --protocol "$PROTOCOL" \
        --tasks MR CR SUBJ MPQA SST2 TREC MRPC SICK-R SICK-E STS-B STS12 STS13 STS14 STS15 STS16 "$@" > /dev/null
    [ -e "$WORK/probing/$name.json" ] || docnmt-senteval --data "$WORK/senteval" --results-path "$WORK/probing/$name.json" --protocol "$PROTOCOL" \
        --tasks Length WordContent BigramShift "$@" > /dev/null
}
wants() { case " $WHAT " in *" all "*|*" $1 "*) ;; *) false ;; esac; }

mkdir -p "$WORK"
glove=$(vectors "$glove")
news=$(vectors "$news")
[ -e "$reviews" ] || python "$here/ppmi_vectors.py" --output "$reviews" "$DATA"/imdb/*.jsonl
data glove "$glove"
data glove+news "$glove" "$news"
data glove+reviews "$glove" "$reviews"
data glove+news+reviews "$glove" "$news" "$reviews"
[ -e "$WORK/senteval/probing/BigramShift/test.tsv" ] || {
    cut -f 2 "$DATA/senteval/SUBJ/all.tsv" | sed 1d > "$WORK/sentences.txt"
    cut -f 2 "$DATA/senteval/MR/all.tsv" | sed 1d >> "$WORK/sentences.txt"
    python "$here/probing_tasks.py" "$WORK/sentences.txt" "$WORK/senteval"
}

if wants figure2; then
    for types in glove glove+news glove+reviews glove+news+reviews; do
        for width in 1 3; do train "$types,$width" "$types" --arch inferlite --conv-width "$width"; done
    done
fi
if wants hash; then
    for width in 1 3; do
        for bits in 256 1024; do
            train "glove,$width,hash$bits" glove --arch inferlite --conv-width "$width" --hash-bits "$bits" \
                --hash-steps "$HASH_STEPS"
        done
    done
    # at the others' 0.001 so many bits stay at chance for 3 epochs
    train glove,1,hash4096 glove --arch inferlite --hash-bits 4096 --hash-steps "$HASH_STEPS" --lr 0.0003
fi
if wants baselines; then
    train bow glove --arch bag_of_words
    train bilstm-max glove --arch bilstm_max --output-dim "$BILSTM"
    train source2token glove --arch source2token_encoder --encoder-layers 1 --ffn-dim 1024 --lr 0.0005
    # update 0: the weights as they are drawn
    for width in 1 3; do
        for seed in $SEEDS; do
            name=untrained,$width; [ "$seed" = 1 ] || name=$name@$seed
            docnmt-train "$WORK/data/glove" --save-dir "$WORK/$name" --arch inferlite --conv-width "$width" \
                --seed "$seed" --max-update 0 --disable-validation
        done
    done
fi
if wants ablation; then
    train glove,1,no-gate glove --arch inferlite --no-gate
    train glove,1,no-skip glove --arch inferlite --no-skip
    train glove,1,mean glove --arch inferlite --pooling mean
    for width in 1 3; do train "glove,$width,M1" glove --arch inferlite --conv-width "$width" --conv-layers 1; done
fi
if wants evaluate; then
    mkdir -p "$WORK/results" "$WORK/probing"
    evaluate bow,glove --baseline bow --vectors "$glove"
    evaluate bow,glove+news --baseline bow --vectors "$glove" "$news"
    evaluate bow,glove+reviews --baseline bow --vectors "$glove" "$reviews"
    evaluate bow,glove+news+reviews --baseline bow --vectors "$glove" "$news" "$reviews"
    evaluate sif,glove --baseline sif --vectors "$glove" --frequencies "$DATA/vectors/enwiki_vocab_min200.txt"
    evaluate borep-max,glove --baseline borep-max --vectors "$glove"
    for run in "$WORK"/untrained,*/; do evaluate "$(basename "$run")" --path "$run"; done
    for run in "$WORK"/runs/*/; do
        encoder=$(basename "$run") # a function's $name is everybody's
        case $encoder in
            bow|bow@*) ;; # its vectors are those of bow,glove
            *hash*) evaluate "$encoder,soft" --path "$run" --representation soft
                    evaluate "$encoder,codes" --path "$run" --representation codes ;;
            *) evaluate "$encoder" --path "$run" ;;
        esac
    done
    # TRANSLATION=a trained hier_cond_transformer: its source2token summaries as sentence vectors
    [ -z "${TRANSLATION:-}" ] || evaluate translation-summaries --path "$TRANSLATION"
fi
if wants tables; then
    python "$here/tables.py" --results "$WORK/results" --runs "$WORK/runs" --figure "$WORK/figure2.png" \
        > "$WORK/tables.md"
    for measured in results probing; do python "$here/differences.py" --results "$WORK/$measured"; done \
        > "$WORK/differences.md"
    python "$here/nli_test.py" "$WORK"/runs/*/ > "$WORK/nli-test.md"
    cut -f 2 "$DATA/senteval/SST2/train_phrases67k.tsv" | sed 1d > "$WORK/phrases.txt"
    python "$here/retrieval.py" --text "$WORK/phrases.txt" --truth "$WORK/runs/glove,1" "$WORK"/runs/*hash* \
        > "$WORK/retrieval.md"
    cut -f 2 "$DATA/senteval/MR/all.tsv" | sed 1d > "$WORK/reviews.txt"
    python "$here/sentence_encoders.py" --text "$WORK/reviews.txt" --vectors "$glove" > "$WORK/speed.txt"
    head -n 4 "$WORK/reviews.txt" | python "$here/gates.py" --path "$WORK/runs/glove+news+reviews,3" \
        --output "$WORK/gates.png"
    (cd "$WORK" && ls tables.md differences.md figure2.png nli-test.md retrieval.md speed.txt gates.png)
fi
