# A quantised model against its float model: the table of layers in compare and in a failing gate, and colours by the precision that is left.
low=$ROOT/examples/quantised/classifier_int8.onnxtxt
"$PLUMB" compare "$low" "$ROOT/examples/classifier.onnxtxt" --dim batch=8 -o c >text && exit 1
"$PLUMB" run "$low" --backend eager --accuracy --reference "$ROOT/examples/classifier.onnxtxt" --dim batch=8 >gate && exit 1
"$PLUMB" analyze "$low" --backend eager --reference "$ROOT/examples/classifier.onnxtxt" --dim batch=8 --save none -o a >analyzed && exit 1
for f in text gate analyzed; do
    grep -A3 '^quantisation' $f | sed 's/of normed.*//'
done >tables
sed -n '1,4p' tables
[ "$(sed -n '1,4p' tables)" = "$(sed -n '5,8p' tables)" ] && [ "$(sed -n '1,4p' tables)" = "$(sed -n '9,12p' tables)" ] && echo "the same in all three"
# The colour of a value is the same in both commands.
for value in normed h_biased logits; do
    echo "$value: $(awk -v v=$value '$5 == v { print $1, $2 }' text) / $(awk -v v=$value '$5 == v { print $1, $2 }' analyzed)"
done
# The headline names one node.
grep -c '^DIVERGED at scaled: ' text
