// Runs before the service worker of ReplayWeb.page. Each of its answers gets the policy of replayed pages, whatever page or
// error it is, and of all messages it hears the one that /replay.js sends: a captured page can send others.
(() => {
  "use strict";
  const policy = "POLICY";
  const wanted = JSON.stringify({
    msg_type: "addColl",
    name: "archive",
    type: "live",
    file: { sourceUrl: "proxy:archive" },
    extraConfig: { prefix: `${self.location.origin}/web/`, isLive: false, archiveMod: "id_", csp: policy },
  });
  const WITHOUT_BODY = [204, 205, 304];
  const listen = self.addEventListener.bind(self);

  const lockedIn = (answer) => {
    // Errors and redirects of the network have no content of their own.
    if (answer.status < 200) {
      return answer;
    }
    const headers = new Headers(answer.headers);
    headers.set("Content-Security-Policy", policy);
    headers.delete("Link");
    headers.delete("Refresh");
    const body = WITHOUT_BODY.includes(answer.status) ? null : answer.body;
    return new Response(body, { status: answer.status, statusText: answer.statusText, headers });
  };

  self.addEventListener = (kind, handle, ...more) => {
    if (kind === "fetch") {
      const answering = (event) => {
        const respond = event.respondWith.bind(event);
        event.respondWith = (answer) => respond(Promise.resolve(answer).then(lockedIn));
        handle(event);
      };
      return listen(kind, answering, ...more);
    }
    if (kind === "message") {
      const hearing = (event) => {
        if (JSON.stringify(event.data) === wanted) {
          handle(event);
        }
      };
      return listen(kind, hearing, ...more);
    }
    return listen(kind, handle, ...more);
  };
})();
