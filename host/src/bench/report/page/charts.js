// The drawings: each gives the elements of a section.

/** All figures of a row, for a tip. */
function rowTip(row) {
  const lines = [`${row.name}, ${row.onGpu ? "GPU" : "CPU"}${row.preferred ? ", taken by auto" : ""}`, row.cell,
    `kernel ${time(row.kernel_us)} ± ${time(row.kernel_us_mad)}, ${digits(row.gpix_s)} Gpixel/s`];
  const share = percent(row.floor_fraction);
  lines.push(share ? `${share} of its roofline (${row.floor_bound}), ${time(row.floor_us)}`
    : isAbove(row) ? "above its roofline, so it has no share" : "no share of the roofline");
  lines.push(`end to end ${time(row.end_to_end_us)}${row.pageLocked ? ", page-locked" : ""}${row.disturbed
    ? " (disturbed)" : ""}, first call `
    + `${time(row.first_call_us)}`);
  lines.push(`error ${digits(row.error_over_bound)} of the bound${row.accuracy ? `, ${row.accuracy}` : ""}`);
  if (isNumber(row.speedup_vs_cpu)) {
    lines.push(comparesMethods(row) ? "the CPU computed all products, so their ratio compares two methods"
      : `${ratio(row.speedup_vs_cpu)} the speed of the CPU's kernel on ${row.threads} threads`);
  } else if (!row.onGpu && isNumber(row.threads)) lines.push(`${row.threads} threads`);
  if (row.name !== row.variant) lines.push(`in the report: ${row.variant}`);
  if (row.note) lines.push(row.note);
  lines.push(row.report.name);
  return lines.join("\n");
}

function libraryTip(one) {
  return `${one.who}\n${one.cell}\n${time(one.us)}, ${digits(one.gpix)} Gpixel/s\nlargest relative error `
    + `${digits(one.err)}\n${one.report.name}`;
}

/** Rows of one machine's kernels as series, one for each variant. */
function rowSeries(list, point, line) {
  return [...grouped(list, seriesName)].map(([name, some]) => {
    const points = some.map(row => ({...point(row), tip: rowTip(row), report: row.report}))
      .filter(({x, y}) => x > 0 && y > 0);
    return {name, kind: some[0].onGpu ? "gpu" : "cpu", points, line: line ? line(some, point) : false};
  });
}

/** Effective speed over the operations for each byte, below the ceilings that were measured. */
function roofline() {
  const best = key => Math.max(...reports.map(report => report.document[key]).filter(isNumber));
  const drawn = timed.filter(row => row.onGpu || !data.gpu);
  const point = row => ({x: row.flop / row.bytes, y: row.flop / row.kernel_us / 1e6});
  const points = drawn.map(point);
  const [copy, fma] = [best("copy_gb_s") / 1000, best("fma_tflop_s")];
  const domain = extent(points.map(one => one.x));
  const ridge = fma / copy;
  domain[1] = Math.max(domain[1], 2 * ridge);
  const roof = [domain[0], Math.max(domain[0], ridge), domain[1]].map(x => ({x, y: Math.min(copy * x, fma)}));
  const range = extent([...points.map(one => one.y), fma], 1.4);
  const start = Math.max(domain[0], range[0] / copy);
  const middle = Math.sqrt(start * ridge);
  return chart({
    x: {title: "operations per byte read or written", domain},
    y: {title: "effective TFLOP/s", domain: range},
    series: rowSeries(drawn, point), height: 480,
    roofs: [{points: roof, name: `roofline: ${digits(copy)} TB/s, ${digits(fma)} TFLOP/s of f32 multiply-adds`}],
    labels: [...(ridge > domain[0] ? [{x: middle, y: 1.15 * copy * middle, text: "copies", anchor: "end"}] : []),
      {x: domain[1] / 1.3, y: fma, text: "multiply-adds", anchor: "end"}],
  });
}

const groups = [...grouped(cells, cell => cell.first.group)];

/** The group with the most libraries, then the most masks, then the most values. */
const mainGroup = [...groups].sort(([, a], [, b]) => Math.max(...b.map(c => c.libraries.length))
  - Math.max(...a.map(c => c.libraries.length)) || b.length - a.length
    || b[0].first.values - a[0].first.values)[0]?.[0];
const groupNames = groups.map(([name]) => name);
const cellsOf = name => groups.find(([group]) => group === name)[1];

