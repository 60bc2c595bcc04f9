import { type ErrorKind, PalmError } from "../../engine/web/index.js";
import { OwnWorker, type WorkerFile, lostError } from "../../engine/web/workers.js";
import { type ImageSource, type Sent, meaning, sendable } from "./images.js";
import { type Kit, type KitOptions, folderAt } from "./kit.js";
import type { Releases } from "./releases.js";

/** A class of this package such as FaceDetector, by what it is called with. */
export interface KitClass<Options extends KitOptions, Opened extends Kit, Method> {
  readonly kit: string;
  readonly method: Method;
  create(options?: Options): Promise<Opened>;
}

type Promised<Call> = Call extends (...values: infer Values) => infer Result
  ? (...values: Values) => Promise<Result>
  : never;

/** A kit in a worker of its own: its call returns a promise. */
export type InWorker<Opened, Method extends keyof Opened> = {
  readonly [Name in Method]: Promised<Opened[Name]>;
} & {
  /** Ends the worker. Calls without an answer reject as PalmError "interrupted". */
  close(): void;
};

/** What the worker is asked: to open a kit, or to look at a picture. */
export type Asked = { readonly id: number } & (
  | { readonly kit: string; readonly options: KitOptions; readonly hasUpdates: boolean }
  | { readonly picture: Sent; readonly rest: readonly unknown[] }
);

export type Answer = { readonly id: number } & (
  | { readonly result: unknown }
  | { readonly error: { readonly kind: ErrorKind | undefined; readonly message: string } }
);

/** A call of `updates`, which stay here, and what came of it. */
export interface Wanted {
  readonly wanted: keyof Releases;
  readonly name: string;
  readonly number: number;
}
export interface Got {
  readonly number: number;
  readonly got: Uint8Array | undefined;
}

const FILE: WorkerFile = {
  url: new URL("./kit_worker.js", import.meta.url),
  make: (name) => new Worker(new URL("./kit_worker.js", import.meta.url), { type: "module", name }),
};

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Questions to a worker, and its answers. */
class Conversation {
  readonly #waiting = new Map<number, Waiting>();
  #worker: OwnWorker | undefined;
  #end: unknown;
  #count = 0;

  constructor(
    private readonly name: string,
    private readonly updates: Releases | undefined,
  ) {}

  async start(): Promise<void> {
    this.#worker = await OwnWorker.start(FILE, {
      message: (data) => {
        if ("wanted" in (data as Answer | Wanted)) void this.#give(data as Wanted);
        else this.#hear(data as Answer);
      },
      lost: (why) => {
        const remedy = "open the kit again, with inWorker; if it is out of memory, close others";
        this.end(lostError(`the worker of ${this.name}`, why, remedy));
      },
    });
    if (this.#end) this.#worker.end();
  }

  /** Tells of the worker's end, and of that of its threads, from now on. */
  async watch(): Promise<void> {
    await this.#worker?.watch();
  }

  ask(question: object, given: readonly ImageBitmap[] = []): Promise<unknown> {
    if (this.#end) return Promise.reject(this.#end as Error);
    const id = ++this.#count;
    return new Promise((resolve, reject) => {
      try {
        this.#worker?.post({ id, ...question }, given);
      } catch (error) {
        const isOfPicture = given.length > 0;
        const other = `${this.name}: a worker cannot be sent this: ${String(error)}`;
        const told = isOfPicture ? meaning(error) : new PalmError("argument", other);
        reject(told as Error);
        return;
      }
      this.#waiting.set(id, { resolve, reject });
      this.#worker?.keepAwake(true);
    });
  }

  /** Rejects what is asked and will be. */
  end(error: unknown): void {
    if (this.#end) return;
    this.#end = error;
    this.#worker?.end();
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  async #give({ wanted, name, number }: Wanted): Promise<void> {
    try {
      const got = (await this.updates?.[wanted](name)) ?? undefined;
      if (!this.#end) this.#worker?.post({ number, got } satisfies Got);
    } catch (error) {
      this.end(error);
    }
  }

  #hear(answer: Answer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    this.#worker?.keepAwake(this.#waiting.size > 0);
    if ("result" in answer) {
      waiting?.resolve(answer.result);
      return;
    }
    const { kind, message } = answer.error;
    waiting?.reject(kind ? new PalmError(kind, message) : new Error(message));
  }
}

/**
 * Opens a kit in a worker of its own, so that a page stays smooth while it computes:
 * `inWorker(FaceDetector, options)`. Its calls take what the kit's take, are done in their order,
 * and return promises. Pictures are taken as they are at the call.
 *
 * Rejects with PalmError as `create` does, and calls as the kit's do; "backend" if the worker ends
 * before it has answered, "interrupted" after `close`.
 */
export async function inWorker<
  Options extends KitOptions,
  Opened extends Kit,
  Method extends keyof Opened & string,
>(
  { kit, method }: KitClass<Options, Opened, Method>,
  options?: Options,
): Promise<InWorker<Opened, Method>> {
  const { signal, models, updates, ...others } = options ?? ({} as Options);
  signal?.throwIfAborted();
  const conversation = new Conversation(kit, updates);
  const close = () => {
    conversation.end(new PalmError("interrupted", "the kit is closed"));
  };
  signal?.addEventListener("abort", close);
  try {
    await conversation.start();
    const sent = models === undefined ? others : { ...others, models: folderAt(models).href };
    await conversation.ask({ kit, options: sent, hasUpdates: updates !== undefined });
    await conversation.watch();
  } catch (error) {
    close();
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener("abort", close);
  }
  // One after the other, as pictures take different times to be made ready.
  let before: Promise<unknown> = Promise.resolve();
  const call = (source: ImageSource, ...rest: readonly unknown[]): Promise<unknown> => {
    const ready = sendable(source);
    const asked = Promise.allSettled([ready, before]).then(async () => {
      const picture = await ready;
      const given = "close" in picture ? [picture] : [];
      return { answer: conversation.ask({ picture, rest }, given) };
    });
    before = asked.catch(() => undefined);
    return asked.then(({ answer }) => answer);
  };
  return { [method]: call, close } as InWorker<Opened, Method>;
}
