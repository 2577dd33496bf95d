# What is wrong is named.
m=$TESTS/generate/rnn.onnxtxt
try() { "$PLUMB" generate "$@" >/dev/null; echo "exit $?"; }
try "$m"
try "$m" --backend jit --state h_out
try "$m" --backend jit --state 'present.*:h_in'
try "$m" --backend jit --feed z=mask
try "$m" --backend jit --feed x=musk
try "$m" --backend jit --logits z
try "$m" --backend jit --cache mine
try "$m" --backend jit --force nobody
try "$m" --backend jit --prompt-ids 1,x
try "$m" --backend jit --steps 0
try "$m" --backend jit --save-step 99 --skip-analysis
try "$m" --backend jit --self-test all
try "$m" --backend jit --self-test some
try "$m" --backend jit --sample hot
try "$m" --backend jit --sample top-p=2
