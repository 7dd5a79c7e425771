// One Service: what is wrong, where its connections come from and go to, its frontends and
// endpoints as the nodes know them.

import { glanceItem as item, h, host, icon, number, plural, rate, text } from "./dom.js";
import { drawFlows, flowsOf } from "./flows.js";
import { nodeLink } from "./nodes.js";
import { Problems } from "./problems.js";
import { History } from "./history.js";

const part = encodeURIComponent;
const verdicts = { Balance: { icon: "ok", word: "balances" }, Reject: { icon: "reject", word: "refuses" }, Drop: { icon: "drop", word: "drops" }, Hold: { icon: "drop", word: "holds" } };
const masquerades = { never: "never", "off-pod": "unless from a pod", always: "always" };

export class ServiceView {
  constructor({ namespace, name }) {
    Object.assign(this, { namespace, name, title: `${namespace}/${name}`, history: new History() });
    this.path = `api/service?namespace=${part(namespace)}&name=${part(name)}`;
    this.packet = `#/path?to=${part(`svc/${namespace}/${name}`)}`;
    this.heading = h("h1", { tabindex: "-1" }, h("span", { class: "of" }, `${namespace} / `), name);
    this.glance = h("div", { class: "glance" });
    this.problems = new Problems();
    this.none = h("p", { class: "empty", hidden: true }, "No node that answers has a Service of this name.");
    this.asked = h("p", { class: "about" });
    this.figure = h("div", { class: "figure" });
    this.frontends = h("div", { class: "frontends" });
    this.endpoints = h("div", { class: "frontends" });
    this.node = h(
      "article", { class: "service", "aria-label": `Service ${this.title}` },
      h("a", { class: "back", href: "#/" }, icon("back"), "Map"),
      h("div", { class: "service-head" }, this.heading, h("a", { class: "plain follow", href: this.packet }, "Follow a packet to it"), this.glance),
      this.problems.node, this.none,
      (this.whole = h(
        "div", { class: "port", hidden: true },
        h("h2", {}, "Where its connections come from, and where they go"), this.asked, h("div", { class: "figure-box" }, this.figure),
        h("h2", {}, "Frontends"), this.frontends, (this.endpointsTitle = h("h2", {}, "Endpoints")), this.endpoints,
      )),
    );
    this.resized = () => this.data && this.draw();
  }

  is({ kind, namespace, name }) {
    return kind === "service" && this.namespace === namespace && this.name === name;
  }

  enter() {
    scrollTo(0, 0);
    addEventListener("resize", this.resized, { passive: true });
    this.heading.focus({ preventScroll: true });
  }

  leave() {
    removeEventListener("resize", this.resized);
  }

  show(data) {
    this.data = data;
    const known = data.nodes.filter((n) => n.known);
    const total = data.nodes.length + data.others;
    this.problems.show(data.problems, total);
    this.none.hidden = known.length > 0;
    this.whole.hidden = known.length === 0;
    if (!known.length) return;
    this.flows = flowsOf(data);
    this.showGlance(data);
    const listed = (words, which) => (which.length ? ` ${words} ${which.map((n) => n.name).join(", ")}.` : "");
    const silent = listed("No answer from", data.nodes.filter((n) => n.error));
    const without = listed("Not known on", data.nodes.filter((n) => !n.error && !n.known));
    const others = data.others ? ` The other ${plural(data.others, "node")}, not asked, have ${rate(data.othersRate)} new/s.` : "";
    text(this.asked, `${plural(data.nodes.length, "node")} asked${data.others ? ", those with the most connections" : ""}.${others}${silent}${without}`);
    this.draw();
    this.showFrontends(known);
    this.showEndpoints(known.length);
  }

  showGlance(data) {
    const rates = this.flows.from.map((n) => n.rate).filter((r) => r !== null);
    const total = rates.length ? rates.reduce((a, b) => a + b, 0) : null;
    const sum = (value) => this.flows.to.reduce((n, e) => n + value(e), 0);
    this.glance.replaceChildren(this.history.note(data.time, total).draw(110, 26), item(rate(total), "new/s"), item(number(sum((e) => e.active)), "active"), item(number(sum((e) => e.total)), "so far"));
  }

