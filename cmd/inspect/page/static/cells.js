// Cells of a table of Services.

import { h, icon, number, rate, text } from "./dom.js";
import { compareText } from "./table.js";

// fill fills a cell with texts, each in an element of a class.
function fill(cell, texts) {
  const entries = Object.entries(texts);
  if (!cell.firstChild) cell.append(...entries.map(([kind]) => h("span", { class: kind })));
  entries.forEach(([, value], i) => text(cell.children[i], value));
}

// addressCell shows the first address.
function addressCell(cell, s) {
  fill(cell, { mono: s.addresses[0] ?? "", more: s.addresses.length > 1 ? `+${s.addresses.length - 1}` : "" });
  cell.title = s.addresses.slice(0, 20).join("\n");
}

function statusCell(cell, s, word) {
  if (cell.key !== s.key) {
    cell.key = s.key;
    cell.word = h("span", {});
    cell.replaceChildren(h("span", { class: `status status-${s.key}` }, icon(s.key), cell.word));
  }
  text(cell.word, word);
}

// severities of a Service, worst first.
export const severities = [
  { key: "problem", name: "Problem", label: "Problems" },
  { key: "notice", name: "Notice", label: "Notices" },
  { key: "ok", name: "OK", label: "OK" },
];

const rank = (s) => severities.findIndex((x) => x.key === s.key);
const count = (key, label, show) => ({ key, label, first: -1, compare: (a, b) => (a[key] ?? -1) - (b[key] ?? -1), cell: (cell, s) => text(cell, show(s[key])) });

// columns of a table of Services; state returns the word for one.
export const columns = (state) => ({
  name: { key: "name", label: "Service", compare: (a, b) => compareText(a.name, b.name), cell: (cell, s) => fill(cell, { name: s.name, inside: s.namespace }) },
  address: { key: "address", label: "Address", compare: (a, b) => compareText(a.order, b.order), cell: addressCell },
  rate: count("rate", "New/s", rate),
  active: count("active", "Active", number),
  connections: count("connections", "So far", number),
  endpoints: { key: "endpoints", label: "Endpoints", first: -1, compare: (a, b) => a.endpoints.used - b.endpoints.used || a.endpoints.all - b.endpoints.all, cell: (cell, s) => fill(cell, { used: number(s.endpoints.used), of: ` / ${number(s.endpoints.all)}` }) },
  status: { key: "status", label: "Status", compare: (a, b) => rank(a) - rank(b) || compareText(a.state, b.state), cell: (cell, s) => statusCell(cell, s, state(s)) },
});

// complete adds to a Service what the table and the search need: of its first address, a text
// that orders as addresses do, "10.96.0.9:80" before "10.96.0.10:80".
export function complete(s) {
  s.key = severities.find((x) => x.name === s.severity)?.key ?? "ok";
  s.order = (s.addresses[0] ?? "").replace(/\d+/g, (n) => n.padStart(5, "0"));
  s.words = `${s.namespace}/${s.name} ${s.addresses.join(" ")}`.toLowerCase();
}
