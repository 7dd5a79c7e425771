// One Service: what is wrong, its frontends, the way of a packet, its endpoints.

import { h, icon, number, rate, spark, text } from "./dom.js";
import { draw } from "./draw.js";
import { problemItem } from "./overview.js";
import { Rates, length, readAt } from "./rates.js";
import { Table, compareText } from "./table.js";
import { host, walk } from "./walk.js";

const portKey = (p) => [p.name, p.protocol, p.family].filter(Boolean).join("-");
const frontendKey = (f) => `${f.kind}-${f.address ?? ""}-${f.port}`;
const shownAt = (f) => (f.address ? host(f.address, f.port) : `*:${f.port}`);
const part = encodeURIComponent;

const masquerades = { never: "never", "off-pod": "unless from a pod", always: "always" };
const verdicts = {
  Balance: { icon: "ok", word: "balances" },
  Reject: { icon: "reject", word: "refuses" },
  Drop: { icon: "drop", word: "drops" },
};

export class Service {
  constructor({ namespace, name }) {
    Object.assign(this, { namespace, name, title: `${namespace}/${name}`, rates: new Rates() });
    this.path = `api/document?namespace=${part(namespace)}&name=${part(name)}`;
    this.heading = h("h1", { tabindex: "-1" }, h("span", { class: "of" }, `${namespace} / `), name);
    this.totals = h("div", { class: "glance" });
    this.problems = h("ul", {});
    this.problemBox = h("section", { class: "problems", "aria-label": "Problems", hidden: true }, this.problems);
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Ports", keydown: (e) => this.tabKeys(e) });
    this.about = h("p", { class: "about" });
    this.frontends = h("div", { class: "frontends" });
    this.figure = h("div", { class: "figure" });
    this.words = h("ol", {});
    this.looks = h("div", { class: "looks" });
    this.table = this.endpoints();
    this.port = h(
      "div", { class: "port", id: "port", role: "tabpanel" }, this.about,
      h("h2", {}, "Frontends"), this.frontends,
      h("h2", {}, "The path of a packet"),
      h("div", { class: "walk-box" }, this.figure, h("div", { class: "aside" }, h("details", {}, h("summary", {}, "In words"), this.words), h("details", {}, h("summary", {}, "In the kernel"), this.looks))),
      (this.endpointsTitle = h("h2", {}, "Endpoints")), this.table.place,
    );
    this.none = h("p", { class: "empty", hidden: true }, "There is no Service of this name here. It may have been deleted, or not be there yet.");
    this.node = h(
      "article", { class: "service", "aria-label": `Service ${this.title}` },
      h("a", { class: "back", href: "#/" }, icon("back"), "Services"), h("div", { class: "service-head" }, this.heading, this.totals),
      this.problemBox, this.none, (this.whole = h("div", { hidden: true }, this.tabs, this.port)),
    );
    this.resized = () => this.document && this.render();
  }

  is({ namespace, name }) {
    return this.namespace === namespace && this.name === name;
  }

  enter() {
    scrollTo(0, 0);
    this.table.attach();
    addEventListener("resize", this.resized, { passive: true });
    this.heading.focus({ preventScroll: true });
  }

  leave() {
    this.table.detach();
    removeEventListener("resize", this.resized);
  }

  // choose takes the port and the frontend that the address names.
  choose({ port, frontend }) {
    Object.assign(this, { wantedPort: port, wantedFrontend: frontend });
    if (this.document) this.render();
  }

  endpoints() {
    const by = (value) => (a, b) => (value(a) ?? -1) - (value(b) ?? -1);
    const plain = (value) => (cell, e) => text(cell, value(e));
    const slot = (n) => (n === undefined || n === null ? "–" : String(n));
    return new Table({
      id: "endpoints", label: "Endpoints", height: { wide: 40, narrow: 66 }, sorted: { key: "slot", direction: 1 },
      key: (e) => host(e.address, e.port), empty: () => "There are no endpoints.",
      columns: [
        { key: "endpoint", label: "Endpoint", compare: (a, b) => compareText(order(a), order(b)), cell: plain((e) => host(e.address, e.port)) },
        { key: "slot", label: "Slot", compare: (a, b) => (a.slot ?? a.localSlot ?? 1e9) - (b.slot ?? b.localSlot ?? 1e9), cell: plain((e) => slot(e.slot)) },
        { key: "local", label: "Local slot", compare: (a, b) => (a.localSlot ?? 1e9) - (b.localSlot ?? 1e9), cell: plain((e) => slot(e.localSlot)) },
        { key: "node", label: "Node", compare: (a, b) => compareText(a.node ?? "", b.node ?? ""), cell: plain((e) => e.node || "–") },
        { key: "rate", label: "New/s", first: -1, compare: by((e) => e.rate), cell: plain((e) => rate(e.rate)) },
        { key: "active", label: "Active", first: -1, compare: by((e) => e.active), cell: plain((e) => number(this.counted ? e.active : null)) },
        { key: "connections", label: "So far", first: -1, compare: by((e) => e.connections), cell: plain((e) => number(this.counted ? e.connections : null)) },
        { key: "status", label: "State", compare: (a, b) => compareText(a.reason ?? "", b.reason ?? ""), cell: stateCell },
      ],
    });
  }

