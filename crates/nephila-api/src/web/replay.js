// Replays the capture that this page names, with the service worker of ReplayWeb.page.
"use strict";

const COLLECTION = "archive";
const LOOK_MS = 50;

const frame = document.querySelector("iframe");
const said = document.querySelector("output");
const { url, at, policy } = frame.dataset;

// Waits for the service worker: it answers below its scope only, so this page is never under its control.
async function started() {
  await navigator.serviceWorker.register("/replay/sw.js", { scope: "/replay/" });
  for (;;) {
    const found = await navigator.serviceWorker.getRegistration("/replay/");
    if (found && found.active) {
      return found.active;
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

// Tells the service worker where captures are: below /web/ of this origin.
function added(worker) {
  const done = new Promise((resolve) => {
    navigator.serviceWorker.addEventListener("message", ({ data }) => {
      if (data.msg_type === "collAdded" && data.name === COLLECTION) {
        resolve();
      }
    });
  });
  worker.postMessage({
    msg_type: "addColl",
    name: COLLECTION,
    type: "live",
    file: { sourceUrl: `proxy:${COLLECTION}` },
    extraConfig: { prefix: `${location.origin}/web/`, isLive: false, archiveMod: "id_", csp: policy },
  });
  return done;
}

async function replay() {
  await added(await started());
  frame.src = `/replay/w/${COLLECTION}/${at}mp_/${url}`;
  said.remove();
}

replay().catch((error) => {
  said.textContent = `The page cannot be replayed: ${error.message}`;
});
