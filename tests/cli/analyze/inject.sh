# --inject is a shared option: analyze and test take it as run does.
"$PLUMB" analyze "$TESTS/small.onnxtxt" --dim N=4 --inject scale@Relu -o session | sed -n 's/: local.*//; 1p; /^  1\. /s/;.*//p'
"$PLUMB" analyze "$TESTS/small.onnxtxt" --dim N=4 --backend eager --inject scale@Relu -o other
echo "exit $?"
"$PLUMB" test /usr/share/libonnx-testdata/data/node/test_relu --inject offset@Relu | sed 's/: element.*//'
ls
