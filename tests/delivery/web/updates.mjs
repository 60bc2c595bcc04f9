// Does a list of things with releases, in Node over a folder, and prints what each came to.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { FolderStore } from "./client.mjs";

const [packageFolder, folder, script] = process.argv.slice(2);
const { Updates, MemoryStore } = await import(join(packageFolder, "delivery/web/index.js"));
const { bucket } = await import(join(packageFolder, "delivery/web/releases.js"));
const versions = await import(join(packageFolder, "delivery/web/versions.js"));
const given = JSON.parse(script);
const store = folder === "memory" ? new MemoryStore() : new FolderStore(folder);
const root = given.root && new Uint8Array(await readFile(given.root));
const updates = root && (await Updates.open({ store, shipped: {}, ...given.options, root }));

const doing = {
  refresh: (...models) => updates.refresh(models),
  version: (model) => updates.version(model),
  bytes: async (model) => Buffer.from((await updates.model(model)) ?? []).toString("hex"),
  data: (model) => updates.data(model),
  failed: (model) => updates.failed(model),
  isDue: (model) => updates.isDue(model),
  kept: async () => (await store.names()).sort(),
  bucket: (seed, ...of) => bucket(Uint8Array.from(Buffer.from(seed, "hex")), ...of),
  compare: (pairs) => pairs.map(([a, b]) => Math.sign(versions.compareVersions(a, b))),
  fits: (pairs) => pairs.map(([specifier, version]) => versions.fits(specifier, version)),
};

const results = [];
for (const [what, ...words] of given.script) {
  try {
    results.push({ value: (await doing[what](...words)) ?? null });
  } catch (error) {
    if (!error.code) throw error;
    results.push({ code: error.code, kind: error.kind, message: error.message });
  }
}
console.log(JSON.stringify(results));
