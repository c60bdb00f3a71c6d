"""Drawings of the kernels. Each function names the source of its numbers."""

from svg import Drawing


def tile_and_halo():
    """`shared_tile` with a mask of 9 x 9: kernels-gpu/src/teaching/shared_tile.rs."""
    columns, rows, side = 32, 16, 9
    halo = side // 2
    across, down = columns + side - 1, rows + side - 1  # 40 x 24
    unit, left, top = 7.5, 62, 44
    d = Drawing(f"Tile and halo of a block of {columns} x {rows} outputs with a mask of {side} x {side}", 330)

    d.text(left + across * unit / 2, 18, f"tile in shared memory: {across} x {down} values", anchor="middle", bold=True)
    d.rect(left, top, across * unit, down * unit, "pale-orange", "orange")
    d.rect(left + halo * unit, top + halo * unit, columns * unit, rows * unit, "pale-blue", "blue")
    d.text(left + 4, top + 13, "halo", "orange")
    words = [f"{columns} x {rows} outputs,", "one thread for each"]
    d.text(left + (halo + 1) * unit, top + (halo + 12.5) * unit, words, "blue")

    # The measures.
    y = top - 7
    d.line([(left, y), (left + across * unit, y)], "dim")
    for x in (left, left + across * unit):
        d.line([(x, y - 4), (x, y + 4)], "dim")
    d.text(left + across * unit / 2, y - 4, f"{columns} + {side} - 1 = {across}", "dim", "middle", small=True)
    x = left - 7
    d.line([(x, top), (x, top + down * unit)], "dim")
    for y in (top, top + down * unit):
        d.line([(x - 4, y), (x + 4, y)], "dim")
    d.text(x - 6, top + down * unit / 2 - 8, [f"{rows}", f"+ {side} - 1", f"= {down}"], "dim", "end", small=True)

    # The window of the first output, and that of another one.
    for column, row in ((0, 0), (25, 7)):
        x, y = left + column * unit, top + row * unit
        d.rect(x, y, side * unit, side * unit, "none", "green", stroke_width=1.75)
        d.rect(x + halo * unit, y + halo * unit, unit, unit, "green")
    d.line([(left + 30 * unit, top + (7 + side) * unit), (left + 30 * unit, top + down * unit + 12)], "green")
    d.text(left + across * unit, top + down * unit + 24, "window of one output: 9 x 9", "green", "end")

    y = top + down * unit + 46
    loads, values = columns * rows * side * side, across * down
    d.text(20, y, f"Windows read {columns} x {rows} x {side} x {side} = {loads:,} values.")
    d.text(20, y + 16, f"Of these {values} are different. The block loads each once,")
    d.text(20, y + 32, "waits at a barrier, and then reads shared memory.")
    return d


def sliding_window():
    """`sliding_window` for 3 x 3 in `f32`, four columns a thread: direct/sliding_window/{walk,double_buffered}.rs."""
    side, columns = 3, 4
    window = columns + side - 1
    unit, left, top = 23, 18, 60
    d = Drawing("A thread of sliding_window walks down a strip with its sums in registers", 372)
    d.text(18, 20, "One thread, mask 3 x 3, 4 columns, at row r", bold=True)
    d.text(left, 48, "rows of the image", "dim", small=True)
    rows = [
        ("r - 2", "grey", None),
        ("r - 1", "grey", None),
        ("r", "pale-blue", f"window: {window} pixels in registers"),
        ("r + 1", "pale-purple", "to the other shared buffer"),
        ("r + 2", "pale-orange", "loads are issued"),
    ]
    for i, (name, fill, words) in enumerate(rows):
        y = top + i * unit
        for j in range(window):
            d.rect(left + j * unit, y, unit, unit, fill, "line")
        color = {"pale-blue": "blue", "pale-purple": "purple", "pale-orange": "orange"}.get(fill, "dim")
        d.text(left + window * unit + 8, y + 16, name, color, bold=fill != "grey")
        if words:
            d.text(left + window * unit + 46, y + 16, words, color, small=True)
    d.text(left + window * unit + 46, top + 16, "used up: a thread loads", "dim", small=True)
    d.text(left + window * unit + 46, top + unit + 14, "each row of its strip once", "dim", small=True)
    d.rect(left, top + 2 * unit, window * unit, unit, "none", "blue", stroke_width=2)

    # The sums, and the free shift.
    y0, height = 216, 34
    d.text(left, y0 - 10, f"sums in registers, {columns} for each of {side} output rows", "dim", small=True)
    sums = [
        ("sums[0]", "window * W[2] + sums[1]", "complete: stored"),
        ("sums[1]", "window * W[1] + sums[2]", "one row to come"),
        ("sums[2]", "window * W[0] + 0", "two rows to come"),
    ]
    for i, (name, formula, state) in enumerate(sums):
        y = y0 + i * (height + 6)
        fill, stroke = ("pale-green", "green") if i == 0 else ("grey", "line")
        d.rect(left, y, 268, height, fill, stroke, radius=4)
        d.text(left + 10, y + 21, name, bold=True)
        d.text(left + 74, y + 21, f"= {formula}")
        d.text(left + 276, y + 21, state, "green" if i == 0 else "dim", small=True)
        if i:
            d.line([(left + 240, y + 8), (left + 240, y - 14)], "blue", arrow=True)
    d.text(18, 346, "The sums move up by one row in each step without a copy:")
    d.text(18, 362, "a multiply-add names its destination.")
    return d


