# A device with a queue: waited for, it agrees; a race on it is found as non-deterministic at the operator that has it; outputs taken
# without waiting are wrong; a device that dies after run() has returned fails that run.
plugin=$(dirname "$PLUMB")/opencl_plugin.so
[ -e "$plugin" ] || { echo "opencl_plugin.so was not built: no OpenCL headers (ocl-icd-opencl-dev)" >&2; exit 77; }
[ "$(nproc)" -gt 1 ] || { echo "one core: nothing races" >&2; exit 77; }
export POCL_CACHE_DIR=$PWD/cache
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x, float[N] w) => (float[1] y) { p = Mul(x, w) a = Abs(p) r = Relu(x) s = Add(a, r) y = ReduceSum(s) }
TEXT
device() { # COMMAND OPTIONS…
    "$PLUMB" "$1" m.onnxtxt --dim N=1000000 --sandbox off --repro-level 0 --backend "plugin:$plugin$2" "${@:3}" 2>&1
}
device run "" --save none >probe.txt || { grep -q 'no OpenCL platform' probe.txt && { cat probe.txt >&2; exit 77; }; cat probe.txt; }
device analyze "" -o clean | head -n 1
# A race shows when two threads of the device run at once: on a busy machine it may take more than one try.
for try in 1 2 3 4 5 6 7 8; do
    device analyze ,race -o "race$try" >race.txt
    grep -q '^NONDETERMINISTIC' race.txt && break
done
grep -o '^NONDETERMINISTIC at y' race.txt
grep -c 'ReduceSum.*y' race.txt | sed 's/^[1-9]$/named/'
device run ,backend=opencl-careless --accuracy >careless.txt
echo "exit $?"
device run ,fault --save none | sed "s|'.*'|SPEC|"
echo "exit ${PIPESTATUS[0]}"
