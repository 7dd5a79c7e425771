// Elements, made without markup in strings: what comes from the cluster becomes text
// or an attribute, and nothing else.

const svgSpace = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

// h makes an element of HTML. Functions among the attributes listen to events.
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

// s makes an element of SVG.
export const s = (tag, attributes, ...children) => fill(document.createElementNS(svgSpace, tag), attributes, children);

// icon returns one of the symbols in index.html. A word with the same meaning is always
// beside it.
export const icon = (name) => s("svg", { class: `icon icon-${name}`, "aria-hidden": "true" }, s("use", { href: `#i-${name}` }));

// text sets a text where it is another one: most of what is polled has not changed.
export function text(node, value) {
  if (node.shown !== value) {
    node.textContent = value;
    node.shown = value;
  }
}

const whole = new Intl.NumberFormat("en-GB");
const tenth = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

// number is a whole number with separators; a dash if it is not known.
export const number = (n) => (n === null || n === undefined ? "–" : whole.format(n));

// rate is a number per second; a dash if it is not known.
export function rate(n) {
  if (n === null || n === undefined) return "–";
  if (n === 0) return "0";
  if (n < 0.1) return "<0.1";
  return n < 100 ? tenth.format(n) : whole.format(Math.round(n));
}

// plural is "1 problem", "2 problems".
export const plural = (n, one, many = one + "s") => `${number(n)} ${n === 1 ? one : many}`;

// glanceItem is a number with what it is.
export const glanceItem = (value, words) => h("p", {}, h("strong", {}, value), ` ${words}`);

// host is an address with its port; any address without one.
export const host = (address, port) => (!address ? `*:${port}` : address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`);

// clock is the time of the day.
export const clock = (date) => date.toLocaleTimeString("en-GB");
