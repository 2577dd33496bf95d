#!/bin/bash
# A corpus with GNU parallel: N shards, here or (with --sshlogin in PARALLEL_OPTIONS) on machines that share this folder.
set -u
LIST=${LIST:-models.txt} OUT=${OUT:-corpus} N=${N:-4} PLUMB=${PLUMB:-plumb} BACKENDS=${BACKENDS:---backend ort}
# shellcheck disable=SC2086 # several options
seq "$N" | parallel ${PARALLEL_OPTIONS:-} --halt never "$PLUMB" corpus "$LIST" $BACKENDS -o "$OUT-shard-{}" --shard "{}/$N" --jobs 1 --resume -q
exec "$PLUMB" corpus --merge "$OUT"-shard-* -o "$OUT" ${BASELINE:+--baseline "$BASELINE"}
