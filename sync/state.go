package sync

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Config is what shapes the result and is the same for all Services.
type Config struct {
	NodeName string
	// MasqueradeAll masquerades every connection to a ClusterIP.
	MasqueradeAll bool
	Rules         nft.Config
}

// state is what the events so far amount to.
type state struct {
	services *model.ServiceMap
	cidrs    []netip.Prefix
	// cidrsChanged tells that cidrs are not what was last taken.
	cidrsChanged bool
}

func newState(c Config) *state {
	o := model.Options{MasqueradeAll: c.MasqueradeAll}
	for _, f := range model.Families {
		o.DetectsPods[f] = c.Rules.DetectsPods(f)
	}
	return &state{services: model.NewServiceMap(o, model.Node{Name: c.NodeName})}
}

// apply takes in a burst of events.
func (s *state) apply(events []Event) {
	for _, e := range events {
		switch e := e.(type) {
		case SetService:
			s.services.SetService(e.Service)
		case DeleteService:
			s.services.DeleteService(e.Name)
		case SetSlice:
			s.services.SetSlice(e.Slice)
		case DeleteSlice:
			s.services.DeleteSlice(e.Name)
		case SetNode:
			s.services.SetNode(e.Node)
		case SetServiceCIDRs:
			s.cidrs, s.cidrsChanged = e.CIDRs, true
		}
	}
}

// take returns what changed since it was last called, and which claims were
// lost.
func (s *state) take() (nft.Change, []model.Conflict) {
	changes := s.services.Changes()
	c := nft.Change{Set: changes.Set, Gone: changes.Gone}
	if s.cidrsChanged {
		c.ServiceCIDRs = &s.cidrs
		s.cidrsChanged = false
	}
	return c, changes.Conflicts
}

// all returns everything that should stand, as of the last take.
func (s *state) all() nft.Change {
	return nft.Change{Set: s.services.Frontends(), ServiceCIDRs: &s.cidrs}
}

// frontends returns what should stand and is wanted, as of the last take.
func (s *state) frontends(wanted func(model.Frontend) bool) []model.Frontend {
	all := s.services.Frontends()
	return slices.DeleteFunc(all, func(f model.Frontend) bool { return !wanted(f) })
}

// Build works out the rule set that a complete list of objects leads to on a
// machine without one, and the claims that Services lost.
func Build(c Config, events []Event) (*nft.Ruleset, []model.Conflict) {
	s := newState(c)
	s.apply(events)
	_, conflicts := s.take()
	rules, _ := nft.Adopt(c.Rules, nft.Tables{}, s.all())
	return rules, conflicts
}
