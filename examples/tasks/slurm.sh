#!/usr/bin/env bash
#SBATCH --job-name=shardwright --cpus-per-task=1 --mem=1G --requeue --open-mode=append
# Runs all tasks of a file as Slurm arrays, and a last job that makes the result of them:
#
#     shardwright plan repack run.ome.zarr archive.ome.zarr --codec zstd > tasks.jsonl
#     examples/tasks/slurm.sh tasks.jsonl [TASKS OF EACH JOB]
#
# Options for sbatch come by its variables: SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT.
set -euo pipefail
tasks="$1" batch="${2:-100}" first="${3:-0}"
count="$(head -n 1 "$tasks" | grep -o '"tasks":[0-9]*' | cut -d : -f 2)"
if [[ -n "${SLURM_ARRAY_TASK_ID-}" ]]; then
    from=$((first + SLURM_ARRAY_TASK_ID * batch)) code=0
    to=$((from + batch < count ? from + batch : count))
    shardwright run-task "$tasks" --range "$from:$to" --die-with-parent || code=$?
    # 75: what failed has not to do with the tasks, such as a full disk. What was done is found done next time.
    if ((code == 75 && ${SLURM_RESTART_COUNT:-0} < 5)); then
        scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" && sleep 600
    fi
    exit "$code"
fi
most="$(scontrol show config | sed -n 's/^MaxArraySize *= *//p')"
jobs=$(((count + batch - 1) / batch)) ids=
for ((job = 0; job < jobs; job += most)); do
    last=$(((jobs - job < most ? jobs - job : most) - 1))
    id="$(sbatch --parsable --array="0-$last" "$0" "$tasks" "$batch" $((job * batch)))"
    ids+=":${id%%;*}"
done
sbatch --dependency="afterany$ids" --job-name=finish --wrap="shardwright finish '$tasks'"
