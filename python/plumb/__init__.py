"""The PyTorch side of plumb: record every intermediate tensor of a module, under the names of its ONNX export."""
from ._save import Recording, save_intermediates
from ._version import VERSION as __version__  # noqa: F401

__all__ = ["save_intermediates", "Recording"]
