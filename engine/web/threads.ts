import { PalmError } from "./errors.js";
import type { Instance } from "./instance.js";

/** What a thread is sent when it starts. */
export interface Start {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly index: number;
  /** Where its stack ends, for it grows downwards, and where its own variables lie. */
  readonly stack: number;
  readonly variables: number;
}

/** What of a worker is used: browsers' and Node's have it under different names. */
interface Thread {
  /** Resolves when it waits for work. */
  readonly ready: Promise<void>;
  end(): void;
}

const STACK_BYTES = 512 << 10;
const START_MS = 20_000;

/** Threads that serve one instance. */
export class Threads {
  readonly #threads: Thread[] = [];

  /**
   * Starts threads on the instance's memory; `count` is how many.
   *
   * Throws PalmError "backend" if one does not start.
   */
  static async start(instance: Instance, count: number): Promise<Threads> {
    const threads = new Threads();
    try {
      for (let i = 0; i < count; ++i) {
        const index = instance.call("palm_thread_add");
        if (index < 0) throw new PalmError("argument", `threads: expected fewer than ${count + 1}`);
        const start: Start = {
          module: instance.module,
          memory: instance.memory,
          index,
          stack: instance.take(STACK_BYTES) + STACK_BYTES,
          variables: instance.take(instance.global("__tls_size")),
        };
        threads.#threads.push(await open(start));
      }
      await Promise.all(threads.#threads.map((thread) => thread.ready));
    } catch (error) {
      threads.end();
      throw error;
    }
    return threads;
  }

  end(): void {
    for (const thread of this.#threads.splice(0)) thread.end();
  }
}

async function open(start: Start): Promise<Thread> {
  const lost = (why: unknown) => new PalmError("backend", `a thread did not start: ${String(why)}`);
  const { promise, resolve, reject } = deferred();
  const timer = setTimeout(() => {
    reject(lost(`nothing came in ${START_MS / 1000} s`));
  }, START_MS);
  const ready = promise.finally(() => {
    clearTimeout(timer);
  });
  if (typeof Worker === "undefined") {
    const name = "node:worker_threads"; // so that bundlers leave it alone
    const node = (await import(/* @vite-ignore */ name)) as typeof import("node:worker_threads");
    const worker = new node.Worker(new URL("./thread.js", import.meta.url), { workerData: start });
    worker.once("message", resolve);
    worker.once("error", (error) => {
      reject(lost(error));
    });
    worker.unref();
    return { ready, end: () => void worker.terminate() };
  }
  const worker = new Worker(new URL("./thread.js", import.meta.url), { type: "module" });
  worker.onmessage = () => {
    resolve();
  };
  worker.onerror = (event) => {
    reject(lost(event.message));
  };
  worker.postMessage(start);
  return {
    ready,
    end: () => {
      worker.terminate();
    },
  };
}

function deferred() {
  let resolve!: () => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<void>((kept, broken) => {
    resolve = kept;
    reject = broken;
  });
  return { promise, resolve, reject };
}
