// The path of a packet, drawn: the client, its node, the nodes of the endpoints and the
// endpoints, from left to right. Texts are elements that a screen reader reads in this order; the
// arrows there and back, which the style sheet adds by data-go and data-back, are for the eye.

import { h, host, icon } from "./dom.js";

const percent = new Intl.NumberFormat("en-GB", { style: "percent", maximumFractionDigits: 1 });
const shownSteps = 6;
const mostEndpoints = 10;

// drawPath returns the element of a path.
export function drawPath(way, report) {
  const client = box("client", name(report.from) || way.from, [way.from, report.from.node && `on ${report.from.node}`]);
  const all = (way.endpoints ?? []).map((e) => ({ ...e, address: host(e.address, e.port) }));
  const rows = all.slice(0, mostEndpoints).map((e) => {
    const shown = box("endpoint", e.pod ? `pod/${e.pod}` : e.address, [e.pod && e.address, e.node && `on ${e.node}`, e.sees && `sees ${e.client || e.sees}`], percent.format(e.probability), e.arrives);
    const reply = replyOf(e);
    if (reply) shown.append(h("p", { class: `reply${e.arrives === "never" ? " is-bad" : ""}` }, reply));
    return [e.there && lane(e.there, "the endpoint's node", e.arrives, e), shown];
  });
  const more = all.length - rows.length;
  return h(
    "div", { class: `way-grid ${rows.some(([there]) => there) ? "has-there" : ""}` },
    h("div", {}, client), h("div", {}, lane(way.client, "the client's node", way.arrives)),
    h("ol", { class: "way-rows" }, rows.map(([there, shown]) => h("li", { class: there ? "" : "is-direct" }, there, shown)), more > 0 && h("li", { class: "is-direct" }, h("p", { class: "hint" }, `and ${more} more endpoints`)), rows.length === 0 && h("li", { class: "is-direct" }, ending(way))),
  );
}

// arrows are the attributes of what packets reach, and whether replies come back.
const arrows = (arrives, good = arrives !== "never") => ({ "data-go": good ? "good" : "bad", "data-back": arrives !== "never" });

// name is a pod, node or Service as it is written in the form.
const name = (p) => (p.kind === "address" || !p.name ? "" : p.namespace ? `${p.kind}/${p.namespace}/${p.name}` : `${p.kind}/${p.name}`);

// box is where the packet begins or ends.
function box(kind, title, lines, share, arrives) {
  const bad = arrives === "never" ? " is-bad" : "";
  return h(
    "div", { class: `stop stop-${kind}${bad}`, ...(arrives && arrows(arrives)) },
    h("p", { class: "stop-title" }, h("b", {}, title), share && h("span", { class: "share" }, share)), lines.filter(Boolean).map((l) => h("p", {}, l)),
  );
}

// ending is where a packet ends that reaches no endpoint.
function ending(way) {
  const outcome = way.client.answer?.outcomes?.[0];
  const verdict = outcome?.verdict ?? "not known";
  const kind = verdict === "refused" ? "reject" : verdict === "not a Service" ? "none" : "drop";
  return h("div", { class: `stop ending ${kind === "none" ? "" : "is-bad"}`, ...arrows("never") }, h("p", { class: "stop-title" }, icon(kind), h("b", {}, verdict)), (outcome?.because || outcome?.how) && h("p", {}, outcome.because || outcome.how));
}

// replyOf returns what becomes of the packet there and of the reply.
function replyOf(e) {
  if (e.why) return e.why;
  if (e.reply?.verdict === "delivered") return `the reply comes from ${e.reply.from}`;
  return e.reply ? `the reply is ${e.reply.verdict}` : null;
}

// lane is a node with what its rules do, step by step.
function lane(leg, role, arrives, endpoint) {
  const answer = leg?.answer;
  const steps = (answer?.steps ?? []).filter((st) => !st.for || !endpoint || st.for === endpoint.address);
  const items = steps.map((st) => h("li", {}, h("span", { class: "hook" }, st.back ? `← ${st.hook}` : st.hook), h("span", { class: "chain" }, st.chain || st.table || ""), h("span", { class: "what" }, st.text, st.alike ? ` (and ${st.alike} alike)` : "")));
  return h(
    "div", { class: "lane", ...arrows(arrives, true) },
    h("p", { class: "lane-title" }, h("b", {}, leg?.node || "outside"), h("span", {}, role)),
    answer ? (items.length ? h("ol", { class: "steps" }, items.slice(0, shownSteps)) : h("p", { class: "hint" }, "no rule matches: it passes")) : h("p", { class: "hint" }, leg?.node ? "it did not answer" : "not a node of the cluster"),
    items.length > shownSteps && h("details", {}, h("summary", {}, `${items.length - shownSteps} more steps`), h("ol", { class: "steps" }, items.slice(shownSteps))),
  );
}
