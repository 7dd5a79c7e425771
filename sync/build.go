package sync

import (
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Build returns the rule set for a complete list of objects on a machine without
// tables, and the claims that Services lost. It knows those addresses of the machine
// that the Node object has.
func Build(c Config, events []Event) (*nft.Ruleset, []model.Conflict) {
	s := newDesiredState(c)
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

// Compare returns the batch that leads from the tables of a kernel to those for a
// complete list of objects, on a machine with these addresses.
func Compare(c Config, events []Event, interfaces []netip.Addr, have nft.Tables) nft.Batch {
	s := newDesiredState(c)
	s.apply(events)
	s.setInterfaces(interfaces)
	s.take()
	_, batch := nft.Adopt(s.config.Rules, have, s.all())
	return batch
}
