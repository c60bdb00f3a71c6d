// The page: its sections in order. A section that fails says so, and the others stand.

function machineText() {
  const document = reports.find(report => report.document.device)?.document ?? reports[0]?.document;
  const threads = threadsOf(rows);
  const machine = data.python?.[0]?.document.machine;
  if (document) {
    const {device, cpu} = document;
    const gpu = device ? [device.name, device.sm_count ? `${device.sm_count} multiprocessors` : null,
      device.compute_capability ? `compute capability ${device.compute_capability}` : null,
      device.driver ? `CUDA ${device.driver}` : null].filter(Boolean).join(", ") : "no GPU measured";
    return `GPU: ${gpu}. CPU: ${cpu.name}, ${threads} threads.`;
  }
  return machine ? `CPU: ${machine.cpu}, ${machine.cores} cores. GPU: ${machine.gpu ?? "none"}.` : "";
}

/** What a section without data gives. */
const nothing = () => null;
/** A paragraph; lines of the source are no lines of the text. */
const says = text => el("p", {}, text.replace(/\s+/g, " ").trim());

function short() {
  const notes = (data.notes ?? []).map(note => el("p", {class: "quiet"}, note));
  if (!cells.length) return [...inShort(), ...notes];
  return [...inShort(), ...notes, says(`
    “auto” is the choice that the program makes: the kernel with the shortest predicted time. Each line is a kernel
    that auto takes. The roofline is the least time: all bytes moved once at the measured copy
    rate, or all products at the measured multiply-add rate, whichever takes longer. The share names that bound.
    Shares of different bounds do not compare. “above” is faster than the roofline, so it has no share. “two methods”:
    do not use the CPU ratio of these separable rows. The GPU used two passes, the CPU computed all products. A click
    on a title sorts.`),
  overview()];
}

function rooflineSection() {
  if (!timed.length) return nothing();
  return [says(`
    Each point is a measured kernel. Higher is faster. The speed is effective: it counts the operations of the plain
    formula, two for each coefficient and value, whatever the kernel does. Points above the line need fewer
    operations than the formula, or use tensor cores. Their shares in the tables count another roofline: the copies
    alone. Touch a point for its numbers, click for its report.`),
  ...roofline()];
}

function masksSection() {
  if (!groups.length) return nothing();
  return [says(`
    Lower is faster. Filled marks are our kernels on the GPU. Hollow marks with solid lines: our CPU methods.
    Hollow marks with dotted lines: other libraries. The thick dashed line is the roofline of the plain sum: kernels
    that need fewer operations may be below it. The legend hides and shows a
    line. A hollow button is a hidden line. The table below has the same times; a dash was not measured.`),
  ...choice("Images", groupNames, mainGroup, timeOverMask)];
}

function matrixSection() {
  const parts = [];
  if (cells.length) {
    parts.push(el("h3", {}, "Share of the roofline, of the kernel that auto takes"), says(`
      The largest measured image of each format. Green is above 50 %, red below. A dash was not measured. Below each
      share is its bound. Grey says nothing about the kernel: it is above its roofline, or its roofline counts memory
      traffic only and its arithmetic takes longer (tensor_core_u8, separable_tensor_core, fft_tile, fft_passes).`),
    shareMap());
  }
  if (matrix.length) {
    const sizes = [...new Set(matrix.map(cell => `${cell.width} x ${cell.height}`))];
    const first = sizes.includes("4096 x 4096") ? "4096 x 4096" : sizes[0];
    parts.push(el("h3", {}, "Time for each value, beside f32 in one channel"), says(`
      The time of the fastest kernel divided by the number of values, as a multiple of that of f32 in one channel with
      the same image and mask. Green is at most 1.15; 2 takes twice as long for each value. † and grey: not the
      fastest kernel, because register_tile was not measured there. ${data.matrix.note ?? ""}`),
    ...choice("Image", sizes, first, size => [matrixMap(size)]));
  }
  return parts.length ? parts : nothing();
}

function accuracySection() {
  if (!timed.length) return nothing();
  return [says(`
    The largest error over the image, divided by what is allowed at that pixel. The dashed line is the bound. Do
    not compare kernels: their bounds differ. For u8 and u16 the largest rounding error is almost 0.5 by nature. The
    allowed error is 0.5. So the quotient is near 1.`),
  ...accuracy()];
}

