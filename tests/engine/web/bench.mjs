// Times models beside onnxruntime-web, in turns: node bench.mjs PACKAGE PEER THREADS ROUNDS FOLDER...
// A folder has model.palm, model.onnx and input.N. Prints a line of JSON for each: the shortest
// milliseconds of a run, and how far the outputs are apart, as a part of their range or of 1.
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const ARRAYS = { float32: Float32Array, int64: BigInt64Array, uint8: Uint8Array };
const ROUND_MS = 60;
const [root, peer, threads, rounds, ...folders] = argv.slice(2);
const { load } = await import(pathToFileURL(`${root}/engine/web/index.js`).href);
const dist = `${peer}/node_modules/onnxruntime-web/dist`;
const ort = await import(pathToFileURL(`${dist}/ort.wasm.min.mjs`).href);
ort.env.wasm.numThreads = Number(threads);
ort.env.wasm.wasmPaths = `${pathToFileURL(dist).href}/`;
ort.env.logLevel = "error";

async function shortest(run, best) {
  const end = performance.now() + ROUND_MS;
  do {
    const begin = performance.now();
    await run();
    best = Math.min(best, performance.now() - begin);
  } while (performance.now() < end);
  return best;
}

for (const folder of folders) {
  const model = await load(readFileSync(`${folder}/model.palm`), { threads: Number(threads) });
  const session = await ort.InferenceSession.create(readFileSync(`${folder}/model.onnx`), {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "all",
  });
  const [ours, theirs] = [{}, {}];
  model.inputs.forEach(({ name, dtype }, i) => {
    const dims = model.plans[0][i];
    const data = new ARRAYS[dtype](new Uint8Array(readFileSync(`${folder}/input.${i}`)).buffer);
    ours[name] = { data, dims };
    theirs[name] = new ort.Tensor(dtype, data, dims);
  });
  const runs = { palmkit: () => model.run(ours), onnxruntime: () => session.run(theirs) };
  const [found, expected] = [runs.palmkit(), await runs.onnxruntime()];
  let apart = 0;
  for (const [name, { data }] of Object.entries(found)) {
    const other = expected[name].data;
    const range = other.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
    data.forEach((value, i) => (apart = Math.max(apart, Math.abs(value - other[i]) / range)));
  }
  const best = { palmkit: Infinity, onnxruntime: Infinity };
  for (let i = 0; i < Number(rounds); ++i) {
    for (const name of i % 2 ? ["palmkit", "onnxruntime"] : ["onnxruntime", "palmkit"]) {
      best[name] = await shortest(runs[name], best[name]);
    }
  }
  console.log(JSON.stringify({ ...best, apart }));
  model.close();
  await session.release();
}
process.exit(0);
