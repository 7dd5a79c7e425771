package nft

import (
	"hash/fnv"
	"strings"

	"kube-vmap/model"
)

// rules returns the rules of a chain, in a table that has these sets. Which chains exist,
// with their hooks, is in chains.go, which sets exist in sets.go, new statements go to
// statement.go, and what is configurable to config.go. The chain that a frontend maps to,
// or drop, is decided in compile.go, by the Verdict and Masquerade of package model. A
// chain or set that only base chains refer to is added in newRuleset (ruleset.go).
func (c *Config) rules(id ChainID, has func(SetID) bool) []Rule {
	fam := &families[id.Family]
	balance := Rule{goTo(ChainID{
		Family: id.Family, Kind: ChainBalance, Local: id.Local, Method: id.Method, N: id.N, Seconds: id.Seconds,
	})}
	mark := c.requestMasquerade()
	switch id.Kind {
	case ChainSourceCheck:
		return sourceRules(id.Family, has, in)
	case ChainNodePortCheck:
		return sourceRules(id.Family, has, inNodePorts)
	case ChainCluster:
		return append(c.markOthers(id, fam), balance)
	case ChainMasquerade:
		return []Rule{mark, balance}
	case ChainService:
		return []Rule{{jump(ChainID{Family: id.Family, Kind: ChainRewrite, NodePort: id.NodePort})}, balance}
	case ChainRewrite:
		return id.rewriteRules()
	case ChainExternal:
		return []Rule{mark, {goTo(id.as(ChainService))}}
	case ChainExternalLocal:
		return c.externalLocalRules(id, fam)
	case ChainBalance:
		return id.balanceRules(fam)
	case ChainRetry:
		return retryRules(id.Family, has)
	case ChainAccepted:
		return id.acceptedRules()
	case ChainHold:
		return holdRules(id.Family)
	case ChainEndpoint:
		return id.endpointRules(fam)
	case ChainStickyEndpoint:
		return id.stickyEndpointRules()
	case ChainStickyClient:
		return []Rule{{setNumber(id.set(SetAffinity), pick{})}}
	case ChainStickyNew:
		return []Rule{{jump(id.as(ChainStickyClient))}, {goTo(id.as(ChainStickyEndpoint))}}
	case ChainStickyPick:
		return id.stickyPickRules(pickRandom, back())
	case ChainStickyFull:
		return id.stickyPickRules(pickSourceHash, goTo(ChainID{
			Family: id.Family, Kind: ChainStickyEndpoint,
			Local: id.Local,
		}))
	case ChainNATInput:
		return []Rule{countRule(id.Family)}
	case ChainCount:
		return countRules(id.Family)
	}
	return c.baseRules(id, fam, has)
}