function wholeSection() {
  if (!groups.length) return nothing();
  return [says(`
    Left is faster. The marks of a mask are of one run. The kernel alone works on data in the GPU's memory. End to end
    is from host memory to host memory. The first call also plans, loads the kernel and allocates. CPU times are of all
    threads. A pale mark is disturbed: its end-to-end time is longer than its first call, or its runs differ by more than a
    factor of 2.`),
  ...choice("Images", wholeNames, mainGroup.replace(COLD, ""), name => [...dots(name), says(`
    “First call”: planning, loading and allocation included; “(loaded)”: an earlier cell had loaded the kernel. “Warm
    caches”: a run finds there what the run before has left. `
    + (groupNames.includes(name + COLD) ? `“Cold caches”: the second-level cache of the GPU and the caches of the CPU
    are evicted before each run (--cold). A dash was not measured.` : "These reports have no times with cold caches.")),
  cachesTable(name)])];
}

function lossSection() {
  const parts = [];
  if (losses.length) {
    parts.push(says(`
      “library”: a library is faster than the kernel that auto took. “own kernel”: another of our kernels is more than
      5 % faster. “own CPU method”: the
      same for the choice of the CPU. “CPU, end to end”: the CPU computes the image faster than the GPU does with both
      copies. The last column: in another report auto takes a faster kernel for the same cell.`), lossTable());
  } else if (reports.length) {
    parts.push(says(`
      In no cell of these reports is a library faster than what auto takes, or another kernel more than 5 % faster.`));
  }
  if (pythonLosses().length) parts.push(el("h3", {}, "From Python"), pythonLossTable());
  if (besideOthers.length) {
    parts.push(el("h3", {}, "Means"), says(`
      The times of a library over ours, in the cells that both have: above 1, ours is faster. A geometric mean weighs
      all these cells alike, so it hides the losses above, and it says nothing about cells that were not measured.`),
    meanTable());
  }
  return parts.length ? parts : nothing();
}

function pythonSection() {
  if (!pythonRows.length) return nothing();
  return data.python.flatMap(report => [says(`
    faltung is the Python module of this project. Wall time of one call, the median. The number after convolve and
    uniform is the side of the mask in pixels, that after gaussian the standard deviation in pixels. The number in
    brackets is that time divided by faltung's: above 1, green, faltung is faster. A dash: the library has no such
    call, or was not measured.`), pythonTable(report)]);
}

const SECTIONS = [
  ["short", "In short", short],
  ["roofline", "Roofline", rooflineSection],
  ["masks", "Time and the size of the mask", masksSection],
  ["matrix", "Types, channels and masks", matrixSection],
  ["accuracy", "Accuracy beside speed", accuracySection],
  ["whole", "End to end, first call, and the CPU", wholeSection],
  ["python", "The Python module beside other libraries", pythonSection],
  ["losses", "Where we lose", lossSection],
  ["absent", "What was not timed, and why", absences],
  ["rows", "All rows", () => (rows.length ? [allRows()] : nothing())],
  ["reports", "Reports, versions, commands",
    () => [...(data.peers?.note ? [says(data.peers.note)] : []), reportTable()]],
];

const problems = [];
document.getElementById("machine").textContent = machineText();
const empty = [];
for (const [id, title, make] of SECTIONS) {
  const section = el("section", {id}, el("h2", {}, title));
  document.getElementById("main").append(section);
  let parts = null;
  try {
    parts = make();
  } catch (error) {
    problems.push(error);
    parts = [el("p", {class: "error"}, `This section could not be drawn: ${error.message}`)];
  }
  if (parts) {
    section.append(...parts);
    document.getElementById("contents").append(el("a", {href: `#${id}`}, title));
  } else {
    section.remove();
    empty.push(el("span", {"data-empty": id}, title));
  }
}
if (empty.length) {
  document.getElementById("main").append(el("p", {class: "quiet"}, "Not measured on this machine: ",
    ...empty.flatMap((title, i) => [i ? "; " : "", title]), "."));
}
document.getElementById("footer").append(el("p", {}, `Made by ${data.made_by ?? "host bench --html"}. `
  + "All figures stand in this file."));
// The browser looked for the anchor before the sections were there.
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
for (const problem of problems) console.error(problem);
