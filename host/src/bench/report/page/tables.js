// The tables: what is fast and what is not, the matrix, losses, Python, all rows, and how each report is made again.

/** The row of a table that shows some fields of a report's row; a test compares the text with the report. */
const field = (title, name, show, more = {}) => ({
  title, name, sort: row => (Array.isArray(row[name]) ? row[name].join() : row[name]),
  of: row => show(row[name], row) ?? null, ...more,
});
const fieldOf = (row, column) => (column.name ? {"data-field": column.name} : {});

/** Kernels whose arithmetic is not in their roofline, as METHODOLOGY.md says. */
const MEMORY_ONLY = new Set(["tensor_core_u8", "separable_tensor_core", "fft_tile", "fft_passes", "fft"]);

/** What bounds some cells, in words. */
function verdict(rows) {
  const shares = rows.map(row => row.floor_fraction).filter(isNumber);
  if (rows.some(isAbove)) return "above its roofline: it has no share";
  if (!shares.length) return "no share of the roofline";
  const [least, most] = [Math.min(...shares), Math.max(...shares)];
  if (rows[0].onGpu && rows[0].values < 1e6) return "small image: a launch takes about as long as the kernel";
  if (least >= 0.75) return "fast: near the limit of this GPU for this sum".replace("GPU", rows[0].onGpu ? "GPU"
    : "CPU");
  if (MEMORY_ONLY.has(rows[0].name)) {
    return most >= 0.5 ? "fair; its roofline counts copies, and its arithmetic is not in it"
      : "bound by its own arithmetic; its roofline counts copies only";
  }
  const below = rows.filter(row => isNumber(row.floor_fraction) && row.floor_fraction < 0.75);
  const bounds = [...new Set(below.map(row => row.floor_bound))].join(" and ");
  return `${most >= 0.75 ? "partly below" : least >= 0.5 ? "below" : "far below"} the limit (${bounds})`;
}

/** The time of the fastest library in a cell; infinite where none was timed. */
const libraryTime = cell => Math.min(...cell.libraries.map(one => one.us));

/** A row for each kernel that is taken in a group of cells. */
function overview() {
  const chosen = cells.filter(cell => cell.chosen);
  const meaning = {title: "what it means", text: true, wide: true, of: one => verdict(one.taken)};
  // In a narrow window the reader sees two columns.
  const [early, late] = isNarrow ? [[meaning], []] : [[], [meaning]];
  const lines = [...grouped(chosen,
    cell => `${cell.first.group}|${cell.chosen.name}`).values()].map(some => {
    const taken = some.map(cell => cell.chosen);
    const beside = some.map(cell => libraryTime(cell) / cell.chosen.kernel_us);
    const compared = some.filter(cell => cell.auto && cell.cpu && !otherMethod(cell));
    const cpu = compared.map(cpuTimes);
    const threads = threadsOf(compared.map(cell => cell.cpu));
    return {group: some[0].first.group, kernel: seriesName(taken[0]), masks: range(some.map(cell => cell.first.mask)),
      shares: taken.map(row => row.floor_fraction), taken, beside, cpu,
      isOther: some.some(otherMethod),
      methods: [...new Set(compared.map(cell => cell.cpu.name)), `${threads} threads`].join(", ")};
  });
  const least = list => Math.min(...list.filter(isNumber), Infinity);
  return table([
    {title: "images and kind of masks", text: true, narrow: true, of: one => one.group, sort: one => one.group},
    ...early,
    {title: "masks", text: true, narrow: true, of: one => one.masks, sort: one => one.masks},
    {title: "kernel", text: true, narrow: true, of: one => one.kernel.replaceAll("_", "_\u200b"),
      sort: one => one.kernel},
    {title: "kernel time", narrow: true, of: one => span(one.taken.map(row => row.kernel_us), time),
      sort: one => one.taken[0].kernel_us},
    {title: "share of its roofline", narrow: true, of: one => spanOfShares(one.taken),
      sort: one => least(one.shares), empty: "none"},
    {title: "fastest library / ours", narrow: true, of: one => span(one.beside, ratio), sort: one => least(one.beside),
      empty: "–"},
    {title: "CPU / GPU", narrow: true, of: one => (one.cpu.some(isNumber)
      ? `${span(one.cpu, ratio)} (${one.methods})` : one.isOther ? "two methods" : null),
      sort: one => least(one.cpu)},
    ...late,
  ], lines);
}

