import { PalmError } from "../../engine/web/index.js";
import { addressOf, readBytes } from "../../engine/web/modules.js";
import { Fields } from "./documents.js";
import { DeliveryError } from "./errors.js";
import { fromHex, sha256, toHex } from "./keys.js";
import {
  type Facts,
  type Manifest,
  MODEL,
  type Policy,
  choose,
  isAllowed,
  isForbidden,
  manifestOf,
  policyOf,
} from "./releases.js";
import { CacheStore, MemoryStore, type Store } from "./store.js";
import { Repository } from "./trust.js";
import { compareVersions, fits } from "./versions.js";

/** Of this package, and of the `.palm` files that it reads. */
export const VERSION = "0.1.0";
export const PALM_FORMAT = 1;

const INDEX = new URL("../../models/index.toml", import.meta.url);
const MOST_DOCUMENT_BYTES = 1 << 20;
const LIMIT_MS = 10_000;
const SEED_BYTES = 32;

export interface UpdateOptions {
  /** Addresses of the repository's copies, the best first. */
  readonly urls: readonly (URL | string)[];
  /** The root metadata that comes with the app, or where it is: all trust rests on it. */
  readonly root: Uint8Array | URL | string;
  readonly channel?: string;
  /** Facts about this device, for the conditions of a rollout. */
  readonly tags?: readonly string[];
  /** Where releases are kept; left out: in the origin's Cache Storage, or nowhere if it has none. */
  readonly store?: Store;
  /** The versions of the models in the package, by name; left out: what its models/index.toml says. */
  readonly shipped?: Readonly<Record<string, string>>;
  /** The longest wait for something to come, in milliseconds. */
  readonly limitMs?: number;
}

/** A release that lies here. */
interface Kept {
  readonly digest: string;
  readonly release: string;
  readonly sha256: string;
}

/** What is known of a model. */
interface State {
  active: Kept | undefined;
  previous: Kept | undefined;
  /** Manifests that failed here, with the retry epoch of that time. */
  failed: Record<string, number>;
  epoch: number;
  retryEpoch: number;
  /** Keys that signed the policy of that epoch. */
  keys: string;
  nextCheckMs: number;
}

/**
 * Models and data files that arrive as signed releases, from the same repository as Python's.
 *
 * What runs is on the device, whether or not the network is there. Kits take releases by
 * `models: updates` when they are made.
 */
export class Updates {
  readonly #seed: Promise<Uint8Array>;

  private constructor(
    private readonly repositories: readonly Repository[],
    private readonly store: Store,
    private readonly channel: string,
    private readonly facts: Facts,
    private readonly shipped: Readonly<Record<string, string>>,
  ) {
    this.#seed = this.#readSeed();
  }

