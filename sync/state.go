package sync

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// state is what the events so far amount to.
type state struct {
	config   Config
	services *model.ServiceMap
	node     model.Node
	cidrs    []netip.Prefix
	// interfaces are all addresses of the node, nodeAddrs those that serve node
	// ports.
	interfaces, nodeAddrs []netip.Addr
	nodeAddrsChanged      bool
	// cidrsChanged tells that cidrs are not what was last taken, rulesChanged that
	// config.Rules are not.
	cidrsChanged, rulesChanged bool
	problems                   objectProblems
	// warnings are about objects that are used nevertheless, excesses about Services
	// that are not served for their weight.
	warnings, excesses objectProblems
	// triggered are the oldest triggers of changes that the kernel does not have.
	triggered map[model.EndpointSliceName]time.Time
}

func newState(c Config) *state {
	return &state{
		config:   c,
		services: model.NewServiceMap(c.options(), model.Node{Name: c.NodeName}),
		problems: objectProblems{}, warnings: objectProblems{}, excesses: objectProblems{}, triggered: map[model.EndpointSliceName]time.Time{},
	}
}

// apply takes in a burst of events.
func (s *state) apply(events []Event) {
	for _, e := range events {
		switch e := e.(type) {
		case SetService:
			s.services.SetService(e.Service)
			s.warn(e.Service.Name, openFamily(&e.Service))
		case DeleteService:
			s.services.DeleteService(e.Name)
			s.warn(e.Name, nil)
		case SetSlice:
			s.services.SetSlice(e.Slice)
			if _, waits := s.triggered[e.Slice.Name]; !waits && !e.Triggered.IsZero() {
				s.triggered[e.Slice.Name] = e.Triggered
			}
		case DeleteSlice:
			s.services.DeleteSlice(e.Name)
			delete(s.triggered, e.Name)
		case SetNode:
			s.setNode(e.Node)
			s.setPodRanges(e.Node.PodCIDRs)
		case SetServiceCIDRs:
			s.cidrs, s.cidrsChanged = e.CIDRs, true
		case SetProblem:
			s.problems.set(e)
		}
	}
}

// setNode notes what is known of the node.
func (s *state) setNode(n model.Node) {
	for f, a := range s.config.NodeIPs {
		if a.IsValid() {
			n.Addrs[f] = a
		}
	}
	s.node = n
	s.services.SetNode(n)
	s.selectNodeAddrs()
}

// setInterfaces notes which addresses the node has.
func (s *state) setInterfaces(addrs []netip.Addr) {
	s.interfaces = addrs
	s.selectNodeAddrs()
}

// selectNodeAddrs finds the addresses that serve node ports.
func (s *state) selectNodeAddrs() {
	next := s.config.NodePorts.Select(s.interfaces, s.node.Addrs)
	if !slices.Equal(next, s.nodeAddrs) {
		s.nodeAddrs, s.nodeAddrsChanged = next, true
		s.services.SetNodeAddrs(next)
	}
}

// setPodRanges follows the node's ranges of pods, if it is by those that pods are
// told. A node that lost all its ranges still has pods.
func (s *state) setPodRanges(ranges [len(model.Families)]netip.Prefix) {
	var none [len(model.Families)]netip.Prefix
	if !s.config.PodsFromNode || ranges == none || ranges == s.config.Rules.Pods {
		return
	}
	s.config.Rules.Pods = ranges
	s.rulesChanged = true
	s.services.SetOptions(s.config.options())
}

// take returns what changed since it was last called, beside frontends also which
// claims were lost and what to answer to health checks.
func (s *state) take() (nft.Change, model.Changes) {
	changes := s.services.Changes()
	c := nft.Change{Set: changes.Set, Gone: changes.Gone}
	for _, e := range changes.OverBudget {
		s.excesses.set(SetProblem{Object{Kind: "Service", Namespace: e.Service.Namespace, Name: e.Service.Name}, tooHeavy(e)})
	}
	if s.nodeAddrsChanged {
		c.NodeAddrs = &s.nodeAddrs
		s.nodeAddrsChanged = false
	}
	if s.cidrsChanged {
		c.ServiceCIDRs = &s.cidrs
		s.cidrsChanged = false
	}
	return c, changes
}

// tooHeavy says why a Service is not served; nil if it is.
func tooHeavy(e model.OverBudget) error {
	if e.Weight == 0 {
		return nil
	}
	return fmt.Errorf("it needs %d elements of the rule set, counted for each port; it and the older Services of its namespace may have %d",
		e.Weight, e.Limit)
}

// all returns everything that should stand, as of the last take.
func (s *state) all() nft.Change {
	return nft.Change{Set: s.services.Frontends(), ServiceCIDRs: &s.cidrs, NodeAddrs: &s.nodeAddrs}
}

// Build works out the rule set that a complete list of objects leads to on a
// machine without one, and the claims that Services lost. Of the machine's
// addresses it knows those of the Node object.
func Build(c Config, events []Event) (*nft.Ruleset, []model.Conflict) {
	s := newState(c)
	s.apply(events)
	var known []netip.Addr
	for _, a := range s.node.Addrs {
		if a.IsValid() {
			known = append(known, a)
		}
	}
	s.setInterfaces(known)
	_, changes := s.take()
	rules, _ := nft.Adopt(s.config.Rules, nft.Tables{}, s.all())
	return rules, changes.Conflicts
}

// Compare works out the batch that leads from what the kernel holds to what a
// complete list of objects leads to on a machine with these addresses.
func Compare(c Config, events []Event, interfaces []netip.Addr, have nft.Tables) nft.Batch {
	s := newState(c)
	s.apply(events)
	s.setInterfaces(interfaces)
	s.take()
	_, batch := nft.Adopt(s.config.Rules, have, s.all())
	return batch
}
