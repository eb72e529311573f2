#!/usr/bin/env bash
#SBATCH --job-name=shardwright --cpus-per-task=1 --mem=1G --requeue --open-mode=append
# Runs all tasks of a file as Slurm arrays, levels one after the other, and a last job that makes the result of them:
#
#     shardwright plan repack run.ome.zarr archive.ome.zarr --codec zstd > tasks.jsonl
#     examples/tasks/slurm.sh tasks.jsonl [TASKS OF EACH JOB]
#
# Options for sbatch come by its variables: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT.
set -euo pipefail
[[ $# -gt 0 && ${2:-1} =~ ^[1-9][0-9]*$ ]] || { echo "usage: $0 TASKS.jsonl [TASKS OF EACH JOB]" >&2 && exit 2; }
tasks="$1" batch="${2:-100}" first="${3:-0}" end="${4:-0}"
if [[ -n "${SLURM_ARRAY_TASK_ID-}" ]]; then
    from=$((first + SLURM_ARRAY_TASK_ID * batch)) code=0
    to=$((from + batch < end ? from + batch : end))
    shardwright run-task "$tasks" --range "$from:$to" --die-with-parent || code=$?
    # 75: what failed has not to do with the tasks, such as a full disk. What was done is found done next time.
    if ((code == 75 && ${SLURM_RESTART_COUNT:-0} < 5)); then
        scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" && sleep 600
    fi
    exit "$code"
fi
most="$(scontrol show config | sed -n 's/^MaxArraySize *= *//p')"
counts="$(head -n 1 "$tasks" | grep -o '"tasks":[0-9]*' | cut -d : -f 2)"
if head -n 1 "$tasks" | grep -q '"operation":{"pyramid"'; then
    # How many tasks each level has, which follow each other.
    counts="$(sed -n 's/^{"task":.*"array":"\([^"]*\)".*/\1/p' "$tasks" | uniq -c | awk '{ print $1 }')"
fi
before= all=
for count in $counts; do
    jobs=$(((count + batch - 1) / batch)) ids=
    for ((job = 0; job < jobs; job += most)); do
        last=$(((jobs - job < most ? jobs - job : most) - 1))
        id="$(sbatch --parsable --array="0-$last" ${before:+"--dependency=afterany$before"} \
            "$0" "$tasks" "$batch" $((first + job * batch)) $((first + count)))"
        ids+=":${id%%;*}"
    done
    before="$ids" all+="$ids" first=$((first + count))
done
sbatch ${all:+"--dependency=afterany$all"} --job-name=finish --wrap="shardwright finish $(printf %q "$tasks")"
