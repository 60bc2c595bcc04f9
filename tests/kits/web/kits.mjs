// Runs the kits in Node: node kits.mjs PACKAGE FOLDER
// FOLDER has group.rgba, 640 x 480 pixels with faces, and hands.rgba, 640 x 360. Prints what they
// find as JSON; masks go to FOLDER.
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const [root, folder] = argv.slice(2);
const kits = await import(pathToFileURL(`${root}/kits/web/index.js`).href);
const group = { width: 640, height: 480, data: readFileSync(`${folder}/group.rgba`) };
const hand = { width: 640, height: 360, data: readFileSync(`${folder}/hands.rgba`) };

// What a kit finds in a picture, and in three frames of a still video of it.
async function look(Kit, method, picture, options = {}) {
  const kit = await Kit.create(options);
  const video = await Kit.create({ ...options, mode: "video" });
  const found = kit[method](picture);
  const frames = [0, 40, 80].map((time) => video[method](picture, time));
  kit.close();
  video.close();
  return [found, frames];
}

const [faces, faceFrames] = await look(kits.FaceDetector, "detect", group);
const [meshes, meshFrames] = await look(kits.FaceMesh, "detect", group);
const [hands, handFrames] = await look(kits.GestureRecognizer, "recognize", hand);
const [few] = await look(kits.FaceDetector, "detect", group, { max_faces: 1 });
// Longer pictures than those of most cameras.
const long = [];
for (const [width, height] of [[1200, 400], [320, 640], [900, 300], [1200, 300]]) {
  const data = readFileSync(`${folder}/${width}x${height}.rgba`);
  const detector = await kits.FaceDetector.create();
  long.push(detector.detect({ width, height, data }));
}
const portrait = await kits.PortraitSegmenter.create();
writeFileSync(`${folder}/portrait.mask`, portrait.segment(group).mask);
const hair = await kits.HairSegmenter.create();
writeFileSync(`${folder}/hair.mask`, hair.segment(group, faces).mask);
// Of people whose faces nobody gives, by a glance at the picture; and without it, anywhere.
writeFileSync(`${folder}/heads.mask`, hair.segment(group).mask);
const faceless = await kits.HairSegmenter.create({ heads: false });
writeFileSync(`${folder}/everywhere.mask`, faceless.segment(group).mask);

// Try-on: a look of every kind, as a picture and as frames; and looks that cannot be.
const worn = {};
const both = { lipstick: { colour: "#a9142a", finish: "gloss" }, hair: "#d9cdb8" };
const mirror = await kits.TryOn.create({ look: both });
worn.look = mirror.look;
const { after, faces: wearers } = mirror.wear(group);
worn.faces = wearers.length;
writeFileSync(`${folder}/worn.rgba`, after.data);
mirror.look = { lipstick: "#5c1f3f" };
writeFileSync(`${folder}/plum.rgba`, mirror.wear(group).after.data);
worn.bare = mirror.wear(group, undefined, {}).after.data.every((x, i) => x === group.data[i]);
const film = await kits.TryOn.create({ mode: "video", look: both, face: "largest" });
worn.ids = [0, 40, 80].map((time) => film.wear(group, time).faces.map(({ id }) => id));
worn.errors = [];
for (const options of [
  { look: { lipstick: "red" } },
  { look: { lipstick: { colour: "#a9142a", opacity: 2 } } },
  { look: { hair: { colour: "#a9142a", finish: "shimmer" } } },
  { look: { hair: { colour: "#a9142a", shine: 1 } } },
  { look: { blush: "#d0606c" } },
  { look: { hat: "#d0606c" } },
  { look: { palmkit_look: 2 } },
  { look: "evening" },
  { face: "tallest" },
  { face: -1 },
]) {
  try {
    await kits.TryOn.create(options);
  } catch (error) {
    worn.errors.push(`${error.kind}: ${error.message}`);
  }
}
// Releases of a look: the newest cannot be read, the next has an effect that is not worn here.
const kept = ["{", '{"palmkit_look": 1, "blush": {"colour": "#d0606c"}}', '{"lipstick": "#5c1f3f"}'];
const updates = {
  model: async (name) => (name === "evening" ? new TextEncoder().encode(kept[0]) : undefined),
  failed: async () => void kept.shift(),
};
const evening = await kits.TryOn.create({ look: "evening", behind_hands: false, updates });
worn.delivered = [evening.look, kept.length];
const errors = [];
const detector = await kits.FaceDetector.create();
for (const bad of [
  { width: 0, height: 10, data: new Uint8Array() },
  { width: 10, height: 10, data: new Uint8Array(10) },
  { width: 70000, height: 1, data: new Uint8Array(280000) },
  undefined,
  null,
  "photo.jpg",
]) {
  try {
    detector.detect(bad);
  } catch (error) {
    if (!(error instanceof kits.PalmError)) throw error;
    errors.push(`${error.kind}: ${error.message}`);
  }
}
// A picture that was refused leaves the kit as it was.
const again = detector.detect(group);

const plain = (_, value) => (ArrayBuffer.isView(value) ? [...value] : value);
const frames = { faceFrames, meshFrames, handFrames };
const found = { faces, meshes, hands, few, long, again, errors, worn, ...frames };
console.log(JSON.stringify(found, plain));
