// The search runs in a worker. On pages that are opened from a folder (file://) a browser starts no worker, so the same
// script runs in a hidden frame. Its name keeps the plugin `offline` from loading another such script from elsewhere.
"use strict";

if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(script) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      // What the script says goes to the page.
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const element = frame.contentDocument.createElement("script");
      element.src = script;
      element.addEventListener("load", () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
      frame.contentDocument.body.append(element);
    }

    // What the page says waits for the script.
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
    }
  };
  window.Worker = window.IFrameWorker;
}
