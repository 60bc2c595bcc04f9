// Runs a kernel's test program in Node: node run_kernel.mjs TEST.wasm [THREADS]
import { readFileSync, writeSync } from "node:fs";
import { argv, exit } from "node:process";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

class Thrown extends Error {}
class Exit extends Error {}

const NO_SUCH_CALL = 52;
const STACK_BYTES = 1 << 20;

// What C's library asks of a system: there are no arguments, variables or files.
function systemOf(module, memory) {
  const view = () => new DataView(memory.buffer);
  const none = (count, bytes) => {
    view().setUint32(count, 0, true);
    view().setUint32(bytes, 0, true);
    return 0;
  };
  const known = {
    args_sizes_get: none,
    environ_sizes_get: none,
    clock_time_get(_clock, _precision, at) {
      view().setBigUint64(at, process.hrtime.bigint(), true);
      return 0;
    },
    fd_write(file, pieces, count, written) {
      let all = 0;
      for (let i = 0; i < count; ++i) {
        const at = view().getUint32(pieces + 8 * i, true);
        const size = view().getUint32(pieces + 8 * i + 4, true);
        writeSync(file, new Uint8Array(memory.buffer).slice(at, at + size));
        all += size;
      }
      view().setUint32(written, all, true);
      return 0;
    },
    proc_exit(status) {
      throw Object.assign(new Exit(), { status });
    },
  };
  const names = WebAssembly.Module.imports(module).map(({ name }) => name);
  return Object.fromEntries(names.map((name) => [name, known[name] ?? (() => NO_SUCH_CALL)]));
}

function instantiate(module, memory) {
  let instance;
  const text = (at) => {
    const bytes = new Uint8Array(memory.buffer);
    return Buffer.from(bytes.slice(at, bytes.indexOf(0, at))).toString();
  };
  const palm = {
    throw(status, at) {
      throw new Thrown(`${status}: ${text(at)}`);
    },
    refuses(body, data) {
      const stack = instance.exports.__stack_pointer;
      const before = stack.value;
      try {
        instance.exports.palm_call(body, data);
        return 0;
      } catch (error) {
        if (!(error instanceof Thrown)) throw error;
        stack.value = before;
        return 1;
      }
    },
  };
  const env = { memory };
  const system = systemOf(module, memory);
  instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: system, palm, env });
  return instance;
}

if (isMainThread) {
  const [file, threads = "16"] = argv.slice(2);
  const module = new WebAssembly.Module(readFileSync(file));
  const memory = new WebAssembly.Memory({ initial: 512, maximum: 16384, shared: true });
  const { exports } = instantiate(module, memory);
  // Not of a program that has no use for them.
  for (let i = 1; exports.palm_thread_add && i < Number(threads); ++i) {
    const { palm_thread_add, palm_take, __tls_size } = exports;
    const stack = palm_take(STACK_BYTES) + STACK_BYTES;
    const tls = palm_take(__tls_size.value);
    const workerData = { module, memory, index: palm_thread_add(), stack, tls };
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData });
    await new Promise((resolve) => worker.once("message", resolve));
  }
  let status = 0;
  try {
    exports._start();
  } catch (error) {
    status = error instanceof Exit ? error.status : 1;
    if (!(error instanceof Exit)) writeSync(2, `${file}: ${error.stack}\n`);
  }
  exit(status);
} else {
  const { module, memory, index, stack, tls } = workerData;
  const instance = instantiate(module, memory);
  instance.exports.__stack_pointer.value = stack;
  instance.exports.__wasm_init_tls(tls);
  parentPort.postMessage("ready");
  try {
    instance.exports.palm_thread(index);
  } catch (error) {
    writeSync(2, `thread ${index}: ${error.stack}\n`);
    instance.exports.palm_thread_failed();
  }
}
