# Under --json an error is a document, too: one, whatever went wrong; and none beside a result.
ask() { "$PLUMB" "$@" >out 2>err; code=$?; /usr/bin/python3 -c 'import json, sys; e = json.load(open("out"))["error"]; print(e["command"], e["status"], e["exit_code"], e["message"] in open("err").read() or e["message"])'; echo "exit $code"; }
ask info nowhere.onnx --json
ask run "$TESTS/small.onnxtxt" --dim n=1 --json
ask analyze --json
ask analyze "$TESTS/net.onnxtxt" --format json --backend jti -o s
ask run "$TESTS/net.onnxtxt" --bakend jit --json
ask inof --json
ask record "$TESTS/net.onnxtxt" --json -o /proc/r
"$PLUMB" run "$TESTS/net.onnxtxt" --accuracy --inject scale@Tanh --json 2>err | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["status"])'
"$PLUMB" convert "$TESTS/net.onnxtxt" c.onnx --json | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin))'