/** The part of a colour in a cell, in per cent: enough to be seen on a dark page, little enough to read the text. */
const tint = part => Math.round(Math.max(18, Math.min(40, part)));

/** A heat map: a line for each format, a column for each mask. `of` gives {value, text, tip, report} or null. */
function heatMap(formats, masks, of, colour) {
  return table([
    {title: "format", text: true, of: format => format, sort: format => format},
    ...masks.map(mask => ({title: mask, mask, sort: format => of(format, mask)?.value, of: format => {
      const one = of(format, mask);
      return one ? el("a", {href: address(one.report), "data-tip": one.tip}, ...[one.text].flat()) : null;
    }, empty: "–", centred: true})),
  ], formats, {cell: (format, column) => {
    const one = column.mask && of(format, column.mask);
    return one ? {class: `heat ${colour(one).class}`, style: `--part: ${colour(one).part}%`} : {};
  }});
}

/** The share of the roofline of what auto takes, of the largest image of each format. */
function shareMap() {
  const chosen = cells.map(cell => cell.chosen).filter(Boolean);
  const format = row => `${row.format}, ${row.separable ? "separable" : "dense"}`;
  const best = new Map();
  for (const row of chosen) {
    const key = `${format(row)}|${row.mask}`;
    if ((isNumber(row.floor_fraction) || isAbove(row)) && !(best.get(key)?.values > row.values)) best.set(key, row);
  }
  const list = [...best.values()];
  const masks = [...new Set([...list].sort(byMask).map(row => row.mask))];
  return heatMap([...new Set(list.map(format))].sort(), masks, (name, mask) => {
    const row = best.get(`${name}|${mask}`);
    if (!row) return null;
    const above = isAbove(row);
    const text = above ? "above" : [percent(row.floor_fraction), el("br"), el("small", {}, row.floor_bound)];
    // A share that does not rate the kernel has no colour.
    const rated = !above && !MEMORY_ONLY.has(row.name);
    return {value: above ? null : row.floor_fraction, rated, text, tip: rowTip(row), report: row.report};
  }, ({value, rated}) => ({class: !rated ? "aside" : value >= 0.5 ? "good" : "bad",
    part: rated ? tint(Math.abs(value - 0.5) * 90) : 20}));
}

/** Whether register_tile is faster in a cell, but was not measured there: see h100.md. */
const isStandIn = (cell, some) => cell.kernel.startsWith("shared_tile") && !cell.kernel.startsWith("shared_tile_async")
  && cell.mask_width * cell.mask_height >= 63 * 63
  && !some.some(other => other.kernel.startsWith("register_tile") && maskName(other) === maskName(cell)
    && other.pixel === cell.pixel && other.channels === cell.channels && other.separable === cell.separable);

/** Times of the matrix: the fastest kernel of each cell beside one-channel f32, per value. */
function matrixMap(size) {
  const best = new Map();
  const format = cell => `${cell.pixel}, ${cell.channels} channel${cell.channels === 1 ? "" : "s"}, `
    + `${cell.separable ? "separable" : "dense"}`;
  const some = matrix.filter(cell => `${cell.width} x ${cell.height}` === size);
  for (const cell of some) {
    const key = `${format(cell)}|${maskName(cell)}`;
    if (!(best.get(key)?.us <= cell.us)) best.set(key, cell);
  }
  const masks = [...new Set([...some].sort(byMask).map(maskName))];
  return heatMap([...new Set(some.map(format))].sort(), masks, (name, mask) => {
    const cell = best.get(`${name}|${mask}`);
    const base = best.get(`f32, 1 channel, ${name.split(", ")[2]}|${mask}`);
    if (!cell || !base) return null;
    // The colour is that of the figure that is shown.
    const value = Number(digits(cell.us / cell.channels / base.us));
    // Kernels that are faster were left out of the measurement of these cells.
    const standIn = isStandIn(cell, some);
    return {value, standIn, text: digits(value) + (standIn ? " †" : ""), report: data.matrix,
      tip: `${name}, ${mask}, ${size}\n${standIn ? "not the fastest kernel: " : ""}${time(cell.us)}, `
      + `${cell.kernel}${cell.planes ? " in planes" : ""}\n${ratio(value)} the time of one-channel f32 for each value `
      + `(${time(base.us)}, ${base.kernel})\n${data.matrix.name}`};
  }, ({value, standIn}) => ({class: standIn ? "aside" : value <= 1.15 ? "good" : "bad",
    part: standIn ? 20 : tint(Math.abs(Math.log2(value)) * 22)}));
}

