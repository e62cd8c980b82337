// Reloads the live part of a page.
"use strict";

// The live part of a page is reloaded when the server reports a change. It is not
// reloaded while it has the focus, or while something is open in it.
for (const listening of document.querySelectorAll("[data-live]")) {
  const isUsed = () => {
    const live = document.getElementById("live");
    return live.querySelector("details[open]") || live.contains(document.activeElement);
  };
  const load = () => isUsed() || htmx.trigger(listening, "changed");
  let isBehind = false;
  const listen = () => {
    const source = new EventSource(listening.dataset.live);
    source.addEventListener("changed", load);
    // Changes during an interruption are not reported.
    source.addEventListener("open", () => isBehind && load());
    source.addEventListener("error", () => {
      isBehind = true;
      // An answer that is no stream, such as one of a proxy, ends it for good.
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
    });
  };
  listen();
}
