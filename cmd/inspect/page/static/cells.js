// Cells of a table of Services.

import { h, icon, number, rate, text } from "./dom.js";
import { compareText } from "./table.js";

function nameCell(cell, s) {
  if (!cell.name) {
    cell.name = h("span", { class: "name" });
    cell.inside = h("span", { class: "inside" });
    cell.append(cell.name, cell.inside);
  }
  text(cell.name, s.name);
  text(cell.inside, s.namespace);
}

// addressCell shows the first address.
function addressCell(cell, s) {
  if (!cell.first) {
    cell.first = h("span", { class: "mono" });
    cell.more = h("span", { class: "more" });
    cell.append(cell.first, cell.more);
  }
  text(cell.first, s.addresses[0] ?? "");
  text(cell.more, s.addresses.length > 1 ? `+${s.addresses.length - 1}` : "");
  cell.title = s.addresses.slice(0, 20).join("\n");
}

function endpointsCell(cell, s) {
  if (!cell.used) {
    cell.used = h("span", {});
    cell.all = h("span", { class: "of" });
    cell.append(cell.used, cell.all);
  }
  text(cell.used, number(s.endpoints.used));
  text(cell.all, ` / ${number(s.endpoints.all)}`);
}

function statusCell(cell, s, word) {
  if (cell.key !== s.key) {
    cell.key = s.key;
    cell.word = h("span", {});
    cell.replaceChildren(h("span", { class: `status status-${s.key}` }, icon(s.key), cell.word));
  }
  text(cell.word, word);
}

// addressOrder is a text that orders as addresses do: "10.96.0.9:80" before
// "10.96.0.10:80".
const addressOrder = (a) => (a ?? "").replace(/\d+/g, (n) => n.padStart(5, "0"));

// severities of a Service, worst first.
export const severities = [
  { key: "problem", name: "Problem", label: "Problems" },
  { key: "notice", name: "Notice", label: "Notices" },
  { key: "ok", name: "OK", label: "OK" },
];

const by = (value) => (a, b) => (value(a) ?? -1) - (value(b) ?? -1);
const count = (key, label, value, show) => ({ key, label, first: -1, compare: by(value), cell: (cell, s) => text(cell, show(value(s))) });

// columns of a table of Services; state returns the word for one.
export const columns = (state) => ({
  name: { key: "name", label: "Service", compare: (a, b) => compareText(a.name, b.name), cell: nameCell },
  address: { key: "address", label: "Address", compare: (a, b) => compareText(a.order, b.order), cell: addressCell },
  rate: count("rate", "New/s", (s) => s.rate, rate),
  active: count("active", "Active", (s) => s.active, number),
  connections: count("connections", "So far", (s) => s.connections, number),
  endpoints: { key: "endpoints", label: "Endpoints", first: -1, compare: (a, b) => a.endpoints.used - b.endpoints.used || a.endpoints.all - b.endpoints.all, cell: endpointsCell },
  status: { key: "status", label: "Status", compare: (a, b) => rank(a) - rank(b) || compareText(a.state, b.state), cell: (cell, s) => statusCell(cell, s, state(s)) },
});

const rank = (s) => severities.findIndex((x) => x.key === s.key);

// complete adds to a Service what the table and the search need.
export function complete(s) {
  s.key = severities.find((x) => x.name === s.severity)?.key ?? "ok";
  s.order = addressOrder(s.addresses[0]);
  s.words = `${s.namespace}/${s.name} ${s.addresses.join(" ")}`.toLowerCase();
}