def double_buffering():
    """`separable_block_tile`: kernels-gpu/src/separable/block_tile/mod.rs, the loop of `block_tile`."""
    d = Drawing("Three stages of separable_block_tile on groups of 16 rows, in two pairs of buffers", 330)
    d.text(14, 20, "One block: three groups of 16 rows are under way", bold=True)
    left, top, width, height, rows, steps = 64, 62, 66, 38, 4, 5
    stages = [
        ("cp.async", "to P{}", "pale-orange", "orange"),
        ("row pass", "P{0} to F{0}", "pale-blue", "blue"),
        ("col. pass", "adds F{}", "pale-green", "green"),
    ]
    for step in range(steps):
        d.text(left + step * width + width / 2, 44, f"step {step}", "dim", "middle", small=True)
    for step in range(steps + 1):
        d.line([(left + step * width, 50), (left + step * width, top + rows * (height + 6))], "dim", dash="3 3")
    for group in range(rows):
        y = top + group * (height + 6)
        d.text(left - 8, y + 16, "rows", "ink", "end", small=True)
        d.text(left - 8, y + 30, f"{16 * group} to {16 * group + 15}", "ink", "end", small=True)
        for stage, (name, place, fill, stroke) in enumerate(stages):
            step = group + stage
            if step < steps:
                x = left + step * width
                words = [name, place.format(group % 2)]
                d.box(x + 2, y, width - 4, height, words, fill, stroke, stroke)
    y = top + rows * (height + 6) + 14
    d.line([(left, y + 8), (left, y - 8)], "dim", arrow=True)
    d.text(left + 8, y + 6, "each step begins with wait_group<0> and one barrier", "dim", small=True)
    y += 28
    d.text(14, y, "P0, P1: 16 rows of pixels.  F0, F1: 16 filtered rows.")
    d.text(14, y + 16, "Step 2 copies to P0, filters rows from P1 to F1, and adds F0")
    d.text(14, y + 32, "to the column sums. Within a step no stage waits for another.")
    return d


