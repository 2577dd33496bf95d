echo 'agraph (float[2] x) => (float[2] y) { y = Relu(' >m.onnxtxt
"$PLUMB" info m.onnxtxt
