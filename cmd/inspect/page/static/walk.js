// The path of a packet to one frontend, as chains and maps: names are those that
// `nft list ruleset` shows (kube-vmap/nft, names.go). Nothing is drawn here; a way is
// nodes in stages, from left to right, and edges between them.
//
//	source-check -> hook -> map -> chains -> ep-K -> postrouting -> endpoint
//	if restricted     `-> filter -> no-endpoint-services -> reject, drop

import { rate } from "./dom.js";

const maxSlots = 255; // kube-vmap/nft MaxSlots
const maglevSize = 251; // kube-vmap/nft maglevSize
const drawn = 8; // endpoints that are drawn; the table below has them all

// method is how one of n endpoints is picked, by the word in names of chains.
export function method(port, n) {
  if (port.affinitySeconds > 0) return "sticky";
  if (n < 2) return "lb";
  if (port.scheduler === "rr") return "rr";
  if (port.scheduler === "sh" && n <= maxSlots) return "sh";
  if (port.scheduler === "mh" && n <= maglevSize) return "maglev";
  return "lb";
}

// slotClass is the next power of two.
const slotClass = (n) => (n < 2 ? n : 2 ** Math.ceil(Math.log2(n)));

// chain is the name of a chain, "node-port-external-rr-3" for instance.
export function chain(word, n, { by = "lb", local = false, nodePort = false, seconds = 0 } = {}) {
  const middle = word === "balance" ? by : by === "lb" ? word : `${word}-${by}`;
  const slots = { maglev: maglevSize, sticky: slotClass(n) }[by] ?? n;
  return `${nodePort ? "node-port-" : ""}${local ? "local-" : ""}${middle}-${slots}${by === "sticky" ? `-${seconds}s` : ""}`;
}

// slotted are the endpoints with a slot, in their order.
export const slotted = (port, local) =>
  port.endpoints.filter((e) => slotOf(e, local) !== undefined).sort((a, b) => slotOf(a, local) - slotOf(b, local));

const slotOf = (e, local) => (local ? e.localSlot : e.slot) ?? undefined;

// shareOf is how many slots lead to an endpoint.
const shareOf = (e, local) => (local ? e.localShare : e.share) || 1;

// slotCount is how many slots endpoints have.
const slotCount = (list, local) => list.reduce((n, e) => n + shareOf(e, local), 0);

