// Colours of rates: how many new connections per second, as one of six colours, which the style
// sheet has.

import { h, rate } from "./dom.js";

// limits are the rates at which the levels from 1 on end.
const limits = [1, 10, 100, 1000];
const names = ["0", "<1", "<10", "<100", "<1,000", "more"];

// level is that of a rate: 0 to 5; null if it is not known.
export function level(value) {
  if (value === null || value === undefined) return null;
  if (value <= 0) return 0;
  const i = limits.findIndex((l) => value < l);
  return i < 0 ? limits.length + 1 : i + 1;
}

// rateClass is the class of a rate.
export const rateClass = (value) => (value === null || value === undefined ? "rate-none" : `rate-${level(value)}`);

// legend explains the colours.
export function legend() {
  const swatch = (kind, word) => h("li", {}, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), word);
  return h(
    "ul", { class: "legend", "aria-label": "New connections per second, by colour" },
    names.map((n, i) => swatch(`rate-${i}`, n)), swatch("rate-none", "no answer"), swatch("rate-0 is-bad", "problem"),
  );
}

// colours are those of the levels, for drawing; they change with the theme.
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { rates: [0, 1, 2, 3, 4, 5].map((i) => of(`--rate-${i}`)), none: of("--line-strong"), bad: of("--bad-mark"), noticed: of("--soft") };
}

// words describe what a node has of something.
export const rateWords = (value) => (value === null || value === undefined ? "not known" : `${rate(value)} new/s`);
