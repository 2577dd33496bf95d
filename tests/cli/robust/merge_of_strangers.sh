# A shard of a stranger names a program as its backend: merging lists it and runs nothing, until --backend allows it.
. "$TESTS/corpus/models.inc"
printf '#!/bin/sh\ntouch "%s/ran"\nexit 1\n' "$PWD" >evil
chmod +x evil
for i in 1 2; do "$PLUMB" corpus m -b jit:inject=accuracy@Relu -q --shard "$i/2" -o "s$i" >log 2>&1; done
sed -i "s|jit:inject=accuracy@Relu|cmd:$PWD/evil|" s1/items.json s2/items.json
"$PLUMB" corpus --merge s1 s2 -o merged -q 2>&1 | sed "s|$PWD|DIR|g"
[ -e ran ] && echo "a stranger's program ran"
"$PLUMB" corpus --merge merged -q -b "cmd:$PWD/evil" >log 2>&1
[ -e ran ] && echo "ran when it was named"
