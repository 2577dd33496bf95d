/usr/bin/python3 "$TESTS/test/make-cases.py" "$TESTS/make.py"
"$PLUMB" test cases --atol 1.5
