import { DeliveryError } from "./errors.js";
import { HttpError, fetched } from "./http.js";
import { sha256 } from "./keys.js";
import {
  type Authority,
  type Described,
  type Signed,
  type Top,
  authorityOf,
  check,
  delegatedFor,
  described,
  read,
  timeMs,
} from "./metadata.js";
import type { Store } from "./store.js";

// As python-tuf has them, in bytes.
const MOST = { root: 512_000, timestamp: 16_384, snapshot: 2_000_000, targets: 5_000_000 };
const MOST_ROOTS = 256;
const MOST_DELEGATIONS = 32;
/** A clock this little behind is wrong, not turned back. */
const TOLERANCE_MS = 86_400_000;
/** The field of timestamp.json with the time of signing. */
const SIGNED_AT = "x-palmkit-signed";

const quoted = (text: string) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

const rollback = (message: string) => new DeliveryError("rollback_attack", `metadata: ${message}`);

/** Roles that were read since the last refresh. */
interface Trusted {
  readonly root: Signed;
  readonly timestamp: Signed;
  readonly snapshot: Signed;
  readonly targets: Map<string, Signed>;
  /** When it was refreshed: all is judged by one time. */
  readonly nowMs: number;
}

/** What the repository has described of a role's metadata, and who signs it. */
interface Wanted {
  readonly role: "snapshot" | "targets";
  readonly name: string;
  readonly meta: Meta;
  readonly by: Authority;
}

/**
 * One repository as a browser sees it.
 *
 * Method: The Update Framework, specification 1.0, its client's workflow; and a clock that cannot
 * be set back, as in `palmkit.delivery.clock`.
 */
export class Repository {
  #trusted: Trusted | undefined;

  /**
   * metadata, targets: addresses of the folders, each ending in "/". root: the first root
   * metadata, which all trust rests on. limitMs: the longest wait for something to come.
   */
  constructor(
    private readonly store: Store,
    private readonly metadata: string,
    private readonly targets: string,
    private readonly root: Uint8Array,
    private readonly limitMs: number,
  ) {}

  /**
   * Brings the top-level metadata up to date.
   *
   * Throws DeliveryError of the network ("check_fail_..."), or that says why the metadata is not
   * believed; what was believed before is kept.
   */
  async refresh(): Promise<void> {
    this.#trusted = undefined;
    const root = await this.#refreshRoot();
    const nowMs = await this.#clock(root);
    const timestamp = await this.#refreshTimestamp(root, nowMs);
    const snapshot = await this.#refreshSnapshot(root, timestamp, nowMs);
    const trusted = { root, timestamp, snapshot, targets: new Map<string, Signed>(), nowMs };
    await this.#targetsOf(trusted, "targets", authorityOf(root.fields, "targets"));
    this.#trusted = trusted;
    const signedMs = timeMs(String(timestamp.fields.value(SIGNED_AT)));
    if (Number.isFinite(signedMs)) await this.#learn(Math.min(signedMs, timestamp.expiresMs));
  }

  /** What the repository signs of a target; undefined if nobody signs such a one. */
  async find(path: string): Promise<Described | undefined> {
    const trusted = await this.#current();
    const by = authorityOf(trusted.root.fields, "targets");
    // Depth first, in the order of the delegations.
    let waiting: { readonly name: string; readonly by: Authority }[] = [{ name: "targets", by }];
    const seen = new Set<string>();
    for (let at = waiting.shift(); at && seen.size < MOST_DELEGATIONS; at = waiting.shift()) {
      if (seen.has(at.name)) continue;
      seen.add(at.name);
      const signed = await this.#targetsOf(trusted, at.name, at.by);
      const known = signed.fields.object("targets");
      if (known.has(path)) return described(known.object(path));
      const roles = await delegatedFor(signed.fields, path);
      const last = roles.findIndex(({ terminating }) => terminating);
      const next = last < 0 ? roles : roles.slice(0, last + 1);
      waiting = [...next.map((role) => ({ name: role.name, by: role })), ...(last < 0 ? waiting : [])];
    }
    return undefined;
  }

