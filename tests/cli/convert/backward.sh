"$PLUMB" convert "$TESTS/small.onnxtxt" joint.onnxtxt --backward=joint
grep '=>' joint.onnxtxt
"$PLUMB" convert "$TESTS/small.onnxtxt" forward.onnxtxt --backward=forward
grep '=>' forward.onnxtxt
"$PLUMB" convert "$TESTS/small.onnxtxt" backward.onnx --backward backward --dim N=2
"$PLUMB" info backward.onnx | grep -A2 -e '^inputs' -e '^outputs'
/usr/bin/python3 "$TESTS/npy.py" x.npy float32 2,3
"$PLUMB" run joint.onnxtxt -i x=x.npy --fill ones --dim N=2 -o out >log
/usr/bin/python3 "$TESTS/show.py" out/d_*.npy
