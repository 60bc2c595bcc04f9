// One model: its channels, its rollouts, how its releases do, and what was done.

import { confirm } from "./actions.js";
import { ago, badge, bytes, compact, day, duration, h, moment, number, percent, table } from "./dom.js";
import { histogram, intervals, lines, measureLabel, median } from "./plots.js";

const STEPS = [1, 5, 20, 50, 100];
const MEASURES = { infer_ms: "One run", load_ms: "Opening", download_kbps: "Download" };
const ARMS = { candidate: "candidate", control: "control", stable: "all others", embedded: "shipped" };
const MOST_SERIES = 6;
const HIDDEN = "fewer than 20";

// What a reader has chosen, kept while the page is drawn anew.
const chosen = new Map();

const key = (group) => `${group.release} ${group.arm}`;
const groupName = (group) => `${group.release} ${ARMS[group.arm] || group.arm}`;

export function modelSection(model, state, changed) {
  const view = { model, state, changed, looks: looks(model) };
  return h("section", { id: `model-${model.model}`, class: "model", "aria-labelledby": `name-${model.model}` },
    h("div", { class: "title" },
      h("h2", { id: `name-${model.model}` }, model.model),
      h("p", { class: "quiet" }, `change ${model.epoch}`,
        model.floor && `, nothing below ${model.floor} runs`,
        model.revoked.length > 0 && `, ${model.revoked.length} revoked`)),
    h("div", { class: "cards" },
      card("Channels", channels(view), "full"),
      rollouts(view),
      card("Active devices a day, by release", adoption(view)),
      card("Loads that fail, by release and arm", failures(view)),
      card("How long it takes", speed(view)),
      card("What was done", history(view), "last"),
      card(null, [numbers(view), daily(view), releases(view), errors(view)], "full")));
}

const card = (title, content, kind = "") =>
  h("div", { class: `card ${kind}` }, title && h("h3", {}, title), content);

// A colour for each release, the same in every plot; the arm is told by the stroke.
function looks(model) {
  const names = model.releases.map((one) => one.release).reverse();
  for (const group of model.groups) if (!names.includes(group.release)) names.unshift(group.release);
  return (release, arm = "") => `c${names.indexOf(release) % 6} ${arm}`;
}

function stateOf(candidate) {
  if (candidate.recall) return badge("bad", "recalled");
  if (candidate.halt) return badge("warn", "halted");
  return candidate.percent >= 100 ? badge("good", "everywhere") : badge("busy", "rolling out");
}

// place: where the button is, if a channel's row has one of its kind too.
function action(view, name, channel, candidate, extra = {}, place = "") {
  const { model, state, changed } = view;
  const label = { promote: "Promote…", halt: "Halt…", recall: "Recall…", rollback: "Roll back…" }[name];
  const what = {
    model: model.model, release: candidate.release, channel, epoch: model.epoch,
    channels: inOrder(model.channels).map(([name]) => name), ...extra,
  };
  return h("button", {
    type: "button",
    id: `${place || name}-${model.model}-${channel}-${candidate.release}`,
    class: name === "promote" ? "" : "careful",
    disabled: !state.server.signs,
    "aria-label": `${label} ${model.model} ${candidate.release}${place ? "" : ` on ${channel}`}`,
    onclick: () => confirm(name, what, changed),
  }, label);
}

const ORDER = ["stable", "beta", "canary"];
const place = (channel) => (ORDER.indexOf(channel) + ORDER.length + 1) % (ORDER.length + 1);
const inOrder = (channels) => Object.entries(channels).sort(([a], [b]) => place(a) - place(b));

function channels(view) {
  const { model } = view;
  const rows = [];
  for (const [channel, candidates] of inOrder(model.channels)) {
    if (!candidates.length) {
      rows.push([channel, h("span", { class: "quiet" }, "the model that came with the app"), "", "", ""]);
    }
    // Those that may run: the first can be rolled back to the second, and the last only be recalled.
    const usable = model.usable[channel];
    candidates.forEach((candidate, place) => {
      const behind = usable[usable.indexOf(candidate.release) + 1];
      const live = usable.includes(candidate.release) && candidate.percent > 0;
      rows.push([
        place ? h("span", { class: "quiet" }, "all others") : channel,
        candidate.release,
        [meter(candidate.percent), candidate.when.length > 0 && h("div", { class: "quiet" }, candidate.when.map(condition).join(" and "))],
        stateOf(candidate),
        h("div", { class: "buttons" },
          (candidate.percent < 100 || candidate.halt || candidate.recall) &&
            action(view, "promote", channel, candidate, { percent: nextStep(candidate) }),
          live && !candidate.halt && candidate.percent < 100 && action(view, "halt", channel, candidate),
          live && (candidate.percent < 100 || !behind) && action(view, "recall", channel, candidate, { behind }),
          candidate.release === usable[0] && behind && action(view, "rollback", channel, candidate, { behind })),
      ]);
    });
  }
  return table(`Channels of ${model.model}`, ["Channel", "Release", "Share", "State", "Change"], rows);
}

