// Workers of browsers and of Node, from both sides.
import { PalmError } from "./errors.js";

type Buffers = readonly (ArrayBuffer | ImageBitmap)[];
export type Post = (data: unknown, given?: Buffers) => void;

/** A worker's file, and what makes it in a browser: bundlers look for `new Worker` with the address
 * written in it. */
export interface WorkerFile {
  readonly url: URL;
  readonly make: (name: string) => Worker;
}

interface Events {
  readonly message: (data: unknown) => void;
  /** The worker did not start, or ended by itself: why. It is told once. */
  readonly lost: (why: string) => void;
}

const ENDED = "it ended";
// Every worker holds a lock of its name for as long as it lives, and what it starts one of a longer
// name: nothing else tells others that a worker is gone.
const PREFIX = "palmkit ";
let started = 0;

/** A worker that this thread started. */
export class OwnWorker {
  #isEnded = false;
  readonly #watching = new AbortController();

  private constructor(
    /** Sends a message; what is given is of no more use here. */
    readonly post: Post,
    private readonly name: string,
    private readonly terminate: () => void,
    private readonly lost: (why: string) => void,
    /** Whether Node is to wait for the worker before it ends; at first not. */
    readonly keepAwake: (isAwaited: boolean) => void = () => undefined,
  ) {}

  /** Starts a worker, which answers by `serve`. */
  static async start({ url, make }: WorkerFile, { message, lost }: Events): Promise<OwnWorker> {
    if (typeof Worker === "undefined") {
      const module = "node:worker_threads"; // so that bundlers leave it alone
      const node = (await import(
        /* @vite-ignore */ module
      )) as typeof import("node:worker_threads");
      const worker = new node.Worker(url);
      const post: Post = (data, given = []) => {
        worker.postMessage(data, given as ArrayBuffer[]);
      };
      const own = new OwnWorker(post, "", () => void worker.terminate(), lost, (isAwaited) => {
        if (isAwaited) worker.ref();
        else worker.unref();
      });
      own.keepAwake(false);
      worker.on("message", message);
      worker.on("error", (error) => {
        own.#end(String(error));
      });
      worker.on("exit", () => {
        own.#end(ENDED);
      });
      return own;
    }
    const name = nameOfNext();
    const worker = make(name);
    const post: Post = (data, given = []) => {
      worker.postMessage(data, [...given]);
    };
    const own = new OwnWorker(post, name, worker.terminate.bind(worker), lost);
    worker.onmessage = ({ data }: MessageEvent<unknown>) => {
      message(data);
    };
    worker.onmessageerror = () => {
      own.#end("what it sent cannot be read here");
    };
    worker.onerror = (event) => {
      own.#end(event.message || `${url.href} did not arrive`);
    };
    return own;
  }

  /**
   * Tells from now on if the worker ends, or one of those that it has started by now; it must have
   * answered before. A browser without locks tells of errors alone.
   */
  async watch(): Promise<void> {
    if (!this.name || typeof navigator === "undefined" || !("locks" in navigator)) return;
    const { held = [] } = await navigator.locks.query();
    const { signal } = this.#watching;
    const names = held.map(({ name = "" }) => name).filter((name) => name.startsWith(this.name));
    for (const name of new Set([this.name, ...names])) {
      navigator.locks
        .request(name, { signal }, () => {
          this.#end(ENDED);
        })
        .catch(() => undefined); // it is watched no longer
    }
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#watching.abort();
    this.terminate();
  }

  #end(why: string): void {
    if (this.#isEnded) return;
    this.end();
    this.lost(why);
  }
}

function nameOfNext(): string {
  const { name = "" } = globalThis as { name?: string };
  const unused = `${performance.timeOrigin.toString(36)}-${Math.random().toString(36).slice(2)}`;
  return `${name.startsWith(PREFIX) ? name : PREFIX}${unused}-${++started} `;
}

declare const WorkerGlobalScope: unknown;

/** In a worker: answers each message that it is sent. */
export function serve(answer: (data: unknown, post: Post) => void): void {
  if (typeof WorkerGlobalScope !== "undefined") {
    const post = (data: unknown, given: Buffers = []) => {
      self.postMessage(data, { transfer: [...given] });
    };
    const living = hold(self.name);
    self.onmessage = ({ data }: MessageEvent<unknown>) => {
      void living.then(() => {
        answer(data, post);
      });
    };
    return;
  }
  const module = "node:worker_threads"; // so that bundlers leave it alone
  void import(/* @vite-ignore */ module).then((node: typeof import("node:worker_threads")) => {
    const { parentPort: port } = node;
    port?.on("message", (data: unknown) => {
      answer(data, (answered, given = []) => {
        port.postMessage(answered, given as ArrayBuffer[]);
      });
    });
  });
}

/** Takes a lock for as long as this thread lives; resolves once it is held. */
function hold(name: string): Promise<void> {
  if (!name.startsWith(PREFIX) || !("locks" in navigator)) return Promise.resolve();
  return new Promise((resolve) => {
    void navigator.locks.request(name, () => {
      resolve();
      return new Promise(() => undefined);
    });
  });
}

/** The error of calls that a worker's end left without an answer. */
export function lostError(what: string, why: string, remedy: string): PalmError {
  return new PalmError("backend", `${what} is gone (${why}): ${remedy}`);
}
