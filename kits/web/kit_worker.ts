// A worker with one kit, which in_worker.ts asks.
import { PalmError } from "../../engine/web/index.js";
import { type Post, serve } from "../../engine/web/workers.js";
import { FaceDetector, FaceMesh } from "./faces.js";
import { GestureRecognizer } from "./hands.js";
import type { Answer, Asked, Got, Wanted } from "./in_worker.js";
import type { KitOptions } from "./kit.js";
import { HairSegmenter, PortraitSegmenter } from "./masks.js";
import type { Releases } from "./releases.js";
import { TryOn } from "./try_on.js";

interface Class {
  readonly kit: string;
  readonly method: string;
  create(options: KitOptions): Promise<unknown>;
}

const KITS: readonly Class[] = [
  ...[FaceDetector, FaceMesh, GestureRecognizer],
  ...[PortraitSegmenter, HairSegmenter, TryOn],
];

type Call = (...values: readonly unknown[]) => unknown;
let call: Call = () => {
  throw new PalmError("argument", "the kit is not open");
};

/** What `updates` of the page is asked for and has not said yet. */
const wanted: ((got: Uint8Array | undefined) => void)[] = [];

/** The page's `updates`; what they throw ends this worker. */
function updatesOf(post: Post): Releases {
  const ask = (what: keyof Releases, name: string) =>
    new Promise<Uint8Array | undefined>((resolve) => {
      const number = wanted.push(resolve) - 1;
      post({ wanted: what, name, number } satisfies Wanted);
    });
  return {
    model: (name) => ask("model", name),
    failed: async (name) => {
      await ask("failed", name);
    },
  };
}

async function open(name: string, options: KitOptions): Promise<void> {
  const found = KITS.find(({ kit }) => kit === name);
  if (!found) throw new PalmError("argument", `expected a kit of this package, got ${name}`);
  const kit = await found.create(options);
  call = (kit as Readonly<Record<string, Call>>)[found.method]?.bind(kit) ?? call;
}

async function answerTo(asked: Asked, post: Post): Promise<unknown> {
  if ("kit" in asked) {
    const { kit, options, hasUpdates } = asked;
    return open(kit, hasUpdates ? { ...options, updates: updatesOf(post) } : options);
  }
  const { picture, rest } = asked;
  try {
    return call(picture, ...rest);
  } finally {
    if ("close" in picture) picture.close();
  }
}

/** The buffers within a result: they are its own, so that they can be given away. */
function buffersOf(value: unknown): ArrayBuffer[] {
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(buffersOf);
}

serve((data, post) => {
  if ("got" in (data as Asked | Got)) {
    const { number, got } = data as Got;
    wanted[number]?.(got);
    return;
  }
  const asked = data as Asked;
  answerTo(asked, post).then(
    (result) => {
      post({ id: asked.id, result } satisfies Answer, buffersOf(result));
    },
    (error: unknown) => {
      const kind = error instanceof PalmError ? error.kind : undefined;
      const message = error instanceof Error ? error.message : String(error);
      post({ id: asked.id, error: { kind, message } } satisfies Answer);
    },
  );
});
