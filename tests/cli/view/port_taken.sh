# A port that somebody else listens on is named, and the way out.
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -o ses >/dev/null
"$PLUMB" view ses --no-open --port 0 >first.txt &
server=$!
for _ in $(seq 600); do grep -q http first.txt && break; sleep 0.05; done
port=$(sed -n 's,.*http://127.0.0.1:\([0-9]*\)/.*,\1,p' first.txt)
"$PLUMB" view ses --no-open --port "$port" 2>&1 | sed "s/$port/PORT/"
echo "exit ${PIPESTATUS[0]}"
kill "$server"
wait "$server" || true