def fixed_point_digits():
    """`tensor_core_u8` with 7 x 7: kernels-gpu/src/tensor_core_u8, and faltung/src/plan/fixed_point.rs."""
    d = Drawing("A coefficient as two signed bytes, the matrix product, and the pixels that it does not decide", 474)
    d.text(14, 20, "1. The host: coefficients become two signed bytes", bold=True)
    d.text(14, 40, "scale * W  ~  (256 * high + low) * 2^-shift", "ink")
    d.box(290, 26, 46, 22, "high", "pale-purple", "purple", "purple")
    d.box(340, 26, 46, 22, "low", "pale-blue", "blue", "blue")

    d.text(14, 74, "2. The tensor cores: exact products, here for 7 x 7", bold=True)
    unit, y = 5, 100
    # 16 rows of 32 bytes.
    x = 14
    d.rect(x, y, 16 * unit, 16 * unit, "pale-orange", "orange")
    d.rect(x + 16 * unit, y, 16 * unit, 16 * unit, "grey", "orange")
    d.text(x, y - 6, "16 x 32 bytes of the image", "orange", small=True)
    d.text(x + 8 * unit, y + 44, "rows 4m + t", "orange", "middle", small=True)
    d.text(x + 24 * unit, y + 44, "4m + t + 1", "orange", "middle", small=True)
    d.text(x + 32 * unit + 12, y + 46, "x", anchor="middle", bold=True)
    # The Toeplitz matrix as `Layout::mask_element` fills it: phase 1, rows of the mask paired.
    x, phase = 200, 1
    d.rect(x, y, 8 * unit, 32 * unit, "page", "line")
    for k in range(32):
        for n in range(8):
            if 0 <= k % 16 - phase - n < 7:
                fill, stroke = ("grey", "dim") if k < 16 else ("dim", "page")
                d.rect(x + n * unit, y + k * unit, unit, unit, fill, stroke, stroke_width=0.5)
    d.text(x, y - 6, "32 x 8", "dim", small=True)
    d.text(x + 8 * unit + 5, y + 36, ["row k of", "the mask"], "dim", small=True)
    d.text(x + 8 * unit + 5, y + 116, ["row k + 1"], "dim", small=True)
    d.text(x + 108, y + 46, "=", anchor="middle", bold=True)
    x = 326
    d.rect(x, y, 8 * unit, 16 * unit, "pale-green", "green")
    d.text(x, y - 6, "16 x 8 sums", "green", small=True)
    d.text(x, y + 96, ["of 32 bits"], "green", small=True)
    words = ["Each column is the row of", "the mask, one place further", "down. One product for the"]
    words.append("low bytes, one for the high.")
    d.text(14, y + 104, words, "dim", small=True)

    y = 292
    d.text(14, y, "3. Shift: is the byte decided?", bold=True)
    d.text(14, y + 20, "T = 256 * high sum + low sum;  y = (T + bias) * 2^-shift")
    # The number line from n to n + 2, the part that is uncertain drawn wider than it is.
    left, unit, axis, uncertain = 40, 150, y + 62, 26
    for i in (0, 1):
        x = left + i * unit
        d.rect(x, axis - 12, uncertain, 12, "pale-orange", "orange")
        d.rect(x + uncertain, axis - 12, unit - uncertain, 12, "pale-green", "green")
        words = f"the byte is n{' + 1' if i else ''}"
        d.text(x + uncertain + (unit - uncertain) / 2, axis - 18, words, "green", "middle", small=True)
    d.line([(left - 14, axis), (left + 2 * unit + 26, axis)], "ink", arrow=True)
    for i, name in enumerate(("n", "n + 1", "n + 2")):
        d.line([(left + i * unit, axis - 12), (left + i * unit, axis + 5)], "ink")
        d.text(left + i * unit, axis + 18, name, "ink", "middle", small=True)
    x = left + uncertain / 2
    d.line([(x, axis + 2), (x, axis + 36), (left + 40, axis + 36)], "orange", arrow=True)
    d.text(left + 46, axis + 40, "within 2 * radius above an integer: uncertain.", "orange")
    d.text(left + 46, axis + 55, "Recomputed in f32, in the order of class Exact.", "orange")
    d.text(14, axis + 84, "So every byte is bit-exact with the ordered sum.")
    d.text(14, axis + 100, "The widths of the uncertain parts are not to scale.", "dim", small=True)
    return d


def overlap_save():
    """`fft_tile` with a mask of 31 x 31: kernels-gpu/src/fft/tile.rs."""
    side, mask = 128, 31
    valid = side + 1 - mask  # 98
    scale, left, top = 1.15, 24, 62
    before = (mask - 1) // 2  # the anchor is in the middle
    d = Drawing(f"Tiles of {side} x {side} pixels overlap by {mask - 1}; each gives {valid} x {valid} results", 420)
    d.text(14, 20, f"A pair of tiles for a mask of {mask} x {mask}", bold=True)
    d.text(left, 38, "A: real parts", "blue")
    d.text(left + valid * scale + side * scale, 38, "B: imaginary parts", "purple", "end")
    y = 50
    for x, color in ((left, "blue"), (left + valid * scale, "purple")):
        shift = 0 if color == "blue" else 6
        d.line([(x, y + shift - 2), (x + side * scale, y + shift - 2)], color)
        for end in (x, x + side * scale):
            d.line([(end, y + shift - 6), (end, y + shift + 2)], color)
    for i, (color, pale) in enumerate((("blue", "pale-blue"), ("purple", "pale-purple"))):
        x = left + i * valid * scale
        d.rect(x + before * scale, top + before * scale, valid * scale, valid * scale, pale, color)
        middle = x + (before + valid / 2) * scale
        d.text(middle, top + side * scale / 2 - 4, f"{valid} x {valid}", color, "middle", bold=True)
        d.text(middle, top + side * scale / 2 + 12, "results", color, "middle")
    for i, color in enumerate(("blue", "purple")):
        d.rect(left + i * valid * scale, top, side * scale, side * scale, "none", color, dash="5 3", stroke_width=1.5)
    right = left + (valid + side) * scale
    d.text(right + 8, top + 14, [f"a tile:", f"{side} x {side}", "pixels"], "dim", small=True)
    words = ["tiles begin", f"{side} + 1 - {mask}", f"= {valid} apart,", "and overlap", f"by {mask - 1}"]
    d.text(right + 8, top + 72, words, "dim", small=True)
    y = top + side * scale + 12
    x0, x1 = left + valid * scale, left + side * scale
    d.line([(x0, y - 8), (x0, y), (x1, y), (x1, y - 8)], "orange")
    d.text((x0 + x1) / 2, y + 14, f"both tiles read these {mask - 1} columns", "orange", "middle", small=True)

    y += 34
    d.text(14, y, "One block of 512 threads, all in one kernel", bold=True)
    steps = [
        ("A + iB", "minus mean"),
        ("forward", "transform"),
        ("times the", "spectrum"),
        ("inverse", "transform"),
        ("proof of", "each result"),
    ]
    width = 70
    for i, words in enumerate(steps):
        x = 8 + i * (width + 9)
        last = i == len(steps) - 1
        d.box(x, y + 12, width, 40, [], "pale-green" if last else "grey", "green" if last else "line")
        for j, word in enumerate(words):
            d.text(x + width / 2, y + 29 + 14 * j, word, "green" if last else "ink", "middle", small=True)
        if i:
            d.line([(x - 9, y + 32), (x - 1, y + 32)], "ink", arrow=True)
    y += 74
    d.text(14, y, "All results proven: the rows are stored.", "green")
    d.text(14, y + 16, "Up to 512 failures: its warps share and add those windows.", "orange")
    d.text(14, y + 32, "More, or NaN: the block computes both tiles again, in order.", "orange")
    d.text(14, y + 56, "128 = 32 x 4 on both axes: 32 points of a thread in registers.")
    d.text(14, y + 72, "Between steps the tile goes through 132 KB of shared memory.")
    return d


