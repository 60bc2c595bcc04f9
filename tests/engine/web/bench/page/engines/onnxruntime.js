import * as ort from "/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs";

export async function open({ files, inputs, threads }) {
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.wasmPaths = "/node_modules/onnxruntime-web/dist/";
  ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create(files.onnx, {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "all",
  });
  const given = Object.fromEntries(
    inputs.map(({ name, dtype, data, dims }) => [name, new ort.Tensor(dtype, data, dims)]),
  );
  return {
    run: async () =>
      Object.entries(await session.run(given)).map(([name, { data, dims }]) => ({
        name,
        data,
        dims,
      })),
  };
}
