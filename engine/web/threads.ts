import { PalmError } from "./errors.js";
import type { Instance } from "./instance.js";
import { OwnWorker, type WorkerFile, lostError } from "./workers.js";

/** What a thread is sent when it starts. */
export interface Start {
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
  readonly index: number;
  /** Where its stack ends, for it grows downwards, and where its own variables lie. */
  readonly stack: number;
  readonly variables: number;
}

/** What it says: that it waits for work, or what ended it. */
export type Said = "ready" | { readonly failed: string };

const STACK_BYTES = 512 << 10;
const START_MS = 20_000;
const FILE: WorkerFile = {
  url: new URL("./thread.js", import.meta.url),
  make: (name) => new Worker(new URL("./thread.js", import.meta.url), { type: "module", name }),
};

/** Threads that serve one instance. */
export class Threads {
  readonly #workers: OwnWorker[] = [];

  /**
   * Starts threads on the instance's memory; `count` is how many. One that ends later fails the
   * instance between two runs. A run that it leaves with work undone waits 20 s for it, and throws
   * PalmError "backend", as the thread that waits can be told of nothing.
   *
   * Throws PalmError "backend" if one does not start.
   */
  static async start(instance: Instance, count: number): Promise<Threads> {
    const threads = new Threads();
    try {
      const starting: Promise<void>[] = [];
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
        starting.push(threads.#open(instance, start));
      }
      await Promise.all(starting);
    } catch (error) {
      threads.end();
      throw error;
    }
    return threads;
  }

  end(): void {
    for (const worker of this.#workers.splice(0)) worker.end();
  }

  /** Resolves when a thread waits for work. */
  async #open(instance: Instance, start: Start): Promise<void> {
    let lost = (_why: string): void => undefined;
    let ready = (): void => undefined;
    const isReady = new Promise<void>((resolve, reject) => {
      ready = resolve;
      lost = (why) => {
        reject(new PalmError("backend", `a thread did not start: ${why}`));
      };
    });
    const end = (why: string) => {
      lost(why);
      instance.fail(lostError("a thread", why, "open the model or kit again"));
    };
    const worker = await OwnWorker.start(FILE, {
      message: (data) => {
        const said = data as Said;
        if (said === "ready") ready();
        else end(said.failed);
      },
      lost: end,
    });
    this.#workers.push(worker);
    const timer = setTimeout(() => {
      lost(`nothing came in ${START_MS / 1000} s`);
    }, START_MS);
    worker.post(start);
    await isReady.finally(() => {
      clearTimeout(timer);
    });
    await worker.watch();
  }
}
