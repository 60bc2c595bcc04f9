/** The models of this package, each named whole, so that bundlers bring them along. */
export const MODELS = {
  face_detector: new URL("../../models/face_detector.palm", import.meta.url),
  face_detector_best: new URL("../../models/face_detector_best.palm", import.meta.url),
  face_mesh: new URL("../../models/face_mesh.palm", import.meta.url),
  hair: new URL("../../models/hair.palm", import.meta.url),
  hand_detector: new URL("../../models/hand_detector.palm", import.meta.url),
  hand_landmarks: new URL("../../models/hand_landmarks.palm", import.meta.url),
  person_finder: new URL("../../models/person_finder.palm", import.meta.url),
  portrait: new URL("../../models/portrait.palm", import.meta.url),
} as const;

export type ModelName = keyof typeof MODELS;
