// What a person can do: promote, halt, recall and roll back, each said in full before it is done.

import { change, Failure } from "./api.js";
import { h, percent } from "./dom.js";

const dialog = document.getElementById("dialog");

const WORDS = {
  promote: (what) => ({
    title: `Promote ${what.model} ${what.release}`,
    text: "Devices take the release by themselves at their next check. Those that have it keep it when the share grows.",
    button: "Promote",
  }),
  halt: (what) => ({
    title: `Halt ${what.model} ${what.release}`,
    text: `No further device takes it from ${what.channel}. Those that run it keep running it.`,
    button: "Halt",
  }),
  recall: (what) => ({
    title: `Recall ${what.model} ${what.release}`,
    text: `No further device takes it from ${what.channel}, and those that run it go back at their next check: to ${what.behind || "what they had before it, at first the model that came with the app"}.`,
    button: "Recall",
    danger: true,
  }),
  rollback: (what) => ({
    title: `Roll back ${what.model} on ${what.channel}`,
    text: `All devices on ${what.channel} go from ${what.release} back to ${what.behind} at their next check.`,
    button: "Roll back",
    danger: true,
  }),
};

function choices(what) {
  const channel = h("select", { name: "channel", id: "channel" },
    what.channels.map((name) => h("option", { selected: name === what.channel }, name)));
  const share = h("input", {
    type: "number", name: "percent", id: "percent", min: "0", max: "100", step: "any",
    required: true, value: what.percent ?? 1, inputmode: "decimal",
  });
  return h("div", { class: "fields" },
    h("label", { for: "channel" }, "Channel", channel),
    h("label", { for: "percent" }, "Share of the devices, %", share));
}

// what: model, release, channel, epoch; to promote, channels and percent; to go back, the release
// that is behind it, if there is one.
// Calls done(text) once the server has done it.
export function confirm(action, what, done) {
  const words = WORDS[action](what);
  const error = h("p", { class: "problem", role: "alert" });
  const force = h("input", { type: "checkbox", id: "force", name: "force" });
  const gate = h("label", { class: "check", for: "force", hidden: true }, force, " Promote in spite of it");
  const reason = h("input", { id: "reason", name: "reason", maxlength: "500", autocomplete: "off" });
  const confirmed = h("button", { type: "submit", class: words.danger ? "danger" : "strong" }, words.button);
  const cancel = h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, words.title),
    h("p", {}, words.text),
    action === "promote" && choices(what),
    h("label", { for: "reason" }, "Why (kept with the event, may be empty)", reason),
    error, gate,
    h("div", { class: "buttons" }, cancel, confirmed));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = { model: what.model, channel: what.channel, epoch: what.epoch };
    if (action !== "rollback") body.release = what.release;
    if (action === "promote") {
      body.channel = form.elements.channel.value;
      body.percent = Number(form.elements.percent.value);
      if (force.checked) body.force = true;
    }
    if (reason.value.trim()) body.reason = reason.value.trim();
    confirmed.disabled = true;
    error.textContent = "";
    try {
      await change(action, body);
      dialog.close();
      done(said(action, what, body));
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      if (failure.status === 401) {
        dialog.close();
        done(null, failure);
        return;
      }
      error.textContent = sentence(failure.message);
      const gated = failure.status === 409 && failure.content.epoch === undefined && action === "promote";
      gate.hidden = !gated;
      if (failure.status === 409 && failure.content.epoch !== undefined) {
        error.textContent += " Close this, look at what changed, and decide again.";
        done(null, null);
      }
    } finally {
      confirmed.disabled = false;
    }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
}

export const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`.replace(/\.\.$/, ".");

function said(action, what, body) {
  if (action === "promote") {
    return `${what.model} ${what.release} goes to ${percent(body.percent / 100)} of ${body.channel}.`;
  }
  if (action === "rollback") return `${what.model} on ${what.channel} is rolled back.`;
  return `${what.model} ${what.release} on ${what.channel} is ${action === "halt" ? "halted" : "recalled"}.`;
}
