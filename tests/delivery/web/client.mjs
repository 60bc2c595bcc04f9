// The browser's TUF client as the TUF conformance suite drives it, in Node, over a folder.
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** Keeps things in a folder, by their names. */
export class FolderStore {
  constructor(folder) {
    this.folder = folder;
  }

  async get(name) {
    return readFile(join(this.folder, name)).then(
      (found) => new Uint8Array(found),
      () => undefined,
    );
  }

  async put(name, content) {
    const file = join(this.folder, name);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(`${file}~`, content);
    await rename(`${file}~`, file);
  }

  async delete(name) {
    await rm(join(this.folder, name));
  }

  async names() {
    const found = await readdir(this.folder, { recursive: true, withFileTypes: true });
    return found
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(this.folder.length + 1));
  }
}

const quoted = (text) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);

async function main(packageFolder, words) {
  const { Repository } = await import(join(packageFolder, "delivery/web/index.js"));
  const options = { "--target-name": [] };
  let command;
  for (let i = 0; i < words.length; ++i) {
    const word = words[i];
    if (word === "--target-name") options[word].push(words[++i]);
    else if (word.startsWith("--")) options[word] = words[++i];
    else command ??= words.slice(i);
  }
  const folder = options["--metadata-dir"];
  const store = new FolderStore(folder);
  if (command[0] === "init") {
    const content = await readFile(command[1]);
    for (const name of ["trusted_root", "root.json"]) await store.put(name, content);
    return;
  }
  const slashed = (url) => `${(url ?? "").replace(/\/*$/, "")}/`;
  const [metadata, targets] = ["--metadata-url", "--target-base-url"].map((each) => slashed(options[each]));
  const root = await store.get("trusted_root");
  const repository = new Repository(store, metadata, targets, root, 10_000);
  await repository.refresh();
  const target = options["--target-dir"] && new FolderStore(options["--target-dir"]);
  if (command[0] !== "download") return;
  for (const name of options["--target-name"]) {
    const there = await target.get(quoted(name));
    const content = await repository.target(name, 1 << 20, there);
    if (content !== there) await target.put(quoted(name), content);
  }
}

if (process.argv[1] === import.meta.filename) {
  try {
    await main(process.argv[2], process.argv.slice(3));
  } catch (error) {
    console.error(`${error.code ?? error.name}: ${error.message}`);
    process.exitCode = 1;
  }
}
