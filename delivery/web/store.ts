import { DeliveryError } from "./errors.js";

/** Where releases and their metadata are kept, by names like those of files. */
export interface Store {
  /** What is kept; undefined where there is nothing. */
  get(name: string): Promise<Uint8Array | undefined>;
  /** Keeps it, all or nothing. */
  put(name: string, content: Uint8Array): Promise<void>;
  delete(name: string): Promise<void>;
  names(): Promise<string[]>;
}

/** Keeps all for as long as the page is open. */
export class MemoryStore implements Store {
  readonly #kept = new Map<string, Uint8Array>();

  async get(name: string): Promise<Uint8Array | undefined> {
    return this.#kept.get(name);
  }

  async put(name: string, content: Uint8Array): Promise<void> {
    this.#kept.set(name, content.slice());
  }

  async delete(name: string): Promise<void> {
    this.#kept.delete(name);
  }

  async names(): Promise<string[]> {
    return [...this.#kept.keys()];
  }
}

/** Keeps all in the origin's Cache Storage, which pages and workers of the origin share. */
export class CacheStore implements Store {
  readonly #base = new URL("/.palmkit/", location.origin);

  /** name: of the cache; one is of one repository. */
  constructor(private readonly name: string) {}

  #url(name: string): string {
    return new URL(name.split("/").map(encodeURIComponent).join("/"), this.#base).href;
  }

  async get(name: string): Promise<Uint8Array | undefined> {
    const found = await (await caches.open(this.name)).match(this.#url(name));
    return found && new Uint8Array(await found.arrayBuffer());
  }

  /** Throws DeliveryError "disk_full" where the browser keeps no more. */
  async put(name: string, content: Uint8Array): Promise<void> {
    const cache = await caches.open(this.name);
    try {
      await cache.put(this.#url(name), new Response(content as Uint8Array<ArrayBuffer>));
    } catch (error) {
      throw new DeliveryError("disk_full", `${name} of ${content.length} bytes: ${String(error)}`, {
        cause: error,
      });
    }
  }

  async delete(name: string): Promise<void> {
    await (await caches.open(this.name)).delete(this.#url(name));
  }

  async names(): Promise<string[]> {
    const requests = await (await caches.open(this.name)).keys();
    const start = this.#base.href;
    return requests
      .filter(({ url }) => url.startsWith(start))
      .map(({ url }) => url.slice(start.length).split("/").map(decodeURIComponent).join("/"));
  }
}
