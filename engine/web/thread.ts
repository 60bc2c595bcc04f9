// What a thread runs: an instance of the module on the memory of the one that asked for it.
import { importsOf } from "./instance.js";
import type { Start } from "./threads.js";

type Exports = Readonly<Record<string, (...values: number[]) => number>> & {
  readonly __stack_pointer: WebAssembly.Global<"i32">;
};

function serve({ module, memory, index, stack, variables }: Start, ready: () => void): void {
  const instance = new WebAssembly.Instance(module, importsOf(module, () => memory));
  const exports = instance.exports as unknown as Exports;
  exports.__stack_pointer.value = stack;
  exports["__wasm_init_tls"]?.(variables);
  ready();
  try {
    exports["palm_thread"]?.(index);
  } catch {
    // What it threw itself is told already.
    exports["palm_thread_failed"]?.();
  }
}

declare const WorkerGlobalScope: unknown;

if (typeof WorkerGlobalScope !== "undefined") {
  self.onmessage = (event: MessageEvent<Start>) => {
    serve(event.data, () => {
      self.postMessage("ready");
    });
  };
} else {
  const name = "node:worker_threads"; // so that bundlers leave it alone
  const node = (await import(/* @vite-ignore */ name)) as typeof import("node:worker_threads");
  serve(node.workerData as Start, () => {
    node.parentPort?.postMessage("ready");
  });
}
