# The scripts of examples/corpus: GNU parallel where it is installed, and the Slurm script as the scheduler calls it. Both give the result of one run.
. "$TESTS/corpus/models.inc"
export PLUMB LIST=m BACKENDS='--backend jit'
mkdir bin
printf '#!/bin/bash\n# GNU parallel as far as parallel.sh needs it: one command for each line of standard input.\nwhile [ "$1" != "$PLUMB" ]; do shift; done\nwhile read -r i; do "${@//\\{\\}/$i}"; done\n' >bin/parallel
chmod +x bin/parallel
cp "$ROOT/examples/corpus/slurm.sh" "$ROOT/examples/corpus/parallel.sh" .
"$PLUMB" corpus m --backend jit -o one -q >log 2>&1
OUT=p N=2 PATH=$PWD/bin:$PATH bash parallel.sh >log 2>&1; echo "parallel: exit $?"
cmp one/corpus.json p/corpus.json && echo same
for i in 1 2; do OUT=s SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=2 bash slurm.sh >log 2>&1; done
OUT=s bash slurm.sh merge >log 2>&1; echo "slurm: exit $?"
cmp one/corpus.json s/corpus.json && echo same
python3 - "$ROOT/examples/corpus" <<'PY'
import sys
try: import yaml
except ImportError: print("yaml: fine")
else:
    for name in ("kubernetes.yaml", "github.yml"): yaml.safe_load(open(f"{sys.argv[1]}/{name}"))
    print("yaml: fine")
PY
