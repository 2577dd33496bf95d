# Libraries that are opened at run time: one that cannot be is named, with the way to get it, and only what needs it fails.
mkdir lib
while read -r package name; do
    soname=$("$ROOT/tools/find-soname" "$package" "$name" cc 2>/dev/null) || soname=
    [ -n "$soname" ] || { echo "$package is not installed: tools/setup build" >&2; exit 77; }
    echo broken >"lib/$soname"
done <<'END'
libpng png
libjpeg jpeg
libtiff-4 tiff
libwebp webp
libopenjp2 openjp2
libmicrohttpd microhttpd
END
cat >image.onnxtxt <<'END'
<ir_version: 9, opset_import: ["" : 20]>
image (uint8[N] x) => (uint8[H,W,3] y) { y = ImageDecoder (x) }
END
/usr/bin/python3 - <<'END'
import numpy as np
for name, data in {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff\xe0", "tiff": b"II*\0", "webp": b"RIFF\0\0\0\0WEBP", "jp2": b"\xff\x4f\xff\x51",
                   "ppm": b"P6 1 1 255\nabc"}.items():
    np.save(name, np.frombuffer(data, np.uint8))
END
"$PLUMB" analyze "$TESTS/net.onnxtxt" --backend jit -o ses >analyze.log
export LD_LIBRARY_PATH=$PWD/lib
try() { "$@" 2>&1 | sed 's/ ([a-z0-9]*\.so\.[0-9]*; \([^)]*\)): .*/ (SONAME; \1)/'; echo "exit ${PIPESTATUS[0]}"; }
for name in png jpeg tiff webp jp2; do try "$PLUMB" run image.onnxtxt --input x=$name.npy -o $name; done
try "$PLUMB" view ses --no-open --port 0
"$PLUMB" run image.onnxtxt --input x=ppm.npy -o ppm >run.log
/usr/bin/python3 "$TESTS/show.py" ppm/y.npy
"$PLUMB" report ses -o ses.html >report.log
ls
