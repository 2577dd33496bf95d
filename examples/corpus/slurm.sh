#!/bin/bash
# A corpus as a Slurm job array:   jid=$(sbatch --parsable --array=1-16 slurm.sh)   sbatch --dependency=afterany:$jid slurm.sh merge
# A requeued task goes on where it was. To run some tasks again, say how many there were:   N=16 sbatch --array=3,7 slurm.sh
#SBATCH --job-name=plumb-corpus --cpus-per-task=8 --requeue --open-mode=append --signal=B:TERM@60
set -u
LIST=${LIST:-models.txt} OUT=${OUT:-corpus} PLUMB=${PLUMB:-plumb} BACKENDS=${BACKENDS:---backend ort}
if [ "${1:-}" = merge ]; then
    exec "$PLUMB" corpus --merge "$OUT"-shard-* -o "$OUT" ${BASELINE:+--baseline "$BASELINE"}
fi
# exec: the scheduler's signal reaches plumb, which notes what is in flight and ends.
# shellcheck disable=SC2086 # several options
exec "$PLUMB" corpus "$LIST" $BACKENDS -o "$OUT-shard-$SLURM_ARRAY_TASK_ID" ${N:+--shard "$SLURM_ARRAY_TASK_ID/$N"} --jobs "${SLURM_CPUS_PER_TASK:-1}" --resume
