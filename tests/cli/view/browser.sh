# The browser that is started may be ended by its signals, and Ctrl-C at plumb is not for it.
mkdir bin tmp
export TMPDIR=$PWD/tmp
cat > bin/xdg-open <<'X'
#!/bin/bash
{ grep SigBlk /proc/self/status; [ "$(ps -o pgid= -p $$ | tr -d ' ')" = "$$" ] && echo "a group of its own"; case $1 in *token*|http*) echo "the token is on the command line";; */plumb.html) stat -c 'page %a, folder' "$1"; stat -c %a "$(dirname "$1")"; grep -o 'url=http://127.0.0.1:[0-9]*/?token=[0-9a-f]*' "$1" | sed 's/[0-9]*.?token=.*/PORT/';; esac; } > seen.tmp
mv seen.tmp seen
X
chmod +x bin/xdg-open
PATH=$PWD/bin:$PATH "$PLUMB" view > link &
for _ in $(seq 600); do [ -s seen ] && break; sleep 0.1; done
kill $!
wait $!
echo "exit $?"
cat seen
# the folder of the page goes with the server
ls "$TMPDIR" 2>/dev/null | grep -c plumb-tmp || true
