// The page: signing in, asking the server once a minute, and drawing what it says.

import { sentence } from "./actions.js";
import { Failure, keepToken, readState, token } from "./api.js";
import { ago, compact, day, duration, h, number, percent, table } from "./dom.js";
import { modelSection } from "./model.js";
import { bars, lines } from "./plots.js";

const EVERY_MS = 60000;
const main = document.getElementById("main");
const notice = document.getElementById("notice");
const models = document.getElementById("models");
const daysChoice = document.getElementById("days");
const look = document.getElementById("look");
const leave = document.getElementById("leave");

let shown = "";
let asked = 0;

function say(kind, text, button) {
  notice.replaceChildren(...(text ? [h("p", { class: kind }, text, " ", button)] : []));
}

function signIn(problem) {
  shown = "";
  leave.hidden = true;
  models.replaceChildren();
  say();
  const field = h("input", {
    type: "password", id: "token", name: "token", required: true, autocomplete: "current-password",
    "aria-describedby": "token-help token-problem",
  });
  const form = h("form", { class: "card sign-in" },
    h("h2", {}, "Sign in"),
    h("label", { for: "token" }, "Admin token", field),
    h("p", { id: "token-help", class: "quiet" }, "It lies in the server's folder in the file ", h("code", {}, "admin-token"),
      ", and is forgotten when this tab is closed."),
    h("p", { id: "token-problem", class: "problem", role: "alert" }, problem),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "strong" }, "Sign in")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    main.replaceChildren(h("p", { class: "empty", "aria-busy": "true" }, "Asking the server …"));
    refresh();
  });
  main.replaceChildren(form);
  field.focus();
}

async function refresh() {
  if (!token()) {
    signIn("");
    return;
  }
  const turn = ++asked;
  try {
    const state = await readState(daysChoice.value);
    if (turn !== asked) return;
    if (notice.querySelector(".lost")) say();
    draw(state);
  } catch (failure) {
    if (turn !== asked) return;
    if (!(failure instanceof Failure)) throw failure;
    if (failure.status === 401) {
      keepToken(null);
      signIn("The server does not know this token.");
      return;
    }
    const again = h("button", { type: "button", onclick: refresh }, "Try again");
    const what = shown ? " What you see is as it was before." : "";
    say("problem lost", `${sentence(failure.message)}${what}`, again);
    if (!shown) main.replaceChildren(h("p", { class: "empty" }, "There is nothing to show yet."));
  }
}

// After an action: its words, or the failure to sign in; null, null: only look again.
function changed(text, failure) {
  if (failure) {
    keepToken(null);
    signIn("The server does not know this token any more.");
    return;
  }
  if (text) say("done", text);
  refresh();
}

function draw(state) {
  const { now, ...rest } = state;
  const content = JSON.stringify(rest);
  const time = now.slice(0, 15);
  if (`${time}${content}` === shown) return;
  shown = `${time}${content}`;
  leave.hidden = false;
  const open = new Set([...main.querySelectorAll("details[open]")].map((one) => one.id));
  const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
  models.replaceChildren(...state.models.map((model) =>
    h("a", { href: `#model-${model.model}` }, model.model, alarm(model) && h("span", { class: "alarm" }, " halted"))));
  main.replaceChildren(
    overview(state),
    ...(state.models.length
      ? state.models.map((model) => modelSection(model, state, changed))
      : [nothing(state)]));
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
}

const alarm = (model) =>
  Object.values(model.channels).flat().some((one) => one.halt && !one.recall);

function nothing(state) {
  return h("div", { class: "card empty" },
    h("h2", {}, state.server.signs ? "Nothing is published yet" : "This replica only takes reports"),
    state.server.signs
      ? [h("p", {}, "Publish the first release and give it to some devices:"),
        h("pre", { tabindex: "0" }, "palmkit models publish face_detector 1.1.0 face_detector.palm -r REPOSITORY\npalmkit models promote face_detector 1.1.0 --percent 1 -r REPOSITORY")]
      : h("p", {}, "Releases are shown and changed on the replica that holds the repository."));
}

function tile(name, value, detail, kind = "") {
  return h("div", { class: `tile ${kind}` },
    h("dt", {}, name), h("dd", {}, h("strong", {}, value), h("span", { class: "quiet" }, detail)));
}