  /** A digest of the keys that may sign a target; it changes when a key is replaced. */
  async keysOf(path: string): Promise<string> {
    const targets = (await this.#current()).targets.get("targets")?.fields;
    const [role] = targets ? await delegatedFor(targets, path) : [];
    return digestOf(role?.keyids ?? []);
  }

  /**
   * A target's bytes, verified. Throws DeliveryError, "download_fail" if nobody signs it.
   *
   * there: what may be it already, and is not fetched then.
   */
  async target(path: string, most: number, there?: Uint8Array): Promise<Uint8Array> {
    const known = await this.find(path);
    if (!known) {
      throw new DeliveryError("download_fail", `${path}: expected a signed target, got none`);
    }
    if (known.length === undefined || known.length > most || !known.hashes.size) {
      throw new DeliveryError(
        "download_fail",
        `${path}: expected a digest and at most ${most} bytes, got ${known.length}`,
      );
    }
    if (there && (await isOne(there, known))) return there;
    const [hash] = known.hashes.values();
    const parts = path.split("/").map(quoted);
    if (isConsistent((await this.#current()).root)) parts.push(`${hash}.${parts.pop()}`);
    const content = await fetched(this.targets + parts.join("/"), known.length, this.limitMs);
    await check(content, known, path);
    return content;
  }

  async #current(): Promise<Trusted> {
    if (!this.#trusted) await this.refresh();
    return this.#trusted as unknown as Trusted;
  }

  async #fetch(file: string, most: number): Promise<Uint8Array> {
    return fetched(`${this.metadata}${file}`, most, this.limitMs);
  }

  async #refreshRoot(): Promise<Signed> {
    const readRoot = (content: Uint8Array, by: readonly Authority[]) =>
      read(content, "root", "root.json", by);
    let root = await readRoot(this.root, []);
    await this.#keepRoot(root, this.root);
    for (let i = 0; i < MOST_ROOTS; ++i) {
      const version = root.version + 1;
      const kept = await this.store.get(`root_history/${version}.root.json`);
      const by = [authorityOf(root.fields, "root")];
      let next: Signed | undefined;
      let content: Uint8Array | undefined = kept;
      if (kept) next = await readRoot(kept, by).catch(() => undefined);
      if (next?.version !== version) {
        content = await this.#nextRoot(version);
        if (!content) break;
        next = await readRoot(content, by);
      }
      if (next.version !== version) {
        throw rollback(`root: expected version ${version}, got ${next.version}`);
      }
      root = next;
      await this.#keepRoot(root, content as Uint8Array);
    }
    return root;
  }

  async #keepRoot(root: Signed, content: Uint8Array): Promise<void> {
    await this.#keep(`root_history/${root.version}.root.json`, content);
    await this.#keep("root.json", content);
  }

  async #nextRoot(version: number): Promise<Uint8Array | undefined> {
    try {
      return await this.#fetch(`${version}.root.json`, MOST.root);
    } catch (error) {
      if (error instanceof HttpError && (error.status === 403 || error.status === 404)) {
        return undefined;
      }
      throw error;
    }
  }

