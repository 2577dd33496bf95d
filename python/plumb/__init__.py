"""The PyTorch side of plumb: record every intermediate tensor of a module, under the names of its ONNX export."""
from ._save import Recording, save_intermediates

__all__ = ["save_intermediates", "Recording"]
__version__ = "0.1.0"
