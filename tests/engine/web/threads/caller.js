// Runs a model with two threads, as the page asks, and tells it what came of that.
import { PalmError, load } from "/palmkit/engine/web/index.js";

globalThis.Worker = class {
  constructor(url, options) {
    const { port1, port2 } = new MessageChannel();
    this.port = port1;
    port1.onmessage = (event) => this.onmessage?.(event);
    postMessage({ thread: { url: String(url), options, port: port2 } }, [port2]);
  }
  postMessage(data) {
    this.port.postMessage(data);
  }
  terminate() {}
};

const input = new Float32Array(4096 * 16).map((_, i) => Math.sin(i));
const sumOf = ({ y }) => y.data.reduce((sum, value) => sum + value, 0);
let model;

const CALLS = {
  async open(threads) {
    model?.close();
    model = await load("/model.palm", { threads });
    postMessage({ opened: threads });
  },
  /** Runs without hearing anything meanwhile. */
  run(ms) {
    postMessage({ running: true });
    const end = performance.now() + ms;
    let sum;
    do sum = sumOf(model.run({ x: input }));
    while (performance.now() < end);
    postMessage({ sum });
  },
};

onmessage = async ({ data: [name, value] }) => {
  try {
    await CALLS[name](value);
  } catch (error) {
    if (!(error instanceof PalmError)) throw error;
    postMessage({ error: `${error.kind}: ${error.message}` });
  }
};
