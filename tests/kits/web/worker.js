// Finds faces in a bitmap with two threads.
import { FaceDetector } from "/kits/web/index.js";

self.onmessage = async ({ data }) => {
  try {
    const detector = await FaceDetector.create({ threads: 2 });
    self.postMessage(detector.detect(data));
  } catch (error) {
    self.postMessage(`${error.stack}`);
  }
};
