// The summary: sentences with the figures that a reader looks for first.

/** Whether the CPU computed all products of a separable mask: then the ratio compares two methods. */
const otherMethod = cell => cell.first.separable && cell.cpu?.name === "direct";
const cpuTimes = cell => cell.cpu.kernel_us / cell.auto.kernel_us;

/** "f32, 1 channel, dense (3 x 3 to 21 x 21)", for rows. `of` names the group of a row. */
function kinds(list, of = row => `${row.format}, ${row.separable ? "separable" : "dense"}`) {
  return [...grouped(list, of)].map(([name, some]) =>
    `${name} (${range([...some].sort(byMask).map(row => row.mask))})`).join("; ");
}

/** What is fast, what is not and why, and what else is faster: lists of sentences under titles. */
function inShort() {
  const taken = cells.map(cell => cell.auto).filter(Boolean);
  const large = taken.filter(row => row.values >= 1e6);
  const lists = [["What is fast", fast(large)], ["What is slow, and why", slow(taken, large)],
    ["Where something else is faster", elsewhere()], ["What to know before you use a number", cautions()]];
  const shown = lists.filter(([, list]) => list.length)
    .flatMap(([title, list]) => [el("h3", {}, title), el("ul", {}, ...list)]);
  return shown.length ? shown : [el("p", {}, "Nothing was timed.")];
}

const told = (title, ...text) => el("li", {}, el("b", {}, title), " ", ...text);
const link = (id, text) => el("a", {href: `#${id}`}, text);

/** The products for each value that the roofline of a row counts. */
const countedProducts = row => row.floor_us * row.report.document.fma_tflop_s * 1e6 / 2 / row.values;

function fast(large) {
  const list = [];
  const judged = large.filter(row => isNumber(row.floor_fraction));
  const near = judged.filter(row => row.floor_fraction >= 0.75);
  const beside = cells.filter(cell => cell.auto && isNumber(libraryTime(cell)));
  if (beside.length) {
    const times = cell => libraryTime(cell) / cell.auto.kernel_us;
    const order = [...beside].sort((a, b) => times(a) - times(b));
    const [least, most] = [order[0], order[order.length - 1]];
    const place = ({first}) => solid(`${first.mask} on ${first.width} x ${first.height}`);
    const first = beside.filter(cell => times(cell) > 1).length;
    list.push(told("Beside other libraries on this GPU", `(f32, one channel): the choice of auto is ahead in ${first} `
      + `of ${beside.length} cells. The fastest library takes from ${ratio(times(least))} our time (${place(least)}) `
      + `to ${ratio(times(most))} (${place(most)}).`));
  }
  if (near.length) {
    list.push(told("Near the limit of the GPU,", `at least 75 % of the roofline: ${near.length} of the `
      + `${judged.length} cells with large images and a share. `
      + [...grouped(near, row => row.floor_bound)].map(([bound, some]) => `Of ${bound}: ${kinds(some)}.`).join(" ")));
  }
  const above = large.filter(isAbove);
  if (above.length) {
    const all = above.every(row => countedProducts(row) >= row.mask_width * row.mask_height);
    list.push(told("Above the roofline:", `${[...new Set(above.map(row => row.name))].join(", ")}, ${kinds(above)}. `
      + (all ? "Its roofline counts f32 multiply-adds for all products of the mask. The kernel filters rows, then "
        + "columns, so it does fewer. It has no share."
        : "The kernel is faster than the measured rates allow. It has no share.")));
  }
  const cpu = cells.filter(cell => cell.auto && cell.cpu && cell.auto.values >= 1e6 && !otherMethod(cell));
  if (cpu.length) {
    list.push(told("Beside the CPU,", "with the image in the GPU's memory, the GPU is "
      + `${span(cpu.map(cpuTimes), ratio)} as fast on large images. The CPU had `
      + `${threadsOf(cpu.map(cell => cell.cpu))} threads.`));
  }
  const only = timed.filter(row => !row.onGpu);
  if (!large.length && only.length && !timed.some(row => row.onGpu)) {
    list.push(told("Only the CPU was measured.", `Its kernels reach ${spanOfShares(only) ?? "no share"} as their `
      + "rooflines."));
  }
  if (pythonRows.length) {
    const compared = pythonRows.filter(row => row.library !== "faltung" && isNumber(row.median_us)).length;
    list.push(told("From Python,", `faltung is at least as fast as the other library in `
      + `${compared - pythonLosses().length} of ${compared} `, link("python", "comparisons"), "."));
  }
  return list;
}

