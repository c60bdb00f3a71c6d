"use strict";
// What the page is drawn from: the reports as they were recorded, one list of their rows, and words for figures.

const data = JSON.parse(document.getElementById("data").textContent);
const reports = data.reports ?? [];
const isNumber = value => typeof value === "number" && Number.isFinite(value);
const BYTES = {u8: 1, u16: 2, i16: 2, f16: 2, f32: 4, f64: 8};

/** All rows of the reports of `host bench`, with what the drawings need of their reports. */
const rows = reports.flatMap(report => report.document.rows.map((row, index) => {
  const output = row.output ?? row.pixel;
  const separable = report.document.separable ?? (report.command ?? "").split(" ").includes("--separable");
  const type = output === row.pixel ? row.pixel : `${row.pixel} to ${output}`;
  const format = `${type}, ${row.channels} channel${row.channels === 1 ? "" : "s"}`;
  const group = `${format}, ${row.width} x ${row.height}, ${separable ? "separable" : "dense"} masks`
    + (row.border === "zero" ? "" : `, border ${row.border}`) + (row.picture === "random" ? "" : `, ${row.picture}`)
    + (row.cache === "cold" ? ", cold caches" : "");
  // Multiply-adds of the plain formula count as two operations each.
  const values = row.width * row.height * row.channels;
  const flop = 2 * row.mask_width * row.mask_height * values;
  const bytes = ((BYTES[row.pixel] ?? NaN) + (BYTES[output] ?? NaN)) * values;
  return {
    ...row, output, separable, type, format, group, flop, bytes, values, report, index,
    name: row.variant, onGpu: row.backend !== "cpu", mask: maskName(row),
    cell: `${group}, ${maskName(row)}`, pageLocked: report.document.page_locked === true,
    disturbed: isDisturbed(row), threads: report.document.cpu?.threads ?? null,
  };
}));

function maskName({mask_width, mask_height}) {
  return `${mask_height} x ${mask_width}`;
}

/** A program that was compiled for each size of the mask has one name. */
function programId(who) {
  return who.replace(/^cuda-tile\d+$/, "cuda-tile");
}

/** Libraries that were timed by another program: one entry a time, in the shape of the rows. */
const libraries = (data.peers?.document.cells ?? []).map((cell, index) => ({
  ...cell, index, us: 1000 * cell.ms, report: data.peers, id: programId(cell.who),
  who: data.peers.names?.[programId(cell.who)] ?? cell.who,
  group: `f32, 1 channel, ${cell.n} x ${cell.n}, dense masks`, cell: `f32, 1 channel, ${cell.n} x ${cell.n}, `
    + `dense masks, ${cell.k} x ${cell.k}`,
}));

/** Times of all kernels that computed a cell, without the choice of `auto`. */
const matrix = (() => {
  if (!data.matrix) return [];
  const [head, ...lines] = data.matrix.text.trim().split("\n").map(line => line.trim().split(","));
  return lines.map(line => {
    const cell = Object.fromEntries(head.map((name, column) => [name, line[column]]));
    for (const name of ["channels", "width", "height", "mask_width", "mask_height", "us"]) cell[name] = +cell[name];
    return {...cell, separable: cell.separable === "true", planes: cell.planes === "true"};
  });
})();

/** Whether the caches, the memory or another program disturbed the runs from host memory and back. */
function isDisturbed(row) {
  if (row.end_to_end_us > row.first_call_us && isNumber(row.first_call_us)) return true;
  const runs = (row.end_to_end_runs_ns ?? "").split(" ").filter(Boolean).map(Number);
  return runs.length > 0 && Math.max(...runs) > 2 * Math.min(...runs);
}

/** Three digits of a number. */
function digits(value) {
  if (!isNumber(value)) return null;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString("en", {useGrouping: true});
  if (size < 0.0001) return value.toExponential(2);
  return String(+value.toPrecision(3));
}

