// What goes wrong ends in a PalmError: node faults.mjs PACKAGE CASE FILE...
// Prints a line for each file, or for what the case tries: the kind and the message.
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const [root, what, ...files] = argv.slice(2);
const at = (name) => pathToFileURL(`${root}/engine/web/${name}`);
const { load, PalmError } = await import(at("index.js").href);
const ALONE = { builds: { wasm: at("palm_wasm.wasm") } };
const THREADS = { threads: 3, builds: { wasm_threads: at("palm_wasm_threads.wasm") } };

async function tell(attempt) {
  try {
    const made = await attempt();
    console.log("ok");
    return made;
  } catch (error) {
    // Anything else is a fault of ours.
    if (!(error instanceof PalmError)) throw error;
    console.log(`${error.kind}: ${error.message}`);
  }
}

const zeros = (model) =>
  Object.fromEntries(
    model.inputs.map(({ name }, i) => {
      const dims = model.plans[0][i];
      return [name, new Float32Array(dims.reduce((a, b) => a * b, 1))];
    }),
  );

const CASES = {
  // Files that are damaged: each is opened, and run if that goes.
  async damaged() {
    for (const file of files) {
      await tell(async () => {
        const model = await load(readFileSync(file), ALONE);
        // Of a model that asks for other numbers it is a PalmError, too.
        model.run(zeros(model));
        model.close();
      });
    }
  },

  async arguments() {
    const model = await load(readFileSync(files[0]), ALONE);
    const { image } = zeros(model);
    await tell(() => model.run({}));
    await tell(() => model.run({ image: image.subarray(1) }));
    await tell(() => model.run({ image: new Uint8Array(image.length) }));
    await tell(() => model.run({ image, other: image }));
    await tell(() => model.run({ image }));
    model.close();
    await tell(() => model.run({ image }));
    await tell(() => load(new Uint8Array(), ALONE));
    await tell(() => load(new Uint8Array(1000), ALONE));
    await tell(() => load(7, ALONE));
    await tell(() => load("relative", ALONE));
    await tell(() => load(at("nothing.palm"), ALONE));
    await tell(() => load(readFileSync(files[0]), { threads: 0 }));
    await tell(() => load(readFileSync(files[0]), { builds: {} }));
  },

  // A run that fails in the middle, in whichever thread: gather of an index that is outside.
  async failing() {
    for (const options of [ALONE, THREADS]) {
      const model = await load(readFileSync(files[0]), options);
      const table = new Float32Array(4096 * 64);
      const at = (value) => ({ table, at: new BigInt64Array(4096).fill(BigInt(value)) });
      await tell(() => model.run(at(4095)));
      await tell(() => model.run(at(4096)));
      await tell(() => model.run(at(0)));
      model.close();
    }
  },

  // An engine without SIMD.
  async simd() {
    WebAssembly.validate = () => false;
    await tell(() => load(readFileSync(files[0]), ALONE));
  },

  // A server that answers by a page of its own, and a connection that ends in the middle.
  async module() {
    const url = "https://example.org/palm.wasm";
    const answers = [
      new Response("<!doctype html>", { headers: { "content-type": "text/html" } }),
      new Response(new Uint8Array(8), { headers: { "content-type": "application/wasm" } }),
    ];
    globalThis.fetch = async () => answers.shift();
    await tell(() => load(readFileSync(files[0]), { builds: { wasm: url } }));
    await tell(() => load(readFileSync(files[0]), { builds: { wasm: url } }));
  },

  // Memory that cannot be shared.
  async isolation() {
    globalThis.crossOriginIsolated = false;
    await tell(() => load(readFileSync(files[0]), THREADS));
  },
};

await CASES[what]();
