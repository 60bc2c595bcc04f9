import { Tensor, loadAndCompile, loadLiteRt } from "@litertjs/core";

export async function open({ files, inputs, threads }) {
  await loadLiteRt("/node_modules/@litertjs/core/wasm/", { threads: threads > 1 });
  const model = await loadAndCompile(files.tflite, {
    accelerator: "wasm",
    cpuOptions: { numThreads: threads },
  });
  const names = model.getOutputDetails().map(({ name }) => name);
  return {
    run: async () => {
      const given = inputs.map(({ data, dims }) => new Tensor(data, dims));
      const found = await model.run(given);
      const outputs = found.map((tensor, i) => ({
        name: names[i],
        data: tensor.toTypedArray().slice(),
        dims: tensor.type.layout.dimensions,
      }));
      for (const tensor of [...given, ...found]) tensor.delete();
      return outputs;
    },
  };
}
