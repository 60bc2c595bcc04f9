// Kits in workers of their own, in Node: node in_worker.mjs PACKAGE FOLDER
// FOLDER has group.rgba, 640 x 480 pixels with faces. Prints what came of it as JSON.
import { readFileSync } from "node:fs";
import { argv } from "node:process";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";

const [root, folder] = argv.slice(2);
const { FaceDetector, HairSegmenter, PalmError, inWorker } = await import(
  pathToFileURL(`${root}/kits/web/index.js`).href
);
const group = { width: 640, height: 480, data: readFileSync(`${folder}/group.rgba`) };

// The last worker that something was sent to.
let last;
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (...values) {
  last = this;
  return postMessage.apply(this, values);
};

async function said(attempt) {
  try {
    await attempt();
    return "ok";
  } catch (error) {
    // Anything else is a fault of ours.
    if (!(error instanceof PalmError)) throw error;
    return `${error.kind}: ${error.message}`;
  }
}

const found = {};
const here = await FaceDetector.create();
found.here = here.detect(group);
const detector = await inWorker(FaceDetector);
found.worker = await detector.detect(group);
found.same = group.data.length;
const hair = await inWorker(HairSegmenter);
const { mask, ...rest } = await hair.segment(group, found.worker);
found.hair = { ...rest, covered: mask.reduce((sum, value) => sum + value, 0) / mask.length };
hair.close();

// Pictures that cannot be, options that cannot be; afterwards the kit is as it was.
found.errors = [
  await said(() => detector.detect({ width: 10, height: 10, data: new Uint8Array(10) })),
  await said(() => detector.detect(group, NaN)),
  await said(() => inWorker(FaceDetector, { models: "file:///no/such/folder" })),
  await said(() => inWorker(FaceDetector, { models: "relative" })),
  await said(() => inWorker({ kit: "Nothing", method: "detect" })),
  await said(() => inWorker(FaceDetector, { threads: 0 })),
  await said(() => inWorker(FaceDetector, { size: () => 320 })),
];
found.again = await detector.detect(group);

// Calls are answered in their order, also when several wait.
const order = [];
await Promise.all([0, 1, 2].map((i) => detector.detect(group).then(() => order.push(i))));
found.order = order;

// A worker that ends while it computes, and one that is closed.
const calls = [detector.detect(group), detector.detect(group)].map((call) => said(() => call));
await new Promise(setImmediate);
last.terminate();
found.lost = await Promise.all(calls);
found.after = await said(() => detector.detect(group));
const closed = await inWorker(FaceDetector);
const waiting = said(() => closed.detect(group));
await new Promise(setImmediate);
closed.close();
found.closed = [await waiting, await said(() => closed.detect(group))];

const abort = new AbortController();
const aborted = inWorker(FaceDetector, { signal: abort.signal });
abort.abort(new PalmError("interrupted", "by hand"));
found.aborted = await said(() => aborted);

// Releases stay on this side.
const model = new Uint8Array(readFileSync(`${root}/models/face_detector.palm`));
const left = [model.slice(0, -100), model];
const failed = [];
const updates = {
  model: async () => left[0],
  failed: async (name) => failed.push([name, left.shift().length - model.length]),
};
const updated = await inWorker(FaceDetector, { updates });
found.updated = { failed, left: left.length, faces: await updated.detect(group) };
updated.close();
const broken = { ...updates, model: () => Promise.reject(new PalmError("download", "gone")) };
found.broken = await said(() => inWorker(FaceDetector, { updates: broken }));

const plain = (_, value) => (ArrayBuffer.isView(value) ? [...value] : value);
console.log(JSON.stringify(found, plain));