  show(data) {
    this.document = data;
    this.counted = data.counted;
    this.service = (data.services ?? []).find((s) => s.namespace === this.namespace && s.name === this.name);
    if (this.service) complete(this.service);
    if (this.service) this.count(data);
    this.render();
  }

  // count takes what was counted of the Service and of all its parts.
  count(data) {
    const counts = new Map();
    let total = 0;
    for (const p of this.service.ports) {
      total += p.connections;
      for (const f of p.frontends) counts.set(`${portKey(p)} ${frontendKey(f)}`, f.connections);
      for (const e of p.endpoints) counts.set(`${portKey(p)} to ${host(e.address, e.port)}`, e.connections);
    }
    counts.set("", total);
    if (this.rates.take(readAt(data), counts)) this.rates.note("", this.rates.of(""));
  }

  rateOf(key) {
    return this.counted ? this.rates.of(key) : null;
  }

  get chosenPort() {
    const { ports } = this.service;
    return ports.find((p) => portKey(p) === this.wantedPort) ?? ports[0];
  }

  chosenFrontend(port) {
    return port.frontends.find((f) => frontendKey(f) === this.wantedFrontend) ?? port.frontends[0];
  }

  link(port, frontend) {
    const parts = [this.namespace, this.name, portKey(port)];
    if (frontend) parts.push(frontendKey(frontend));
    return "#/" + parts.map(part).join("/");
  }

  render() {
    const s = this.service;
    this.none.hidden = Boolean(s);
    this.whole.hidden = !s?.ports.length;
    this.problemBox.hidden = !s?.problems?.length;
    this.totals.replaceChildren();
    if (!s) return;
    this.glance(s);
    const problems = s.problems ?? [];
    this.problems.replaceChildren(...problems.map(problemItem));
    if (!s.ports.length) return;
    const port = this.chosenPort;
    this.renderTabs(s.ports, port);
    this.renderAbout(port);
    const frontend = this.chosenFrontend(port);
    this.renderFrontends(port, frontend);
    if (frontend) this.renderWalk(port, frontend);
    for (const e of port.endpoints) e.rate = this.rateOf(`${portKey(port)} to ${host(e.address, e.port)}`);
    const all = (share) => port.endpoints.reduce((n, e) => n + (e[share] ?? 0), 0);
    const [cluster, local] = [all("share"), all("localShare")];
    for (const e of port.endpoints) e.part = e.share ? e.share / cluster : e.localShare ? e.localShare / local : null;
    const used = port.endpoints.filter((e) => !e.reason || e.reason === "Busy").length;
    text(this.endpointsTitle, `Endpoints: ${number(used)} of ${number(port.endpoints.length)} in use`);
    this.table.show(port.endpoints);
  }

  glance(s) {
    if (!this.counted) {
      this.totals.append(h("p", {}, "Connections are not counted."));
      return;
    }
    const sum = (value) => s.ports.reduce((n, p) => n + value(p), 0);
    const item = (value, words) => h("p", {}, h("strong", {}, value), ` ${words}`);
    this.totals.append(
      spark(this.rates.history(""), length, 110, 26),
      item(rate(this.rates.of("")), "new/s"), item(number(sum((p) => p.active)), "active"), item(number(sum((p) => p.connections)), "so far"),
    );
  }

  renderTabs(ports, chosen) {
    const keys = ports.map(portKey).join(" ");
    if (keys !== this.tabKeysShown) {
      this.tabKeysShown = keys;
      this.tabs.replaceChildren(...ports.map((p) => h(
        "a", { role: "tab", id: `tab-${portKey(p)}`, href: this.link(p), "aria-controls": "port" },
        h("strong", {}, p.name || String(p.frontends[0]?.port ?? "")), ` ${p.protocol} ${p.family}`,
      )));
    }
    [...this.tabs.children].forEach((tab, i) => {
      const on = ports[i] === chosen;
      tab.setAttribute("aria-selected", on);
      tab.tabIndex = on ? 0 : -1;
    });
    this.port.setAttribute("aria-labelledby", `tab-${portKey(chosen)}`);
  }

