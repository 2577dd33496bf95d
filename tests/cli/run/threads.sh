"$PLUMB" run "$TESTS/small.onnxtxt" --threads 1 --dim N=50000 -o 1.npz >log
"$PLUMB" run "$TESTS/small.onnxtxt" --threads 2 --dim N=50000 -o 2.npz >log
cmp 1.npz 2.npz && echo same
