// What an editor knows of the package: tests/kits/web/test_in_worker.py has it checked.
import {
  type Face,
  FaceDetector,
  FaceMesh,
  GestureRecognizer,
  HairSegmenter,
  type Hand,
  type Mask,
  type MeshFace,
  PortraitSegmenter,
  type TriedOn,
  TryOn,
  inWorker,
} from "palmkit";
import { DeliveryError, Updates } from "palmkit/delivery";
import { type Model, PalmError, type Tensor, load } from "palmkit/engine";

export async function look(video: HTMLVideoElement): Promise<readonly unknown[]> {
  const detector = await inWorker(FaceDetector, { mode: "video", max_faces: 3, models: "/models" });
  const faces: Face[] = await detector.detect(video, performance.now());
  const meshes: MeshFace[] = await (await inWorker(FaceMesh)).detect(video);
  const hair: Mask = await (await inWorker(HairSegmenter)).segment(video, faces, 40);
  const recognizer = await inWorker(GestureRecognizer, { hold_ms: 300, threads: 2 });
  const hands: Hand[] = await recognizer.recognize(video);
  const person = await (await inWorker(PortraitSegmenter, { refine: true })).segment(video);
  const mirror = await inWorker(TryOn, { look: { hair: "#5b2e8c" }, face: "largest" });
  const worn: TriedOn = await mirror.wear(video, 40, { lipstick: { colour: "#a9142a" } });
  // @ts-expect-error an effect that is not worn here
  await mirror.wear(video, 80, { blush: "#d0606c" });
  // @ts-expect-error an option of another kit
  await inWorker(FaceDetector, { hold_ms: 300 });
  // @ts-expect-error a method of another kit
  await detector.segment(video);
  // @ts-expect-error no kit
  await inWorker(Map);
  detector.close();
  return [meshes, hair, hands, person, worn.after];
}

export async function update(): Promise<readonly unknown[]> {
  const updates = await Updates.open({ urls: ["https://models.example.com"], root: "/root.json" });
  const detector = await FaceDetector.create({ updates, signal: new AbortController().signal });
  const code = await updates.refresh(["face_detector"]).catch((error: unknown) => {
    if (error instanceof DeliveryError) return error.code;
    throw error;
  });
  const model: Model = await load("/models/face_mesh.palm", { threads: 2 });
  const { points } = model.run({ image: new Float32Array(3) });
  const found: Tensor | undefined = points;
  // @ts-expect-error numbers of no type that a model has
  model.run({ image: [1, 2, 3] });
  const faces: Face[] = detector.detect(new ImageData(64, 64));
  const { kind } = new PalmError("image", "none");
  // @ts-expect-error a kind that there is not
  return [code, found, faces, kind === "nothing"];
}
