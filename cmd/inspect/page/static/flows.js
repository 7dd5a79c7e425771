// From which nodes the connections of a Service come, and to which endpoints they go:
// nodes of clients on the left, endpoints on the right, by node.

import { host, number, rate, s } from "./dom.js";

const row = 46; // height of a node or an endpoint
const gap = 10;
const box = { left: 190, right: 270 };
const mostRight = 24; // endpoints drawn

// flowsOf adds up the answers of nodes: { from: [node], to: [endpoint], links }.
export function flowsOf(details) {
  const to = new Map();
  const links = [];
  const from = [];
  for (const n of details.nodes) {
    if (n.error || !n.known) continue;
    const source = { name: n.name, rate: null, active: 0 };
    from.push(source);
    for (const f of n.flows) {
      let e = to.get(f.address);
      if (!e) to.set(f.address, (e = { address: f.address, ports: f.ports, node: f.node, rate: null, active: 0, total: 0, used: 0, known: 0, reasons: new Set() }));
      e.known++;
      if (f.reason) e.reasons.add(f.reason);
      else e.used++;
      e.active += f.active;
      e.total += f.connections;
      source.active += f.active;
      if (f.rate !== null) {
        e.rate = (e.rate ?? 0) + f.rate;
        source.rate = (source.rate ?? 0) + f.rate;
      }
      if (!f.reason || f.rate > 0 || f.active > 0) links.push({ from: source, to: e, rate: f.rate, active: f.active, used: !f.reason });
    }
  }
  const order = (e) => `${e.node || "~"} ${e.address.replace(/\d+/g, (n) => n.padStart(5, "0"))}`;
  return { from, to: [...to.values()].sort((a, b) => (order(a) < order(b) ? -1 : 1)), links };
}

// drawFlows draws them, at most width px wide.
export function drawFlows(flows, title, width) {
  const right = flows.to.filter((e) => e.used || e.rate || e.active).slice(0, mostRight);
  const wide = Math.max(width, 640);
  const height = Math.max(flows.from.length, right.length, 1) * (row + gap) - gap;
  const place = (list, x) => {
    const start = (height - (list.length * (row + gap) - gap)) / 2;
    list.forEach((e, i) => Object.assign(e, { x, y: start + i * (row + gap) }));
  };
  place(flows.from, 0);
  place(right, wide - box.right);
  const links = flows.links.filter((l) => right.includes(l.to));
  const most = Math.max(...links.map((l) => l.rate ?? 0), 1e-9);
  const label = `${title}. ${words(flows, right)}`;
  return s(
    "svg", { class: "flows", role: "img", "aria-label": label, viewBox: `-1 -1 ${wide + 2} ${height + 2}`, width: wide, height: height + 2 },
    links.slice().sort((a, b) => (a.rate ?? 0) - (b.rate ?? 0)).map((l) => ribbon(l, most)),
    flows.from.map((n) => node(n, box.left, n.name, `${rate(n.rate)} new/s, ${number(n.active)} active`, "from")),
    right.map((e) => node(e, box.right, e.ports?.[0] ? host(e.address, e.ports[0]) : e.address, `${e.node || "no node"} · ${rate(e.rate)} new/s, ${number(e.active)} active`, e.used ? "to" : "to is-unused")),
  );
}

function ribbon(l, most) {
  const [x1, y1] = [l.from.x + box.left, l.from.y + row / 2];
  const [x2, y2] = [l.to.x, l.to.y + row / 2];
  const bend = (x2 - x1) * 0.45;
  const share = (l.rate ?? 0) / most;
  const kind = !l.used ? "is-old" : l.rate > 0 ? "is-busy" : l.active ? "is-active" : "is-idle";
  return s("path", { class: `flow ${kind}`, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "stroke-width": (1.5 + 9 * Math.sqrt(share)).toFixed(1) });
}

function node(n, w, title, line, kind) {
  return s(
    "g", { class: `flow-node ${kind}` }, s("title", {}, `${title}\n${line}`),
    s("rect", { x: n.x, y: n.y, width: w, height: row, rx: kind.startsWith("to") ? 12 : 7 }),
    s("text", { class: "title", x: n.x + 12, y: n.y + 19 }, title), s("text", { x: n.x + 12, y: n.y + 36 }, line),
  );
}

// words describe what is drawn.
const words = (flows, right) =>
  [
    ...flows.from.map((n) => `From ${n.name}: ${rate(n.rate)} new connections per second.`),
    ...right.map((e) => `To ${e.address}${e.node ? ` on ${e.node}` : ""}: ${rate(e.rate)} per second.`),
  ].join(" ");