// host is an address with its port.
export const host = (address, port) => (address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`);

// walk returns the path to a frontend of a port. rates returns the rate of an endpoint.
export function walk(port, frontend, rates = () => null) {
  return new Way(port, frontend, rates).make();
}

class Way {
  constructor(port, frontend, rates) {
    Object.assign(this, { port, frontend, rates, nodes: [], edges: [], words: [], looks: [] });
    this.table = port.family === "IPv6" ? "ip6 kube-vmap" : "ip kube-vmap";
    this.ip = port.family === "IPv6" ? "ip6" : "ip";
    this.protocol = port.protocol.toLowerCase();
    this.owner = frontend.kind === "ClusterIP";
    this.nodePort = frontend.kind === "NodePort" || !frontend.address;
    this.cluster = slotted(port, false);
    this.local = slotted(port, true);
    this.circuit = !this.owner && frontend.policy === "Local" && this.cluster.length > 0;
  }

  node(id, kind, title, lines = [], more = {}) {
    this.nodes.push({ id, kind, title, lines: lines.filter(Boolean), ...more });
    return id;
  }

  edge(from, to, label, tone) {
    this.edges.push({ from, to, label, tone });
  }

  say(text) {
    this.words.push(text);
  }

  // look notes a command that shows something of it.
  look(what, name, key) {
    const command = key ? `nft get element ${this.table} ${name} '{ ${key} }'` : `nft list ${what} ${this.table} ${name}`;
    if (!this.looks.includes(command)) this.looks.push(command);
  }

  chainNode(name, lines, more) {
    this.look("chain", name);
    return this.node(name, "chain", name, lines, more);
  }

  // key is what a packet to the frontend carries, as maps have it.
  key(f = this.frontend) {
    return f.address ? `${f.address} . ${this.protocol} . ${f.port}` : `${this.protocol} . ${f.port}`;
  }

  map(name, target, more) {
    const key = this.key();
    this.look("map", name, key);
    const goal = target?.length > 18 ? [": goto", target.replace("goto ", "")] : target && [`: ${target}`];
    return this.node(name, "map", `map ${name}`, [key, goal].flat(), more);
  }

  make() {
    const served = this.frontend.verdict === "Balance" || this.circuit;
    const hooks = this.arrive(served);
    if (served) this.served(hooks);
    else this.refused(hooks);
    const { nodes, edges, words, looks } = this;
    return { nodes, edges, words, looks, stages: stagesOf(nodes, edges) };
  }

  // arrive draws how packets come in, up to the hooks of translation.
  arrive(served) {
    const check = this.frontend.restricted ? this.sources() : null;
    return [["nat-prerouting", "pods, other hosts"], ["nat-output", "this node itself"]].map(([name, who]) => {
      const hook = this.hook(name, [who, this.nodePort && `${this.ip} daddr @node-ips`, !served && "no element"]);
      if (check) this.edge(check, hook);
      return hook;
    });
  }

  // sources draws who may come.
  sources() {
    const sources = this.frontend.sources ?? [];
    const few = sources.slice(0, 3).map((p) => `from ${p}`);
    if (sources.length > few.length) few.push(`and ${sources.length - few.length} more`);
    this.say(`In chain source-check, new connections from other sources than ${sources.join(", ") || "none at all"} are dropped.`);
    this.look("map", "restricted", this.key());
    return this.chainNode("source-check", few.length ? [...few, "others: drop"] : ["all: drop"], { tone: "mark" });
  }

  hook(name, lines = []) {
    this.look("chain", name);
    return this.node(name, "hook", name, lines);
  }

  served(hooks) {
    const n = slotCount(this.cluster, false);
    const name = this.nodePort ? "node-ports" : "services";
    const target = this.target();
    const map = this.map(name, `goto ${target}`);
    hooks.forEach((hook) => this.edge(hook, map));
    this.say(`Map ${name} has ${this.key()} and leads to chain ${target}.`);
    this.post = this.node("nat-postrouting", "hook", "nat-postrouting", [], { span: true });
    const marks = this.owner ? this.toOwner(map, target) : this.toExternal(map, target, n);
    const post = this.nodes.find((x) => x.id === this.post);
    post.lines = marks ? ["marked:", "masquerade"] : ["source stays"];
    this.say(`${marks ? "What is not marked keeps" : "The client keeps"} its address, but for a pod that reaches itself, which is masqueraded.`);
  }

  target() {
    const { owner, nodePort, circuit, frontend } = this;
    const local = owner && frontend.policy === "Local";
    const n = slotCount(local ? this.local : this.cluster, local);
    const word = circuit ? "external-local" : !owner ? "external" : { always: "masquerade", "off-pod": "cluster" }[frontend.masquerade] ?? "balance";
    return this.named(word, n, { local, nodePort });
  }

  // named is the name of the port's chain for n slots.
  named(word, n, more) {
    return chain(word, n, { by: method(this.port, n), seconds: this.port.affinitySeconds, ...more });
  }

  // toOwner draws the way from the ClusterIP; true if something is marked.
  toOwner(map, target) {
    const local = this.frontend.policy === "Local";
    const marks = this.frontend.masquerade !== "never";
    let from = map;
    if (marks) {
      const always = this.frontend.masquerade === "always";
      from = this.chainNode(target, [!always && "not from a pod:", "mark"], { tone: "mark" });
      this.edge(map, from, null);
      this.say(`Chain ${target} marks ${always ? "everything" : "what does not come from a pod"} for masquerade: nat-postrouting then makes its source this node's.`);
    }
    this.balance(from, local);
    return marks;
  }

  // toExternal draws the way from any other address; true if something is marked.
  toExternal(map, target, n) {
    const external = this.named("external", n, { nodePort: this.nodePort });
    const service = this.service(n, false);
    if (!this.circuit) {
      this.external(external);
      this.edge(map, external);
      this.edge(external, service);
      this.balance(service, false);
      return true;
    }
    this.chainNode(target, ["which client?"]);
    this.edge(map, target);
    this.external(external);
    this.edge(target, external, "this node");
    this.edge(target, service, "pods");
    this.edge(external, service);
    this.say(`Chain ${target} treats pods and this node as under Cluster policy: they may reach all endpoints.`);
    this.balance(service, false);
    this.others(target);
    return true;
  }

  external(name) {
    this.chainNode(name, ["mark"], { tone: "mark" });
    this.say(`Chain ${name} marks for masquerade: nat-postrouting then makes the source this node's.`);
  }

  // service draws the chain that makes the ClusterIP the destination.
  service(n, local) {
    const ip = this.port.frontends.find((f) => f.kind === "ClusterIP");
    const name = this.named("service", n, { local, nodePort: this.nodePort });
    const behind = ip ? host(ip.address, ip.port) : "the ClusterIP";
    this.chainNode(name, [`to ${behind}`]);
    this.say(`Chain ${name} makes ${behind} the destination, under which the endpoints are kept.`);
    return name;
  }

  // others draws what those find, under Local policy, who are neither pods nor the
  // node.
  others(from) {
    const name = this.nodePort ? "local-node-ports" : "local-services";
    const n = slotCount(this.local, true);
    if (this.frontend.verdict === "Balance" && n > 0) {
      const service = this.named("service", n, { local: true, nodePort: this.nodePort });
      this.map(name, `goto ${service}`);
      this.edge(from, name, "others");
      this.say(`Others find endpoints of this node only, by map ${name}, and keep their address.`);
      this.service(n, true);
      this.edge(name, service);
      this.balance(service, true);
      return;
    }
    this.node(name, "map", `map ${name}`, ["no element"]);
    this.edge(from, name, "others");
    this.refusal(name);
  }

  // balance draws how an endpoint is picked, and the endpoints.
  balance(from, local) {
    const list = local ? this.local : this.cluster;
    const n = slotCount(list, local);
    const by = method(this.port, n);
    const name = this.named("balance", n, { local });
    this.chainNode(name, this.picks(by, n));
    this.edge(from, name);
    this.say(`Chain ${name} picks ${pickWords(by, n)}.`);
    if (by === "sticky" || n > maxSlots) {
      this.many(name, list, n, local, by);
      return;
    }
    const shown = list.length > drawn ? list.slice(0, drawn - 1) : list;
    shown.forEach((e, k) => this.slot(name, e, n, local, by, k));
    if (list.length > shown.length) this.rest(name, list, shown.length, local);
  }

  picks(by, n) {
    const { ip } = this;
    if (n === 1) return ["the only one"];
    return {
      lb: ["numgen random", `mod ${n}`], rr: ["numgen inc", `mod ${n}`], sh: [`jhash ${ip} saddr`, `mod ${n}`],
      maglev: [`jhash ${ip} saddr`, `. th sport mod ${maglevSize}`], sticky: ["remembered, or", "numgen random", `mod ${slotClass(n)}`],
    }[by];
  }

  slot(from, e, n, local, by, order) {
    const k = slotOf(e, local);
    const prefix = local ? "local-" : "";
    const name = `${prefix}ep-${k}`;
    this.look("chain", name);
    const owner = this.port.frontends.find((f) => f.kind === "ClusterIP");
    if (order < 3 && owner) this.look("map", `${prefix}endpoints-${k}`, this.key(owner));
    const slots = shareOf(e, local);
    this.node(name, "slot", name, [slots > 1 ? `and ${slots - 1} more slots` : `${prefix}endpoints-${k}`], { share: share(n / slots, by) });
    this.edge(from, name, null);
    this.endpoint(name, e);
  }

  // endpoint draws where a slot leads to, once for however many slots.
  endpoint(from, e) {
    const id = `to ${host(e.address, e.port)}`;
    const now = this.rates(e);
    if (!this.nodes.some((n) => n.id === id)) {
      const traffic = now === null ? null : `${rate(now)}/s, ${e.active} active`;
      this.node(id, "endpoint", host(e.address, e.port), [[e.node, traffic].filter(Boolean).join(" · ") || " "]);
    }
    this.pass(from, id, now);
  }

  // pass leads by way of nat-postrouting.
  pass(from, to, weight = null) {
    this.edge(from, this.post, null, "hidden");
    this.edge(this.post, to, null, "hidden");
    this.edges.push({ from, to, weight, tone: "pass" });
  }

  rest(from, list, first, local) {
    const word = `${local ? "local-" : ""}ep`;
    const id = `rest ${word}`;
    const more = list.length - first;
    const slots = slotCount(list.slice(first), local);
    const title = slots === more ? `${word}-${first} … ${list.length - 1}` : `${word}-…`;
    this.node(id, "slot", title, [`${slots} more slots`]);
    this.node(`to ${id}`, "endpoint", `${more} more endpoints`, ["in the table below"]);
    this.edge(from, id);
    this.pass(id, `to ${id}`);
  }

  // many draws a map of all slots, and the endpoints.
  many(from, list, n, local, by) {
    const prefix = local ? "local-" : "";
    let name = `${prefix}${by === "sticky" ? "sticky-numbers" : "endpoints-many"}`;
    this.look("map", name);
    this.node(name, "map", `map ${name}`, [`0 … ${n - 1}`]);
    this.edge(from, name);
    if (by === "sticky") name = this.known(name, prefix);
    const shown = list.length > drawn ? list.slice(0, drawn - 1) : list;
    shown.forEach((e) => this.endpoint(name, e));
    if (list.length === shown.length) return;
    const id = `to more ${name}`;
    this.node(id, "endpoint", `${list.length - shown.length} more endpoints`, ["in the table below"]);
    this.pass(name, id);
  }

  // known draws what leads from the number of an endpoint, picked or remembered, to it.
  known(numbers, prefix) {
    const [clients, endpoints, name] = ["affinity", "sticky-endpoints", "sticky-endpoint"].map((word) => prefix + word);
    this.look("map", clients);
    this.look("map", endpoints);
    this.chainNode(name, [`map ${endpoints}`]);
    this.edge(numbers, name);
    this.say(`Map ${clients} remembers the number of the endpoint for the client; map ${endpoints} has the endpoint.`);
    return name;
  }

  // refused draws what happens to everybody where nothing is translated.
  refused([prerouting, output]) {
    const input = this.nodePort;
    const forward = this.hook(input ? "filter-input" : "filter-forward", ["new connections"]);
    this.edge(prerouting, forward);
    const own = input ? forward : this.hook("filter-output", ["new connections"]);
    this.edge(output, own);
    this.say("Nothing is translated. New connections then meet the filter hooks.");
    if (input) {
      this.refusal(forward);
      return;
    }
    const check = this.chainNode("service-check", []);
    this.edge(forward, check);
    this.edge(own, check);
    this.refusal(check);
  }

  // refusal draws the verdict on those who find no endpoint.
  refusal(from) {
    const name = this.nodePort ? "no-endpoint-node-ports" : "no-endpoint-services";
    const reject = this.frontend.verdict === "Reject";
    this.map(name, reject ? "goto reject-chain" : "drop", { tone: "bad" });
    this.edge(from, name, null, "bad");
    if (reject) this.look("chain", "reject-chain");
    const lines = reject ? ["TCP: reset", "else: port unreachable"] : ["no endpoint on", "this node: silence"];
    this.node("verdict", "bad", reject ? "reject-chain" : "drop", lines, { tone: "bad" });
    this.edge(name, "verdict", null, "bad");
    this.say(
      reject
        ? `Map ${name} leads to reject-chain: there is no endpoint anywhere, and the client gets an error immediately.`
        : `Map ${name} drops: there are endpoints, but none that this node may use for it.`,
    );
  }
}

// share is how much of the traffic a slot gets, in the long run.
function share(n, by) {
  const percent = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 }).format(100 / n);
  return `${by === "maglev" ? "≈ " : ""}${percent} %`;
}

const pickWords = (by, n) =>
  n === 1 ? "the only endpoint" : {
    lb: `one of ${n} slots at random`, rr: `${n} slots in turn`, sh: `one of ${n} slots by the client's address`,
    maglev: "a slot by the client's address and port, as Maglev does", sticky: `the endpoint that the client has, or else one of ${n} slots at random`,
  }[by];

// stagesOf orders nodes from left to right: each as early as what leads to it allows.
function stagesOf(nodes, edges) {
  const at = new Map(nodes.map((n) => [n.id, 0]));
  for (let round = 0; round < nodes.length; round++) {
    let moved = false;
    for (const { from, to } of edges) {
      if (at.get(to) > at.get(from)) continue;
      at.set(to, at.get(from) + 1);
      moved = true;
    }
    if (!moved) break;
  }
  const stages = [];
  for (const n of nodes) (stages[at.get(n.id)] ??= []).push(n);
  return stages.filter(Boolean);
}