/** A time that is given in microseconds, in the unit that suits it. */
function time(us) {
  if (!isNumber(us)) return null;
  if (us < 999.5) return `${digits(us)} µs`;
  return us < 999500 ? `${digits(us / 1000)} ms` : `${digits(us / 1e6)} s`;
}

function percent(part) {
  return isNumber(part) ? `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %` : null;
}

function ratio(value) {
  return isNumber(value) ? `${digits(value)}x` : null;
}

/** "58 % of memory": the share of a row's roofline, with what bounds it. */
function shareOf(row) {
  const share = percent(row.floor_fraction);
  return share ? `${share} of ${row.floor_bound}` : isAbove(row) ? "above" : null;
}

/** Whether a row is faster than the measured rates allow, so that it has no share. */
const isAbove = row => !isNumber(row.floor_fraction) && row.above_floor === true;

/** Whether the ratio to the CPU compares two passes of the GPU with all products on the CPU. */
const comparesMethods = row => row.separable && row.onGpu && isNumber(row.speedup_vs_cpu)
  && (row.vs_cpu_variant ?? row.cpu_method ?? onlyMethod(row)) === "direct";

/** The method of the CPU that a report of schema 1 compares with: it had one. */
const onlyMethod = row => rows.find(one => !one.onGpu && one.report === row.report && one.cell === row.cell)?.name;

/** "16 or 32": the different numbers of threads of some rows. */
const threadsOf = list => [...new Set(list.map(row => row.threads).filter(isNumber))].sort((a, b) => a - b)
  .join(" or ");

/** Text that is not broken into lines. */
const solid = text => text.replaceAll(" ", "\u00a0");

/** "3 x 3 to 31 x 31" for the masks of rows. */
function range(names) {
  const unique = [...new Set(names)];
  return unique.length === 1 ? solid(unique[0]) : `${solid(unique[0])} to ${solid(unique[unique.length - 1])}`;
}

/** "76 to 91 %" for shares, "0.94 to 4.9" for ratios. */
function span(values, show) {
  const some = values.filter(isNumber);
  if (!some.length) return null;
  const [least, most] = [solid(show(Math.min(...some))), solid(show(Math.max(...some)))];
  return least === most ? least : `${least} to ${most}`;
}

/** "79 to 91 % of memory, 85 % of FMA" for rows. */
function spanOfShares(list) {
  const bounds = [...grouped(list.filter(row => isNumber(row.floor_fraction)), row => row.floor_bound)];
  const parts = bounds.map(([bound, some]) => `${span(some.map(row => row.floor_fraction), percent)} of ${bound}`);
  if (list.some(isAbove)) parts.push("above");
  return parts.join(", ") || null;
}

/** The geometric mean of numbers above 0. */
const geometricMean = values => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

/** A map from keys to lists. */
function grouped(list, key) {
  const groups = new Map();
  for (const one of list) {
    const name = key(one);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(one);
  }
  return groups;
}

const byMask = (a, b) => a.mask_width * a.mask_height - b.mask_width * b.mask_height;
const fastest = list => list.reduce((best, one) => (best === null || one.kernel_us < best.kernel_us ? one : best),
  null);
const timed = rows.filter(row => isNumber(row.kernel_us));
data.gpu = timed.some(row => row.onGpu);

/** The fastest whole call on GPU and CPU, from and to memory that is not page-locked. Disturbed times do not count. */
function wholeCalls(list) {
  const best = some => some.filter(row => isNumber(row.end_to_end_us) && !row.pageLocked && !row.disturbed)
    .reduce((least, row) => (least && least.end_to_end_us <= row.end_to_end_us ? least : row), null);
  const [gpu, cpu] = [best(list.filter(row => row.onGpu && row.preferred)), best(list.filter(row => !row.onGpu))];
  return gpu && cpu ? {gpu, cpu} : null;
}

