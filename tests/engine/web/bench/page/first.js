// A page that wants one result: of the engine and the network in its address, on zeros.
const { module, job } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
try {
  const { open } = await import(`./engines/${module}.js`);
  const inputs = job.inputs.map((input) => {
    const size = input.dims.reduce((product, dim) => product * dim, 1);
    const data = input.dtype === "int64" ? new BigInt64Array(size) : new Float32Array(size);
    return { ...input, data };
  });
  await (await open({ ...job, inputs })).run();
  globalThis.first = { ms: performance.now() }; // since the page began to be opened
} catch (error) {
  globalThis.first = { error: String(error) };
}
