# Models that crashed 0.1.0, or gave what lay in memory.
/usr/bin/python3 - <<'P'
import numpy as np
from onnx import TensorProto as T, helper
value = helper.make_tensor_value_info
def save(name, nodes, inputs, outputs, opset=17, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    open(name, "wb").write(model.SerializeToString())
node = helper.make_node
save("einsum.onnx", [node("Einsum", ["x", ""], ["y"], equation="ij,jk->ik")], [value("x", 1, [2, 3])], [value("y", 1, [2, 2])])
save("concat.onnx", [node("Concat", ["x", "", "x"], ["y"], axis=0)], [value("x", 1, [2, 3])], [value("y", 1, [4, 3])])
save("dft.onnx", [node("DFT", ["x", "n"], ["d"]), node("Relu", ["d"], ["y"])], [value("x", 1, [1, 0, 1])], [value("y", 1, [1, 4, 2])],
     weights=[helper.make_tensor("n", T.INT64, [], [4])])
save("unnamed.onnx", [node("ConvTranspose", ["x", "w"], [""]), node("Relu", ["x"], ["y"])],
     [value("x", 1, [1, 1, 3, 3]), value("w", 1, [1, 1, 2, 2])], [value("y", 1, [1, 1, 3, 3])])
save("axes.onnx", [node("Unsqueeze", ["x", "a"], ["y"])], [value("x", 1, [2])], [value("y", 1, None)],
     weights=[helper.make_tensor("a", T.INT64, [1, 1, 1], [0])])
save("scale.onnx", [node("QuantizeLinear", ["x", "s"], ["y"], block_size=2)], [value("x", 1, [2, 4]), value("s", 1, [])],
     [value("y", 2, [2, 4])], 21)
save("softmax.onnx", [node("LogSoftmax", ["x"], ["y"])], [value("x", 1, [1, 2])], [value("y", 1, [1, 2])])
np.save("large.npy", np.full((1, 2), 3e30, np.float32))
P
for m in einsum concat; do "$PLUMB" convert $m.onnx $m-joint.onnx --backward joint 2>&1; echo "exit $?"; done
"$PLUMB" analyze dft.onnx --fill ones --backend jit --save none -o dft 2>&1 | head -1 | cut -d: -f1
"$PLUMB" run unnamed.onnx --backend jit --save none | grep -c '^y:'
"$PLUMB" run axes.onnx --save none 2>&1
for fill in 1 85; do MALLOC_PERTURB_=$fill "$PLUMB" run scale.onnx --input s=<(/usr/bin/python3 -c 'import sys, numpy; numpy.save(sys.stdout.buffer, numpy.float32(0.5))') --fill ones --save none | grep '^y'; done
"$PLUMB" run softmax.onnx --input x=large.npy --save none | grep '^y'
