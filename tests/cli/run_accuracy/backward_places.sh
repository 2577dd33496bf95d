# Places in an image are counted in whole numbers, whatever the type of the image: float16 has no 5671 and no 3241.
show() {
    /usr/bin/python3 -c '
import numpy as np
x = np.load("out/d_x.npy")[0, 0]
for at in np.argwhere(x != 0): print(*at, x[tuple(at)])'
    rm -r out
}
cat > m.onnxtxt <<'M'
<ir_version: 8, opset_import: ["" : 17]>
g (float16[1,1,80,80] x) => (float16[1,1,1,1] y) <float16[1,1,1,2] at = {0.797363, 0.772152}> {
  y = GridSample<mode="nearest", align_corners=1>(x, at)
}
M
"$PLUMB" run m.onnxtxt --backward -o out > log; show
cat > m.onnxtxt <<'M'
<ir_version: 9, opset_import: ["" : 19]>
g (float16[1,1,64,64] x) => (float16[1,1,1,1] y) <float16[1,1,1,1] w = {1.0}, float16[1,2,1,1] by = {50.5, 41.25}> {
  y = DeformConv<strides=[64,64]>(x, w, by)
}
M
"$PLUMB" run m.onnxtxt --backward -o out > log; show
