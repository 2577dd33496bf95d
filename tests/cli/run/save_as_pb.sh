/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
"$PLUMB" run "$TESTS/small.onnxtxt" -i x=x.npy -o out --save-as pb >log
/usr/bin/python3 "$TESTS/show.py" out/s.pb out/y.pb