/** The cells: all timed rows of one problem, in the order of the masks. `chosen` is what the program takes there. */
const cells = [...grouped(timed, row => row.cell).values()].map(list => {
  const auto = list.filter(row => row.onGpu && row.preferred);
  const [gpu, cpu] = [fastest(list.filter(row => row.onGpu)), fastest(list.filter(row => !row.onGpu))];
  return {
    rows: list, first: list[0], auto: fastest(auto), autos: auto, gpu, cpu,
    // Where the choice of the GPU was not measured, the CPU's is no answer.
    chosen: fastest(auto) ?? (gpu ? null : cpu), libraries: libraries.filter(one => one.cell === list[0].cell),
    endToEnd: wholeCalls(list),
  };
}).sort((a, b) => a.first.group.localeCompare(b.first.group, "en", {numeric: true}) || byMask(a.first, b.first));

const seriesName = row => (row.onGpu ? row.name : `CPU ${row.name}`);

/** Who may be faster, in the order in which a reader asks. */
const LOSSES = ["library", "own kernel", "own CPU method", "CPU, end to end"];

/** Cells in which something else is faster than what `auto` takes, the largest loss of each kind first. */
const losses = cells.flatMap(cell => {
  const found = [];
  const add = (who, ours, us, other, theirs, report, name) => found.push({
    cell: cell.first, who, ours, us, theirs, report, other: name ?? seriesName(other), times: us / theirs,
    // Another report has a faster choice for the same cell. It is about kernels, so it says nothing about whole calls.
    since: who !== LOSSES[3] && ours.onGpu && cell.auto && cell.auto.kernel_us < 0.95 * ours.kernel_us ? cell.auto
      : null,
  });
  const sides = (row, is) => fastest(cell.rows.filter(other => is(other) && other.kernel_us < 0.95 * row.kernel_us));
  // A report holds its own choice; a later report may have another kernel.
  for (const auto of cell.autos) {
    for (const one of cell.libraries.filter(one => one.us < auto.kernel_us)) {
      add("library", auto, auto.kernel_us, one, one.us, one.report, one.who);
    }
    const better = sides(auto, row => row.onGpu && row.name !== auto.name);
    if (better) add("own kernel", auto, auto.kernel_us, better, better.kernel_us, better.report);
  }
  for (const row of cell.rows.filter(row => !row.onGpu && row.preferred)) {
    const better = sides(row, other => !other.onGpu && other.report === row.report);
    if (better) add("own CPU method", row, row.kernel_us, better, better.kernel_us, better.report);
  }
  const whole = cell.endToEnd;
  if (whole && whole.cpu.end_to_end_us < whole.gpu.end_to_end_us) {
    add("CPU, end to end", whole.gpu, whole.gpu.end_to_end_us, whole.cpu, whole.cpu.end_to_end_us, whole.cpu.report);
  }
  return found;
}).sort((a, b) => LOSSES.indexOf(a.who) - LOSSES.indexOf(b.who) || b.times - a.times);

/** Rows of the comparisons in Python, with faltung's time for the same call. */
const pythonRows = (data.python ?? []).flatMap(report => report.document.rows.map((row, index) => ({...row, index,
  report})));
const pythonOwn = new Map(pythonRows.filter(row => row.library === "faltung").map(row => [pythonKey(row), row]));

function pythonKey(row) {
  return [row.report.name, row.filter, row.type, row.side, row.arrays].join("|");
}

/** For each other library its times over ours, in the cells and calls that both have. */
const besideOthers = [...grouped([
  ...cells.filter(cell => cell.auto).flatMap(cell => cell.libraries
    .map(one => ({who: one.who, id: one.id, times: one.us / cell.auto.kernel_us, what: "kernels"}))),
  ...pythonRows.filter(row => row.library !== "faltung" && row.status === "ok")
    .map(row => ({who: row.library, id: row.library, times: row.median_us / pythonOwn.get(pythonKey(row))?.median_us,
      what: "calls from Python"})),
].filter(one => isNumber(one.times) && one.times > 0), one => `${one.what}: ${one.id}`).entries()]
  .map(([key, list]) => ({key, who: `${list[0].what}: ${list[0].who}`, times: list.map(one => one.times)}));
