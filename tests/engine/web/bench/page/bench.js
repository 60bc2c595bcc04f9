// Opens engines on one network and times them; Python says whose turn it is.
import { timed } from "./timed.js";

const ARRAYS = {
  float32: Float32Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  int8: Int8Array,
  bool: Uint8Array,
};
const opened = new Map();

async function withData(inputs) {
  return Promise.all(
    inputs.map(async (input) => {
      const bytes = await (await fetch(input.url)).arrayBuffer();
      return { ...input, data: new ARRAYS[input.dtype](bytes) };
    }),
  );
}

function text(data) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let binary = "";
  for (let at = 0; at < bytes.length; at += 1 << 15) {
    binary += String.fromCharCode(...bytes.subarray(at, at + (1 << 15)));
  }
  return btoa(binary);
}

const dtypeOf = (data) =>
  Object.keys(ARRAYS).find((each) => data instanceof ARRAYS[each]) ?? "unknown";

globalThis.bench = {
  /** Opens an engine by a name of its own; returns the first results, null if it shows none. */
  async open(name, module, job) {
    const { open } = await import(`./engines/${module}.js`);
    const one = await open({ ...job, inputs: await withData(job.inputs) });
    opened.set(name, one);
    const outputs = await one.run();
    return (
      outputs?.map(({ name, data, dims }) => ({
        name,
        dims: [...dims],
        dtype: dtypeOf(data),
        data: text(data),
      })) ?? null
    );
  },
  /** Returns the milliseconds of each run in about `ms`. */
  async time(name, ms) {
    const one = opened.get(name);
    return one.time ? one.time(ms) : timed(one.run, ms);
  },
};
