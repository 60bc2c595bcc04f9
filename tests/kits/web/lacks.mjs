// Kits in an engine that lacks something: node lacks.mjs PACKAGE simd|memory
// Prints what they say.
import { argv } from "node:process";
import { pathToFileURL } from "node:url";

const [root, what] = argv.slice(2);
const { FaceDetector } = await import(pathToFileURL(`${root}/kits/web/index.js`).href);

async function tell(attempt) {
  try {
    console.log(await attempt());
  } catch ({ kind, message }) {
    console.log(`${kind}: ${message}`);
  }
}

const grey = (width, height) => ({
  width,
  height,
  data: new Uint8Array(4 * width * height).fill(128),
});

const CASES = {
  // It is told, whatever arrives first.
  async simd() {
    WebAssembly.validate = () => false;
    WebAssembly.compile = async () => {
      throw new WebAssembly.CompileError("no such instruction");
    };
    const updates = {
      model: () => new Promise((resolve) => setTimeout(resolve, 100)),
      failed: async () => undefined,
    };
    await tell(() => FaceDetector.create({ updates }));
  },

  // Of 128 MB: a picture that does not fit, and one that fits but leaves no room.
  async memory() {
    const detector = await FaceDetector.create();
    await tell(() => detector.detect(grey(8000, 6000)).length);
    await tell(() => detector.detect(grey(64, 64)).length);
    await tell(() => detector.detect(grey(4000, 4000)).length);
    await tell(() => detector.detect(grey(64, 64)).length);
    const another = await FaceDetector.create();
    await tell(() => another.detect(grey(64, 64)).length);
  },
};

await CASES[what]();
