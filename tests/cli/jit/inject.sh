# Each kind that ends the run has its own message and exit code; others change what comes out.
run() { "$PLUMB" run "$TESTS/small.onnxtxt" --save none "$@" 2>&1 | grep -v '^load'; echo "exit ${PIPESTATUS[0]}"; }
run --inject compile-error@Relu
run --inject runtime-error@Relu:1
run --inject hang@Relu --timeout 5 # compiling counts, on a busy machine too
run --inject nan@Relu
run --inject nan@Relu:2 --fill ones
run --inject nan@Conv --fill ones
run --inject none@Relu
run --inject nan@Relu --backend eager
