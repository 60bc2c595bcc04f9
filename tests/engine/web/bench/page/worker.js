import { direct } from "./engines/palmkit.js";
import { timed } from "./timed.js";

let model;
onmessage = async ({ data: { job, ms } }) => {
  try {
    if (job) model = await direct(job);
    postMessage({ value: job ? model.run() : await timed(model.run, ms) });
  } catch (error) {
    postMessage({ error: String(error) });
  }
};