  async #keep(name: string, content: Uint8Array): Promise<void> {
    const kept = await this.store.get(name);
    const isSame = kept?.length === content.length && kept.every((byte, i) => byte === content[i]);
    if (!isSame) await this.store.put(name, content);
  }

  #inTime(signed: Signed, role: string, nowMs: number): void {
    if (signed.expiresMs <= nowMs) {
      throw new DeliveryError("expired", `metadata: ${role} has expired`);
    }
  }

  async #kept(file: string, role: Top, by: Authority): Promise<Signed | undefined> {
    const content = await this.store.get(file);
    // What is damaged, or signed by keys that were replaced, counts as lost.
    return content && read(content, role, file, [by]).catch(() => undefined);
  }

  async #refreshTimestamp(root: Signed, nowMs: number): Promise<Signed> {
    this.#inTime(root, "root", nowMs);
    const by = authorityOf(root.fields, "timestamp");
    const file = "timestamp.json";
    const kept = await this.#kept(file, "timestamp", by);
    const content = await this.#fetch(file, MOST.timestamp);
    const fresh = await read(content, "timestamp", file, [by]);
    const version = snapshotOf(fresh).version;
    if (kept) {
      if (fresh.version < kept.version) {
        throw rollback(`timestamp: expected version ${kept.version}, got ${fresh.version}`);
      }
      const known = snapshotOf(kept).version;
      if (version < known) throw rollback(`snapshot: expected version ${known}, got ${version}`);
    }
    const isSame = kept?.version === fresh.version;
    const timestamp = isSame ? kept : fresh;
    if (!isSame) await this.store.put(file, content);
    this.#inTime(timestamp, "timestamp", nowMs);
    return timestamp;
  }

  async #refreshSnapshot(root: Signed, timestamp: Signed, nowMs: number): Promise<Signed> {
    const by = authorityOf(root.fields, "snapshot");
    const wanted: Wanted = { role: "snapshot", name: "snapshot", meta: snapshotOf(timestamp), by };
    return this.#described(root, wanted, nowMs, (fresh, kept) => {
      const [before, now] = [kept.fields.object("meta"), fresh.fields.object("meta")];
      for (const name of before.names()) {
        const least = before.object(name).whole("version", 1);
        const got = now.has(name) ? now.object(name).whole("version", 1) : 0;
        if (got < least) throw rollback(`${name}: expected version ${least}, got ${got}`);
      }
    });
  }

  async #targetsOf(trusted: Trusted, name: string, by: Authority): Promise<Signed> {
    const there = trusted.targets.get(name);
    if (there) return there;
    const all = trusted.snapshot.fields.object("meta");
    if (!all.has(`${name}.json`)) {
      throw new DeliveryError("sig_fail", `metadata: the snapshot has no ${name}`);
    }
    const wanted: Wanted = { role: "targets", name, meta: metaOf(all.object(`${name}.json`)), by };
    const signed = await this.#described(trusted.root, wanted, trusted.nowMs);
    trusted.targets.set(name, signed);
    return signed;
  }

  /** What is kept of a role if it is the version described, else that, fetched and verified. */
  async #described(
    root: Signed,
    { role, name, meta, by }: Wanted,
    nowMs: number,
    compare?: (fresh: Signed, kept: Signed) => void,
  ): Promise<Signed> {
    const file = `${quoted(name)}.json`;
    const kept = await this.#kept(file, role, by);
    if (kept?.version === meta.version && kept.expiresMs > nowMs) return kept;
    const from = `${isConsistent(root) ? `${meta.version}.` : ""}${file}`;
    const content = await this.#fetch(from, meta.length ?? MOST[role]);
    await check(content, meta, from);
    const fresh = await read(content, role, from, [by]);
    if (fresh.version !== meta.version) {
      throw rollback(`${name}: expected version ${meta.version}, got ${fresh.version}`);
    }
    if (kept) compare?.(fresh, kept);
    this.#inTime(fresh, name, nowMs);
    await this.store.put(file, content);
    return fresh;
  }

  /** Returns the time, or the latest one that was ever proved if the clock is far behind it. */
  async #clock(root: Signed): Promise<number> {
    const keys = await digestOf(authorityOf(root.fields, "timestamp").keyids);
    const [mark, by] = await this.#mark();
    // Times that replaced keys proved are forgotten.
    if (by !== keys) await this.#keepMark(0, keys);
    const proved = by === keys ? mark : 0;
    return Date.now() < proved - TOLERANCE_MS ? proved : Date.now();
  }

  async #learn(provedMs: number): Promise<void> {
    const [mark, keys] = await this.#mark();
    if (provedMs > mark) await this.#keepMark(provedMs, keys);
  }

  async #mark(): Promise<[number, string]> {
    const content = await this.store.get("clock");
    const [ms, keys] = content ? new TextDecoder().decode(content).split(" ") : [];
    return [Number(ms) || 0, keys ?? ""];
  }

  #keepMark(ms: number, keys: string): Promise<void> {
    return this.store.put("clock", new TextEncoder().encode(`${ms} ${keys}`));
  }
}

function isOne(content: Uint8Array, known: Described): Promise<boolean> {
  return check(content, known, "").then(
    () => true,
    () => false,
  );
}

function isConsistent(root: Signed): boolean {
  return root.fields.value("consistent_snapshot") === true;
}

interface Meta extends Described {
  readonly version: number;
}

function metaOf(fields: Signed["fields"]): Meta {
  return { ...described(fields), version: fields.whole("version", 1) };
}

function snapshotOf(timestamp: Signed): Meta {
  return metaOf(timestamp.fields.object("meta").object("snapshot.json"));
}

function digestOf(keyids: readonly string[]): Promise<string> {
  return sha256(new TextEncoder().encode([...keyids].sort().join(" ")));
}