const condition = (one) => `${one.fact} ${one.test.replace("_", " ")} ${[one.value].flat().join(", ")}`;

const nextStep = (candidate) =>
  candidate.halt || candidate.recall ? candidate.percent : STEPS.find((step) => step > candidate.percent) ?? 100;

function meter(share) {
  const bar = h("span", { class: "bar" });
  bar.style.inlineSize = `${share}%`;
  return h("span", { class: "meter" }, h("span", { class: "track", "aria-hidden": "true" }, bar), percent(share / 100));
}

function rollouts(view) {
  const { model } = view;
  const cards = [];
  for (const [channel, candidates] of Object.entries(model.channels)) {
    for (const candidate of candidates) {
      const found = model.rollouts.find((one) => one.channel === channel && one.release === candidate.release);
      if (candidate.percent < 100 && found) cards.push(rollout(view, channel, candidate, found));
    }
  }
  return cards;
}

const VERDICTS = { wait: ["busy", "too early to say"], good: ["good", "as good as the others"], halt: ["bad", "worse than the others"], recall: ["bad", "far worse than the others"] };

function rollout(view, channel, candidate, found) {
  const { model, state } = view;
  const rows = ["candidate", "control"].filter((arm) => found[arm].loads > 0).map((arm) => ({
    name: arm === "candidate" ? candidate.release : "control",
    look: arm === "candidate" ? view.looks(candidate.release, arm) : "neutral control",
    text: `${found[arm].failures} of ${found[arm].loads} loads failed`,
    ...found[arm],
  }));
  const spoken = rows.map((row) =>
    `${row.name}: ${percent(row.rate)} of ${number(row.loads)} loads fail, surely ${percent(row.low)} to ${percent(row.high)}`).join("; ");
  return card(`${candidate.release} on ${channel}`, [
    h("p", { class: "verdict" }, badge(...VERDICTS[found.verdict]), " ", found.reason),
    steps(candidate),
    rows.length > 0
      ? [intervals({ name: `Share of loads that fail: ${spoken}`, rows, label: (v) => percent(v) }),
        h("p", { class: "quiet small" }, spoken, ".")]
      : h("p", { class: "empty" }, "No device of the rollout has reported yet."),
    h("p", { class: "quiet" }, `At ${percent(candidate.percent / 100)} for ${duration((Date.parse(state.now) - Date.parse(found.step_began)) / 1000)}. `,
      candidate.halt || candidate.recall ? "Nobody takes it any more." : gate(found, state.now)),
  ]);
}

function gate(found, now) {
  if (found.next_percent === null) return "";
  const step = percent(found.next_percent / 100);
  if (found.gate.open) return `It may go on to ${step}.`;
  const missing = [];
  if (Date.parse(found.gate.opens) > Date.parse(now)) missing.push(ago(found.gate.opens, now));
  if (found.gate.reports < found.gate.needs_reports) {
    missing.push(`after ${number(found.gate.needs_reports - found.gate.reports)} more reports`);
  }
  return `It may go on to ${step} ${missing.join(" and ")}.`;
}

function steps(candidate) {
  return h("ol", { class: "steps", "aria-label": `Steps: at ${candidate.percent} %` }, STEPS.map((step) =>
    h("li", { class: step <= candidate.percent ? "done" : "", "aria-current": step === candidate.percent && "step" }, `${step} %`)));
}

function dates(state) {
  const last = Date.parse(`${state.now.slice(0, 10)}T00:00:00Z`);
  return Array.from({ length: state.days }, (_, i) =>
    new Date(last - (state.days - 1 - i) * 86400000).toISOString().slice(0, 10));
}

// A plot shows the largest of many: [those, how many are left].
function largest(series) {
  const sum = (one) => one.values.reduce((total, value) => total + (value ?? 0), 0);
  const by = new Map(series.map((one) => [one, one.size ?? sum(one)]));
  const shown = [...series].sort((a, b) => by.get(b) - by.get(a)).slice(0, MOST_SERIES);
  return [series.filter((one) => shown.includes(one)), series.length - shown.length];
}

function adoption({ model, state, looks: look }) {
  const days = dates(state);
  const seen = [...new Set(model.daily.filter((one) => !one.hidden).map((one) => one.release))];
  const [series, more] = largest(seen.map((release) => ({
    name: release,
    look: look(release),
    values: days.map((date) => {
      const found = model.daily.filter((one) => one.day === date && one.release === release && !one.hidden);
      return found.length ? found.reduce((sum, one) => sum + one.devices, 0) : null;
    }),
  })));
  return lines({
    name: `Active devices a day of ${model.model}, by release`,
    days, dayLabel: day, series, more, label: number, axisLabel: compact, least: 20,
  });
}

function failures({ model, state, looks: look }) {
  const days = dates(state);
  const [series, more] = largest(model.groups.filter((group) => !group.hidden).map((group) => ({
    name: groupName(group),
    look: look(group.release, group.arm),
    size: group.devices,
    values: days.map((date) => {
      const found = model.daily.find((one) => one.day === date && key(one) === key(group));
      return found && !found.hidden && found.loads > 0 ? found.rate : null;
    }),
  })));
  return lines({
    name: `Share of loads of ${model.model} that fail, by release and arm`,
    days, dayLabel: day, series, more, label: (v) => percent(v), least: 0.002,
  });
}

