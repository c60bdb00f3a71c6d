"""The convolution of Numba's CUDA tutorial, by `faltung` in the place of the kernels.

    python python/examples/numba_tutorial.py [--picture FILE] [--mask FILE.npy]

The original: Vincent Lunot, "An introduction to CUDA in Python (Part 3)". It filters a part of a photograph with a
random 13 x 13 mask, with zeros outside, and compares with `scipy.ndimage.convolve`. docs/tutorials/numba.md has the
kernels.

The photograph is scikit-image's coffee picture, from this repository, or `--picture`: a file of Pillow's formats or
`.npy`. Where Pillow or the file is missing, it is a synthetic picture of the same size. The exit status is 1 if a
result is not SciPy's.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import scipy.ndimage

import faltung.ndimage

ROWS, COLUMNS = slice(150, 350), slice(200, 400)
SIDE = 13
COFFEE = Path(__file__).resolve().parent.parent.parent / "host" / "data" / "coffee.png"


def photograph(file):
    """The picture as rows x columns of f64 from 0 to 1, and where it comes from."""
    if file is not None and file.endswith(".npy"):
        picture = np.load(file)
    else:
        try:
            from PIL import Image

            picture = np.asarray(Image.open(file or COFFEE))
        except (ImportError, FileNotFoundError):
            if file is not None:
                raise
            return synthetic(), "a synthetic picture"
    if picture.dtype == np.uint8:
        picture = picture / 255.0
    if picture.ndim == 3:
        # The weights of `skimage.color.rgb2gray`.
        picture = picture[..., :3] @ np.array([0.2125, 0.7154, 0.0721])
    return picture.astype(np.float64), file or COFFEE.name


def synthetic():
    """A picture of 400 x 600 with edges, a gradient and noise."""
    random = np.random.default_rng(13)
    y, x = np.mgrid[:400, :600]
    rings = np.sin(np.hypot(y - 210.0, x - 290.0) / 6.0) > 0
    return np.clip(0.2 + 0.5 * rings + x / 3000.0 + 0.05 * random.standard_normal(y.shape), 0.0, 1.0)


def median_ms(function, seconds=0.3):
    """The median time of a call in ms, after a first one."""
    function()
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def differs(name, result, exact, bound):
    """Prints the largest error in units of the bound; returns whether one is above it."""
    error = np.abs(result.astype(np.float64) - exact)
    # A NaN is above every bound.
    inside = error <= bound
    print(f"  {name:<34} largest error {np.max(error / bound):6.3f} of the bound: {'ok' if inside.all() else 'WRONG'}")
    return not inside.all()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--picture", help="the photograph: a picture, or .npy with rows x columns (x colours)")
    arguments.add_argument("--mask", help=".npy with the mask")
    options = arguments.parse_args()

    picture, source = photograph(options.picture)
    # The tutorial divides by 255 once more.
    image = (picture / 255).astype(np.float32)[ROWS, COLUMNS]
    if options.mask is None:
        mask = np.random.default_rng(1).random((SIDE, SIDE)).astype(np.float32)
        mask /= mask.sum()
    else:
        mask = np.load(options.mask)
    print(f"{source}: {image.shape[0]} x {image.shape[1]} pixels of {image.dtype}, a mask of {mask.shape}")

    def ours(picture=image, **more):
        return faltung.ndimage.convolve(picture, mask, mode="constant", cval=0.0, **more)

    def theirs(picture=image):
        return scipy.ndimage.convolve(picture, mask, mode="constant", cval=0.0)

    # The sum in f64, and |error| <= gamma(n) * sum|M*I| for n products in f32. Neither has negative values here.
    exact = theirs(image.astype(np.float64))
    unit = 2.0**-24
    bound = mask.size * unit / (1 - mask.size * unit) * scipy.ndimage.convolve(
        np.abs(image).astype(np.float64), np.abs(mask), mode="constant"
    )
    bound = np.maximum(bound, np.finfo(np.float32).tiny)
    wrong = differs("faltung, sums in f32", ours(), exact, bound)
    wrong |= differs("scipy, sums in f64", theirs(), exact, bound)
    same = np.array_equal(ours(accuracy="exact"), theirs())
    print(f"  faltung with accuracy='exact' has scipy's bits: {same}")
    whole = picture.astype(np.float32)
    whole_same = np.array_equal(ours(whole, accuracy="exact"), theirs(whole))
    print(f"  so for the whole picture of {whole.shape[0]} x {whole.shape[1]}: {whole_same}")

    mine, peer = median_ms(ours), median_ms(theirs)
    print(f"  faltung {mine:.3f} ms, scipy {peer:.3f} ms: {peer / mine:.1f} times as fast")
    return int(wrong or not same or not whole_same)


if __name__ == "__main__":
    sys.exit(main())