def accuracy():
    """The classes: faltung/src/accuracy.rs; who proves what: docs/kernels/integers.md, fft.md, tensor-core-u8.md."""
    d = Drawing("From the accuracy class and the type of the result to what is guaranteed", 470)
    x = (14, 142, 270)
    width = 116
    d.text(14, 20, "What is asked for", small=True, bold=True)
    d.box(x[0], 30, width, 40, ["f32, class Exact"], "pale-blue", "blue", "blue")
    d.box(x[1], 30, width, 40, ["f32, class", "Bounded"], "pale-purple", "purple", "purple")
    d.box(x[2], 30, width, 40, ["u8 or u16,", "Exact, Bounded"], "pale-green", "green", "green")

    d.text(14, 104, "What computes", small=True, bold=True)
    d.box(x[0], 114, width, 68, ["the ordered sum:", "one fused multiply-", "add a coefficient,", "from 0"])
    d.box(x[1], 114, width, 68, ["the fastest kernel:", "ordered, separable,", "tensor cores or", "an FFT"])
    d.box(x[2], 114, width, 68, ["the fastest kernel,", "with a radius: how", "far from the", "ordered sum"])

    d.text(14, 216, "What is proven", small=True, bold=True)
    d.box(x[0], 226, width, 68, ["nothing to prove:", "the order of all", "operations is fixed"])
    d.box(x[1], 226, width, 68, ["before the launch:", "a bound c; in an FFT", "for each result"])
    d.box(x[2], 226, width, 68, ["for each value: no", "half-way point is", "within the radius"])
    d.box(x[1], 314, 96, 54, ["not proven:", "again, by a", "direct sum"], "pale-orange", "orange", "orange")
    d.box(x[2], 314, 96, 54, ["uncertain:", "again, in", "order"], "pale-orange", "orange", "orange")

    d.text(14, 392, "The result", small=True, bold=True)
    d.box(x[0], 402, width, 54, ["bit-exact on", "GPU, CPU and", "emulator"], "pale-blue", "blue", "blue")
    words = ["error at most", "gamma(c) *", "sum|M * I|"]
    d.box(x[1], 402, width, 54, words, "pale-purple", "purple", "purple")
    d.box(x[2], 402, width, 54, ["bit-exact on", "GPU, CPU and", "emulator"], "pale-green", "green", "green")
    for i, column in enumerate(x):
        straight, again = column + width - 9, column + 48
        d.line([(straight, 70), (straight, 113)], "ink", arrow=True)
        d.line([(straight, 182), (straight, 225)], "ink", arrow=True)
        d.line([(straight, 294), (straight, 401)], "ink", arrow=True)
        if i > 0:
            d.line([(again, 294), (again, 313)], "orange", arrow=True)
            d.line([(again, 368), (again, 401)], "orange", arrow=True)
    return d
