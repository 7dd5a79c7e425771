// The frame of a page: keys, and how current the shown state is.

import { clock, text } from "./dom.js";

export const byId = (id) => document.getElementById(id);

// frame starts to handle keys. commands are by key, in addition to those that all pages
// have; back is Escape, and press(key) handles other keys, and returns whether it did.
export function frame({ feed, commands, back, press }) {
  const all = { "?": () => byId("keys").showModal(), p: () => feed.pause(!feed.paused), ...commands };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || byId("keys").open || event.defaultPrevented) return;
    if (event.key === "Escape") {
      back();
      return;
    }
    if (event.target.closest?.("input, select, textarea")) return;
    const command = all[event.key];
    if (command) {
      event.preventDefault();
      command();
    } else if (press(event.key)) {
      event.preventDefault();
    }
  });
  byId("help").addEventListener("click", all["?"]);
}

// showFreshness shows how current the shown state is; note is what else there is to say
// about it.
export function showFreshness(feed, note) {
  const state = feed.state();
  const since = feed.at ? clock(feed.at) : null;
  byId("live").dataset.state = state;
  text(byId("live-text"), { live: "Live", loading: "Loading", paused: "Paused", old: "Stale", gone: "No answer", failing: "No state" }[state]);
  const shown = since ? `What is shown is from ${since}.` : "There is nothing to show yet.";
  const outdated = {
    gone: `The server does not answer. ${shown} Trying again every 2 seconds.`,
    failing: `The server has no state to show: ${feed.error?.message}. ${shown}`,
    old: `The state does not change. It is from ${since && clock(new Date(feed.data.time))}, by the clock of the server.`,
  }[state];
  const words = outdated ?? note;
  byId("banner").hidden = !words;
  text(byId("banner"), words ?? "");
  byId("banner").dataset.state = outdated ? state : "note";
  document.body.classList.toggle("is-old", Boolean(outdated));
}
