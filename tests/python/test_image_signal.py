#!/usr/bin/python3
"""DFT and STFT against NumPy, GridSample and AffineGrid against torch, ImageDecoder against Pillow.
What the suite hardly tests: lengths with large primes, every type, all modes, real image files."""

import io

import numpy as np
import torch

from plumbtest import FLOATS, U, U_COMPUTE, Exact, Near, Suite, Tensor, int64, random

suite = Suite()
rng = np.random.default_rng(11)


def add(group, *args, **kwargs):
    suite.group = group
    suite.add(*args, **kwargs)



# ---- Fourier transforms --------------------------------------------------------------------------

def parts(z):
    return np.stack([z.real, z.imag], -1)


def dft_bound(x, n, inverse):
    """Computed in double: log2(n) roundings of the sum of all magnitudes, far below the last one."""
    return 8 * U["f64"] * (np.log2(n) + 4) * np.abs(x).sum() / (n if inverse else 1)


def add_dft(kind, shape, axis, n, inverse, onesided, opset):
    x = random(rng, shape, kind)
    z = x.double()[..., 0] + (1j * x.double()[..., 1] if shape[-1] == 2 else 0)
    length = n or (2 * (shape[axis] - 1) if inverse and onesided else shape[axis])
    if inverse and onesided:
        want = np.fft.irfft(z, n=length, axis=axis)[..., None]
    else:
        want = (np.fft.ifft if inverse else np.fft.fft)(z, n=length, axis=axis)
        want = parts(np.take(want, range(length // 2 + 1), axis) if onesided else want)
    attrs = {"inverse": int(inverse), "onesided": int(onesided)}
    inputs = [x, None if n is None else int64(n, shape=())]
    if opset < 20:
        attrs["axis"] = axis
        if n is None:
            inputs.pop()
    else:
        inputs.append(int64(axis if axis % 2 else axis - len(shape), shape=()))
    add(f"DFT/{kind}", "DFT", inputs, [Near(want, dft_bound(z, length, inverse), kind)], opset=opset, **attrs)


for kind in FLOATS:
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 22, 31, 37, 64, 97, 100, 121, 128, 210, 243, 331, 500, 1009]:
        for inverse, onesided, last in ((0, 0, 1), (0, 0, 2), (1, 0, 2), (0, 1, 1), (1, 1, 2)):
            if not (inverse and onesided and n < 2):
                add_dft(kind, (2, n, 3, last), 1, None, inverse, onesided, 20 if n % 2 else 17)
    for n in (3, 8, 11):  # cut and padded
        add_dft(kind, (2, 8, 1), 1, n, 0, 0, 20)
        add_dft(kind, (5, 2, 2), 0, n, 1, 0, 19)
        add_dft(kind, (2, 5, 2), 1, n, 1, 1, 20)

for kind in FLOATS:
    for length, frame, step, onesided, windowed in ((128, 16, 8, 1, 1), (100, 20, 7, 0, 1), (65, 13, 5, 1, 0), (50, 31, 3, 1, 1)):
        x, w = random(rng, (2, length, 1), kind), random(rng, (frame,), kind, 0.1, 1)
        window = w.double() if windowed else np.ones(frame)
        frames = [np.fft.fft(x.double()[:, s:s + frame, 0] * window) for s in range(0, length - frame + 1, step)]
        want = np.stack(frames, 1)[..., :frame // 2 + 1 if onesided else frame]
        add(f"STFT/{kind}", "STFT", [x, int64(step, shape=()), w if windowed else None, int64(frame, shape=())],
                  [Near(parts(want), dft_bound(x.double(), frame, False), kind)], opset=17, onesided=onesided)


# ---- sampling ------------------------------------------------------------------------------------

TORCH = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}


def add_grid_sample(kind, shape, out, mode, padding, align):
    x = random(rng, shape, kind)
    wide = 1 if mode == "cubic" and padding == "border" else 1.7  # beyond: the whole coordinate is clamped
    place = np.float64 if kind == "f64" else np.float32
    grid = rng.uniform(-wide, wide, (shape[0], *out, len(shape) - 2)).astype(place)
    want = torch.nn.functional.grid_sample(torch.tensor(x.double()), torch.tensor(grid).double(), mode=TORCH[mode],
                                           padding_mode=padding, align_corners=align).numpy()
    # The coordinate is rounded in the grid's type, to about an ulp of the size of the image, and a
    # pixel differs from its neighbour by at most 4; cubic weights are steeper and add up to more.
    err = 0 if mode == "nearest" else 40 * U_COMPUTE[kind] * max(shape[2:]) * len(shape)
    add(f"GridSample/{kind}", "GridSample", [x, Tensor(grid)], [Near(want, err, kind)], opset=20, mode=mode,
              padding_mode=padding, align_corners=int(align))


for kind in FLOATS:
    for shape, out in (((2, 3, 5, 7), (4, 6)), ((1, 2, 1, 1), (3, 3)), ((2, 2, 3, 4, 5), (2, 3, 4)), ((1, 1, 6, 1), (5, 2))):
        for mode in TORCH:
            for padding in ("zeros", "border", "reflection"):
                for align in (False, True):
                    if not (mode == "cubic" and len(shape) == 5):
                        add_grid_sample(kind, shape, out, mode, padding, align)
    for size in ((2, 1, 4, 5), (2, 3, 3, 4, 5), (1, 1, 2, 3)):
        for align in (False, True):
            theta = random(rng, (size[0], len(size) - 2, len(size) - 1), kind)
            want = torch.nn.functional.affine_grid(torch.tensor(theta.double()), size, align_corners=align).numpy()
            add(f"AffineGrid/{kind}", "AffineGrid", [theta, int64(*size)], [Near(want, 1e-14, kind)], opset=20,
                      align_corners=int(align))


# ---- image files ---------------------------------------------------------------------------------

def images():
    from PIL import Image
    y, x = np.mgrid[0:19, 0:27]
    rgb = Image.fromarray(np.stack([(y * 9 + x * 4) % 256, x * 9 % 256, (y * 6 + 40) % 256], -1).astype(np.uint8))
    rgba = rgb.copy()
    rgba.putalpha(Image.fromarray((x * 9 % 256).astype(np.uint8)))
    return {"RGB": rgb, "L": rgb.convert("L"), "RGBA": rgba, "LA": rgba.convert("LA"), "1": rgb.convert("1"),
            "P": rgb.convert("P", palette=Image.ADAPTIVE), "CMYK": rgb.convert("CMYK")}


def add_image(form, mode, image, options):
    from PIL import Image
    file = io.BytesIO()
    try:
        image.save(file, form, **options)
    except (OSError, ValueError, KeyError):
        return  # this format has no such mode
    decoded = Image.open(io.BytesIO(file.getvalue()))
    rgb = np.asarray(decoded.convert("RGB"))
    grey = np.asarray(decoded.convert("L"))[..., None]
    data = np.frombuffer(file.getvalue(), np.uint8)
    for pixel_format, want in (("RGB", rgb), ("BGR", rgb[..., ::-1]), ("Grayscale", grey)):
        add(f"ImageDecoder/{form}", "ImageDecoder", [Tensor(data)], [Exact(want)], opset=20, pixel_format=pixel_format)
    channels = {"RGB": 3, "Grayscale": 1}
    for pixel_format, n in channels.items():  # damaged: an empty matrix, by the specification
        add(f"ImageDecoder/{form}", "ImageDecoder", [Tensor(data[:len(data) // 3])],
                  [Exact(np.zeros((0, 0, n), np.uint8))], opset=20, pixel_format=pixel_format)


FORMATS = {"PNG": [{}], "BMP": [{}], "PPM": [{}], "WEBP": [{}, {"lossless": True}],
           "JPEG": [{}, {"quality": 30}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": True}],
           "TIFF": [{}, {"compression": "tiff_lzw"}, {"compression": "tiff_deflate"}, {"compression": "packbits"}],
           "JPEG2000": [{}, {"irreversible": True}]}
for form, variants in FORMATS.items():
    for mode, image in images().items():
        for options in variants:
            add_image(form, mode, image, options)

suite.finish()