/** The roofline of the direct or the separable sum, as METHODOLOGY.md defines it. */
function directRoofline(row, side) {
  const {copy_gb_s: copy, fma_tflop_s: fma} = row.report.document;
  const products = row.separable ? 2 * side : side * side;
  return Math.max(row.bytes / copy / 1e3, 2 * products * row.values / fma / 1e6);
}

function timeOverMask(name) {
  const some = cellsOf(name);
  const side = row => Math.sqrt(row.mask_width * row.mask_height);
  const lists = some.flatMap(cell => cell.rows);
  const point = row => ({x: side(row), y: row.kernel_us});
  // One line through the fastest time at each mask: a variant may stand in several reports.
  const line = list => [...grouped(list, row => row.mask).values()].map(fastest).sort(byMask).map(point);
  const own = rowSeries(lists, point, line);
  const others = [...grouped(some.flatMap(cell => cell.libraries), one => one.who)].map(([who, list]) => ({
    name: who, kind: "library", line: true,
    hidden: /naive|cmask|numba/.test(list[0].id),
    points: list.map(one => ({x: one.k, y: one.us, tip: libraryTip(one), report: one.report})).sort((a,
      b) => a.x - b.x),
  }));
  const sides = [...new Set(lists.map(side))].sort((a, b) => a - b);
  const gpu = lists.find(row => row.onGpu) ?? lists[0];
  const [low, high] = extent(sides, 1.12);
  const steps = Array.from({length: 60}, (_, i) => low * (high / low) ** (i / 59));
  const roof = steps.map(x => ({x, y: directRoofline(gpu, x)}));
  const all = [...own, ...others].flatMap(one => one.points.map(({y}) => y));
  const domain = extent([...all, ...roof.map(({y}) => y)], 1.3);
  const kind = gpu.separable ? "separable" : "direct";
  return [
    ...chart({
      x: {title: "side of the mask, pixels", domain: [low, high], ticks: sides.map(x => x), show: x => digits(x)},
      y: {title: "time of the kernel", domain, show: time},
      series: [...own, ...others], roofs: [{points: roof, name: `roofline of the ${kind} sum`}], height: 460,
    }),
    timeTable(some, others),
  ];
}

/** The numbers of the drawing: a row for each mask. */
function timeTable(some, others) {
  const names = [...new Set(some.flatMap(cell => cell.rows.map(seriesName)))];
  const own = name => cell => fastest(cell.rows.filter(row => seriesName(row) === name));
  const other = who => cell => cell.libraries.find(one => one.who === who);
  return table([
    {title: "mask", text: true, of: cell => cell.first.mask,
      sort: cell => cell.first.mask_width * cell.first.mask_height},
    ...names.map(name => ({title: name, sort: cell => own(name)(cell)?.kernel_us, of: cell => {
      const row = own(name)(cell);
      return row ? el("a", {href: address(row.report), "data-tip": rowTip(row)}, time(row.kernel_us)) : null;
    }, empty: "–"})),
    {title: "share of the roofline, auto", sort: cell => cell.auto?.floor_fraction, empty: "none",
      of: cell => (cell.auto && shareOf(cell.auto) ? `${shareOf(cell.auto)}, ${cell.auto.name}` : null)},
    ...others.map(({name}) => ({title: name, sort: cell => other(name)(cell)?.us, of: cell => {
      const one = other(name)(cell);
      return one ? el("a", {href: address(one.report), "data-tip": libraryTip(one)}, time(one.us)) : null;
    }, empty: "–"})),
  ], some);
}