function lossTable() {
  return table([
    {title: "kind", text: true, of: one => one.who, sort: one => one.who},
    {title: "cell", text: true, wide: true, of: one => `${one.cell.group}, ${solid(one.cell.mask)}`,
      sort: one => one.cell.cell},
    {title: "what is slower", text: true, of: one => seriesName(one.ours), sort: one => one.ours.name},
    {title: "time", of: one => reportLink(one.ours.report, time(one.us)), sort: one => one.us},
    {title: "what is faster", text: true, of: one => one.other, sort: one => one.other},
    {title: "time", of: one => reportLink(one.report, time(one.theirs)), sort: one => one.theirs},
    {title: "times as fast", of: one => ratio(one.times), sort: one => one.times},
    {title: "auto in another report", text: true, narrow: true, empty: "–", of: one => (one.since
      ? reportLink(one.since.report, `${one.since.name}, ${time(one.since.kernel_us)}`) : null)},
  ], losses);
}

function meanTable() {
  return table([
    {title: "library", text: true, of: one => one.who, sort: one => one.who},
    {title: "cells", of: one => digits(one.times.length), sort: one => one.times.length},
    {title: "geometric mean", of: one => el("span", {"data-mean": one.key}, ratio(geometricMean(one.times))),
      sort: one => geometricMean(one.times)},
    {title: "least to most", of: one => span(one.times, ratio), sort: one => Math.min(...one.times)},
  ], besideOthers);
}

function pythonLosses() {
  return pythonRows.filter(row => row.library !== "faltung" && isNumber(row.median_us)).map(row => {
    const own = pythonOwn.get(pythonKey(row));
    return {row, own, times: own?.median_us / row.median_us};
  }).filter(one => one.times > 1).sort((a, b) => b.times - a.times);
}

const arrayPlace = row => (row.arrays === "device" ? "on the GPU" : "in host memory");

function pythonLossTable() {
  return table([
    {title: "call", text: true,
      of: ({row}) => `${row.filter}, ${row.type}, ${row.side} x ${row.side}, ${arrayPlace(row)}`,
      sort: ({row}) => `${row.filter} ${row.type} ${row.side}`},
    {title: "faltung", of: ({own}) => time(own.median_us), sort: ({own}) => own.median_us},
    {title: "faster", text: true, of: ({row}) => row.library, sort: ({row}) => row.library},
    {title: "time", of: ({row}) => time(row.median_us), sort: ({row}) => row.median_us},
    {title: "times as fast", of: one => ratio(one.times), sort: one => one.times},
    {title: "report", text: true, of: ({row}) => reportLink(row.report)},
  ], pythonLosses());
}

