import { KITS } from "./kits.js";

const byId = (id) => document.getElementById(id);
const [canvas, found, problem, time, camera, file] = [
  ...["canvas", "found", "problem", "time", "camera", "file"].map(byId),
];
const context = canvas.getContext("2d", { willReadFrequently: true });
const video = Object.assign(document.createElement("video"), { muted: true, playsInline: true });

const asked = new URLSearchParams(location.search).get("kit");
const name = Object.hasOwn(KITS, asked ?? "") ? asked : "faces";
const kit = KITS[name];

const REFUSED = {
  NotAllowedError: "The camera was refused. Allow it for this page in the browser's settings, or take a picture.",
  NotFoundError: "There is no camera. Take a picture instead.",
  NotReadableError: "The camera is used by another program. Close that, and try again.",
};
const UNREADABLE = "This file is no picture that the browser reads.";

// What is looked at now: what was asked for earlier ends.
let turn = 0;
let picture = async () => bitmapOf(await sample);

// For pictures and for the frames of a video; both at once, so that nothing is asked for later.
const colours = { ...kit.colours };
const open = (mode) => kit.open({ mode }, colours);
const opened = { image: open("image"), video: open("video") };
opened.video.catch(() => undefined); // it is told when the camera is asked for

function show(shown, result, started) {
  [canvas.width, canvas.height] = [shown.width, shown.height];
  context.drawImage(shown, 0, 0);
  kit.draw(context, result);
  const told = kit.tell(result);
  // So that it is read out only when it is another.
  if (found.textContent !== told) found.textContent = told;
  time.textContent = `${(performance.now() - started).toFixed(0)} ms`;
}

async function lookAt(shown, mode, own) {
  const { look } = await opened[mode];
  const started = performance.now();
  const result = await look(shown, mode === "video" ? started : undefined);
  if (own === turn) show(shown, result, started);
}

function stopCamera() {
  for (const track of video.srcObject?.getTracks() ?? []) track.stop();
  video.srcObject = null;
  camera.setAttribute("aria-pressed", "false");
}

/** Does what was asked for, and says what keeps it from being done. */
async function take(work) {
  const own = ++turn;
  problem.hidden = true;
  stopCamera();
  try {
    await work(own);
  } catch (error) {
    if (own !== turn) return;
    stopCamera();
    problem.textContent = REFUSED[error.name] ?? error.message;
    problem.hidden = false;
    found.textContent = "";
  }
}

async function bitmapOf(blob) {
  try {
    return await createImageBitmap(blob);
  } catch (error) {
    throw new Error(UNREADABLE, { cause: error });
  }
}

const sample = fetch(`/samples/${kit.sample}`).then((answer) => answer.blob());

const lookAtPicture = async (own) => lookAt(await picture(), "image", own);

function lookAtSample(own) {
  picture = async () => bitmapOf(await sample);
  return lookAtPicture(own);
}

async function lookAtCamera(own) {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 640 } } });
  if (own !== turn) {
    for (const track of stream.getTracks()) track.stop();
    return;
  }
  video.srcObject = stream;
  camera.setAttribute("aria-pressed", "true");
  stream.getVideoTracks()[0].addEventListener("ended", () => {
    if (own === turn) take(() => Promise.reject(new Error("The camera is gone.")));
  });
  await video.play();
  while (own === turn) {
    const frame = await createImageBitmap(video);
    await lookAt(frame, "video", own);
    frame.close();
    await new Promise(requestAnimationFrame);
  }
}

byId("sample").addEventListener("click", () => take(lookAtSample));
camera.addEventListener("click", () => {
  const isOn = camera.getAttribute("aria-pressed") === "true";
  take(isOn ? lookAtSample : lookAtCamera);
});
file.addEventListener("change", () => {
  const [chosen] = file.files;
  if (!chosen) return;
  picture = () => bitmapOf(chosen);
  take(lookAtPicture);
});

byId("colours").hidden = !kit.colours;
byId("colours").replaceChildren(
  ...Object.keys(colours).map((each) => {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "color", id: each });
    input.value = colours[each];
    input.addEventListener("input", () => {
      colours[each] = input.value;
      // Frames of the camera wear it anyway.
      if (!video.srcObject) take(lookAtPicture);
    });
    label.append(each[0].toUpperCase(), each.slice(1), " ", input);
    return label;
  }),
);

byId("kits").replaceChildren(
  ...Object.entries(KITS).map(([each, { title }]) => {
    const link = document.createElement("a");
    [link.href, link.textContent] = [`?kit=${each}`, title];
    if (each === name) link.setAttribute("aria-current", "page");
    return link;
  }),
);
byId("title").textContent = kit.title;
byId("text").textContent = kit.text;
document.title = `${kit.title} — PalmKit`;
take(lookAtSample);
