// Cells of a table of Services, and the totals above it.

import { h, icon, number, text } from "./dom.js";

export function nameCell(cell, s) {
  if (!cell.name) {
    cell.name = h("span", { class: "name" });
    cell.inside = h("span", { class: "inside" });
    cell.append(cell.name, cell.inside);
  }
  text(cell.name, s.name);
  text(cell.inside, s.namespace);
}

// addressCell shows the first address; none is the text without any.
export function addressCell(cell, s, none) {
  if (!cell.first) {
    cell.first = h("span", { class: "mono" });
    cell.more = h("span", { class: "more" });
    cell.append(cell.first, cell.more);
  }
  text(cell.first, s.addresses[0] ?? none);
  text(cell.more, s.addresses.length > 1 ? `+${s.addresses.length - 1}` : "");
  cell.title = s.addresses.slice(0, 20).join("\n");
}

export function endpointsCell(cell, s) {
  if (!cell.used) {
    cell.used = h("span", {});
    cell.all = h("span", { class: "of" });
    cell.append(cell.used, cell.all);
  }
  text(cell.used, number(s.endpoints.used));
  text(cell.all, ` / ${number(s.endpoints.all)}`);
}

export function statusCell(cell, s, word) {
  if (cell.key !== s.key) {
    cell.key = s.key;
    cell.word = h("span", {});
    cell.replaceChildren(h("span", { class: `status status-${s.key}` }, icon(s.key), cell.word));
  }
  text(cell.word, word);
}

// addressOrder is a text that orders as addresses do: "10.96.0.9:80" before
// "10.96.0.10:80".
export const addressOrder = (a) => (a ?? "").replace(/\d+/g, (n) => n.padStart(5, "0"));

// totals returns { node, values, line }: the cards with numbers above a table, and the line
// of the rate. of is what they are about, endpoints the label of the card for that.
export function totals(of, endpoints) {
  const values = {};
  const card = (key, label, more) => h("div", { class: `card card-${key}` }, h("dt", {}, label), (values[key] = h("dd", {}, "–")), more);
  const line = h("div", { class: "line" });
  const node = h(
    "dl", { class: "totals", "aria-label": `Totals of ${of}` },
    card("rate", "New connections per second", line), card("active", "Active connections"), card("services", "Services"),
    card("endpoints", endpoints), card("problems", "Problems"),
  );
  return { node, values, line };
}