  /** Opens what is here. Nothing is asked of the repository before `refresh`. */
  static async open(options: UpdateOptions): Promise<Updates> {
    if (!(globalThis.crypto as Crypto | undefined)?.subtle) {
      throw new PalmError("unsupported", "signed releases need a page of https or of localhost");
    }
    if (!options.urls.length) {
      throw new DeliveryError("check_fail_connect", "urls: expected at least one");
    }
    const root = options.root instanceof Uint8Array ? options.root : await readBytes(addressOf(options.root, "root: expected an address").href);
    const name = `palmkit ${(await sha256(root)).slice(0, 16)}`;
    const has = typeof caches !== "undefined" && typeof location !== "undefined";
    const store = options.store ?? (has ? new CacheStore(name) : new MemoryStore());
    const limitMs = options.limitMs ?? LIMIT_MS;
    const repositories = options.urls.map((url) => {
      const base = addressOf(url, "urls: expected addresses").href.replace(/\/*$/, "/");
      return new Repository(store, `${base}metadata/`, `${base}targets/`, root, limitMs);
    });
    const facts = { sdk: VERSION, os: "web", arch: "wasm", tag: options.tags ?? [] };
    const shipped = options.shipped ?? (await shippedVersions());
    return new Updates(repositories, store, options.channel ?? "stable", facts, shipped);
  }

  /**
   * Asks what is new, and brings the releases of these models that are for this device.
   *
   * A release runs when a kit is made next. Throws DeliveryError, the first one if several models
   * have one; what was here stays as it was.
   */
  async refresh(models: readonly string[]): Promise<void> {
    for (const name of models) checkName(name);
    const work = async () => {
      const repository = await this.#reached();
      const errors: unknown[] = [];
      for (const name of models) {
        await this.#update(repository, name).catch((error: unknown) => errors.push(error));
      }
      await this.#collect();
      if (errors.length) throw errors[0];
    };
    // Other tabs wait for their turn.
    const locks = (globalThis.navigator as Navigator | undefined)?.locks;
    await (locks ? locks.request("palmkit delivery", work) : work());
  }

  /** Whether the repository wants to be asked about a model again. */
  async isDue(model: string): Promise<boolean> {
    return (await this.#state(model)).nextCheckMs <= Date.now();
  }

  /** The version that runs here; undefined where neither a release nor the package has one. */
  async version(model: string): Promise<string | undefined> {
    return (await this.#whole(model))?.kept.release ?? this.shipped[model];
  }

  /** The release that runs here, its digest checked anew; undefined: what is in the package. */
  async model(model: string): Promise<Uint8Array | undefined> {
    return (await this.#whole(model))?.content;
  }

  /** A release that is a data file, such as options, labels or a look; undefined if there is none. */
  async data(name: string): Promise<unknown> {
    const content = await this.model(name);
    return content && Fields.parse(content, name, "manifest_invalid").json;
  }

  /** Puts the release that runs into quarantine; the one before it runs then, or the package's. */
  async failed(model: string): Promise<void> {
    const state = await this.#state(model);
    if (state.active) state.failed[state.active.digest] = state.retryEpoch;
    state.active = state.previous;
    state.previous = undefined;
    await this.#keep(model, state);
  }

  /** The first copy of the repository that can be refreshed. */
  async #reached(): Promise<Repository> {
    const errors: unknown[] = [];
    for (const repository of this.repositories) {
      try {
        await repository.refresh();
        return repository;
      } catch (error) {
        errors.push(error);
      }
    }
    // What one said that was reached says more.
    const isOfNetwork = (error: unknown) =>
      error instanceof DeliveryError && error.code.startsWith("check_fail");
    throw errors.find((error) => !isOfNetwork(error)) ?? errors[0];
  }

  async #update(repository: Repository, model: string): Promise<void> {
    const path = `rollout/${model}.json`;
    const policy = policyOf(await repository.target(path, MOST_DOCUMENT_BYTES));
    if (policy.model !== model) {
      throw new DeliveryError("policy_invalid", `${path}: it is of ${policy.model}`);
    }
    const state = await this.#state(model);
    const keys = await repository.keysOf(path);
    if (keys === state.keys && policy.epoch < state.epoch) {
      throw new DeliveryError(
        "rollback_attack",
        `${path}: expected epoch ${state.epoch} or later, got ${policy.epoch}`,
      );
    }
    const found = new Map<string, Found>();
    const shipped = this.shipped[model];
    const canRun = async (release: string) =>
      release === shipped || this.#canRun(repository, policy, state, release, found);
    const installed = state.active?.release ?? shipped;
    const chosen = await choose(policy, this.channel, this.facts, await this.#seed, installed, canRun);
    const next = { ...state, keys, epoch: policy.epoch, retryEpoch: policy.retryEpoch };
    next.nextCheckMs = Date.now() + policy.nextCheckS * 1000;
    for (const place of ["previous", "active"] as const) {
      const kept = next[place];
      if (kept && !(await this.#mayRun(policy, kept))) next[place] = undefined;
    }
    next.active ??= next.previous;
    if (next.previous === next.active) next.previous = undefined;
    // Before what is new comes, so that what is taken back is gone even if that fails.
    await this.#keep(model, next);
    if (!chosen) return;
    if (chosen.release === shipped) {
      next.active = next.previous = undefined;
      await this.#keep(model, next);
      return;
    }
    const { manifest, digest } = found.get(chosen.release) as Found;
    const { name, size, sha256: wanted } = manifest.main;
    const file = `files/${wanted}`;
    const there = await this.store.get(file);
    const content = await repository.target(`models/${model}/${name}`, size, there);
    if ((await sha256(content)) !== wanted) {
      throw new DeliveryError("hash_mismatch", `${name}: it is not what the manifest says`);
    }
    if (content !== there) await this.store.put(file, content);
    if (digest === next.active?.digest) return;
    next.previous = next.active;
    next.active = { digest, release: manifest.release, sha256: wanted };
    await this.#keep(model, next);
  }

  async #canRun(
    repository: Repository,
    policy: Policy,
    state: State,
    release: string,
    found: Map<string, Found>,
  ): Promise<boolean> {
    const { model } = policy;
    const shipped = this.shipped[model];
    if (shipped !== undefined && compareVersions(release, shipped) < 0) return false;
    const content = await repository.target(`models/${model}/${release}.json`, MOST_DOCUMENT_BYTES);
    const digest = await sha256(content);
    let manifest: Manifest;
    try {
      manifest = manifestOf(content);
    } catch (error) {
      // Another candidate may be for this device.
      if (error instanceof DeliveryError) return false;
      throw error;
    }
    const failed = state.failed[digest];
    if (failed !== undefined && policy.retryEpoch <= failed) return false;
    found.set(release, { manifest, digest });
    return (
      manifest.model === model &&
      manifest.release === release &&
      manifest.palmFormat <= PALM_FORMAT &&
      fits(manifest.sdk, VERSION) &&
      !manifest.isEncrypted &&
      !isForbidden(policy, [digest, ...manifest.digests])
    );
  }

  /** Whether what lies here is still allowed, and not taken back on this channel. */
  async #mayRun(policy: Policy, kept: Kept): Promise<boolean> {
    const candidates = policy.channels.get(this.channel) ?? [];
    const isRecalled = candidates.some(({ release, recall }) => recall && release === kept.release);
    const shipped = this.shipped[policy.model];
    const isOlder = shipped !== undefined && compareVersions(kept.release, shipped) < 0;
    const isRevoked = isForbidden(policy, [kept.digest, kept.sha256]);
    return !isRecalled && !isRevoked && !isOlder && isAllowed(policy, kept.release);
  }

  async #whole(model: string): Promise<{ kept: Kept; content: Uint8Array } | undefined> {
    const state = await this.#state(model);
    for (const kept of [state.active, state.previous]) {
      if (!kept) continue;
      const content = await this.store.get(`files/${kept.sha256}`);
      if (content && (await sha256(content)) === kept.sha256) return { kept, content };
    }
    return undefined;
  }

  async #state(model: string): Promise<State> {
    checkName(model);
    const empty: State = {
      active: undefined,
      previous: undefined,
      failed: {},
      epoch: 0,
      retryEpoch: 0,
      keys: "",
      nextCheckMs: 0,
    };
    const content = await this.store.get(`state/${model}`);
    if (!content) return empty;
    try {
      return { ...empty, ...(JSON.parse(new TextDecoder().decode(content)) as Partial<State>) };
    } catch (error) {
      // A damaged state counts as lost.
      if (error instanceof SyntaxError) return empty;
      throw error;
    }
  }

  #keep(model: string, state: State): Promise<void> {
    return this.store.put(`state/${model}`, new TextEncoder().encode(JSON.stringify(state)));
  }

  /** Removes files that no release needs. */
  async #collect(): Promise<void> {
    const names = await this.store.names();
    const needed = new Set<string>();
    for (const name of names.filter((each) => each.startsWith("state/"))) {
      const { active, previous } = await this.#state(name.slice("state/".length));
      for (const kept of [active, previous]) if (kept) needed.add(`files/${kept.sha256}`);
    }
    for (const name of names) {
      if (name.startsWith("files/") && !needed.has(name)) await this.store.delete(name);
    }
  }

  /** The random seed that this device's place in rollouts comes from; it never leaves it. */
  async #readSeed(): Promise<Uint8Array> {
    const kept = await this.store.get("seed");
    const known = kept && fromHex(new TextDecoder().decode(kept));
    if (known?.length === SEED_BYTES) return known;
    const made = crypto.getRandomValues(new Uint8Array(SEED_BYTES));
    await this.store.put("seed", new TextEncoder().encode(toHex(made)));
    return made;
  }
}

interface Found {
  readonly manifest: Manifest;
  readonly digest: string;
}

function checkName(model: string): void {
  if (!MODEL.test(model)) {
    throw new DeliveryError("policy_invalid", `expected a model's name, got "${model}"`);
  }
}

/** The versions of the package's models by name. */
async function shippedVersions(): Promise<Record<string, string>> {
  const text = new TextDecoder().decode(await readBytes(INDEX.href));
  const versions: Record<string, string> = {};
  let name = "";
  for (const line of text.split("\n")) {
    name = /^\[(\w+)\]$/.exec(line.trim())?.[1] ?? name;
    const version = /^version\s*=\s*"([^"]*)"$/.exec(line.trim())?.[1];
    if (version !== undefined) versions[name] = version;
  }
  return versions;
}
