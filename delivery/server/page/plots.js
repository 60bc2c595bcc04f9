// Plots as SVG. Each has a name for those who cannot see it; the numbers also stand in a table.

import { h, s } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 220;
const LEFT = 58;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 26;

// A round number at or above the greatest value, so that the axis has four even steps.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((n) => n * power).find((n) => n >= value * 0.999);
}

function frame(name, top, label) {
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": name });
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  for (let step = 0; step <= 4; step++) {
    const value = (top * step) / 4;
    svg.append(
      s("line", { class: step ? "grid" : "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, label(value)));
  }
  return { svg, y };
}

function legend(series, more) {
  return h("ul", { class: "legend" }, series.map((one) =>
    h("li", {},
      s("svg", { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" },
        s("line", { class: `line ${one.look}`, x1: 1, x2: 25, y1: 5, y2: 5 })),
      one.name)), more > 0 && h("li", {}, `and ${more} smaller, in the tables below`));
}

// series: [{name, look, values}], a value for each day, null where there is none to show.
// The last day is not over yet.
export function lines({ name, days, dayLabel, series, label, axisLabel = label, least = 0, more = 0 }) {
  const all = series.flatMap((one) => one.values).filter((value) => value !== null);
  if (!all.length) return h("p", { class: "empty" }, "No group of devices is large enough to show yet.");
  const { svg, y } = frame(name, roundUp(Math.max(least, ...all)), axisLabel);
  const step = (WIDTH - LEFT - RIGHT) / Math.max(days.length - 1, 1);
  const x = (index) => LEFT + index * step;
  const every = Math.ceil(days.length / 8);
  days.forEach((day, index) => {
    if ((days.length - 1 - index) % every) return;
    const anchor = index === days.length - 1 ? "end" : "middle";
    const look = ((days.length - 1 - index) / every) % 2 ? "minor" : null;
    svg.append(s("text", { class: look, x: x(index), y: HEIGHT - 6, "text-anchor": anchor }, dayLabel(day)));
  });
  svg.append(s("rect", { class: "today", x: x(days.length - 2), width: step, y: TOP, height: HEIGHT - TOP - BOTTOM }));
  for (const one of series) {
    let path = "";
    one.values.forEach((value, index) => {
      if (value === null) return;
      const begins = index === 0 || one.values[index - 1] === null;
      path += `${begins ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      const alone = begins && (one.values[index + 1] ?? null) === null;
      if (alone) svg.append(s("circle", { class: `dot ${one.look}`, cx: x(index), cy: y(value), r: 3.5 }));
    });
    svg.append(s("path", { class: `line ${one.look}`, d: path }));
  }
  const reading = h("p", { class: "reading", "aria-hidden": "true" });
  const cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  svg.append(cursor);
  const show = (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    const index = Math.min(Math.max(Math.round((at - LEFT) / step), 0), days.length - 1);
    cursor.setAttribute("x1", x(index));
    cursor.setAttribute("x2", x(index));
    cursor.setAttribute("visibility", "visible");
    const values = series.filter((one) => one.values[index] !== null)
      .map((one) => `${one.name} ${label(one.values[index])}`);
    reading.textContent = `${dayLabel(days[index])}: ${values.join(", ") || "nothing to show"}`;
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    reading.textContent = "";
  });
  return h("div", { class: "plot" }, svg, legend(series, more), reading);
}

// rows: [{name, look, rate, low, high, text}]: a dot for each rate, a bar for what it may be.
export function intervals({ name, rows, label }) {
  const top = roundUp(Math.max(0.002, ...rows.map((row) => Math.min(row.high, row.rate * 3 + 0.01))));
  const left = 120;
  const height = 30 * rows.length + 26;
  const x = (value) => left + (Math.min(value, top) / top) * (WIDTH - left - RIGHT);
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": name });
  for (let step = 0; step <= 4; step++) {
    const value = (top * step) / 4;
    svg.append(
      s("line", { class: "grid", x1: x(value), x2: x(value), y1: 4, y2: height - 22 }),
      s("text", { x: x(value), y: height - 6, "text-anchor": step === 4 ? "end" : "middle" }, label(value)));
  }
  rows.forEach((row, index) => {
    const y = 20 + 30 * index;
    svg.append(
      s("text", { class: "name", x: 0, y: y + 4 }, row.name),
      s("line", { class: `range ${row.look}`, x1: x(row.low), x2: x(row.high), y1: y, y2: y }),
      s("circle", { class: `dot ${row.look}`, cx: x(row.rate), cy: y, r: 6 },
        s("title", {}, row.text)));
  });
  return h("div", { class: "plot" }, svg);
}

const UNITS = {
  infer_ms: (ms) => (ms < 1 ? `${Number((ms * 1000).toPrecision(3))} µs` : ms < 1000 ? `${Number(ms.toPrecision(3))} ms` : `${Number((ms / 1000).toPrecision(3))} s`),
  download_kbps: (k) => (k < 1 ? `${Number((k * 1000).toPrecision(3))} bit/s` : k < 1000 ? `${Number(k.toPrecision(3))} kbit/s` : `${Number((k / 1000).toPrecision(3))} Mbit/s`),
};
UNITS.load_ms = UNITS.infer_ms;

// Bucket i begins at 2 ** (i - 10); the first holds all below it too.
const bucketLabel = (measure, index) => UNITS[measure](2 ** (index - 10));

export function median(counts) {
  const half = counts.reduce((sum, n) => sum + n, 0) / 2;
  let seen = 0;
  for (let i = 0; i < counts.length; i++) {
    if (seen + counts[i] >= half && counts[i]) return 2 ** (i - 10 + (half - seen) / counts[i]);
    seen += counts[i];
  }
  return null;
}

export const measureLabel = (measure, value) => (value === null ? "–" : UNITS[measure](value));

// series: [{name, look, counts}], shares of each are drawn.
export function histogram({ name, measure, series, label, more }) {
  const shares = series.map((one) => {
    const sum = one.counts.reduce((a, b) => a + b, 0);
    return { ...one, shares: one.counts.map((n) => n / sum) };
  });
  const used = shares[0].shares.map((_, i) => i).filter((i) => shares.some((one) => one.shares[i] > 0.0005));
  if (!used.length) return h("p", { class: "empty" }, "Nothing measured yet.");
  const first = Math.max(Math.min(...used) - 1, 0);
  const last = Math.min(Math.max(...used) + 1, 31);
  const { svg, y } = frame(name, roundUp(Math.max(...shares.flatMap((one) => one.shares))), label);
  const step = (WIDTH - LEFT - RIGHT) / (last - first + 1);
  const x = (index) => LEFT + (index - first) * step;
  const every = Math.ceil((last - first + 1) / 9);
  for (let index = first; index <= last; index += every) {
    svg.append(s("text", { x: x(index), y: HEIGHT - 6, "text-anchor": "middle" }, bucketLabel(measure, index)));
  }
  for (const one of shares) {
    let path = `M${x(first)} ${y(0)}`;
    for (let index = first; index <= last; index++) {
      path += `V${y(one.shares[index]).toFixed(1)}H${x(index + 1).toFixed(1)}`;
    }
    path += `V${y(0)}`;
    svg.append(s("path", { class: `area ${one.look}`, d: path }), s("path", { class: `line ${one.look}`, d: path }));
  }
  return h("div", { class: "plot" }, svg, legend(series, more));
}

// rows: [[name, value]], greatest first.
export function bars({ rows, label }) {
  const sum = rows.reduce((total, [, value]) => total + value, 0);
  return h("ul", { class: "bars" }, rows.map(([name, value]) => {
    const bar = h("span", { class: "bar" });
    bar.style.inlineSize = `${(100 * value) / rows[0][1]}%`;
    return h("li", {}, h("span", {}, name), h("span", { class: "quiet" }, label(value / sum)),
      h("span", { class: "track", "aria-hidden": "true" }, bar));
  }));
}
