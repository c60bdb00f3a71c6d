"""Makes the drawings of the documentation as SVG files beside this script.

    python make.py            writes them
    python make.py --check    fails if a committed file is not what this script makes

Numbers of tiles, threads and buffers are those of the kernels. Times come from the reports in docs/measurements.
Colours of errors come from the pictures of docs/images. `cargo xtask pictures` makes these pictures, then the drawings.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER))

import errors  # noqa: E402
import kernels  # noqa: E402
import plots  # noqa: E402

DRAWINGS = {
    "tile-and-halo": kernels.tile_and_halo,
    "sliding-window": kernels.sliding_window,
    "double-buffering": kernels.double_buffering,
    "fixed-point-digits": kernels.fixed_point_digits,
    "overlap-save": kernels.overlap_save,
    "accuracy": kernels.accuracy,
    "error-scale": errors.scale,
    "time-against-mask": plots.time_against_mask,
}


def main(arguments):
    stale = []
    for name, draw in DRAWINGS.items():
        path, text = FOLDER / f"{name}.svg", draw().svg()
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
    unknown = [path.name for path in FOLDER.glob("*.svg") if path.stem not in DRAWINGS]
    if stale or unknown:
        print(f"stale: {stale}, made by nothing: {unknown}; run docs/drawings/make.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
