// The page: its sections in order. A section that fails says so, and the others stand.

function machineText() {
  const document = reports.find(report => report.document.device)?.document ?? reports[0]?.document;
  const machine = data.python?.[0]?.document.machine;
  if (document) {
    const {device, cpu} = document;
    const gpu = device ? [device.name, device.sm_count ? `${device.sm_count} multiprocessors` : null,
      device.compute_capability ? `compute capability ${device.compute_capability}` : null,
      device.driver ? `CUDA ${device.driver}` : null].filter(Boolean).join(", ") : "no GPU measured";
    return `GPU: ${gpu}. CPU: ${cpu.name}, ${cpu.threads} threads.`;
  }
  return machine ? `CPU: ${machine.cpu}, ${machine.cores} cores. GPU: ${machine.gpu ?? "none"}.` : "";
}

const nothing = () => [el("p", {class: "quiet"}, "Not measured on this machine.")];
const says = text => el("p", {}, text);

const SECTIONS = [
  ["short", "In short", () => [...inShort(), ...(data.notes ?? []).map(note => el("p", {class: "quiet"}, note)),
    ...(cells.length ? [says("Each line is a kernel that auto takes. The roofline is the least time: all bytes moved "
      + "once at the "
      + "measured copy rate, or all products at the measured multiply-add rate, whichever takes longer. A click on a "
        + "title sorts."),
    overview()] : [])]],
  ["roofline", "Roofline", () => (!timed.length ? nothing() : [says("Each point is a measured kernel. Higher is "
    + "faster. "
    + "The speed is effective: it counts the operations of the plain formula, two for each coefficient and value, "
      + "whatever the "
    + "kernel does. Points above the dashed line do less: separable masks, Fourier transforms, or multiply-adds in "
      + "tensor cores. "
    + "Touch a point for its numbers, click for its report."), ...roofline()])],
  ["masks", "Time and the size of the mask", () => (!groups.length ? nothing()
    : [says("Lower is faster. Filled marks are our "
    + "kernels, hollow ones the CPU, and thin dashed lines other libraries on the same GPU. The thick dashed line is "
      + "the roofline. "
    + "The legend hides and shows a line."), ...choice("Images", groupNames, mainGroup, timeOverMask)])],
  ["matrix", "Types, channels and masks", () => [
    ...(cells.length ? [el("h3", {}, "Share of the roofline, of the kernel that auto takes"),
      says("The largest measured image "
      + "of each format. Green is above 50 %, red below. The roofline of tensor_core_u8, separable_tensor_core and "
        + "fft_tile counts "
      + "copies only: a small share there says that arithmetic takes the time, not how fast it is."), shareMap()]
        : nothing()),
    ...(matrix.length ? [el("h3", {}, "Time for each value, beside f32 in one channel"),
      says("The time of the fastest kernel "
      + "divided by the number of values, as a multiple of that of f32 in one channel with the same image and mask. "
        + "Green is at "
      + `most 1.15. ${data.matrix.note ?? ""}`), ...choice("Image", [...new Set(matrix.map(cell =>
      `${cell.width} x ${cell.height}`))], data.matrix.size ?? "4096 x 4096", size => [matrixMap(size)])] : [])]],
  ["accuracy", "Accuracy beside speed", () => (!timed.length ? nothing()
    : [says("The largest error over the image, divided by "
    + "what is allowed at that pixel. The bound is the dashed line. Results of u8 and u16 are near 1 whatever the "
      + "method: one "
    + "pixel among millions lies half-way between two numbers, and 0.5 is its allowed error."), ...accuracy()])],
  ["whole", "End to end, first call, and the CPU", () => (!groups.length ? nothing()
    : [says("The kernel alone works on data in "
    + "the GPU's memory. End to end is from host memory to host memory. The first call also plans, loads the kernel "
      + "and "
    + "allocates. CPU times are of all threads. Left is faster."), ...choice("Images", groupNames, mainGroup, dots)])],
  ["losses", "Where we lose", () => [
    ...(reports.length ? [losses.length ? lossTable() : says("In no cell of these reports is another kernel or a "
      + "library more "
      + "than 5 % faster than what auto takes.")] : []),
    ...(losses.some(one => one.who === "own kernel") ? [says("“own kernel”: another of our kernels is more than 5 % "
      + "faster than "
      + "the choice of auto in that report. Where the faster one stands in another report, auto may have learned it "
        + "since.")] : []),
    ...(pythonLosses().length ? [el("h3", {}, "From Python"), pythonLossTable()] : []),
    ...(!reports.length && !pythonRows.length ? nothing() : [])]],
  ["python", "The Python module beside other libraries", () => (!pythonRows.length ? nothing()
    : data.python.flatMap(report => [says("Wall time of one call, the median. The number in brackets is that time "
      + "divided by "
      + "faltung's: above 1, green, faltung is faster."), pythonTable(report)]))],
  ["absent", "What was not timed, and why", absences],
  ["rows", "All rows", () => (rows.length ? [allRows()] : nothing())],
  ["reports", "Reports, versions, commands", () => [...(data.peers?.note ? [says(data.peers.note)] : []),
    reportTable()]],
];

const problems = [];
document.getElementById("machine").textContent = machineText();
for (const [id, title, make] of SECTIONS) {
  const section = el("section", {id}, el("h2", {}, title));
  document.getElementById("main").append(section);
  document.getElementById("contents").append(el("a", {href: `#${id}`}, title));
  try {
    section.append(...make());
  } catch (error) {
    problems.push(error);
    section.append(el("p", {class: "error"}, `This section could not be drawn: ${error.message}`));
  }
}
document.getElementById("footer").append(el("p", {}, `Made by ${data.made_by ?? "host bench --html"}. All figures `
  + `stand in this file.`));
// The browser looked for the anchor before the sections were there.
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
for (const problem of problems) console.error(problem);