/** One line for each call from Python, one column for each library. */
function pythonTable(report) {
  const some = pythonRows.filter(row => row.report === report);
  const names = [...new Set(some.map(row => row.library))].sort((a, b) => (b === "faltung") - (a === "faltung"));
  const lines = [...grouped(some, pythonKey).values()];
  const of = (line, name) => line.find(row => row.library === name);
  return table([
    {title: "call", text: true, of: ([row]) => row.filter, sort: ([row]) => row.filter},
    {title: "type", text: true, of: ([row]) => row.type, sort: ([row]) => row.type},
    {title: "side, pixels", of: ([row]) => String(row.side), sort: ([row]) => row.side},
    {title: "arrays", text: true, of: ([row]) => arrayPlace(row),
      sort: ([row]) => row.arrays},
    {title: "faltung, first call", of: line => time(of(line, "faltung")?.first_us), sort: line => of(line,
      "faltung")?.first_us},
    ...names.map(name => ({title: name, library: name, empty: "–", sort: line => of(line, name)?.median_us,
      of: line => {
      const row = of(line, name);
      if (row?.status === "wrong") return "differs from SciPy";
      const own = of(line, "faltung")?.median_us;
      const text = time(row?.median_us);
      return text && name !== "faltung" && own ? `${text} (${ratio(row.median_us / own)})` : text;
    }})),
  ], lines, {tall: true, cell: (line, column) => {
    const row = column.library && of(line, column.library);
    if (!row || !isNumber(row.median_us)) return {};
    const place = {"data-report": report.name, "data-row": row.index, "data-field": "median_us"};
    const times = row.median_us / of(line, "faltung")?.median_us;
    if (column.library === "faltung" || !isNumber(times)) return place;
    return {...place, class: `heat ${times >= 1 ? "good" : "bad"}`,
      style: `--part: ${Math.round(Math.min(40, Math.abs(Math.log2(times)) * 10))}%`};
  }});
}

function allRows() {
  const counted = rows.some(row => row.counts);
  const yes = value => (value === true ? "yes" : value === false ? "no" : null);
  return table([
    {title: "report", text: true, of: row => reportLink(row.report), sort: row => row.report.name},
    {title: "backend", text: true, of: row => row.backend, sort: row => row.backend},
    {title: "variant", text: true, narrow: true, sort: row => row.name,
      of: row => (row.name === row.variant ? row.name : `${row.name} (then ${row.variant})`)},
    {title: "format", text: true, of: row => row.format, sort: row => row.format},
    {title: "image", of: row => `${row.width} x ${row.height}`, sort: row => row.width * row.height},
    {title: "mask", of: row => row.mask + (row.separable ? ", separable" : ""),
      sort: row => row.mask_width * row.mask_height},
    {title: "auto", text: true, of: row => yes(row.preferred), sort: row => Number(row.preferred)},
    field("kernel", "kernel_us", time), field("±", "kernel_us_mad", time), field("Gpixel/s", "gpix_s", digits),
    field("roofline", "floor_us", time),
    field("share", "floor_fraction", (value, row) => (row.above_floor_reason && isNumber(value)
      ? `${percent(value)} (${row.above_floor_reason})` : percent(value) ?? row.above_floor_reason)),
    field("bound", "floor_bound", value => value, {text: true}),
    field("end to end", "end_to_end_us", (value, row) => (isNumber(value) && row.disturbed
      ? `${time(value)} (disturbed)` : time(value))), field("first call", "first_call_us", time),
    field("error / bound", "error_over_bound", digits), field("accuracy", "accuracy", value => value, {text: true,
      empty: "not recorded"}),
    field("bits of the CPU", "bits_equal_cpu", yes, {empty: "not compared"}),
    field("CPU / GPU", "speedup_vs_cpu", (value, row) => {
      if (value === null || value === undefined) return null;
      const text = [ratio(value), row.vs_cpu_variant ?? row.cpu_method].filter(Boolean).join(" ");
      return comparesMethods(row) ? el("s", {title: "two methods"}, text) : text;
    }, {empty: "none"}),
    {title: "CPU threads", of: row => digits(row.threads), sort: row => row.threads},
    field("lowest SM clock", "sm_mhz_lowest", value => (isNumber(value) ? `${digits(value)} MHz` : null),
      {empty: "not recorded"}),
    field("clock held down by", "throttle_reasons", value => (value ? value.join(", ") || "nothing" : null),
      {text: true, empty: "not recorded"}),
    field("caches", "cache", value => value, {text: true, empty: "not recorded"}),
    field("note", "note", value => value, {text: true, reason: true, empty: "none"}),
    ...(counted ? [{title: "counts", text: true, of: row => (row.counts ? counts(row.counts) : null)}] : []),
    field("why", "reason", value => value, {text: true, reason: true}),
  ], rows, {tall: true, mark: row => ({"data-report": row.report.name, "data-row": row.index}), cell: fieldOf});
}