function slow(taken, large) {
  const list = [];
  // In JavaScript `null < 0.5` holds.
  const below = large.filter(row => isNumber(row.floor_fraction) && row.floor_fraction < 0.5);
  const far = below.filter(row => !MEMORY_ONLY.has(row.name));
  const own = below.filter(row => MEMORY_ONLY.has(row.name));
  const small = taken.filter(row => row.values < 1e6);
  const whole = large.filter(row => !row.pageLocked && isNumber(row.end_to_end_us) && !row.disturbed);
  if (far.length) list.push(told("Far from the limit,", `less than 50 % of the roofline: ${kinds(far)}. `
    + "Neither memory bandwidth nor FMA rate limits these kernels. The limit was not measured."));
  if (own.length) {
    list.push(told("Bound by their own arithmetic:", `${[...new Set(own.map(row => row.name))].join(", ")}. The `
      + "roofline of these kernels counts memory traffic only. Their arithmetic takes longer. The share does not rate "
      + "the kernel."));
  }
  if (small.length) {
    list.push(told("Small images", `take ${span(small.map(row => row.kernel_us), time)}, because a launch takes about `
      + "as long as the kernel."));
  }
  if (whole.length) {
    list.push(told("From host memory and back,", `a call on a large image takes `
      + `${span(whole.map(row => row.end_to_end_us / row.kernel_us), ratio)} the time of the kernel. The rest is `
      + "copies and waiting." + (whole.some(row => row.name === "fft_passes") ? " fft_passes never travels in bands "
        + "(docs/kernels/fft.md)." : "")));
  }
  if (taken.length) {
    list.push(told("The first call", `takes ${span(taken.map(row => row.first_call_us), time)}. It plans, loads the `
      + "kernel and allocates. Where the driver has no compiled kernel in its cache, it compiles too."));
  }
  return list;
}

function elsewhere() {
  const list = [];
  const count = who => losses.filter(one => one.who === who);
  const [byLibrary, byKernel, byMethod] = ["library", "own kernel", "own CPU method"].map(count);
  const of = some => `${some.length} case${some.length === 1 ? "" : "s"}`;
  const since = some => {
    const later = some.filter(one => one.since).length;
    return later ? ` In ${later} of these cases a newer version already takes the faster kernel.` : "";
  };
  if (byLibrary.length) {
    list.push(told("A library", `is faster than the choice of auto in ${of(byLibrary)}.${since(byLibrary)}`));
  }
  if (byKernel.length) {
    list.push(told("Another kernel of ours", `is more than 5 % faster than the choice of auto in ${of(byKernel)}.`
      + since(byKernel)));
  }
  if (byMethod.length) list.push(told("Another method of the CPU", `is more than 5 % faster in ${of(byMethod)}.`));
  const both = cells.filter(cell => cell.endToEnd);
  const slower = both.filter(cell => cell.endToEnd.cpu.end_to_end_us < cell.endToEnd.gpu.end_to_end_us);
  if (slower.length) {
    list.push(told("The CPU is faster", `from host memory and back in ${slower.length} of ${both.length} cells: `
      + `${kinds(slower.map(cell => cell.endToEnd.gpu), row => row.group)}. There the GPU is worth its `
      + "transfers only if the image stays in GPU memory."));
  }
  const python = pythonLosses();
  if (python.length) {
    const all = name => pythonRows.filter(row => row.library === name && isNumber(row.median_us)).length;
    const by = [...grouped(python, one => one.row.library)].map(([name, some]) =>
      `${name} in ${some.length} of ${all(name)} calls`);
    list.push(told("From Python,", `another library is faster than faltung: ${by.join(", ")}.`));
  }
  if (!list.length && both.length) {
    const left = cells.filter(cell => cell.auto && cell.cpu && !cell.endToEnd).length;
    const found = libraries.length ? ["Nothing", "that these reports have."]
      : ["Only our own kernels were compared.", "None is more than 5 % faster than the choice of auto."];
    const disturbed = ` In ${left} cells the times from host memory and back are disturbed, so they do not count.`;
    list.push(told(...found, left ? disturbed : ""));
  } else if (list.length) list.push(el("li", {}, "Each case is in ", link("losses", "Where we lose"), "."));
  return list;
}

/** What changes the meaning of rows, and where the rest is told. */
function cautions() {
  const list = [];
  const noted = word => timed.filter(row => row.note?.includes(word)).length;
  const rowsOf = count => `${count} of ${timed.length} rows`;
  if (noted("throttled: ")) {
    list.push(told("The GPU lowered its clock", `in ${rowsOf(noted("throttled: "))}. Their times are longer than those `
      + "of a cool GPU with enough power. The column “note” of ", link("rows", "All rows"), " has the reasons."));
  }
  if (noted("drift: ")) {
    list.push(told("Times rose or fell", `by 5 % or more while they were measured in ${rowsOf(noted("drift: "))}. `
      + "Measure these again. The column “note” of ", link("rows", "All rows"), " has them."));
  }
  const disturbed = timed.filter(row => row.disturbed).length;
  if (disturbed) {
    list.push(told("Disturbed:", `the end-to-end times of ${rowsOf(disturbed)} are longer than their first call, or `
      + "their runs differ by more than a factor of 2. They are in no claim of this summary."));
  }
  const methods = timed.filter(comparesMethods).length;
  if (methods) {
    list.push(told("Two methods:", `do not use the CPU ratio of ${methods} separable rows. The GPU used two passes, `
      + "the CPU computed all products. They are struck through in “All rows”."));
  }
  const refused = reports.reduce((sum, {document}) => sum + (document.not_eligible?.length ?? 0)
    + (document.errors?.length ?? 0), 0);
  if (refused) {
    list.push(told("Without a time:", `${refused} times a variant could not compute a cell, or failed. `,
      link("absent", "What was not timed, and why"), " has each reason."));
  }
  if (libraries.length || pythonRows.length) {
    list.push(told("Versions", "of the libraries, commits and commands are in ",
      link("reports", "Reports, versions, commands"), "."));
  }
  return list;
}
