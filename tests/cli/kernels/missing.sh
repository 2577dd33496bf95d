# Kernels that are named and not there are an error, never replaced: by variable or spec, on any backend that would use them.
mkdir lib
for name in libopenblas.so.0 libopenblas.so libdnnl.so.2; do echo broken >lib/$name; done
model=$ROOT/examples/classifier.onnxtxt
try() { "$@" 2>&1 | sed 's/Debian: \([^)]*\)).*/Debian: \1)/'; echo "exit ${PIPESTATUS[0]}"; }
PLUMB_KERNELS=mkl try "$PLUMB" run "$model" -o a
export LD_LIBRARY_PATH=$PWD/lib
PLUMB_KERNELS=blas try "$PLUMB" run "$model" -o b
PLUMB_KERNELS=onednn try "$PLUMB" record "$model" -o c.safetensors
PLUMB_KERNELS=blas try "$PLUMB" analyze "$model" --backend jit -o d
try "$PLUMB" run "$model" --backend eager:kernels=blas -o e
try "$PLUMB" run "$model" --backend eager:kernels=mkl -o f
try "$PLUMB" run "$model" --backend jit:kernels=onednn -o g
"$PLUMB" backends | grep -E 'kernels=(blas|onednn): ' | sed 's/; not available.*Debian: \([^)]*\)).*/; not available: \1/'
ls
