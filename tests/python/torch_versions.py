"""What differs between the versions of torch that the tests run with: 1.13 (Debian 12, make test), 2.6 and 2.14 (tests/python/torch2)."""

import inspect

import torch

TORCH2 = int(torch.__version__.split(".", 1)[0]) >= 2
# torch 2.9 and later export by torch.export unless told not to.
OLD_EXPORTER = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
