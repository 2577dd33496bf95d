# Sixty sparse tensors of one element each, 264 MB when made dense: 0.1.0 took all the memory there was.
/usr/bin/python3 - <<'P'
from onnx import TensorProto as T, helper
sparse = []
for i in range(60):
    sparse.append(helper.make_sparse_tensor(helper.make_tensor(f"w{i}", T.FLOAT, [1], [1.0]),
                                            helper.make_tensor(f"i{i}", T.INT64, [1], [0]), [66000000]))
value = lambda name: helper.make_tensor_value_info(name, T.FLOAT, [2])
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x")], [value("y")],
                          sparse_initializer=sparse)
open("bomb.onnx", "wb").write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
P
# A sanitizer reserves terabytes of address space before it starts.
[ -n "${ASAN_OPTIONS-}" ] || ulimit -v 2000000
"$PLUMB" info bomb.onnx