// baseRules returns the rules of a chain that every table has, or that sees packets before translation.
func (c *Config) baseRules(id ChainID, fam *family, has func(SetID) bool) []Rule {
	by := func(kind SetKind) Statement { return dispatch(SetID{Family: id.Family, Kind: kind}, pick{}) }
	set := func(kind SetKind) SetID { return SetID{Family: id.Family, Kind: kind} }
	switch id.Kind {
	case ChainFilterPrerouting, ChainFilterOutputEarly:
		rules := append(c.exemptProbes(id), Rule{newConnection(), in(set(SetRestricted)), goTo(id.as(ChainSourceCheck))})
		if ports := set(SetRestrictedNodePorts); has(ports) {
			rules = append(rules, Rule{newConnection(), in(set(SetNodeIPs)), in(ports), goTo(id.as(ChainNodePortCheck))})
		}
		if c.DropInvalid && id.Kind == ChainFilterPrerouting {
			rules = append(rules, Rule{invalid(), in(set(SetEndpointIPs)), protocolIs(model.TCP), drop()})
		}
		if has(set(SetRefusals)) {
			rules = append(rules, replyRule(id.Family))
		}
		return rules
	case ChainNATPrerouting, ChainNATOutput:
		// Local endpoints are looked up here and not in external-local-N: before the fix
		// 8e1a1bc4f5a4 (December 2025) the kernel checks all elements of a verdict map for
		// each element of another map that jumps there.
		return append(c.exemptProbes(id), append([]Rule{
			{jump(id.as(ChainDispatch))},
			{by(SetLocalServices)},
			{in(set(SetNodeIPs)), by(SetLocalNodePorts)},
		}, c.pingRules(id)...)...)
	case ChainDispatch:
		return []Rule{{by(SetServices)}, {in(set(SetNodeIPs)), by(SetNodePorts)}}
	case ChainRestorePrerouting:
		return []Rule{{newConnection(), goTo(id.as(ChainLoopCheck))}}
	case ChainRestoreOutput:
		// Chains of type nat rewrite nothing once a packet of the connection has passed.
		return []Rule{{notConfirmed(), goTo(id.as(ChainRestoreCheck))}}
	case ChainRestoreCheck:
		return restoreCheckRules(id, set(SetClusterIPs))
	case ChainLoopCheck:
		rules := append([]Rule{{confirmed(), translated(), back()}}, restoreCheckRules(id, set(SetClusterIPs))...)
		if !c.NoLabels {
			rules = append(rules, Rule{notTranslated(), in(set(SetExternalIPs)), sentBack(), setLabel(loopLabel())})
		}
		return rules
	case ChainRestore:
		return restoreRules(fam)
	case ChainFilterInput:
		return []Rule{
			{newConnection(), notTranslated(), by(SetNoEndpointServices)},
			{newConnection(), notTranslated(), in(set(SetNodeIPs)), by(SetNoEndpointNodePorts)},
		}
	case ChainFilterForward, ChainFilterOutput:
		rules := c.exemptProbes(id)
		if id.Kind == ChainFilterOutput && has(set(SetHeld)) {
			// In filter-input, connection tracking has confirmed what the node sends to itself.
			rules = append(rules, Rule{newConnection(), notTranslated(), in(set(SetNodeIPs)), by(SetNoEndpointNodePorts)})
		}
		return append(rules, Rule{newConnection(), goTo(id.as(ChainServiceCheck))})
	case ChainNATPostrouting:
		return c.postroutingRules(id.Family, set(SetHairpin))
	case ChainServiceCheck:
		var rules []Rule
		if c.PassiveHealth {
			rules = append(rules, unansweredRule())
		}
		// A datagram that follows another one without a reply is still new, but its connection has
		// passed these rules. If its endpoint is removed, package flows deletes the connection.
		rules = append(
			rules,
			Rule{confirmed(), translated(), back()},
			Rule{notTranslated(), by(SetNoEndpointServices)},
			Rule{in(set(SetClusterIPs)), goTo(id.as(ChainReject))}, // also an endpoint that is a ClusterIP
			Rule{notTranslated(), in(set(SetServiceCIDRs)), drop()},
		)
		if !c.NoLabels {
			rules = append(rules, Rule{notTranslated(), labelled(loopLabel()), drop()})
		}
		return rules
	case ChainSourcePort:
		return sourcePortRules()
	case ChainReject:
		return rejectRules(fam)
	}
	return nil
}

// exemptProbes returns the rule that lets probes of endpoints leave a chain for the node's
// own packets; no other chain needs it.
func (c *Config) exemptProbes(id ChainID) []Rule {
	switch id.Kind {
	case ChainFilterOutputEarly, ChainNATOutput, ChainFilterOutput:
		if c.PassiveHealth {
			return []Rule{{markIs(c.ProbeMark()), back()}}
		}
	}
	return nil
}

// as is the chain of another kind that is otherwise the same.
func (id ChainID) as(kind ChainKind) ChainID {
	id.Kind = kind
	return id
}

// set is the set of that kind for the chain: of the same endpoints, and the same slot.
func (id ChainID) set(kind SetKind) SetID {
	s := SetID{Family: id.Family, Kind: kind, Local: id.Local}
	if kind.slotted() {
		s.Slot = uint16(id.N)
	}
	return s
}

