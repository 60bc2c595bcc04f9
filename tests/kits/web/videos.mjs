// What kits in workers find in videos: node videos.mjs PACKAGE FOLDER
// FOLDER has faces.rgba and hands.rgba, frames of 640 x 360, 40 ms each. Prints what is found in each
// frame, steadied and not, as JSON; masks go to FOLDER.
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const [root, folder] = argv.slice(2);
const kits = await import(pathToFileURL(`${root}/kits/web/index.js`).href);
const FRAME_MS = 40;

const [width, height] = [640, 360];

function framesOf(name) {
  const all = readFileSync(`${folder}/${name}.rgba`);
  const bytes = 4 * width * height;
  return Array.from({ length: all.length / bytes }, (_, i) => ({
    width,
    height,
    data: all.subarray(i * bytes, (i + 1) * bytes),
  }));
}

const films = { faces: framesOf("faces"), hands: framesOf("hands") };

async function look(kit, film, options) {
  const opened = await kits.inWorker(kits[kit], { mode: "video", ...options });
  const found = [];
  for (const [i, picture] of films[film].entries()) {
    found.push(await opened[kits[kit].method](picture, FRAME_MS * i));
  }
  opened.close();
  return found;
}

const found = {};
for (const smoothing of [true, false]) {
  found[smoothing] = {
    FaceDetector: await look("FaceDetector", "faces", { smoothing }),
    FaceMesh: await look("FaceMesh", "faces", { smoothing }),
    GestureRecognizer: await look("GestureRecognizer", "hands", { smoothing }),
  };
  const masks = await look("PortraitSegmenter", "faces", { smoothing });
  const all = Buffer.concat(masks.map(({ mask }) => Buffer.from(mask.buffer)));
  writeFileSync(`${folder}/portrait.${smoothing}`, all);
}
const plain = (_, value) => (ArrayBuffer.isView(value) ? [...value] : value);
console.log(JSON.stringify(found, plain));
