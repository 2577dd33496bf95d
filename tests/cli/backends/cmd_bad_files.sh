# What a program leaves and cannot be read is a failure of the backend: exit code 3.
cat >m.onnxtxt <<'TEXT'
<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { y = Identity(x) }
TEXT
try() { # COMMAND WHAT
    printf '#!/bin/bash\nd=$1/test_data_set_0\n%s\n' "$2" >p.sh
    chmod +x p.sh
    "$PLUMB" $1 m.onnxtxt --backend cmd:./p.sh -o out.safetensors --repro-level 0 2>&1 | sed 's/[^ ]*plumb-[^ ]*/PATH/g'
    echo "exit ${PIPESTATUS[0]}"
}
set +e
try run 'mkdir $d/output_0.pb'
try run 'echo >$d/output_0.pb'
try record 'cp $d/input_0.pb $d/output_0.pb; echo >$1/intermediates.safetensors'
true
