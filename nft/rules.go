package nft

import "kube-vmap/model"

// rules are the rules of a chain in a table that has these sets.
func (c *Config) rules(id ChainID, has func(SetID) bool) []Rule {
	fam := &families[id.Family]
	balance := Rule{goTo(ChainID{Family: id.Family, Kind: ChainBalance, Local: id.Local, Method: id.Method, N: id.N})}
	mark := Rule{setMark(c.MasqueradeMark)}
	switch id.Kind {
	case ChainSourceCheck:
		return sourceRules(id.Family, has)
	case ChainCluster:
		return append(c.markOthers(id, fam), balance)
	case ChainMasquerade:
		return []Rule{mark, balance}
	case ChainService:
		return append(id.serviceRules(), balance)
	case ChainExternal:
		return []Rule{mark, {goTo(id.as(ChainService))}}
	case ChainExternalLocal:
		return c.externalLocalRules(id, fam)
	case ChainBalance:
		return id.balanceRules(fam)
	case ChainEndpoint:
		return []Rule{{notICMP(fam), translate(id.set(SetEndpoints), pick{})}}
	case ChainStickyPick:
		return []Rule{{dispatch(id.set(SetStickyEndpoints), pick{})}}
	case ChainStickyEndpoint:
		return id.stickyRules(fam)
	case ChainStickyFound:
		return []Rule{{notICMP(fam), translate(id.set(SetAffinity), pick{})}}
	case ChainNATInput:
		return []Rule{countRule(id.Family)}
	}
	return c.baseRules(id, fam)
}

// baseRules are the rules of the chains that every table has.
func (c *Config) baseRules(id ChainID, fam *family) []Rule {
	by := func(kind SetKind) Statement { return dispatch(SetID{Family: id.Family, Kind: kind}, pick{}) }
	set := func(kind SetKind) SetID { return SetID{Family: id.Family, Kind: kind} }
	switch id.Kind {
	case ChainFilterPrerouting, ChainFilterOutputEarly:
		rules := []Rule{{newConnection(), in(set(SetRestricted)), goTo(id.as(ChainSourceCheck))}}
		if c.DropInvalid && id.Kind == ChainFilterPrerouting {
			rules = append(rules, Rule{invalid(), in(set(SetEndpointIPs)), protocolIs(model.TCP), drop()})
		}
		return rules
	case ChainNATPrerouting, ChainNATOutput:
		return []Rule{{by(SetServices)}, {in(set(SetNodeIPs)), by(SetNodePorts)}}
	case ChainRestorePrerouting, ChainRestoreOutput:
		return []Rule{{newConnection(), notTranslated(), in(set(SetClusterIPs)), goTo(id.as(ChainRestore))}}
	case ChainRestore:
		return restoreRules(fam)
	case ChainFilterInput:
		return []Rule{
			{newConnection(), notTranslated(), by(SetNoEndpointServices)},
			{newConnection(), notTranslated(), in(set(SetNodeIPs)), by(SetNoEndpointNodePorts)},
		}
	case ChainFilterForward, ChainFilterOutput:
		return []Rule{{newConnection(), goTo(id.as(ChainServiceCheck))}}
	case ChainNATPostrouting:
		return c.postroutingRules(id.Family, set(SetHairpin))
	case ChainServiceCheck:
		return []Rule{
			{notTranslated(), by(SetNoEndpointServices)},
			{in(set(SetClusterIPs)), goTo(id.as(ChainReject))},
			{in(set(SetServiceCIDRs)), drop()},
		}
	case ChainReject:
		return rejectRules(fam)
	}
	return nil
}

// as is the chain of another kind that is otherwise the same.
func (id ChainID) as(kind ChainKind) ChainID {
	id.Kind = kind
	return id
}

// set is the set of a kind that belongs to the chain.
func (id ChainID) set(kind SetKind) SetID {
	s := SetID{Family: id.Family, Kind: kind, Local: id.Local}
	if kind.slotted() {
		s.Slot = uint16(id.N)
	}
	return s
}

// rejectRules refuse a connection so that the client knows at once. kube-proxy
// answers TCP with ICMP, too; but from a pod of the same node that answer comes
// back while the client's socket is still busy connecting, is dropped (counter
// TcpExtLockDroppedIcmps), and the client learns it a second later, from the
// answer to its second attempt. A reset is kept for it.
func rejectRules(fam *family) []Rule {
	return []Rule{{protocolIs(model.TCP), resetTCP()}, {reject(fam)}}
}

// postroutingRules change the source of what was marked on its way in, and of
// pods that reach themselves. The mark is cleared first: it stays with a packet
// that is wrapped into another one, which would be masqueraded again.
func (c *Config) postroutingRules(f model.Family, hairpin SetID) []Rule {
	var rules []Rule
	if c.CountConnections {
		rules = append(rules, countRule(f))
	}
	return append(rules,
		Rule{marked(c.MasqueradeMark), flipMark(c.MasqueradeMark), masquerade()},
		Rule{translated(), in(hairpin), masquerade()},
	)
}

// fromPods matches what comes from pods, or what does not. ok is false where pods
// are not known, and sure true where all is theirs.
func (c *Config) fromPods(fam *family, f model.Family, want bool) (s Statement, ok, sure bool) {
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

// markOthers mark for masquerade what does not come from a pod.
func (c *Config) markOthers(id ChainID, fam *family) []Rule {
	others, ok, sure := c.fromPods(fam, id.Family, false)
	if !ok || sure {
		return nil
	}
	return []Rule{{others, setMark(c.MasqueradeMark)}}
}

// externalLocalRules treat what comes to an external address under Local policy.
// For pods and the node itself this node stands in for the load balancer, which
// would have chosen among all nodes. Others keep their address, and find
// endpoints of this node or none: what goes on from here is dropped later.
func (c *Config) externalLocalRules(id ChainID, fam *family) []Rule {
	var rules []Rule
	pods, ok, sure := c.fromPods(fam, id.Family, true)
	switch {
	case sure:
		return []Rule{{goTo(id.as(ChainService))}}
	case ok:
		rules = append(rules, Rule{pods, goTo(id.as(ChainService))})
	}
	local := SetID{Family: id.Family, Kind: SetLocalServices}
	if id.NodePort {
		local.Kind = SetLocalNodePorts
	}
	return append(rules, Rule{fromHost(), goTo(id.as(ChainExternal))}, Rule{dispatch(local, pick{})})
}

// serviceRules make a packet one to the ClusterIP.
func (id ChainID) serviceRules() []Rule {
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
	d := pick{id.N, id.Method}
	sticky := id.Method == pickSticky
	switch {
	case id.N > MaxSlots && sticky:
		return []Rule{{dispatch(id.set(SetStickyEndpointsMany), d)}}
	case id.N > MaxSlots:
		return []Rule{{notICMP(fam), translate(id.set(SetEndpointsMany), d)}}
	}
	kind := ChainEndpoint
	if sticky {
		kind = ChainStickyPick
	}
	choices := make([]ChainID, id.N)
	for k := range choices {
		choices[k] = ChainID{Family: id.Family, Kind: kind, Local: id.Local, N: uint32(k)}
	}
	if len(choices) == 1 {
		return []Rule{{goTo(choices[0])}}
	}
	return []Rule{{pickOne(fam, d, choices)}}
}
