# A model that contradicts its own data is mended as upstream mended it, and that is said; a changed model, or one of another name, is not.
case=/usr/share/libonnx-testdata/data/node/test_adam_multiple
[ -d $case ] || { echo "$case is not there" >&2; exit 77; }
mkdir changed other
cp -r $case test_adam_multiple
cp -r $case other/test_other
cp -r $case changed/test_adam_multiple
printf '\x32\x01x' >>changed/test_adam_multiple/model.onnx # a doc_string
"$PLUMB" test test_adam_multiple
"$PLUMB" test test_adam_multiple --json | sed '/seconds/d'
"$PLUMB" test test_adam_multiple --backend jit
for dir in other/test_other changed/test_adam_multiple; do "$PLUMB" test "$dir" | cut -c1-40; done
# The expected values are still what decides.
cp test_adam_multiple/test_data_set_0/output_{0,1}.pb .
mv output_0.pb test_adam_multiple/test_data_set_0/output_2.pb
"$PLUMB" test test_adam_multiple
