// The body of a function that runs in a page under test: what a reader would see, as JSON.
// Where a box scrolls sideways, what is in it may be wider than the window; the box itself may not.
const scrolls = element => element.closest(".scroll") !== null && !element.matches(".scroll");
const wide = [...document.body.querySelectorAll("*")].filter(element => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && !scrolls(element) && (box.right > innerWidth + 0.5 || box.left < -0.5);
});
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const rgb = colours => {
  canvas.clearRect(0, 0, 1, 1);
  for (const colour of colours) {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
  }
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const luminance = ([r, g, b]) => [r, g, b].map(value => value / 255)
  .map(value => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
  .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
const behind = element => {
  const colours = [];
  for (let one = element; one; one = one.parentElement) colours.unshift(getComputedStyle(one).backgroundColor);
  return ["white", ...colours];
};
// Of WCAG: the ratio of the luminances of text and background.
const known = new Map();
const contrast = element => {
  const [text, back] = [element.closest("svg") ? getComputedStyle(element).fill : getComputedStyle(element).color,
    behind(element)];
  const key = [text, ...back].join("|");
  if (!known.has(key)) {
    const [a, b] = [luminance(rgb([...back, text])), luminance(rgb(back))];
    known.set(key, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return known.get(key);
};
const texts = [...document.body.querySelectorAll("h1, h2, h3, p, li, a, td, th, th button, label, select, text, "
  + ".legend button")]
  .filter(element => element.textContent.trim() && element.getBoundingClientRect().width > 0);
const pale = texts.filter(element => contrast(element) < 4.5);
// A click on a title sorts the rows of its table.
const column = [...document.querySelectorAll("#rows th, #python th")]
  .find(head => /^(kernel|faltung)$/.test(head.textContent));
const order = () => [...column.closest("table").querySelectorAll("tbody tr")].map(row => row.textContent);
const before = column && order();
column?.querySelector("button").click();
const up = column && order();
column?.querySelector("button").click();
const down = column && order();
const name = element => `${element.tagName.toLowerCase()} ${element.className.baseVal ?? element.className}: `
  + element.textContent.trim().slice(0, 60);
return JSON.stringify({
  width: innerWidth,
  scroll_width: document.documentElement.scrollWidth,
  height: document.documentElement.scrollHeight,
  short: document.getElementById("short")?.textContent,
  caches: [...document.querySelectorAll("#whole table tr")].map(row => [...row.children].map(cell =>
    cell.textContent)),
  dark: luminance(rgb(behind(document.body))) < 0.2,
  sections: [...document.querySelectorAll("section > h2")].map(title => title.textContent),
  empty: [...document.querySelectorAll("[data-empty]")].map(one => one.textContent),
  problems: [...document.querySelectorAll(".error")].map(name),
  wide: wide.map(name),
  pale: pale.map(name),
  sorts: !column || (before.length === up.length && up.join() !== down.join() && up[0] === down[down.length - 1]),
  links: [...new Set([...document.querySelectorAll("a")].map(link => link.getAttribute("href")))],
  tips: [...document.querySelectorAll("[data-tip]")].every(one => one.dataset.tip.includes("\n")),
  commands: [...document.querySelectorAll("#reports code")].map(one => one.textContent),
  means: [...document.querySelectorAll("[data-mean]")].map(mean => [mean.dataset.mean, mean.textContent]),
  fields: [...document.querySelectorAll("[data-field]")].map(cell => {
    const row = cell.closest("[data-row]");
    return [row.dataset.report, +row.dataset.row, cell.dataset.field, cell.textContent];
  }),
});
