package sync

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// desiredState is the state that results from all events so far.
type desiredState struct {
	config   Config
	services *model.ServiceMap
	node     model.Node
	cidrs    []netip.Prefix
	// serviceRanges are the parts of cidrs whose unused addresses are dropped, overlaps says why
	// other parts exist.
	serviceRanges []netip.Prefix
	overlaps      string
	// apiServer says why this node may not reach the API server after a reboot, if so.
	apiServer string
	// interfaces are all addresses of the node, nodeAddrs those that serve node ports.
	interfaces, nodeAddrs []netip.Addr
	networks              []netip.Prefix // of interfaces, as of [AddressSource]
	// What changed since the last take: serviceRanges, nodeAddrs, and config.Rules.
	serviceRangesChanged, nodeAddrsChanged, rulesChanged bool

	problems objectProblems
	warnings objectProblems // about Services that are served nevertheless
	excesses objectProblems // about Services that are not served because they exceed the budget
	// triggered are the oldest triggers of changes that the kernel does not have.
	triggered map[model.EndpointSliceName]time.Time
	// postponed are the namespaces whose changes the last take left for later.
	postponed []string
}

func newDesiredState(c Config) *desiredState {
	return &desiredState{
		config:   c,
		services: model.NewServiceMap(c.options(), model.Node{Name: c.NodeName}),
		problems: objectProblems{}, warnings: objectProblems{}, excesses: objectProblems{},
		triggered: map[model.EndpointSliceName]time.Time{},
	}
}

// apply adds a burst of events, and counts those that change a Service or a slice.
func (s *desiredState) apply(events []Event) (q QueuedChanges) {
	count := func(n *int, changed bool) bool {
		if changed {
			*n++
		}
		return changed
	}
	for _, e := range events {
		switch e := e.(type) {
		case SetService:
			if count(&q.Services, s.services.SetService(e.Service)) {
				s.warn(e.Service.Name, openFamily(&e.Service))
			}
		case DeleteService:
			count(&q.Services, s.services.DeleteService(e.Name))
			s.warn(e.Name, nil)
		case SetSlice:
			changed := count(&q.Slices, s.services.SetSlice(e.Slice))
			if _, waits := s.triggered[e.Slice.Name]; changed && !waits && !e.Triggered.IsZero() {
				s.triggered[e.Slice.Name] = e.Triggered
			}
		case DeleteSlice:
			count(&q.Slices, s.services.DeleteSlice(e.Name))
			delete(s.triggered, e.Name)
		case SetNode:
			s.setNode(e.Node)
			s.setPodCIDRs(e.Node.PodCIDRs)
		case SetServiceCIDRs:
			if model.ProxyName() == "" { // others serve ClusterIPs that this proxy does not know
				s.cidrs = e.CIDRs
			}
		case SetProblem:
			s.problems.set(e)
		}
	}
	return q
}

// warn records or removes the warning about a Service.
func (s *desiredState) warn(name model.ServiceName, err error) {
	if !s.config.StrictSourceRanges {
		s.warnings.set(SetProblem{Object: Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}, Err: err})
	}
}

func (s *desiredState) setNode(n model.Node) {
	for f, a := range s.config.NodeIPs {
		n.Addrs[f] = cmp.Or(a, n.Addrs[f])
	}
	s.node = n
	s.services.SetNode(n)
	s.selectNodeAddrs()
}

func (s *desiredState) setInterfaces(addrs []netip.Prefix) {
	s.networks, s.interfaces = addrs, nil
	for _, p := range addrs {
		s.interfaces = append(s.interfaces, p.Addr())
	}
	s.selectNodeAddrs()
}

func (s *desiredState) selectNodeAddrs() {
	next := s.config.NodePorts.Select(s.interfaces, s.node.Addrs)
	if !slices.Equal(next, s.nodeAddrs) {
		s.nodeAddrs, s.nodeAddrsChanged = next, true
		s.services.SetNodeAddrs(next)
	}
	s.selectPingTo()
}

// selectPingTo selects the addresses that answer pings: the node's own, or another of an interface.
func (s *desiredState) selectPingTo() {
	if !s.config.AnswerPings {
		return
	}
	var next [len(model.Families)]netip.Addr
	for _, f := range model.Families {
		usable := func(a netip.Addr) bool {
			return a.IsGlobalUnicast() && model.FamilyOf(a) == f && slices.Contains(s.interfaces, a)
		}
		all := append([]netip.Addr{s.node.Addrs[f]}, s.interfaces...)
		if i := slices.IndexFunc(all, usable); i >= 0 {
			next[f] = all[i]
		}
	}
	if next != s.config.Rules.PingTo {
		s.config.Rules.PingTo, s.rulesChanged = next, true
	}
}