// rejectRules reject a connection in a way that the client notices immediately. kube-proxy
// rejects TCP with ICMP, too. But if the client is a pod of this node, that packet arrives
// while its socket is still busy connecting and is dropped (counter
// TcpExtLockDroppedIcmps); the client notices a second later, from the reply to its second
// attempt. A reset is queued until the socket is ready.
func rejectRules(fam *family) []Rule {
	return []Rule{{protocolIs(model.TCP), resetTCP()}, {reject(fam)}}
}

// requestMasquerade marks a packet for masquerade, and labels its connection. Between the
// hooks other programs may overwrite the mark, all of it: the VPC CNI restores one there
// (aws/amazon-vpc-cni-k8s 3563, 3872). They cannot unset a label. Other programs see the
// mark, and may set it.
func (c *Config) requestMasquerade() Rule {
	switch {
	case c.NoLabels:
		return Rule{setMark(c.MasqueradeMark)}
	case model.ProxyName() != "": // the node's own proxy has the same mark
		return Rule{setLabel(masqueradeLabel())}
	}
	return Rule{setMark(c.MasqueradeMark), setLabel(masqueradeLabel())}
}

// postroutingRules masquerade packets that were marked, packets of connections that were labelled,
// and packets of pods that reach themselves. A mark alone may be another program's with the same
// bit (wg-quick's is 0xca6c), so the connection must also be one that a proxy translated. The mark
// is cleared first: it stays with a packet that is encapsulated, and other programs, such as older
// kubelets, would masquerade the outer packet.
func (c *Config) postroutingRules(f model.Family, hairpin SetID) []Rule {
	var rules []Rule
	if c.CountConnections {
		rules = append(rules, countRule(f))
	}
	masquerade := goTo(ChainID{Family: f, Kind: ChainSourcePort})
	if c.NoLabels || model.ProxyName() == "" {
		rules = append(rules, Rule{marked(c.MasqueradeMark), translated(), clearMark(c.MasqueradeMark), masquerade})
	}
	if !c.NoLabels {
		rules = append(rules, Rule{labelled(masqueradeLabel()), clearMark(c.MasqueradeMark), masquerade})
	}
	return append(rules, Rule{translated(), in(hairpin), masquerade})
}

// sourcePortRules make the node's address the source. TCP and SCTP keep the client's port, or get a
// random one if another connection has it: a TCP server remembers the ports of connections that it
// has closed, and rejects a new one if another client had that port, and SCTP servers know peers by
// their port. UDP gets a random port: two clients that send from the same one in the same instant
// would otherwise lose a packet, and it makes DNS replies harder to spoof. See
// docs/reports/masquerade.md.
func sourcePortRules() []Rule {
	return []Rule{{protocolIs(model.UDP), masqueradeRandomly()}, {masquerade()}}
}

// fromPods matches packets from pods, or from others if want is false. ok is false if pods
// are not detected, and all is true if every address is a pod's.
func (c *Config) fromPods(fam *family, f model.Family, want bool) (s Statement, ok, all bool) {
	pods := c.Pods[f]
	switch {
	case c.PodInterface.Name != "":
		return from(c.PodInterface, want), true, false
	case !pods.IsValid():
		return Statement{}, false, false
	case pods.Bits() == 0:
		return Statement{}, true, true
	}
	return sourceIn(fam, pods, want), true, false
}

// markOthers marks packets that are not from pods for masquerade.
func (c *Config) markOthers(id ChainID, fam *family) []Rule {
	others, ok, all := c.fromPods(fam, id.Family, false)
	if !ok || all {
		return nil
	}
	return []Rule{append(Rule{others}, c.requestMasquerade()...)}
}

// externalLocalRules are for packets to an external address under Local policy. For pods and
// the node itself this node acts as the load balancer, which would have chosen among all
// nodes. Others keep their address and return to the base chain, which gives them endpoints
// of this node. Packets that find none are dropped later.
func (c *Config) externalLocalRules(id ChainID, fam *family) []Rule {
	var rules []Rule
	pods, ok, all := c.fromPods(fam, id.Family, true)
	switch {
	case all:
		return []Rule{{goTo(id.as(ChainService))}}
	case ok:
		rules = append(rules, Rule{pods, goTo(id.as(ChainService))})
	}
	return append(rules, Rule{fromHost(), goTo(id.as(ChainExternal))})
}

