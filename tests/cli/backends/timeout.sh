printf "#!/bin/sh\nexec sleep 60\n" >hang; chmod +x hang
"$PLUMB" run "$TESTS/small.onnxtxt" --save none --backend cmd:./hang --timeout 0.3
