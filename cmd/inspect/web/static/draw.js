// A way drawn: from left to right where there is place for it, else from top to
// bottom, as a tree.

import { s } from "./dom.js";

const line = 16; // height of a line of text
const inner = { x: 12, y: 9 };
const gap = { x: 30, y: 12, label: 84 };
const smallest = 0.78; // by how much a picture may shrink to fit
const column = 600; // width of a tree

// draw makes the picture of a way, at most width px wide.
export function draw(way, width, label) {
  const sized = () => new Map(way.nodes.map((n) => [n.id, { ...n, ...sizeOf(n) }]));
  const wide = across(way, sized());
  const picture = wide.width * smallest <= width ? wide : down(way, sized(), Math.min(width, column));
  return s(
    "svg",
    {
      class: `walk ${picture === wide ? "is-across" : "is-down"}`, role: "img", "aria-label": label,
      viewBox: `0 0 ${Math.ceil(picture.width)} ${Math.ceil(picture.height)}`, width: Math.ceil(picture.width), height: Math.ceil(picture.height),
    },
    s("defs", {}, ["edge", "pass", "bad"].map((tone) => s(
      "marker", { id: `arrow-${tone}`, class: `arrow-${tone}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { d: "M0.5 0.8L7 4L0.5 7.2z" }),
    ))),
    picture.parts,
  );
}

const pen = document.createElement("canvas").getContext("2d");

// widthOf is that of a text as it will be drawn; fonts are those of walk.css.
function widthOf(text, mono, bold) {
  const style = getComputedStyle(document.documentElement);
  pen.font = `${bold ? 600 : 400} 12px ${style.getPropertyValue(mono ? "--mono" : "--sans")}`;
  return pen.measureText(text).width;
}

function sizeOf(n) {
  const widths = n.lines.map((l) => widthOf(l, true));
  const title = widthOf(n.title, true, true) + (n.share ? widthOf(n.share, false, true) + 18 : 0);
  return { w: Math.ceil(Math.max(title, ...widths, 60)) + 2 * inner.x, h: (1 + n.lines.length) * line + 2 * inner.y - 2 };
}

// across places stages side by side. An edge over several stages leads through a
// place that is kept free for it in each.
function across(way, nodes) {
  const { stages, edges } = withPlaces(way, nodes);
  const height = Math.max(...stages.map((st) => st.reduce((sum, n) => sum + n.h + gap.y, -gap.y)));
  for (const st of stages) stack(st, height / 2);
  for (let i = stages.length - 2; i >= 0; i--) level(stages[i], (n) => edges.filter((e) => e.from === n).map((e) => e.to));
  for (let i = 1; i < stages.length; i++) if (stages[i].length < stages[i - 1].length) level(stages[i], (n) => edges.filter((e) => e.to === n).map((e) => e.from));
  const all = stages.flat();
  const top = Math.min(...all.map((n) => n.y));
  all.forEach((n) => (n.y += 1 - top));
  let x = 1;
  stages.forEach((st, i) => {
    const w = Math.max(...st.map((n) => n.w));
    st.forEach((n) => Object.assign(n, { x, w }));
    const labelled = edges.some((e) => e.label && st.includes(e.from));
    x += w + (i < stages.length - 1 ? (labelled ? gap.label : gap.x) : 1);
  });
  const bottom = Math.max(...all.map((n) => n.y + n.h)) + 1;
  spanning(stages, bottom);
  const parts = [all.filter((n) => n.span).map(box), edges.map((e) => edgeAcross(e)), all.filter((n) => !n.place && !n.span).map(box)];
  return { width: x, height: Math.max(bottom, ...all.map((n) => n.y + n.h)) + 1, parts };
}

// withPlaces is the way with a place for each edge in each stage it leads over.
function withPlaces(way, nodes) {
  const stages = way.stages.map((st) => st.map((n) => nodes.get(n.id)));
  const at = new Map(stages.flatMap((st, i) => st.map((n) => [n, i])));
  const edges = [];
  for (const e of way.edges) {
    if (e.tone === "hidden") continue;
    let from = nodes.get(e.from);
    const to = nodes.get(e.to);
    let label = e.label;
    for (let i = at.get(from) + 1; i < at.get(to); i++) {
      const place = { place: true, w: 8, h: e.tone === "pass" ? nodes.get(e.to).h : 12 };
      stages[i].push(place);
      edges.push({ ...e, from, to: place, label, open: true });
      label = null;
      from = place;
    }
    edges.push({ ...e, from, to, label });
  }
  return { stages, edges };
}

// stack puts nodes below each other, around a middle. What spans a stage takes no
// place in it.
function stack(nodes, middle) {
  const solid = nodes.filter((n) => !n.span);
  const total = solid.reduce((sum, n) => sum + n.h + gap.y, -gap.y);
  let y = middle - total / 2;
  for (const n of solid) {
    n.y = y;
    y += n.h + gap.y;
  }
  nodes.filter((n) => n.span).forEach((n) => (n.y = middle));
}

// level moves nodes to the height of what they are connected with, without laying
// one upon another.
function level(nodes, connected) {
  const solid = nodes.filter((n) => !n.span);
  for (const n of solid) {
    const others = connected(n).filter((o) => o.y !== undefined);
    n.wish = others.length ? others.reduce((sum, o) => sum + o.y + o.h / 2, 0) / others.length : n.y + n.h / 2;
  }
  solid.sort((a, b) => a.wish - b.wish);
  let groups = solid.map((n) => ({ members: [n], h: n.h, y: n.wish - n.h / 2 }));
  for (let i = 1; i < groups.length; i++) {
    const [a, b] = [groups[i - 1], groups[i]];
    if (b.y >= a.y + a.h + gap.y) continue;
    const members = [...a.members, ...b.members];
    const h = a.h + gap.y + b.h;
    const middle = members.reduce((sum, n) => sum + n.wish, 0) / members.length;
    groups.splice(i - 1, 2, { members, h, y: middle - h / 2 });
    i = Math.max(0, i - 2);
  }
  for (const g of groups) {
    let y = g.y;
    for (const n of g.members) {
      n.y = y;
      y += n.h + gap.y;
    }
  }
}

// spanning makes nodes that span a stage as high as what passes them, with
// their text above.
function spanning(stages, bottom) {
  for (const st of stages) {
    for (const n of st.filter((m) => m.span)) {
      const passing = st.filter((m) => m.place);
      const head = n.h;
      const top = Math.min(...passing.map((m) => m.y), bottom);
      const end = Math.max(...passing.map((m) => m.y + m.h), 0);
      const shift = Math.max(0, head + 4 - top);
      if (shift) stages.flat().forEach((m) => m !== n && (m.y += shift));
      n.y = top + shift - head - 4;
      n.h = end + shift - n.y + 6;
    }
  }
}

function edgeAcross({ from, to, label, tone, open, weight }) {
  const x1 = from.x + from.w;
  const y1 = from.y + from.h / 2;
  const x2 = to.x - (open ? 0 : 2);
  const y2 = to.y + to.h / 2;
  const bend = Math.min(Math.max((x2 - x1) / 2, 12), 60);
  const ahead = from.place ? `M${from.x} ${y1}H${x1}` : `M${x1} ${y1}`;
  return s(
    "g", { class: `edge edge-${tone ?? "plain"}` },
    s("path", {
      d: `${ahead}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, "stroke-width": thickness(weight),
      "marker-end": open ? null : `url(#arrow-${tone ?? "edge"})`,
    }),
    label && s("text", { class: "edge-label", x: x2 - 10, y: y2 - 6, "text-anchor": "end" }, label),
  );
}

// thickness shows the amount of traffic.
const thickness = (weight) => (weight > 0 ? (1.5 + Math.min(2, Math.log10(1 + weight))).toFixed(1) : 1.5);

// box is a node.
function box(n) {
  const bold = s("text", { class: "title mono", x: n.x + inner.x, y: n.y + inner.y + 12 }, n.title);
  return s(
    "g", { class: `node node-${n.kind}${n.tone ? ` tone-${n.tone}` : ""}`, "data-name": n.title },
    s("title", {}, [n.title, ...n.lines].join("\n")),
    s("rect", { x: n.x, y: n.y, width: n.w, height: n.h, rx: n.kind === "endpoint" ? 12 : 6 }),
    bold,
    n.share && s("text", { class: "share", x: n.x + n.w - inner.x, y: n.y + inner.y + 12, "text-anchor": "end" }, n.share),
    n.lines.map((l, i) => s("text", { class: "mono", x: n.x + inner.x, y: n.y + inner.y + 12 + (i + 1) * line }, l)),
  );
}

// down places nodes below each other: successors of a node are below it, indented if there
// are several. A node that is drawn already is only named.
function down(way, nodes, width) {
  const indent = 18;
  const parts = [];
  const lines = [];
  const seen = new Map();
  let y = 1;
  const next = (id) => way.edges.filter((e) => e.from === id && e.tone !== "hidden");
  const put = (id, depth, e, alone) => {
    const n = nodes.get(id);
    const x = 1 + depth * indent;
    if (seen.has(id)) return again(n, x, e);
    if (e?.label) {
      parts.push(s("text", { class: "edge-label", x: x + 6, y: y + 11 }, `${e.label}:`));
      y += 18;
    }
    const placed = { ...n, x, y, w: Math.max(width - x - 2, 120) };
    seen.set(id, placed);
    parts.push(box(placed));
    y += n.h + gap.y;
    if (!alone) below(placed, next(id), depth);
    return placed;
  };
  // below draws what follows from a node. Where several lead to the same, only the
  // last of them goes on.
  const below = (from, following, depth) => {
    const goal = (f) => next(f.to).map((e) => e.to).join();
    const joined = following.length > 1 && following.every((f) => goal(f) && goal(f) === goal(following[0]));
    following.forEach((f, i) => {
      const deeper = following.length > 1 && !joined ? depth + 1 : depth;
      const there = put(f.to, deeper, f, joined && i < following.length - 1);
      if (from) lines.push(deeper === depth ? straight(from, there, f) : elbow(from, there, f));
    });
  };
  const again = (n, x, e) => {
    const text = `${e?.label ? `${e.label}: ` : ""}${n.title}, as above`;
    const at = { x, y, w: widthOf(text, true) + 20, h: 22 };
    parts.push(s("text", { class: "mono again", x: x + 6, y: y + 15 }, text));
    y += at.h + gap.y;
    return at;
  };
  below(null, way.stages[0].map((n) => ({ to: n.id })), 0);
  const post = way.nodes.find((n) => n.span);
  if (post) put(post.id, 0, { label: "on the way out" });
  return { width, height: y, parts: [lines, parts] };
}

// Lines of a tree: to the node right below, and to one further right.
const straight = (from, to, e) => s("g", { class: `edge edge-${e.tone ?? "plain"}` }, s("path", { d: `M${from.x + 22} ${from.y + from.h}V${to.y - 1}`, "stroke-width": 1.5 }));

const elbow = (from, to, e) =>
  s("g", { class: `edge edge-${e.tone ?? "plain"}` }, s("path", { d: `M${from.x + 8} ${from.y + from.h}V${to.y + to.h / 2 - 5}q0 5 5 5H${to.x - 1}`, "stroke-width": 1.5 }));
