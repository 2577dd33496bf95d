mkdir -p cases/test_x/test_data_set_0
echo no model >cases/test_x/model.onnx
"$PLUMB" test cases
