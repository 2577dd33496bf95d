printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR' >m.onnx
"$PLUMB" info m.onnx
