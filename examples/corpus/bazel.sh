#!/bin/bash
# A corpus as a sharded Bazel test. plumb takes its shard from TEST_SHARD_INDEX and TEST_TOTAL_SHARDS. In BUILD:
#   sh_test(name = "corpus", srcs = ["bazel.sh"], shard_count = 8, size = "large", data = [":models"], env = {"LIST": "$(rootpath :models.txt)"})
# Outputs of the shards: bazel-testlogs/corpus/shard_*_of_8/test.outputs/outputs.zip; unpacked:   plumb corpus --merge shard_*/corpus -o out
set -u
LIST=${LIST:-models.txt} PLUMB=${PLUMB:-plumb} BACKENDS=${BACKENDS:---backend ort}
[ -z "${TEST_SHARD_STATUS_FILE:-}" ] || touch "$TEST_SHARD_STATUS_FILE" # tells Bazel that shards are understood
# shellcheck disable=SC2086 # several options
exec "$PLUMB" corpus "$LIST" $BACKENDS -o "${TEST_UNDECLARED_OUTPUTS_DIR:-.}/corpus" --timeout 120
