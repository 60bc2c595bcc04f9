import { load } from "/palmkit/engine/web/index.js";

export async function direct({ files, inputs, threads, builds }) {
  const model = await load(files.palm, builds ? { threads, builds } : { threads });
  const given = Object.fromEntries(inputs.map(({ name, data, dims }) => [name, { data, dims }]));
  return {
    run: () => Object.entries(model.run(given)).map(([name, tensor]) => ({ name, ...tensor })),
  };
}

/** The thread of a page must not wait: of several threads the first is a worker's. */
export async function open(job) {
  if (job.threads === 1) return direct(job);
  const worker = new Worker(new URL("../worker.js", import.meta.url), { type: "module" });
  const ask = (question) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data: { value, error } }) =>
        error ? reject(new Error(error)) : resolve(value);
      worker.onerror = ({ message }) => reject(new Error(message));
      worker.postMessage(question);
    });
  const first = await ask({ job });
  return { run: () => first, time: (ms) => ask({ ms }) };
}
