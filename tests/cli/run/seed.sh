"$PLUMB" run "$TESTS/small.onnxtxt" --seed 7 --dim N=50 -o one.npz >log
"$PLUMB" run "$TESTS/small.onnxtxt" --seed 7 --dim N=50 -o two.npz >log
"$PLUMB" run "$TESTS/small.onnxtxt" --seed 8 --dim N=50 -o other.npz >log
cmp one.npz two.npz && echo same
cmp -s one.npz other.npz || echo different
