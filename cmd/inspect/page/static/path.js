// The path of a packet across nodes, and back: a form, and the answer.

import { h, icon, text } from "./dom.js";
import { request } from "./feed.js";
import { drawPath } from "./drawing.js";
import { disagreement } from "./problems.js";

const arrives = {
  always: { icon: "ok", word: "It arrives, and so does the reply" },
  sometimes: { icon: "problem", word: "It arrives sometimes" },
  never: { icon: "reject", word: "It does not arrive" },
  unknown: { icon: "notice", word: "Not certain" },
};

export class PathView {
  title = "Path of a packet";
  path = "api/overview"; // keeps the numbers of the other views

  constructor() {
    const field = (id, label, placeholder) => {
      const input = h("input", { id, name: id, type: "text", placeholder, autocomplete: "off", spellcheck: "false", required: true });
      return [h("label", { for: id }, label), input];
    };
    const [fromLabel, from] = field("from", "From", "pod/shop/cart-7f9, node/node-1, 192.0.2.9");
    const [toLabel, to] = field("to", "To", "svc/shop/web:http, pod/shop/web-1, 10.96.0.10:80/tcp");
    this.from = from;
    this.to = to;
    this.names = h("datalist", { id: "names" });
    to.setAttribute("list", "names");
    this.family = h("select", { id: "family", "aria-label": "IP family" }, h("option", { value: "" }, "both families"), h("option", { value: "IPv4" }, "IPv4"), h("option", { value: "IPv6" }, "IPv6"));
    this.button = h("button", { type: "submit", class: "submit" }, "Follow");
    this.form = h(
      "form", { class: "ask", submit: (e) => this.submitted(e) },
      h("div", { class: "ask-field" }, fromLabel, from), h("span", { class: "ask-arrow", "aria-hidden": "true" }, "→"), h("div", { class: "ask-field" }, toLabel, to), this.names,
      this.family, this.button,
    );
    this.status = h("p", { class: "about", role: "status" });
    this.answer = h("div", { class: "ways" });
    this.node = h(
      "article", { class: "path", "aria-label": "Path of a packet" },
      h("h1", {}, "The path of a packet"),
      h("p", { class: "about" }, "Each node on the path reports what its rules do with the packet and with the reply. No packet is sent."),
      this.form, this.status, this.answer,
    );
  }

  enter() {
    (this.from.value ? this.to : this.from).focus({ preventScroll: true });
  }

  leave() {
    this.running?.abort();
  }

  // choose takes the question of the address, and asks it.
  choose({ from, to, family }) {
    if (from !== undefined) this.from.value = from;
    if (to !== undefined) this.to.value = to;
    this.family.value = ["IPv4", "IPv6"].includes(family) ? family : "";
    if (from && to) this.ask();
    else this.from.focus({ preventScroll: true });
  }

  show(data) {
    if (this.listed === data.services.length) return;
    this.listed = data.services.length;
    this.names.replaceChildren(...data.services.slice(0, 2000).map((s) => h("option", { value: `svc/${s.namespace}/${s.name}` })));
  }

  get query() {
    const query = new URLSearchParams({ from: this.from.value.trim(), to: this.to.value.trim() });
    if (this.family.value) query.set("family", this.family.value);
    return query;
  }

  submitted(event) {
    event.preventDefault();
    const hash = `#/path?${this.query}`;
    if (location.hash === hash) this.ask();
    else location.hash = hash;
  }

  async ask() {
    this.running?.abort();
    const running = (this.running = new AbortController());
    this.button.disabled = true;
    text(this.status, "Asking the nodes…");
    this.status.classList.remove("is-error");
    try {
      const report = await request(`api/path?${this.query}`, running.signal);
      if (running !== this.running) return;
      text(this.status, "");
      this.answer.replaceChildren(...answer(report));
    } catch (error) {
      if (running !== this.running) return;
      this.answer.replaceChildren();
      text(this.status, error.message);
      this.status.classList.add("is-error");
    } finally {
      if (running === this.running) this.button.disabled = false;
    }
  }
}

// answer is what a report shows.
function answer(r) {
  const notes = [...(r.silent ?? []).map((s) => `${s.node} did not answer: ${s.why}`), ...(r.notes ?? [])];
  const differences = (r.differences ?? []).map((d) => ({ ...d, text: d.lag ? `${d.text} (${d.lag})` : d.text }));
  return [...r.ways.map((w) => wayOf(w, r)), disagreement(differences), notes.length ? h("ul", { class: "notes" }, notes.map((n) => h("li", {}, n))) : ""];
}

// wayOf is the path of one packet.
function wayOf(way, report) {
  const result = Object.hasOwn(arrives, way.arrives) ? arrives[way.arrives] : arrives.unknown;
  const causes = (way.causes ?? []).map((c) => h("li", {}, c.object && h("span", { class: "object" }, c.object), c.field && h("code", { class: "field" }, c.field), h("span", {}, c.text)));
  return h(
    "section", { class: "way", "aria-label": `${way.from} to ${way.to}, ${way.family}` },
    h("div", { class: `way-head is-${result.icon}` }, icon(result.icon), h("h2", {}, capital(way.verdict || result.word)), h("p", { class: "way-what" }, `${way.from} → ${way.to}/${way.protocol.toLowerCase()}`, way.service && ` · ${way.service}`, way.kind && ` (${way.kind})`, ` · ${way.family}`)),
    causes.length > 0 && h("ul", { class: "causes" }, causes), drawPath(way, report),
  );
}

const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);
