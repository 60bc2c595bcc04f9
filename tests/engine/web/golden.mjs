// Runs models in Node: node golden.mjs PACKAGE BUILD THREADS FOLDER...
// A folder is one of tests/engine/native/golden.py; output.N.web in it becomes what the build makes
// of its inputs.
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const ARRAYS = {
  float32: Float32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};

const [root, build, threads, ...folders] = argv.slice(2);
const { load } = await import(pathToFileURL(`${root}/engine/web/index.js`).href);
const builds = { [build]: pathToFileURL(`${root}/engine/web/palm_${build}.wasm`) };

for (const folder of folders) {
  const bytes = readFileSync(`${folder}/model.palm`);
  const model = await load(bytes, { threads: Number(threads), builds });
  const inputs = {};
  model.inputs.forEach(({ name, dtype }, i) => {
    const { buffer } = new Uint8Array(readFileSync(`${folder}/input.${i}`));
    inputs[name] = { data: new ARRAYS[dtype](buffer), dims: model.plans[0][i] };
  });
  // Twice, as what a run leaves behind must not matter.
  model.run(inputs);
  const outputs = model.run(inputs);
  model.outputs.forEach(({ name }, i) => {
    writeFileSync(`${folder}/output.${i}.web`, new Uint8Array(outputs[name].data.buffer));
  });
  model.close();
}