/** What the emulator counted. */
function counts(of) {
  const traffic = ["global_loads", "global_stores", "shared_loads", "shared_stores", "constant_loads"].map(name =>
    `${name.replace("_", " ")} ${digits(of[name].instructions)} (${digits(of[name].transactions)} transactions)`);
  return [`${digits(of.threads)} threads`, `${digits(of.barriers)} barriers`,
    `${digits(of.bank_conflicts)} bank conflicts`,
    ...traffic].join("; ");
}

function reportTable() {
  const others = [data.peers, data.matrix, ...(data.python ?? [])].filter(Boolean);
  const document = report => report.document ?? {};
  const rates = ({copy_gb_s: copy, fma_tflop_s: fma, copy_gbs, fma_tflops}) => (isNumber(copy ?? copy_gbs)
    ? `${digits((copy ?? copy_gbs) / 1000)} TB/s, ${digits(fma ?? fma_tflops)} TFLOP/s` : null);
  const versions = ({build, machine}) => (build ? `faltung ${build.version}, ${build.profile}` : machine
    ? [`Python ${machine.python}`, ...Object.entries(machine.versions).map(entry => entry.join(" "))].join(", ")
      : null);
  const all = [...reports, ...others];
  const columns = [
    {title: "report", text: true, of: report => reportLink(report), sort: report => report.name},
    {title: "commit", text: true, empty: "not recorded",
      of: report => document(report).commit ?? document(report).machine?.commit ?? null},
    {title: "copies, multiply-adds", text: true, empty: "not recorded", of: report => rates(document(report))},
    {title: "versions", text: true, wide: true, empty: "not recorded", of: report => versions(document(report))},
    {title: "command that makes it again", text: true, wide: true, empty: "not recorded", of: report => {
      const command = report.command ?? document(report).command ?? document(report).machine?.command;
      // No line ends within an argument, at a hyphen.
      const words = command?.split(" ").flatMap((word, i) => [...(i ? [" "] : []), el("span", {}, word)]);
      return command ? el("code", {}, ...words) : null;
    }},
  ];
  // What no report records has no column.
  return table(columns.filter(column => all.some(report => column.of(report) !== null)), all);
}

function absences() {
  const all = key => reports.flatMap(report => (report.document[key] ?? []).map(one => ({...one, report, key})));
  const refused = [...all("not_eligible"), ...all("errors")];
  const wrong = [...grouped(pythonRows.filter(row => row.status !== "ok"),
    row => `${row.report.name} ${row.library} ${row.type}`)
    .values()].map(some => ({variant: some[0].library, report: some[0].report,
    cell: `${some[0].type}: ${[...new Set(some.map(row => row.filter))].join(", ")}`,
    reason: "the results differ from SciPy's, so they were not timed"}));
  const list = [...refused.map(one => ({...one, reason: (one.key === "errors" ? "error: " : "not eligible: ")
    + one.reason,
    cell: `${one.width} x ${one.height}, mask ${maskName(one)}`})), ...wrong];
  const none = refused.length || !reports.length ? []
    : [el("p", {}, "In these reports each variant that was asked for has its times.")];
  if (!list.length && !reports.length) return nothing();
  return [...none, list.length ? table([
    {title: "variant or library", text: true, of: one => one.variant, sort: one => one.variant},
    {title: "cell", text: true, wide: true, of: one => one.cell, sort: one => one.cell},
    {title: "why there is no time", text: true, wide: true, of: one => one.reason, sort: one => one.reason},
    {title: "report", text: true, of: one => reportLink(one.report), sort: one => one.report.name},
  ], list) : null].filter(Boolean);
}
