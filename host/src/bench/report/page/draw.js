// Elements, tables that sort, tips, and charts with logarithmic axes.

const isNarrow = innerWidth < 480;

/** An element. Attributes that are null are left out; children are elements or text. */
function el(name, attributes = {}, ...children) {
  return fillElement(document.createElement(name), attributes, children);
}

function svgEl(name, attributes = {}, ...children) {
  return fillElement(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fillElement(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== undefined));
  return element;
}

/** The address of a report: its file, or what stands in this page where no file is beside it. */
function address(report) {
  if (report.href) return report.href;
  report.blob ??= URL.createObjectURL(new Blob([report.text ?? JSON.stringify(report.document, null, 2)],
    {type: report.text ? "text/csv" : "application/json"}));
  return report.blob;
}

function reportLink(report, text = report.name) {
  return el("a", {href: address(report)}, text);
}

// Tips: under the pointer, at the focus, or at a touch.
const tip = document.getElementById("tip");

function showTip(target, x, y) {
  tip.textContent = target.dataset.tip;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 4))}px`;
  tip.style.top = `${y + 16 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 16}px`;
}

document.addEventListener("pointerover", event => {
  const target = event.target.closest?.("[data-tip]");
  if (target) showTip(target, event.clientX, event.clientY);
  else tip.hidden = true;
});
document.addEventListener("focusin", event => {
  const target = event.target.closest?.("[data-tip]");
  if (!target) return;
  const box = target.getBoundingClientRect();
  showTip(target, box.left, box.bottom);
});
document.addEventListener("focusout", () => { tip.hidden = true; });
document.addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true; });

/**
 * A table. A column is {title, of, sort, text, wide, narrow, centred, empty}: `of` gives a row's content, as text, as
 * an element, or null; `sort` gives what the column is sorted by. `mark` gives attributes of a row, `cell` those of a
 * cell.
 */
function table(columns, list, {tall = false, mark = () => ({}), cell = () => ({})} = {}) {
  const body = el("tbody");
  const show = order => body.replaceChildren(...order.map(row => el("tr", mark(row), ...columns.map(column => {
    const content = column.of(row);
    const classes = [column.text && "text", column.wide && "wide", column.narrow && "narrow", column.reason && "reason",
      column.centred && "centred", content === null && "none"].filter(Boolean);
    const attributes = cell(row, column) ?? {};
    if (attributes.class) classes.push(attributes.class);
    return el("td", {...attributes, class: classes.join(" ") || null}, content ?? column.empty ?? "not measured");
  }))));
  const heads = columns.map(column => {
    const classes = ["text", "narrow", "centred"].filter(name => column[name]).join(" ");
    const head = el("th", {class: classes || null, scope: "col"});
    if (!column.sort) {
      head.append(column.title);
      return head;
    }
    head.append(el("button", {type: "button", onclick: () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      show(sorted(list, column.sort, up));
    }}, column.title));
    return head;
  });
  show(list);
  const place = el("div", {class: tall ? "scroll tall" : "scroll", tabindex: "0"},
    el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body));
  // A high table scrolls, and so does a wide one in a narrow window: they say that there is more.
  const more = [tall && list.length > 16 ? `${list.length} rows` : null,
    isNarrow && columns.length > 3 ? `${columns.length} columns` : null].filter(Boolean).join(", ");
  return more ? el("div", {}, place, el("p", {class: "quiet more"}, `${more}: scroll within the table.`)) : place;
}

/** A sorted copy. What is missing comes last in both directions. */
function sorted(list, key, up) {
  const missing = value => value === null || value === undefined || Number.isNaN(value);
  return [...list].sort((left, right) => {
    const [a, b] = [key(left), key(right)];
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
    return up ? order : -order;
  });
}

/** A choice of one of several names; `show` draws what belongs to it into the element that follows. */
function choice(title, names, chosen, show) {
  const place = el("div");
  const select = el("select", {onchange: () => place.replaceChildren(...show(select.value))},
    ...names.map(name => el("option", {value: name, selected: name === chosen ? "" : null}, name)));
  place.replaceChildren(...show(chosen));
  return [el("label", {}, title, select), place];
}

const SHAPES = {
  circle: r => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  square: r => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  triangle: r => `M0 ${-1.2 * r}l${1.15 * r} ${2 * r}h${-2.3 * r}z`,
  diamond: r => `M0 ${-1.35 * r}l${1.2 * r} ${1.35 * r}l${-1.2 * r} ${1.35 * r}l${-1.2 * r} ${-1.35 * r}z`,
};
const SHAPE_NAMES = Object.keys(SHAPES);

/** The kernels and libraries, each with a place: so it has one colour and one shape on all pages. */
const KNOWN = ["sliding_window", "shared_tile_async", "fft_tile", "separable_tensor_core", "separable_block_tile",
  "fft_passes", "tensor_core_u8", "register_tile", "separable_u8", "sliding_window_planar", "shared_tile",
  "constant_mask", "naive", "separable_ring", "CPU direct", "CPU separable", "CPU fft", "NPP", "cuDNN (PyTorch conv2d)",
  "CUDA C++ tile", "CUDA C++, naive", "CuPy (cupyx.scipy.ndimage)", "CuPy, FFT by tiles",
  "CuPy, FFT of the whole image", "CUDA C++, mask in constant memory", "Numba, naive", "CUDA C++, naive, inside only",
  "CUDA C++, mask in constant memory, inside only"];
const places = new Map(KNOWN.map((name, place) => [name, place]));
/** Kinds of time have colours that no kernel has. */
const TIMES = {kernel: ["t0", "circle"], "end to end": ["t1", "square"], "page-locked": ["t2", "diamond"],
  "first call": ["t3", "triangle"]};

/** A series keeps its colour and its shape in all drawings. */
function looks(name, time) {
  if (time) return {colour: `var(--${TIMES[time][0]})`, shape: TIMES[time][1]};
  if (!places.has(name)) places.set(name, places.size);
  const place = places.get(name);
  return {colour: `var(--c${place % 10})`, shape: SHAPE_NAMES[(place + Math.floor(place / 10)) % SHAPE_NAMES.length]};
}

/** Powers of ten, with 2 and 5 between them where there is room. */
function ticks([low, high]) {
  const found = [];
  const steps = Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found;
}

/** The least and the largest of some numbers, with a margin on a logarithmic axis. */
function extent(values, margin = 1.25) {
  const some = values.filter(value => isNumber(value) && value > 0);
  return [Math.min(...some) / margin, Math.max(...some) * margin];
}

/**
 * A chart with two logarithmic axes, its legend, and its marks. An axis is {title, domain, ticks, show}. A series is
 * {name, kind, points: [{x, y, tip, report}], line, hidden}; `kind` is "gpu", "cpu" or "library". A roof is
 * {points, name}. Marks lead to their reports.
 */
function chart({x, y, series, roofs = [], labels = [], height = 420}) {
  const width = Math.max(320, Math.min(1100, (document.getElementById("main").clientWidth || 800)));
  const [left, right, top, bottom] = [y.names ? 76 : 58, 14, 14, 44];
  const scale = ([low, high], from, to) => value =>
    from + (to - from) * (Math.log(value / low) / Math.log(high / low));
  const [px, py] = [scale(x.domain, left, width - right), scale(y.domain, height - bottom, top)];
  const svg = svgEl("svg", {viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `${y.title} over ${x.title}`});
  let last = -Infinity;
  for (const value of x.ticks ?? ticks(x.domain)) {
    const at = px(value);
    svg.append(svgEl("line", {class: "grid", x1: at, x2: at, y1: top, y2: height - bottom}));
    const text = (x.show ?? digits)(value);
    if (at - last < 7 * text.length + 8) continue;
    last = at;
    svg.append(svgEl("text", {x: Math.min(at, width - 4 * text.length - 4), y: height - bottom + 16,
      "text-anchor": "middle"}, text));
  }
  for (const value of y.ticks ?? ticks(y.domain)) {
    const at = py(value);
    svg.append(svgEl("line", {class: "grid", x1: left, x2: width - right, y1: at, y2: at}),
      svgEl("text", {x: left - 6, y: at + 4, "text-anchor": "end"}, (y.show ?? digits)(value)));
  }
  svg.append(svgEl("text", {class: "quiet", x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"},
    x.title));
  svg.append(svgEl("text", {class: "quiet", transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`,
    "text-anchor": "middle"}, y.title));
  const path = points => points.map(({x, y}, i) => `${i ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
  const clip = `clip${chart.count = (chart.count ?? 0) + 1}`;
  svg.append(svgEl("clipPath", {id: clip}, svgEl("rect", {x: left, y: top, width: width - right - left,
    height: height - bottom - top})));
  for (const roof of roofs) svg.append(svgEl("path", {class: "roof", "clip-path": `url(#${clip})`,
    d: path(roof.points)}));
  for (const label of labels) {
    // Text that ends here starts within the chart, at some 7 units a letter.
    const [at, up] = [Math.max(px(label.x), label.anchor === "end" ? left + 7 * label.text.length : left), py(label.y)];
    svg.append(svgEl("text", {x: at, y: up - 7, "text-anchor": label.anchor ?? "middle"}, label.text));
  }
  const legend = el("div", {class: "legend"});
  for (const one of series.filter(one => one.points.length)) {
    const {colour, shape} = looks(one.name, one.time);
    const group = svgEl("g", {style: `--colour: ${colour}`});
    if (one.line) group.append(svgEl("path", {class: `series ${one.kind}`, d: path(one.line === true ? one.points
      : one.line)}));
    for (const point of one.points) {
      const mark = svgEl("a", {href: address(point.report), "data-tip": point.tip, "aria-label": point.tip},
        svgEl("path", {class: `mark ${one.kind}${point.faint ? " faint" : ""}`,
          d: SHAPES[shape](one.kind === "library" ? 4 : 5),
          transform: `translate(${px(point.x).toFixed(1)} ${py(point.y).toFixed(1)})`}));
      group.append(mark);
    }
    group.style.display = one.hidden ? "none" : "";
    const key = el("button", {type: "button", "aria-pressed": String(!one.hidden), onclick: () => {
      const shown = group.style.display === "none";
      group.style.display = shown ? "" : "none";
      key.setAttribute("aria-pressed", String(shown));
    }}, svgEl("svg", {viewBox: "-7 -7 14 14", style: `--colour: ${colour}`, "aria-hidden": "true"},
      svgEl("path", {class: `mark ${one.kind}`, d: SHAPES[shape](5)})), one.name,
    el("span", {class: "show"}, " (show)"));
    svg.append(group);
    legend.append(key);
  }
  for (const roof of roofs.filter(roof => roof.name)) {
    legend.append(el("span", {class: "quiet"}, `┅ ${roof.name}`));
  }
  return [el("div", {class: "figure"}, svg), legend];
}