  draw() {
    this.figure.replaceChildren(drawFlows(this.flows, `Connections of ${this.title}`, this.figure.clientWidth));
  }

  // showFrontends lists them once, with what they do on which nodes.
  showFrontends(known) {
    const all = new Map();
    for (const n of known) {
      for (const p of n.ports) {
        for (const f of p.frontends ?? []) {
          const key = `${host(f.address, f.port)}/${p.protocol.toLowerCase()}${f.address ? "" : ` ${p.family}`}`;
          const item = all.get(key) ?? { f, p, nodes: new Map() };
          item.nodes.set(f.verdict, [...(item.nodes.get(f.verdict) ?? []), n.name]);
          all.set(key, item);
        }
      }
    }
    const rows = [...all].map(([key, { f, p, nodes }]) => [
      f.address ? h("a", { class: "mono", href: `#/path?to=${part(key)}`, title: "Follow a packet to it" }, key) : h("span", { class: "mono" }, key), f.kind, p.name || "–", f.policy, Object.hasOwn(masquerades, f.masquerade) ? masquerades[f.masquerade] : f.masquerade,
      !f.restricted ? "any" : [...(f.sources ?? []), ...(f.denied ?? []).map((d) => `not ${d}`)].join(", ") || "none", h("span", { class: "on-nodes" }, [...nodes].map(([verdict, names]) => onNodes(verdict, names, known.length))),
    ]);
    table(this.frontends, "Frontends", ["Address", "Kind", "Port", "Policy", "Masquerade", "Sources", "On the nodes"], rows);
  }

  showEndpoints(asked) {
    const used = this.flows.to.filter((e) => e.used).length;
    const more = Math.max(...this.data.nodes.map((n) => n.more ?? 0));
    text(this.endpointsTitle, `Endpoints: ${number(used)} of ${number(this.flows.to.length)} in use${more ? `; ${number(more)} more are not listed` : ""}`);
    const rows = this.flows.to.slice(0, 200).map((e) => [
      h("span", { class: "mono" }, endpointName(e)), e.node ? h("a", { href: nodeLink(e.node) }, e.node) : "–", rate(e.rate), number(e.active), number(e.total), stateOf(e, asked),
    ]);
    table(this.endpoints, "Endpoints", ["Endpoint", "Node", "New/s", "Active", "So far", "State"], rows, [2, 3, 4]);
  }
}

const endpointName = (e) => (e.ports?.[0] ? host(e.address, e.ports[0]) : e.address);

// onNodes is a verdict with the nodes that have it.
function onNodes(verdict, names, asked) {
  const v = Object.hasOwn(verdicts, verdict) ? verdicts[verdict] : { icon: "none", word: verdict };
  const where = names.length === asked ? (asked > 1 ? ` on all ${asked}` : ` on ${names[0]}`) : ` on ${names.slice(0, 3).join(", ")}${names.length > 3 ? `, … (${names.length})` : ""}`;
  return h("span", { class: `status status-${v.icon}` }, icon(v.icon), h("span", {}, v.word + where));
}

// stateOf returns whether nodes use an endpoint.
function stateOf(e, asked) {
  const kind = e.used ? "ok" : "none";
  const some = e.used && e.used < asked ? ` by ${number(e.used)} of ${plural(asked, "node")}` : "";
  const reason = e.reasons.size ? [...e.reasons].join("; ") : "";
  return h("span", { class: `status status-${kind}` }, icon(kind), h("span", {}, e.used ? `in use${some}${some && reason ? `; elsewhere: ${reason}` : ""}` : reason));
}

// table fills a place with a table; right are the columns of numbers.
function table(place, label, columns, rows, right = []) {
  const kind = (i) => right.includes(i) && "f-num";
  place.replaceChildren(h(
    "table", { "aria-label": label },
    h("thead", {}, h("tr", {}, columns.map((c, i) => h("th", { scope: "col", class: kind(i) }, c)))),
    h("tbody", {}, rows.map((r) => h("tr", {}, r.map((cell, i) => h("td", { "data-label": columns[i], class: kind(i) }, cell))))),
  ));
}
