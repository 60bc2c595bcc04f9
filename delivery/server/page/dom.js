// Making elements and writing numbers. Text is always set as text: what a release is called or what
// its notes say can never become markup.

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const h = (tag, attributes, ...children) =>
  make(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) =>
  make(document.createElementNS(SVG, tag), attributes, children);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

// For an axis, where there is little room.
export const compact = (value) => (value < 10000 ? whole.format(value) : short.format(value));

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export function percent(share, digits) {
  if (share === null || share === undefined) return "–";
  const value = share * 100;
  const places = digits ?? (value === 0 || value >= 10 ? 0 : value >= 1 ? 1 : 2);
  return `${value.toFixed(places).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")} %`;
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  const unit = size < 1e6 ? "kB" : size < 1e9 ? "MB" : "GB";
  const value = size / { kB: 1e3, MB: 1e6, GB: 1e9 }[unit];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}

export function duration(seconds) {
  const left = Math.abs(seconds);
  for (const [size, word] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    const n = Math.round(left / size);
    if (left >= size * 0.95) return `${n} ${word}${n === 1 ? "" : "s"}`;
  }
  return "less than a minute";
}

export function ago(time, now) {
  const seconds = (Date.parse(now) - Date.parse(time)) / 1000;
  return seconds >= 0 ? `${duration(seconds)} ago` : `in ${duration(seconds)}`;
}

export const moment = (time, now) =>
  h("time", { datetime: time, title: new Date(time).toLocaleString() }, ago(time, now));

const days = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });

export const day = (text) => days.format(new Date(`${text}T00:00:00Z`));

export function table(caption, heads, rows, attributes) {
  const cell = (content, place) =>
    h(place === 0 ? "th" : "td", place === 0 ? { scope: "row" } : {}, content);
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    h("table", attributes || {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

export const badge = (kind, text) => h("span", { class: `badge ${kind}` }, text);