// setPodCIDRs follows the node's pod CIDRs if they distinguish pods. A node that lost all
// of them still has pods.
func (s *desiredState) setPodCIDRs(cidrs [len(model.Families)]netip.Prefix) {
	var none [len(model.Families)]netip.Prefix
	if !s.config.PodsFromNode || cidrs == none || cidrs == s.config.Rules.Pods {
		return
	}
	s.config.Rules.Pods = cidrs
	s.rulesChanged = true
	s.services.SetOptions(s.config.options())
}

// take returns the changes since its last call: for the rule set, and also which claims
// were lost and which health checks changed. Changes of postponed namespaces follow
// later.
func (s *desiredState) take(waits func(namespace string) bool) (nft.Change, model.Changes) {
	changes := s.services.ChangesExcept(waits)
	s.postponed = slices.Clone(changes.Postponed)
	c := nft.Change{Set: changes.Set, Removed: changes.Removed}
	for _, e := range changes.OverBudget {
		s.excesses.set(SetProblem{
			Object: Object{Kind: "Service", Namespace: e.Service.Namespace, Name: e.Service.Name},
			Err:    overBudget(e),
		})
	}
	if s.nodeAddrsChanged {
		c.NodeAddrs, s.nodeAddrsChanged = &s.nodeAddrs, false
	}
	if s.setServiceRanges(); s.serviceRangesChanged {
		c.ServiceCIDRs, s.serviceRangesChanged = &s.serviceRanges, false
	}
	return c, changes
}

// takeTriggers returns the triggers of changes that the kernel has now, sorted.
func (s *desiredState) takeTriggers() (all []time.Time) {
	maps.DeleteFunc(s.triggered, func(slice model.EndpointSliceName, at time.Time) bool {
		if slices.Contains(s.postponed, slice.Namespace) {
			return false
		}
		all = append(all, at)
		return true
	})
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// noneWaits postpones nothing.
func noneWaits(string) bool { return false }

// overBudget returns why a Service is not served, or nil if it is served again.
func overBudget(e model.OverBudget) error {
	if e.Weight == 0 {
		return nil
	}
	return fmt.Errorf("it needs %d elements of the rule set, counted for each port; it and the older Services of its "+
		"namespace may have %d",
		e.Weight, e.Limit)
}

// all returns everything that is desired, as of the last take.
func (s *desiredState) all() nft.Change {
	return nft.Change{Set: s.services.Frontends(), ServiceCIDRs: &s.serviceRanges, NodeAddrs: &s.nodeAddrs}
}

// openFamily returns a warning if a Service has addresses or node ports that anyone may
// use although it limits the clients of the other family's: an author who limits one
// family may believe that both are limited.
func openFamily(s *model.Service) error {
	var limited [len(model.Families)]bool
	for _, r := range s.SourceRanges {
		if r.Bits() == 0 {
			return nil // all clients are intended
		}
		limited[model.FamilyOf(r.Addr())] = true
	}
	addrs := s.LoadBalancerIPs
	if s.RangesForAll {
		addrs = slices.Concat(addrs, s.ExternalIPs)
		if slices.ContainsFunc(s.Ports, func(p model.ServicePort) bool { return p.NodePort != 0 }) {
			addrs = append(addrs, s.ClusterIPs...) // node ports have their families
		}
	}
	for _, ip := range addrs {
		if f := model.FamilyOf(ip); len(s.SourceRanges) > 0 && !limited[f] {
			return fmt.Errorf("spec.loadBalancerSourceRanges has no range of family %s: anyone may use these addresses and "+
				"node ports (no one with --strict-source-ranges)", f)
		}
	}
	return nil
}

// Build returns the rule set for a complete list of objects on a machine without tables,
// and the claims that Services lost. It only knows the machine's addresses in the Node
// object.
func Build(c Config, events []Event) (*nft.Ruleset, []model.Conflict) {
	s := newDesiredState(c)
	s.apply(events)
	var known []netip.Prefix
	for _, a := range s.node.Addrs {
		if a.IsValid() {
			known = append(known, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	s.setInterfaces(known)
	_, changes := s.take(noneWaits)
	rules, _ := nft.Adopt(s.config.Rules, nft.Tables{}, s.all())
	return rules, changes.Conflicts
}

// Compare returns the batch that changes the tables of a kernel to those for a complete
// list of objects, on a machine with these addresses, as of [AddressSource].
func Compare(c Config, events []Event, interfaces []netip.Prefix, have nft.Tables) nft.Batch {
	s := newDesiredState(c)
	s.apply(events)
	s.setInterfaces(interfaces)
	s.take(noneWaits)
	_, batch := nft.Adopt(s.config.Rules, have, s.all())
	return batch
}