// rewriteRules make the ClusterIP the packet's destination. All chains service-N share
// them, because the kernel walks a whole map for each chain that looks something up in it
// (nf_tables_bind_set): 9,000 LoadBalancer Services with as many affinity timeouts took the
// kernel 67 s to load, and 1.3 s with one look-up for all.
func (id ChainID) rewriteRules() []Rule {
	set := func(kind SetKind) SetID { return SetID{Family: id.Family, Kind: kind} }
	if !id.NodePort {
		return []Rule{{setDestination(set(SetServiceIPs))}}
	}
	rules := []Rule{{setDestination(set(SetNodePortServiceIPs))}}
	for _, p := range model.Protocols {
		rules = append(rules, Rule{setPort(set(SetNodePortServicePorts), p)})
	}
	return rules
}

// balanceRules pick one of N endpoints.
func (id ChainID) balanceRules(fam *family) []Rule {
	d := pick{count: id.N, method: id.Method}
	var rules []Rule
	if id.Method >= pickRandomRetry {
		rules = append(rules, id.retryRule(jump(ChainID{Family: id.Family, Kind: ChainAccepted, Local: id.Local})))
	}
	switch {
	case id.Method == pickSticky:
		return id.stickyRules()
	case id.N > MaxSlots:
		return append(rules, Rule{notICMP(fam), translate(id.set(SetEndpointsMany), d)},
			Rule{notICMP(fam), translate(id.set(SetEndpointsMany), pick{count: 1})}) // see endpointRules
	}
	first := ChainID{Family: id.Family, Kind: ChainEndpoint, Local: id.Local}
	if id.N == 1 {
		return []Rule{{goTo(first)}}
	}
	choices := make([]ChainID, id.N)
	for k := range choices {
		choices[k] = first
		choices[k].N = uint32(k)
	}
	if id.Method >= pickSourceHashRetry {
		rules = append(rules, id.retryRule(pickOne(fam, pick{count: id.N}, choices)))
	}
	return append(rules, Rule{pickOne(fam, d, choices)}, Rule{goTo(first)})
}

// endpointRules translate to the endpoint of a slot. A packet can meet a commit between two
// look-ups: each sees the elements of its own moment (nft_genmask_cur), while the rules stay
// as they were when the packet began (nft_do_chain). It may pick one of three slots when only
// two remain, or the map to pick from was deleted with the last Service of three. So if
// nothing is found, the packet goes to the first slot, which exists as long as the Service has
// an endpoint.
func (id ChainID) endpointRules(fam *family) []Rule {
	rules := []Rule{{notICMP(fam), translate(id.set(SetEndpoints), pick{})}}
	if id.N > 0 {
		id.N = 0
		rules = append(rules, Rule{goTo(id)})
	}
	return rules
}

// A Rule is one rule of a chain: statements from left to right.
type Rule []Statement

// String returns the rule as nft lists it.
func (r Rule) String() string {
	parts := make([]string, len(r))
	for i, s := range r {
		parts[i] = s.Text
	}
	return strings.Join(parts, " ")
}

// A Fingerprint identifies a rule that the kernel holds. A rule that was read cannot be
// compared with ours expression by expression, since kernels differ in what they add. So
// each rule has this number in its userdata, where nft does not list it. Rules of other
// programs have fingerprint zero.
type Fingerprint uint64

// encodingVersion is part of every fingerprint. It must change whenever the expressions of
// a text change.
const encodingVersion = "4 "

// Fingerprint returns the hash of the rule's text.
func (r Rule) Fingerprint() Fingerprint {
	h := fnv.New64a()
	h.Write([]byte(encodingVersion)) // a hash never fails
	h.Write([]byte(r.String()))
	return Fingerprint(h.Sum64())
}
