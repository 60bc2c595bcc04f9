// tfjs-tflite comes as scripts that put their names into the page.
const FOLDER = "/node_modules/@tensorflow";
const SCRIPTS = [
  `${FOLDER}/tfjs-core/dist/tf-core.min.js`,
  `${FOLDER}/tfjs-backend-cpu/dist/tf-backend-cpu.min.js`,
  `${FOLDER}/tfjs-tflite/dist/tf-tflite.min.js`,
];

function script(src) {
  return new Promise((resolve, reject) => {
    const element = document.createElement("script");
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${src} did not arrive`));
    element.src = src;
    document.head.append(element);
  });
}

export async function open({ files, inputs, threads }) {
  for (const each of SCRIPTS) await script(each);
  const { tf, tflite } = globalThis;
  tflite.setWasmPath(`${FOLDER}/tfjs-tflite/wasm/`);
  const model = await tflite.loadTFLiteModel(files.tflite, { numThreads: threads });
  return {
    run: () => {
      const given = inputs.map(({ data, dims }) => tf.tensor(data, dims));
      const found = model.predict(given.length === 1 ? given[0] : given);
      const named = found instanceof tf.Tensor ? [["output", found]] : Object.entries(found);
      const outputs = named.map(([name, tensor]) => ({
        name,
        data: tensor.dataSync(),
        dims: tensor.shape,
      }));
      tf.dispose([given, named.map(([, tensor]) => tensor)]);
      return outputs;
    },
  };
}
