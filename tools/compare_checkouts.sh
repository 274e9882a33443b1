#!/usr/bin/env bash
# Does NEW compute what OLD computed? Two commits on one machine with one thread, bit by bit; exit 1 if anything differs.
#
#   tools/compare_checkouts.sh OLD NEW [OPTION ...]
#
#   --only PART,PART   of help, data, updates, searches, commands, options; the default is all (compare_checkouts.cases)
#   --updates N        updates of every training (20)
#   --lines N          lines of each real corpus in $DOCNMT_DATA or ~/.cache/docnmt-data (2000); 0: toy text only
#   --tolerance        numbers may differ: print the largest relative difference of each part
#   --keep DIR         keep worktrees and results there; a part of a commit that is there is not computed again
#
# Each commit has a worktree of its own, from which docnmt is imported: in the active environment if it has what docnmt
# needs, else in a .venv there. Only commands, docnmt.load and docnmt.plugin are called, so that modules may move.
set -euo pipefail

commits=() only=help,options,data,updates,searches,commands keep="" updates=20 lines=2000 tolerance=no
while [ $# -gt 0 ]; do
    case $1 in
        --only) only=$2; shift ;;
        --updates) updates=$2; shift ;;
        --lines) lines=$2; shift ;;
        --keep) keep=$2; shift ;;
        --tolerance) tolerance=yes ;;
        -*) echo "error: unknown option $1; see the head of $0" >&2; exit 2 ;;
        *) commits+=("$1") ;;
    esac
    shift
done
[ ${#commits[@]} = 2 ] || { echo "usage: $0 OLD NEW [OPTION ...]" >&2; exit 2; }
cd "$(dirname "$0")/.."
root=$PWD helper=$PWD/tools/compare_checkouts.py
work=${keep:-$(mktemp -d)}
mkdir -p "$work"
work=$(cd "$work" && pwd)
remove() {
    for tree in "$work"/*/tree; do git -C "$root" worktree remove --force "$tree"; done
    rm -r "$work"
}
[ -n "$keep" ] || trap remove EXIT
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 DOCNMT_TUNE=off CUDA_VISIBLE_DEVICES=""
export MPLBACKEND=agg COLUMNS=120 TZ=UTC LC_ALL=C.UTF-8
results=()
for name in "${commits[@]}"; do
    commit=$(git rev-parse --verify --quiet "$name^{commit}") || { echo "error: $name is no commit" >&2; exit 2; }
    folder=$work/$commit
    [ ${#results[@]} = 0 ] || [ "$folder" != "${results[0]%/*}" ] || folder+=-again # a commit against itself
    results+=("$folder/$updates-$lines")
    [ -d "$folder/tree" ] || git worktree add --quiet --detach "$folder/tree" "$commit" >&2
    ( # the environment of one checkout is not that of the other
        cd "$folder/tree"
        export PYTHONPATH=$PWD
        . "$root/tools/environment.sh"
        environment test
        [ -d "$work/inputs-$lines" ] || python "$helper" inputs "$work/inputs-$lines" "$lines"
        python "$helper" run "$PWD" "$work/inputs-$lines" "${results[-1]}" "$updates" "$only"
    )
done
python3 "$helper" compare "${results[@]}" "$only" "$tolerance"
