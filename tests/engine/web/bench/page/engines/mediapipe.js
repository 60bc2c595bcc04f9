// MediaPipe has tasks rather than networks: a time is that of a task on a picture of the network's
// size, from a canvas to the result.
import {
  FaceDetector,
  FilesetResolver,
  ImageSegmenter,
} from "/node_modules/@mediapipe/tasks-vision/vision_bundle.mjs";

const FOLDER = "/node_modules/@mediapipe/tasks-vision/wasm";
const TASKS = {
  face_detection_short_range: [FaceDetector, (task, canvas) => task.detect(canvas)],
  face_detection_full_range: [FaceDetector, (task, canvas) => task.detect(canvas)],
  selfie_segmentation: [ImageSegmenter, segment],
  selfie_segmentation_landscape: [ImageSegmenter, segment],
};

function segment(task, canvas) {
  const result = task.segment(canvas);
  for (const mask of result.confidenceMasks) mask.getAsFloat32Array();
  result.close();
}

export async function open({ network, files, inputs }) {
  const found = TASKS[network];
  if (!found) throw new Error("no task of it takes this network");
  const [Task, run] = found;
  const fileset = await FilesetResolver.forVisionTasks(FOLDER);
  const task = await Task.createFromOptions(fileset, {
    baseOptions: { modelAssetPath: files.tflite, delegate: "CPU" },
    runningMode: "IMAGE",
    ...(Task === ImageSegmenter && { outputConfidenceMasks: true, outputCategoryMask: false }),
  });
  const [, height, width] = inputs[0].dims;
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#987";
  context.fillRect(0, 0, width, height / 2);
  return { run: () => void run(task, canvas) };
}