function speed(view) {
  const { model } = view;
  const id = `measure-${model.model}`;
  const box = h("div", {});
  const choice = h("select", { id }, Object.entries(MEASURES).map(([name, text]) =>
    h("option", { value: name, selected: name === chosen.get(id) }, text)));
  const show = () => {
    const measure = choice.value;
    chosen.set(id, measure);
    const groups = model.groups.filter((group) => !group.hidden && group.histograms[measure]);
    const [series, more] = largest(groups.map((group) => ({
      name: `${groupName(group)} (median ${measureLabel(measure, median(group.histograms[measure]))})`,
      look: view.looks(group.release, group.arm),
      size: group.devices,
      counts: group.histograms[measure],
    })));
    const name = `${MEASURES[measure]} of ${model.model}: ${series.map((one) => one.name).join(", ")}`;
    box.replaceChildren(series.length
      ? histogram({ name, measure, series, more, label: (v) => percent(v) })
      : h("p", { class: "empty" }, "Nothing measured yet."));
  };
  choice.addEventListener("change", show);
  show();
  return [h("label", { for: id, class: "inline" }, "Measure ", choice), box];
}

function history({ model, state }) {
  if (!model.events.length) return h("p", { class: "empty" }, "Nothing was done yet.");
  const who = { rule: "the halt rule", person: "a person", repository: "the repository" };
  const done = { promote: "promoted", halt: "halted", recall: "recalled", rollback: "rolled back", withdraw: "withdrew" };
  return h("ol", { class: "events" }, model.events.slice(0, 8).map((event) =>
    h("li", { class: event.by === "rule" ? "alarm" : "" },
      h("span", {}, `${who[event.by] || event.by} ${done[event.action] || event.action} ${event.release} `,
        event.percent !== null && `to ${percent(event.percent / 100)} of `,
        event.percent === null && "on ", event.channel),
      event.reason && h("span", { class: "quiet" }, event.reason),
      h("span", { class: "quiet small" }, moment(event.at, state.now)))));
}

const fold = (id, title, content) =>
  h("details", { id }, h("summary", {}, title), content);

function numbers({ model, state }) {
  const rows = model.groups.map((group) => {
    const name = [group.release, ARMS[group.arm] || group.arm];
    if (group.hidden) return [...name, h("span", { class: "quiet" }, HIDDEN), "", "", "", "", ""];
    const codes = Object.entries(group.codes).sort((a, b) => b[1] - a[1]).map(([code, n]) => `${code} ${number(n)}`);
    const run = group.histograms.infer_ms ? measureLabel("infer_ms", median(group.histograms.infer_ms)) : "–";
    return [...name, number(group.devices), number(group.loads), number(group.failures),
      h("span", { class: "together" }, `${percent(group.rate)} (${percent(group.low)} to ${percent(group.high)})`), run, codes.join(", ")];
  });
  return fold(`numbers-${model.model}`, `All numbers of the last ${state.days} days`,
    rows.length
      ? table(`Numbers of ${model.model}`, ["Release", "Arm", "Devices a day", "Loads", "Failed", "Rate (95 % interval)", "Median run", "Codes"], rows)
      : h("p", { class: "empty" }, "No device has reported yet."));
}

function daily({ model }) {
  const rows = [...model.daily].sort((a, b) => b.day.localeCompare(a.day)).map((one) => [
    day(one.day), one.release, ARMS[one.arm] || one.arm,
    ...(one.hidden
      ? [h("span", { class: "quiet" }, HIDDEN), "", "", ""]
      : [number(one.devices), number(one.loads), number(one.failures), one.loads ? percent(one.rate) : "–"]),
  ]);
  return fold(`daily-${model.model}`, "Day by day", rows.length
    ? table(`${model.model}, day by day`, ["Day", "Release", "Arm", "Devices", "Loads", "Failed", "Rate"], rows)
    : h("p", { class: "empty" }, "No device has reported yet."));
}

function releases(view) {
  const { model, state } = view;
  const rows = model.releases.map((one) => [
    one.release, moment(one.created, state.now), bytes(one.size),
    Object.entries(one.metrics).map(([name, value]) => `${name} ${value}`).join(", ") || "–",
    one.notes || "–", one.revoked ? badge("bad", "revoked") : "",
    !one.revoked && action(view, "promote", "stable", one, { percent: 1 }, "offer"),
  ]);
  return fold(`releases-${model.model}`, `Releases (${model.releases.length})`,
    table(`Releases of ${model.model}`, ["Release", "Published", "Size", "Metrics", "Notes", "State", "Change"], rows));
}

function errors({ model }) {
  if (!model.errors.length) return null;
  const rows = model.errors.map((one) => [h("code", {}, one.error), one.code, one.release, number(one.n)]);
  return fold(`errors-${model.model}`, `Errors (${model.errors.length} kinds)`,
    table(`Errors of ${model.model}`, ["Hash", "Code", "Release", "Times"], rows));
}