function overview(state) {
  const fleet = new Map(state.fleet.map((one) => [one.day, one]));
  const last = state.now.slice(0, 10);
  const days = Array.from({ length: state.days }, (_, i) =>
    new Date(Date.parse(last) - (state.days - 1 - i) * 86400000).toISOString().slice(0, 10));
  const devices = (date) => {
    const found = fleet.get(date);
    return found ? (found.devices === null ? `fewer than ${state.min_group}` : number(found.devices)) : "none";
  };
  const reports = state.fleet.reduce((sum, one) => sum + one.reports, 0);
  const dropped = state.dropped.reduce((sum, one) => sum + one.n, 0);
  const candidates = state.models.flatMap((model) => Object.values(model.channels).flat());
  const rolling = candidates.filter((one) => one.percent < 100 && !one.halt && !one.recall).length;
  const halted = candidates.filter((one) => one.halt && !one.recall).length;
  return h("section", { class: "overview", "aria-label": "The fleet" },
    h("dl", { class: "tiles" },
      tile("Active devices", devices(days.at(-2)), `yesterday; ${devices(last)} today so far`),
      tile("Reports", number(reports), `in ${state.days} days`),
      tile("Rolling out", number(rolling), halted ? `${halted} halted` : "none halted", halted ? "warn" : ""),
      metadata(state),
      tile("Not reported", number(dropped), dropped ? "events that devices had to drop" : "nothing was dropped")),
    h("div", { class: "pair" },
      h("div", { class: "card" },
        h("h2", { class: "h3" }, "Active devices a day"),
        state.fleet.length
          ? lines({
            name: "Active devices a day, all models", days, dayLabel: day, label: number, axisLabel: compact, least: 20,
            series: [{ name: "devices", look: "c1", values: days.map((date) => fleet.get(date)?.devices ?? null) }],
          })
          : h("p", { class: "empty" }, "No device has reported in these days.")),
      h("div", { class: "card" },
        h("h2", { class: "h3" }, "Kinds of devices, by reports of 7 days"), kinds(state),
        dropped > 0 && h("details", { id: "dropped" }, h("summary", {}, "What devices had to drop"),
          table("Dropped, by day and reason", ["Day", "Reason", "Events"],
            state.dropped.map((one) => [day(one.day), one.reason, number(one.n)]))))));
}

function metadata(state) {
  const ends = Object.entries(state.repository).map(([name, time]) => [name.replace(/_expires$/, ""), Date.parse(time)]);
  if (!ends.length) return tile("Metadata", "elsewhere", "not signed by this replica");
  const [name, time] = ends.reduce((a, b) => (a[1] < b[1] ? a : b));
  const left = (time - Date.parse(state.now)) / 1000;
  if (left < 0) return tile("Metadata", "expired", `${name}, ${ago(new Date(time).toISOString(), state.now)}`, "bad");
  return tile("Metadata", "valid", `${name} for ${duration(left)} more`, left < 6 * 3600 ? "warn" : "");
}

function kinds(state) {
  if (!state.platforms.length) return h("p", { class: "empty" }, "No device has reported yet.");
  const rows = state.platforms.slice(0, 6).map((one) => [
    one.os === "other" ? "other" : `${one.os} ${one.arch}, ${one.accelerator}, ${one.memory_class} GiB, PalmKit ${one.sdk}`,
    one.reports,
  ]);
  const rest = state.platforms.slice(6).reduce((sum, one) => sum + one.reports, 0);
  return bars({ rows: rest ? [...rows, [`${state.platforms.length - 6} more kinds`, rest]] : rows, label: (v) => percent(v) });
}

look.addEventListener("change", () => {
  if (look.value) document.documentElement.dataset.look = look.value;
  else delete document.documentElement.dataset.look;
  localStorage.setItem("palmkit-look", look.value);
});
look.value = localStorage.getItem("palmkit-look") || "";
look.dispatchEvent(new Event("change"));
daysChoice.addEventListener("change", refresh);
leave.addEventListener("click", () => {
  keepToken(null);
  signIn("");
});
document.addEventListener("visibilitychange", () => document.hidden || (token() && refresh()));
setInterval(() => document.hidden || !token() || document.querySelector("dialog[open]") || refresh(), EVERY_MS);
refresh();
