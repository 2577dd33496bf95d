# On port 80 a browser leaves the port out of Host (RFC 9110 4.2.1) and of Origin.
"$PLUMB" view --no-open --port 80 >link 2>err &
server=$!
for _ in $(seq 600); do [ -s link ] || [ -s err ] && break; sleep 0.05; done
[ -s link ] || { echo "port 80 cannot be had: $(cat err)" >&2; exit 77; }
python3 - "$(sed 's/.*token=//' link)" <<'P'
import http.client, sys
def ask(**headers):
    c = http.client.HTTPConnection("127.0.0.1", 80, timeout=20)
    c.request("GET", "/api/session", headers={"X-Plumb-Token": sys.argv[1], **headers})
    return c.getresponse().status
print(ask(Host="127.0.0.1"), ask(Host="127.0.0.1:80"), ask(Host="localhost", Origin="http://localhost"), ask(Host="evil.example"), ask(Host="127.0.0.1", Origin="http://evil.example"))
P
kill $server
wait $server
echo "exit $?"
