// What pages do by a script of their own: load anew what has changed.
"use strict";

// The part of a page that is live is loaded anew when the server tells of a change, but
// not while somebody is in it, or has opened something there.
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
    // Of what has changed while nobody listened nothing is told.
    source.addEventListener("open", () => isBehind && load());
    source.addEventListener("error", () => {
      isBehind = true;
      // By an answer that is no stream, such as a proxy's, it has ended for good.
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
    });
  };
  listen();
}
