// A Service on all nodes: with few nodes a number for each, with many a strip with one column
// for each, or for several if they are more than it can show.

import { h, rate, text } from "./dom.js";
import { rateClass, level, rateWords } from "./colours.js";

export const fewNodes = 8; // have numbers
const mostColumns = 250;

// fillNodeCells fills a cell of the table. row is what is known of the Service on each node, or
// undefined; nodes are all of them.
export function fillNodeCells(cell, row, nodes) {
  const few = nodes.length <= fewNodes;
  const kinds = few ? nodes.length : 1;
  if (cell.children.length !== kinds) cell.replaceChildren(...Array.from({ length: kinds }, () => h("span", few ? {} : { class: "strip", role: "img" })));
  if (!few) fillStrip(cell.firstChild, row, nodes);
  else nodes.forEach((n, i) => fillNumber(cell.children[i], row, n, i));
}

function fillNumber(node, row, n, i) {
  const value = row?.rates[i] ?? null;
  const bad = row?.bad?.includes(i) ? " is-bad" : row?.noticed?.includes(i) ? " is-noticed" : "";
  node.className = `num ${rateClass(value)}${bad}`;
  text(node, rate(value));
  node.title = words(row, n, i);
}

// words describe what a node has of a Service.
const words = (row, n, i) => `${n.name}: ${rateWords(row?.rates[i])}${row?.bad?.includes(i) ? ", a problem here" : ""}`;

// fillStrip draws the colours of the rates, above those of problems and notices: each column has
// the highest rate and the worst state of its nodes.
function fillStrip(strip, row, nodes) {
  if (strip.row === row && strip.of === nodes.length) return;
  const count = nodes.length;
  Object.assign(strip, { row, of: count });
  const columns = Math.min(count, mostColumns);
  const column = (i) => Math.floor((i * columns) / count);
  const rates = Array(columns).fill(-1);
  const marks = Array(columns).fill("transparent");
  row?.rates.forEach((value, i) => (rates[column(i)] = Math.max(rates[column(i)], level(value) ?? -1)));
  for (const i of row?.noticed ?? []) marks[column(i)] = "var(--soft)";
  for (const i of row?.bad ?? []) marks[column(i)] = "var(--bad-mark)";
  strip.style.backgroundImage = [marks, rates.map((l) => (l < 0 ? "transparent" : `var(--rate-${l})`)), ["var(--line-strong)"]].map(gradient).join();
  const busy = row?.rates.filter((r) => r > 0).length ?? 0;
  const where = row ? `new connections on ${busy} of ${count} nodes` : "not known yet";
  strip.setAttribute("aria-label", row?.bad?.length ? `${where}; a problem on ${row.bad.length}` : where);
}

// gradient is a picture of columns side by side.
function gradient(columns) {
  const at = (i) => `${((100 * i) / columns.length).toFixed(2)}%`;
  const ends = columns.flatMap((c, i) => (c === columns[i + 1] ? [] : [i + 1]));
  return `linear-gradient(to right, ${ends.map((end, k) => `${columns[end - 1]} ${at(ends[k - 1] ?? 0)} ${at(end)}`)})`;
}

// pointed names the node under the pointer.
export function pointed(event, nodes) {
  const strip = event.target.closest?.(".strip");
  if (!strip?.row) return;
  const box = strip.getBoundingClientRect();
  const i = Math.min(nodes.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * nodes.length)));
  strip.title = words(strip.row, nodes[i], i);
}
