# A list: comments, fields, relative names; seeds and data sets are items of their own; bad lines are named.
. "$TESTS/corpus/models.inc"
mkdir lists
mkdir -p m/case/test_data_set_0 m/case/test_data_set_1
cp m/a.onnxtxt m/case/model.onnxtxt
printf '# models\n../m/a.onnxtxt\tseed=1\tseed=2\n\n../m/b.onnxtxt\tinputs=set0\trange=x=0:1\r\n../m/b.onnxtxt\tinputs=set0\trange=x=0:1\n' >lists/l
"$PLUMB" corpus lists/l -b eager -b jit --dry-run --json >plan.json
python3 -c 'import json; p = json.load(open("plan.json")); print(p["models"], p["items"], p["shard_items"])'
"$PLUMB" corpus m -b jit --dry-run --seed 1 --seed 2 --shard 1/2 --json >plan.json
python3 -c 'import json; p = json.load(open("plan.json")); print(p["models"], p["items"], p["shard_items"])'
printf '../m/a.onnxtxt\tseeds=1\n' >lists/bad
"$PLUMB" corpus lists/bad -b jit --dry-run
"$PLUMB" corpus lists/none -b jit --dry-run
"$PLUMB" corpus m --dry-run
mkdir empty
"$PLUMB" corpus empty -b jit --dry-run
SLURM_ARRAY_TASK_ID=12 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_COUNT=4 "$PLUMB" corpus m -b jit --dry-run | sed 's/estimate.*//;/ s  /d;/^$/d'
CI_NODE_INDEX=2 CI_NODE_TOTAL=2 "$PLUMB" corpus m -b jit --dry-run | head -n 1
TEST_SHARD_INDEX=0 TEST_TOTAL_SHARDS=2 "$PLUMB" corpus m -b jit --dry-run | head -n 1
JOB_COMPLETION_INDEX=1 "$PLUMB" corpus m -b jit --dry-run --shard /2 | head -n 1
JOB_COMPLETION_INDEX=1 "$PLUMB" corpus m -b jit --dry-run
"$PLUMB" corpus m -b jit --dry-run --shard 3/2
