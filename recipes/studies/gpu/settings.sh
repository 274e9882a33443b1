# To be sourced by the two scripts of this folder, from the root of the clone: folders, sizes and options by SETTING.

. tools/environment.sh
. recipes/studies/tools/experiment.sh

out=${OUT:-runs/gpu}
work=$out/work # what is large: data and checkpoints; everything else in $out is small
data=$work/data-bin at_once=()
case ${SETTING:-gpu} in
    gpu)
        device=cuda size="" updates=${UPDATES:-2000} more=${MORE:-800} vocabulary=16000 words="200 800 3200 8000 12800 25600 51200"
        kernel_tests=(tests/unit/test_kernels.py) measured=() steps=5 stepped="transformer hier_cond_transformer" systems="start document sentence"
        shared=(--position-fusion add --max-tokens 25000 --bf16 --dropout 0.1 --label-smoothing 0.1)
        shared+=(--validate-interval-updates 500 --log-interval 50)
        marian=(--max-tokens 25000) kernels=() decoded=(--repeats 2) dialogue=(--max-tokens 25000 --device cuda) dialogue_share=45
        studies="ag_news_notebook imdb_notebook"
        readarray -t tested < <(grep -rl "mark.gpu" tests) # others may need packages that the card's machine lacks
        at_once=(-n 12)
        ;;
    toy) # for trying out the script, on a CPU: nothing that it measures says anything of a card
        device=cpu size=_tiny updates=4 more=2 vocabulary=80 words="100 200"
        kernel_tests=(tests/unit/test_kernels.py -k norm) tested=(tests/integration/test_gpu.py) measured=(--repeats 1) steps=1 stepped="transformer hier_cond_transformer"
        systems="start document"
        export TRITON_INTERPRET=1 # the kernels, too
        marian=(--max-tokens 200 --layers 1 --width 16 --eager) dialogue=(--device cpu) dialogue_share=45 studies=""
        kernels=(--rows 70 --lengths 7 --words 50) decoded=(--repeats 1 --sentences 4 --batch 2 --words 3)
        shared=(--position-fusion add --max-tokens 200 --embed-dim 16 --ffn-dim 16 --encoder-layers 1 --decoder-layers 1 --log-interval 1)
        ;;
    *) echo "error: SETTING=$SETTING: expected gpu or toy" >&2; exit 2 ;;
esac
