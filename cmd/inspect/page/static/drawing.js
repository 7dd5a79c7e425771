// The path of a packet, drawn: the client, its node, the nodes of the endpoints and the
// endpoints, from left to right, with lines there and back. Texts are elements that a
// screen reader reads in this order; the lines are for the eye.

import { h, icon, s } from "./dom.js";

const percent = new Intl.NumberFormat("en-GB", { style: "percent", maximumFractionDigits: 1 });
const shownSteps = 6;
const mostEndpoints = 10;

// drawPath returns the element of a path, and a function that draws its lines once it is in
// the document.
export function drawPath(way, report) {
  const client = box("client", name(report.from) || way.from, [way.from, report.from.node && `on ${report.from.node}`]);
  const leg = lane(way.client, "the client's node", undefined);
  const links = [{ from: client, to: leg.node, good: true, back: backOf(way.arrives) }];
  const all = way.endpoints ?? [];
  const rows = all.slice(0, mostEndpoints).map((e) => {
    const shown = box("endpoint", e.pod ? `pod/${e.pod}` : e.address, [e.pod && e.address, e.node && `on ${e.node}`, e.sees && `sees ${e.client || e.sees}`], percent.format(e.probability), e.arrives);
    const good = e.arrives !== "never";
    const reply = replyOf(e);
    if (reply) shown.append(h("p", { class: `reply${good ? "" : " is-bad"}` }, reply));
    if (!e.there) {
      links.push({ from: leg.node, to: shown, good, back: backOf(e.arrives) });
      return [null, shown];
    }
    const there = lane(e.there, "the endpoint's node", e);
    links.push({ from: leg.node, to: there.node, good: true, back: backOf(e.arrives) }, { from: there.node, to: shown, good, back: backOf(e.arrives) });
    return [there.node, shown];
  });
  const more = all.length - rows.length;
  const lines = s("svg", { class: "way-lines", "aria-hidden": "true" });
  const stops = rows.some(([there]) => there) ? "has-there" : "";
  const grid = h(
    "div", { class: `way-grid ${stops}` },
    lines, h("div", { class: "way-col" }, client), h("div", { class: "way-col" }, leg.node),
    h("ol", { class: "way-rows" }, rows.map(([there, shown]) => h("li", { class: there ? "" : "is-direct" }, there, shown)), more > 0 && h("li", { class: "is-direct" }, h("p", { class: "hint" }, `and ${more} more endpoints`)), rows.length === 0 && h("li", { class: "is-direct" }, ending(way))),
  );
  if (!rows.length) links.push({ from: leg.node, to: grid.querySelector(".ending"), good: false });
  return { node: grid, connect: () => connect(lines, grid, links) };
}

const backOf = (value) => (value === "always" ? "good" : value === "never" ? "none" : "some");

// name is a pod, node or Service as it is written in the form.
const name = (p) => (p.kind === "address" || !p.name ? "" : p.namespace ? `${p.kind}/${p.namespace}/${p.name}` : `${p.kind}/${p.name}`);

// box is where the packet begins or ends.
function box(kind, title, lines, share, arrives) {
  const bad = arrives === "never" ? " is-bad" : "";
  return h(
    "div", { class: `stop stop-${kind}${bad}` },
    h("p", { class: "stop-title" }, h("b", {}, title), share && h("span", { class: "share" }, share)), lines.filter(Boolean).map((l) => h("p", {}, l)),
  );
}

// ending is where a packet ends that reaches no endpoint.
function ending(way) {
  const outcome = way.client.answer?.outcomes?.[0];
  const verdict = outcome?.verdict ?? "not known";
  const kind = verdict === "refused" ? "reject" : verdict === "not a Service" ? "none" : "drop";
  return h("div", { class: `stop ending ${kind === "none" ? "" : "is-bad"}` }, h("p", { class: "stop-title" }, icon(kind), h("b", {}, verdict)), (outcome?.because || outcome?.how) && h("p", {}, outcome.because || outcome.how));
}

// replyOf returns what becomes of the packet there and of the reply.
function replyOf(e) {
  if (e.why) return e.why;
  if (e.reply?.verdict === "delivered") return `the reply comes from ${e.reply.from}`;
  return e.reply ? `the reply is ${e.reply.verdict}` : null;
}

// lane is a node with what its rules do, step by step.
function lane(leg, role, endpoint) {
  const answer = leg?.answer;
  const steps = (answer?.steps ?? []).filter((st) => !st.for || !endpoint || st.for === endpoint.address);
  const items = steps.map((st) => h("li", {}, h("span", { class: "hook" }, st.back ? `← ${st.hook}` : st.hook), h("span", { class: "chain" }, st.chain || st.table || ""), h("span", { class: "what" }, st.text, st.alike ? ` (and ${st.alike} alike)` : "")));
  const node = h(
    "div", { class: "lane" },
    h("p", { class: "lane-title" }, h("b", {}, leg?.node || "outside"), h("span", {}, role)),
    answer ? (items.length ? h("ol", { class: "steps" }, items.slice(0, shownSteps)) : h("p", { class: "hint" }, "no rule matches: it passes")) : h("p", { class: "hint" }, leg?.node ? "it did not answer" : "not a node of the cluster"),
    items.length > shownSteps && h("details", {}, h("summary", {}, `${items.length - shownSteps} more steps`), h("ol", { class: "steps" }, items.slice(shownSteps))),
  );
  return { node };
}

// connect draws the lines between the boxes: there, and below it back.
function connect(lines, grid, links) {
  const origin = grid.getBoundingClientRect();
  if (!origin.width) return;
  lines.setAttribute("viewBox", `0 0 ${origin.width} ${origin.height}`);
  lines.setAttribute("width", origin.width);
  lines.setAttribute("height", origin.height);
  const arrow = (id) => s("marker", { id, class: id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0.5 0.8L7 4L0.5 7.2z" }));
  const narrow = matchMedia("(max-width: 1180px)").matches;
  lines.replaceChildren(s("defs", {}, ["go-good", "go-bad", "go-back"].map(arrow)), ...links.flatMap((l) => pair(l, origin, narrow)));
}

// pair is the line of a packet and that of its reply.
function pair({ from, to, good, back }, origin, narrow) {
  const [a, b] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
  const tone = good ? "good" : "bad";
  const line = (d, kind) => s("path", { class: `go go-${kind}`, d, "marker-end": `url(#go-${kind})` });
  if (narrow) {
    const x = Math.max(a.left, b.left) - origin.left + 24;
    return [line(`M${x} ${a.bottom - origin.top}V${b.top - origin.top - 2}`, tone)];
  }
  const level = Math.min(Math.max((b.top + b.bottom) / 2, a.top + 16), a.bottom - 16) - origin.top;
  const curve = (x1, y1, x2, y2) => `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;
  const [x1, x2] = [a.right - origin.left + 1, b.left - origin.left - 2];
  const y2 = (b.top + b.bottom) / 2 - origin.top;
  const out = [line(curve(x1, level - 6, x2, y2 - 6), tone)];
  if (back === "good" || back === "some") out.push(line(curve(x2 + 1, y2 + 7, x1 + 1, level + 7), "back"));
  return out;
}