  tabKeys(event) {
    const tabs = [...this.tabs.children];
    const to = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!to) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(document.activeElement) + to + tabs.length) % tabs.length];
    next.focus();
    next.click();
  }

  renderAbout(port) {
    const words = { random: "An endpoint is picked at random", rr: "Endpoints take turns (rr)", sh: "An endpoint is picked by the client's address (sh)", mh: "An endpoint is picked by the client's address and port, alike on every node (mh)", lc: "An endpoint is picked at random; those with fewer active connections have larger shares (lc)" };
    const sticky = port.affinitySeconds ? `; a client keeps its endpoint for ${duration(port.affinitySeconds)}` : "";
    text(this.about, `${Object.hasOwn(words, port.scheduler) ? words[port.scheduler] : port.scheduler}${sticky}.`);
  }

  renderFrontends(port, chosen) {
    const columns = ["Address", "Kind", "Policy", "Masquerade", "Sources", "New/s", "Active", "So far", "Verdict"];
    const shape = port.frontends.map((f) => frontendKey(f)).join(" ") + portKey(port);
    if (shape !== this.shape) {
      this.shape = shape;
      this.rows = port.frontends.map((f) => {
        const cells = columns.map((c, i) => h("td", { "data-label": c, class: `f-${i}` }));
        const link = h("a", { href: this.link(port, f), class: "mono" }, shownAt(f));
        cells[0].append(link);
        return { cells, link, node: h("tr", { click: (e) => e.target.closest("a") || link.click() }, cells) };
      });
      this.frontends.replaceChildren(h(
        "table", { "aria-label": "Frontends; the chosen one's way is drawn below" },
        h("thead", {}, h("tr", {}, columns.map((c, i) => h("th", { scope: "col", class: `f-${i}` }, c)))), h("tbody", {}, this.rows.map((r) => r.node)),
      ));
    }
    port.frontends.forEach((f, i) => this.renderFrontend(port, f, this.rows[i], f === chosen));
  }

  renderFrontend(port, f, { cells, link, node }, chosen) {
    node.classList.toggle("is-chosen", chosen);
    if (chosen) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    const sources = !f.restricted ? "any" : (f.sources ?? []).join(", ") || "none";
    const values = [
      f.kind, f.policy, masqueraded(f), sources,
      rate(this.rateOf(`${portKey(port)} ${frontendKey(f)}`)), number(this.counted ? f.active : null), number(this.counted ? f.connections : null),
    ];
    values.forEach((v, n) => text(cells[n + 1], v));
    const verdict = Object.hasOwn(verdicts, f.verdict) ? verdicts[f.verdict] : { icon: "none", word: f.verdict };
    if (cells[8].shownVerdict !== f.verdict) {
      cells[8].shownVerdict = f.verdict;
      cells[8].replaceChildren(h("span", { class: `status status-${verdict.icon}` }, icon(verdict.icon), h("span", {}, verdict.word)));
    }
  }

  renderWalk(port, frontend) {
    const way = walk(port, frontend, (e) => this.rateOf(`${portKey(port)} to ${host(e.address, e.port)}`));
    const label = `The path of a packet to ${shownAt(frontend)}/${port.protocol}: ${way.words.join(" ")}`;
    this.figure.replaceChildren(draw(way, this.figure.clientWidth, label));
    if (way.words.join() !== this.saidWords) {
      this.saidWords = way.words.join();
      this.words.replaceChildren(...way.words.map((w) => h("li", {}, w)));
    }
    const looks = way.looks.join("\n");
    if (looks !== this.shownLooks) {
      this.shownLooks = looks;
      this.looks.replaceChildren(h("pre", { tabindex: "0", "aria-label": "Commands that show it in the kernel" }, looks));
    }
  }

  // press moves to the next frontend or the one before.
  press(k) {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[k];
    if (!step || !this.service?.ports.length || (k.startsWith("Arrow") && !this.frontends.contains(document.activeElement))) return false;
    const port = this.chosenPort;
    const i = port.frontends.indexOf(this.chosenFrontend(port)) + step;
    const next = port.frontends[i];
    if (next) {
      this.wantedFrontend = frontendKey(next); // there may be another key before the address is read
      location.replace(this.link(port, next));
    }
    return Boolean(next);
  }
}

// masqueraded returns which clients are masqueraded. With Local policy, an external
// address treats this node itself like Cluster policy.
const masqueraded = (f) =>
  f.kind !== "ClusterIP" && f.policy === "Local" && f.masquerade === "never" ? "this node's only" : Object.hasOwn(masquerades, f.masquerade) ? masquerades[f.masquerade] : f.masquerade;

// duration is a time in the largest units that it is made of.
function duration(seconds) {
  const parts = [["h", 3600], ["min", 60], ["s", 1]].map(([unit, size], i, all) => {
    const n = Math.floor((i ? seconds % all[i - 1][1] : seconds) / size);
    return n ? `${n} ${unit}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

// complete puts empty lists where a document has none at all.
function complete(s) {
  s.ports ??= [];
  for (const p of s.ports) {
    p.frontends ??= [];
    p.endpoints ??= [];
  }
}

function stateCell(cell, e) {
  const words = e.reason ? e.reason : e.terminating ? "in use, terminating" : "in use";
  const part = e.part ? `, gets ${percent.format(e.part)}` : "";
  const state = e.reason ? "none" : "ok";
  const now = `${state} ${words}${part}`;
  if (cell.now === now) return;
  cell.now = now;
  cell.replaceChildren(h("span", { class: `status status-${state}` }, icon(state), h("span", {}, words + part)));
  cell.title = [words, e.zoneHints?.length && `zones: ${e.zoneHints.join(", ")}`, e.nodeHints?.length && `nodes: ${e.nodeHints.join(", ")}`].filter(Boolean).join("\n");
}

const percent = new Intl.NumberFormat("en-GB", { style: "percent", maximumFractionDigits: 1 });

const order = (e) => `${e.address.replace(/\d+/g, (n) => n.padStart(5, "0"))} ${String(e.port).padStart(5, "0")}`;

