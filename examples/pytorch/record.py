#!/usr/bin/python3
"""Records a small network and its ONNX export: examples/pytorch/record.py FOLDER

The network adds 1 to one row through a view. torch 1.13 exports it as if it did not, without a warning: the names
of the records lead to the place."""
import os
import sys
import warnings

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
import plumb  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        h = self.stem(x)
        first = h[0]
        first.add_(1)  # changes h
        return self.head(h).softmax(-1)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    warnings.simplefilter("ignore")
    r = plumb.save_intermediates(Net(), torch.randn(3, 8), f"{folder}/net.onnx", f"{folder}/torch.safetensors",
                                 input_names=["x"], output_names=["y"])
    print(r)
    for key, reason in r.unmapped.items():
        print(f"  {key}: {reason}")


if __name__ == "__main__":
    main()
