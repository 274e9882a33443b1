#!/usr/bin/env bash
# Does NEW compute what OLD computed, bit by bit, on one machine with one thread? Exits with 1 if not, 2 if it failed.
#
#   tools/compare_checkouts.sh OLD NEW [OPTION ...]
#
#   --only PART,PART   of help, options, data, updates, searches, commands [all]; or how cases begin, as updates/hier.
#                      All cases are in compare_checkouts.cases
#   --updates N        updates of every training [20]
#   --lines N          lines of each real corpus in $DOCNMT_DATA or ~/.cache/docnmt-data [2000]; 0: toy text only
#   --tolerance        numbers may differ: print by how much of themselves at most
#   --keep DIR         keep worktrees and results there; a part of a commit that is there is not computed again
#
# Each commit has a worktree of its own, from which docnmt is imported: in the active environment if it has what docnmt
# needs, else in a .venv there. Only commands, docnmt.load and docnmt.plugin are called, so that modules may move.
set -euo pipefail

commits=() only=help,options,data,updates,searches,commands keep="" updates=20 lines=2000 tolerance=()
while [ $# -gt 0 ]; do
    case $1 in
        --only | --updates | --lines | --keep) declare "${1#--}=${2:?}" && shift ;;
        --tolerance) tolerance=("$1") ;;
        -*) echo "error: unknown option $1; see the head of $0" >&2 && exit 2 ;;
        *) commits+=("$1") ;;
    esac
    shift
done
[ ${#commits[@]} = 2 ] || { echo "usage: $0 OLD NEW [OPTION ...]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd) work=${keep:-$(mktemp -d)} results=()
mkdir -p "$work" && work=$(cd "$work" && pwd) && cd "$root"
helper=$root/tools/compare_checkouts.py setting=$updates-$lines-$(cat tools/compare_checkouts.* | sha256sum | cut -c 1-8)
remove() { for tree in "$work"/*/tree; do git -C "$root" worktree remove --force "$tree"; done; rm -r "$work"; }
[ -n "$keep" ] || trap remove EXIT
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 DOCNMT_TUNE=off CUDA_VISIBLE_DEVICES=""
export MPLBACKEND=agg COLUMNS=120 TZ=UTC LC_ALL=C.UTF-8
for name in "${commits[@]}"; do
    commit=$(git rev-parse --verify --quiet "$name^{commit}") || { echo "error: $name is no commit" >&2; exit 2; }
    folder=$work/$commit
    [ "$folder/$setting" != "${results[0]:-}" ] || folder+=-again # a commit against itself
    results+=("$folder/$setting")
    [ -d "$folder/tree" ] || git worktree add --quiet --detach "$folder/tree" "$commit" >&2
    ( # the environment of one checkout is not that of the other
        cd "$folder/tree" && export PYTHONPATH=$PWD && . "$root/tools/environment.sh" && environment test &&
            { [ -d "$work/in-$setting" ] || python "$helper" inputs "$work/in-$setting" "$lines"; } &&
            python "$helper" run "$PWD" "$work/in-$setting" "${results[-1]}" "$updates" "$only"
    ) || { echo "error: $name could not be computed" >&2; exit 2; }
done
python3 "$helper" compare "${results[@]}" "$only" "${tolerance[@]}"
