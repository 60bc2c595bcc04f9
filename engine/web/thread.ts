// What a thread runs: an instance of the module on the memory of the one that asked for it.
import { importsOf } from "./instance.js";
import type { Said, Start } from "./threads.js";
import { serve } from "./workers.js";

type Exports = Readonly<Record<string, (...values: number[]) => number>> & {
  readonly __stack_pointer: WebAssembly.Global<"i32">;
};

serve((data, post) => {
  const { module, memory, index, stack, variables } = data as Start;
  const instance = new WebAssembly.Instance(module, importsOf(module, () => memory));
  const exports = instance.exports as unknown as Exports;
  exports.__stack_pointer.value = stack;
  exports["__wasm_init_tls"]?.(variables);
  post("ready" satisfies Said);
  try {
    exports["palm_thread"]?.(index);
  } catch (error) {
    // What it threw itself is told already.
    exports["palm_thread_failed"]?.();
    post({ failed: String(error) } satisfies Said);
  }
});
