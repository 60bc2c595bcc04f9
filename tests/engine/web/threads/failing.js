// A thread that fails a while after it began to work.
const WORKS_MS = 300;
const { Instance } = WebAssembly;
let end = Infinity;

WebAssembly.Instance = class {
  constructor(module, imports) {
    const system = imports.wasi_snapshot_preview1;
    const clock = system.clock_time_get;
    system.clock_time_get = (...values) => {
      if (end === Infinity) end = performance.now() + WORKS_MS;
      if (performance.now() > end) throw new WebAssembly.RuntimeError("by the test");
      return clock(...values);
    };
    return new Instance(module, imports);
  }
};
// Messages that come before the thread listens are kept for it.
const early = [];
onmessage = (event) => early.push(event);
await import(location.search.slice(1));
early.forEach((event) => onmessage(event));
