// Opens a kit whose models come from releases: node releases.mjs PACKAGE RELEASE...
// The releases of face_detector are files, the newest first. Prints which failed, and the size of
// the one that is open; 0: the package's.
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const [root, ...files] = argv.slice(2);
const { FaceDetector } = await import(pathToFileURL(`${root}/kits/web/index.js`).href);
const left = files.map((file) => new Uint8Array(readFileSync(file)));
const failed = [];
const updates = {
  model: async () => left[0],
  failed: async (name) => {
    failed.push([name, left.shift().length]);
  },
};
const kit = await FaceDetector.create({ updates });
const blank = { width: 64, height: 64, data: new Uint8Array(4 * 64 * 64).fill(128) };
const faces = kit.detect(blank).length;
console.log(JSON.stringify({ failed, open: left[0]?.length ?? 0, faces }));
