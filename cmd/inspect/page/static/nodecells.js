// A Service on all nodes: with few nodes a number for each, with many a picture with one
// column for each, or for as many as share a pixel.

import { h, rate, text } from "./dom.js";
import { colours, rateClass, level, rateWords } from "./colours.js";

export const fewNodes = 8; // have numbers
const height = 24;

// fillNodeCells fills a cell of the table. row is what is known of the Service on each node, or
// undefined; nodes are all of them.
export function fillNodeCells(cell, row, nodes) {
  const few = nodes.length <= fewNodes;
  if (cell.few !== few) {
    cell.few = few;
    cell.replaceChildren();
    cell.shownRow = undefined;
  }
  if (few) fillNumbers(cell, row, nodes);
  else fillCanvas(cell, row, nodes);
}

function fillNumbers(cell, row, nodes) {
  while (cell.children.length > nodes.length) cell.lastChild.remove();
  while (cell.children.length < nodes.length) cell.append(h("span", {}));
  nodes.forEach((n, i) => {
    const node = cell.children[i];
    const value = row?.rates[i] ?? null;
    const bad = row?.bad?.includes(i) ? " is-bad" : row?.noticed?.includes(i) ? " is-noticed" : "";
    const name = `num ${rateClass(value)}${bad}`;
    if (node.className !== name) node.className = name;
    text(node, rate(value));
    node.title = `${n.name}: ${rateWords(value)}${bad === " is-bad" ? ", a problem here" : ""}`;
  });
}

function fillCanvas(cell, row, nodes) {
  if (!cell.canvas) cell.replaceChildren((cell.canvas = h("canvas", { role: "img" })));
  const canvas = cell.canvas;
  const width = cell.clientWidth;
  const theme = `${width} ${document.documentElement.dataset.theme} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  if (canvas.row === row && canvas.theme === theme) return;
  Object.assign(canvas, { row, theme, nodes });
  if (!width) return;
  draw(canvas, row, nodes.length, width);
  canvas.setAttribute("aria-label", describe(row, nodes));
}

function draw(canvas, row, count, width) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const c = colours();
  const columns = Math.min(count, Math.floor(width));
  const step = width / columns;
  const gap = step >= 4 ? 1 : 0;
  const bad = new Set(row?.bad);
  const noticed = new Set(row?.noticed);
  for (let i = 0; i < columns; i++) {
    const [first, end] = [Math.floor((i * count) / columns), Math.floor(((i + 1) * count) / columns)];
    let most = null;
    let mark = null;
    for (let n = first; n < end; n++) {
      const l = level(row?.rates[n]);
      if (l !== null && (most === null || l > most)) most = l;
      mark = bad.has(n) ? c.bad : mark ?? (noticed.has(n) ? c.noticed : null);
    }
    const [x, w] = gap ? [i * step, step - gap] : [i * step, step + 0.5];
    if (most === null) {
      pen.fillStyle = c.none;
      pen.fillRect(x, height / 2 - 0.5, w, 1);
    } else {
      pen.fillStyle = c.rates[most];
      pen.fillRect(x, 2, w, height - 7);
    }
    if (mark) {
      pen.fillStyle = mark;
      pen.fillRect(x, height - 4, Math.max(w, 1.5), 3);
    }
  }
}

// describe returns what a picture shows.
function describe(row, nodes) {
  if (!row) return "not known yet";
  let most = -1;
  let some = 0;
  row.rates.forEach((r, i) => {
    if (r > 0) some++;
    if (r !== null && (most < 0 || r > row.rates[most])) most = i;
  });
  const where = some ? `new connections on ${some} of ${nodes.length} nodes, most on ${nodes[most].name}: ${rate(row.rates[most])} per second` : "no new connections on any node";
  return row.bad?.length ? `${where}; a problem on ${row.bad.length}` : where;
}

// nodeAt is the index of the node at a place of a picture.
export function nodeAt(canvas, x) {
  const box = canvas.getBoundingClientRect();
  const columns = Math.min(canvas.nodes.length, Math.floor(box.width));
  const column = Math.min(columns - 1, Math.max(0, Math.floor(((x - box.left) / box.width) * columns)));
  return Math.floor((column * canvas.nodes.length) / columns);
}