/** Kernel, end to end and first call of the GPU beside the CPU, a line for each mask. */
function dots(name) {
  const some = cellsOf(groupNames.includes(name) ? name : name + COLD);
  const isUsual = row => row.onGpu && !row.pageLocked;
  const kinds = [
    ["GPU kernel", "gpu", "kernel", isUsual, row => row.kernel_us],
    ["GPU end to end", "gpu", "end to end", isUsual, row => row.end_to_end_us],
    ["GPU end to end, page-locked memory", "gpu", "page-locked", row => row.onGpu && row.pageLocked,
      row => row.end_to_end_us],
    ["GPU first call", "gpu", "first call", isUsual, row => row.first_call_us],
    ["CPU kernel", "cpu", "kernel", row => !row.onGpu, row => row.kernel_us],
    ["CPU first call", "cpu", "first call", row => !row.onGpu, row => row.first_call_us],
  ];
  const place = new Map(some.map((cell, i) => [cell, 10 ** (-i / 10)]));
  // One run for each kind: that of the fastest kernel. So the marks of a line belong together.
  const run = (cell, is) => {
    const list = cell.rows.filter(row => is(row) && (!row.onGpu || row.preferred || !cell.auto));
    return fastest(list.filter(row => !row.disturbed)) ?? fastest(list);
  };
  const series = kinds.map(([title, kind, part, is, of]) => ({
    name: title, kind, time: part, points: some.flatMap(cell => {
      const row = run(cell, is);
      return row && isNumber(of(row)) ? [{x: of(row), y: place.get(cell), report: row.report,
        tip: `${title} ${time(of(row))}\n${rowTip(row)}`, faint: row.disturbed && title.includes("end to end")}] : [];
    }),
  }));
  const names = new Map([...place].map(([cell, at]) => [at, cell.first.mask]));
  const values = series.flatMap(one => one.points.map(({x}) => x));
  return chart({
    x: {title: "time", domain: extent(values, 1.5), show: time}, height: 70 + 26 * Math.max(3, some.length),
    y: {title: "mask", domain: [10 ** (-(some.length - 0.4) / 10), 10 ** 0.06], names: true, ticks: [...place.values()],
      show: at => names.get(at)},
    series,
  });
}

const COLD = ", cold caches";
/** The groups of images, without those that differ by the state of the caches. */
const wholeNames = [...new Set(groupNames.map(name => name.replace(COLD, "")))];

/**
 * The first call, cold caches and warm caches beside each other, a line for each mask and device: of the kernel that
 * auto takes, and of the CPU's faster method.
 */
function cachesTable(name) {
  const of = group => (groupNames.includes(group) ? cellsOf(group) : []);
  const masks = new Map();
  for (const [state, group] of [["warm", name], ["cold", name + COLD]]) {
    for (const cell of of(group)) {
      for (const [device, row] of [["GPU", cell.auto], ["CPU", cell.cpu]]) {
        if (!row) continue;
        const key = `${cell.first.mask} ${device}`;
        if (!masks.has(key)) masks.set(key, {device, first: row});
        masks.get(key)[state] = row;
      }
    }
  }
  const lines = [...masks.values()].sort((a, b) => byMask(a.first, b.first));
  const column = (title, state, name) => ({title, empty: "–", sort: line => line[state]?.[name], of: line => {
    const row = line[state];
    const mark = name === "end_to_end_us" && row?.disturbed ? " (disturbed)" : "";
    const text = time(row?.[name]) && time(row[name]) + mark;
    return text ? el("a", {href: address(row.report), "data-tip": rowTip(row)}, text) : null;
  }});
  const either = line => line.warm ?? line.cold;
  return table([
    {title: "mask", text: true, of: line => line.first.mask,
      sort: line => line.first.mask_width * line.first.mask_height},
    {title: "device", text: true, of: line => line.device, sort: line => line.device},
    {title: "kernel", text: true, of: line => either(line).name, sort: line => either(line).name},
    {title: "first call", empty: "–", sort: line => either(line).first_call_us, of: line => {
      const row = either(line);
      return isNumber(row.first_call_us) ? `${time(row.first_call_us)}${row.first_call_loaded ? " (loaded)" : ""}`
        : null;
    }},
    ...["end_to_end_us", "kernel_us"].flatMap((field, i) => {
      const what = ["end to end", "kernel"][i];
      const cold = lines.some(line => line.cold) ? [column(`${what}, cold caches`, "cold", field)] : [];
      return [...cold, column(`${what}, warm caches`, "warm", field)];
    }),
  ], lines, {tall: true});
}

/** Error over speed: both as shares of what is allowed and of what is possible. */
function accuracy() {
  const drawn = timed.filter(row => row.onGpu || !data.gpu);
  const series = rowSeries(drawn, row => ({x: row.values / row.kernel_us / 1e3, y: row.error_over_bound}));
  const points = series.flatMap(one => one.points);
  if (!points.length) return [el("p", {}, "Not measured.")];
  const domain = extent(points.map(({x}) => x), 1.4);
  return chart({
    x: {title: "speed, 10⁹ values per second", domain}, series,
    y: {title: "error / allowed error (own bound)", domain: extent([...points.map(({y}) => y), 1], 1.5)},
    roofs: [{points: domain.map(x => ({x, y: 1})), name: "the bound: a larger error is a wrong answer"}],
  });
}
