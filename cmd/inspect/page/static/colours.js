// Colours of rates: how many new connections per second, as one of six colours, which the style
// sheet has.

import { h, rate } from "./dom.js";

// limits are the rates at which the levels from 1 on end.
const limits = [1, 10, 100, 1000];
const names = ["0", "<1", "<10", "<100", "<1,000", "more"];

// level is that of a rate: 0 to 5; null if it is not known.
export function level(value) {
  if (value === null || value === undefined) return null;
  return value <= 0 ? 0 : 1 + limits.filter((l) => value >= l).length;
}

// rateClass is the class of a rate.
export const rateClass = (value) => `rate-${level(value) ?? "none"}`;

// legend explains the colours.
export function legend() {
  const swatch = (kind, word) => h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), word);
  return h(
    "ul", { class: "legend", "aria-label": "New connections per second, by colour" },
    names.map((n, i) => swatch(`rate-${i}`, n)), swatch("rate-none", "no answer"), swatch("rate-0 is-bad", "problem"),
  );
}

// rateWords describe what a node has of something.
export const rateWords = (value) => (value === null || value === undefined ? "not known" : `${rate(value)} new/s`);
