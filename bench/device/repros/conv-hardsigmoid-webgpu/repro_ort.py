#!/usr/bin/env python3
"""Runs model.onnx with ONNX Runtime. Exits with 1 if the bug shows, 0 if not, 2 if it cannot run here.
Needs: pip install onnx onnxruntime"""
LEVEL, THREADS = 99, 0
DISABLE = []
PROVIDERS = ["WebGpuExecutionProvider", "CPUExecutionProvider"]
LIMITS = [4.76837158203125e-07]  # half of the error observed, by output
MUST_FAIL = False  # the bug is an error of ONNX Runtime
import os
import sys
try:
    import numpy
    import onnx
    from onnx import numpy_helper
    import onnxruntime
except ImportError as error:
    print('cannot run:', error, '(pip install onnx onnxruntime)', file=sys.stderr)
    sys.exit(2)

os.chdir(os.path.dirname(os.path.abspath(__file__)))


def load(name):
    tensor = onnx.TensorProto()
    with open(name, 'rb') as file:
        tensor.ParseFromString(file.read())
    return numpy_helper.to_array(tensor)


try:
    n_inputs = len(onnx.load('model.onnx', load_external_data=False).graph.input)
    inputs = [load(f'test_data_set_0/input_{i}.pb') for i in range(n_inputs)]
    expected = [load(f'test_data_set_0/output_{i}.pb') for i in range(len(LIMITS))]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(LEVEL)
    options.intra_op_num_threads = THREADS
    for name in DISABLE:
        options.add_session_config_entry('optimization.disable_specified_optimizers', name)
except Exception as error:
    print('cannot run:', error, file=sys.stderr)
    sys.exit(2)
try:
    session = onnxruntime.InferenceSession('model.onnx', options, providers=PROVIDERS)
    absent = [p for p in PROVIDERS if p not in session.get_providers()]
    if absent:
        print('cannot run: this onnxruntime lacks', ', '.join(absent), file=sys.stderr)
        sys.exit(2)
    feed = {x.name: value for x, value in zip(session.get_inputs(), inputs)}
    outputs = session.run(None, feed)
    again = session.run(None, feed)
except Exception as error:
    print('ONNX Runtime fails:', error)
    if not MUST_FAIL:
        print('cannot run: the bug is in the values, and there are none', file=sys.stderr)
    sys.exit(1 if MUST_FAIL else 2)
shows = False
for i, (got, limit) in enumerate(zip(outputs, LIMITS)):
    want = expected[i]
    if got.shape != want.shape:
        print(f'output {i}: shape {got.shape}, expected {want.shape}')
        shows = True
        continue
    a, b = got.astype(numpy.float64), want.astype(numpy.float64)
    wrong = int((numpy.isfinite(a) != numpy.isfinite(b)).sum())
    off = float(numpy.nanmax(numpy.abs(a - b), initial=0, where=numpy.isfinite(a) & numpy.isfinite(b)))
    print(f'output {i}: off by up to {off:g} (limit {limit:g}), {wrong} elements are non-finite on one side only')
    shows = shows or off > limit or wrong > 0
    if not numpy.array_equal(got, again[i], equal_nan=got.dtype.kind == 'f'):
        print(f'output {i}: a second run gives something else')
        shows = True
sys.exit(1 if shows else 0)
