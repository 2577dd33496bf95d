"$PLUMB" run "$TESTS/small.onnxtxt" --dim N=4 --fill ones -o out >log
/usr/bin/python3 "$TESTS/show.py" out/s.npy
