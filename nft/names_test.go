package nft

import (
	"regexp"
	"testing"

	"kube-vmap/model"
)

// allChains is every kind of chain in all its forms, with some numbers.
func allChains(f model.Family) []ChainID {
	var out []ChainID
	for kind := range baseChains {
		out = append(out, ChainID{Family: f, Kind: kind})
	}
	for kind := baseChains; kind < chainKinds; kind++ {
		for i := range 4 {
			id := ChainID{Family: f, Kind: kind, Local: i&1 > 0, NodePort: i&2 > 0}
			if kind == ChainNATInput {
				if i == 0 {
					out = append(out, id)
				}
				continue
			}
			if kind.single() {
				out = append(out, id) // there is one for each list
				continue
			}
			for id.Method = range methods {
				if id.Method != 0 && (kind == ChainEndpoint || kind == ChainStickyPick) {
					break // what it is does not depend on how it was picked
				}
				for _, id.N = range []uint32{0, 1, 2, 3, 9, 10, 251, 254, 255, 256, 257, 5000, 1<<32 - 1} {
					if id.Method != pickSticky {
						out = append(out, id)
						continue
					}
					for _, seconds := range []uint32{0, 1, 10800, 86400, 1<<32 - 1} {
						sticky := id
						sticky.Seconds = seconds
						out = append(out, sticky)
					}
				}
			}
		}
	}
	return out
}

// identifier is what nft reads as one word (src/scanner.l, string), without what
// it would read as a number.
var identifier = regexp.MustCompile(`^[a-z][a-z0-9/_.-]*$`)

func TestChainNamedReturnsTheChain(t *testing.T) {
	for _, f := range model.Families {
		seen := map[string]ChainID{}
		for _, id := range allChains(f) {
			name := id.Name()
			if other, twice := seen[name]; twice {
				t.Errorf("%+v and %+v are both called %s", id, other, name)
			}
			seen[name] = id
			if got := ChainNamed(f, name); got != id {
				t.Errorf("the chain called %s is %+v, want %+v", name, got, id)
			}
			if !identifier.MatchString(name) || len(name) > 127 {
				t.Errorf("nft cannot read the name %q", name)
			}
		}
	}
}

// allSets is every kind of set in all its forms.
func allSets(f model.Family) []SetID {
	var out []SetID
	for kind := range setKinds {
		for _, local := range []bool{false, true} {
			id := SetID{Family: f, Kind: kind, Local: local}
			switch {
			case (kind < baseSets || kind == SetConnections) && local:
			case kind.slotted():
				for id.Slot = range uint16(MaxSlots) {
					if id.exists() {
						out = append(out, id)
					}
				}
			default:
				out = append(out, id)
			}
		}
	}
	return out
}

func TestSetNamedReturnsTheSet(t *testing.T) {
	for _, f := range model.Families {
		seen := map[string]SetID{}
		for _, id := range allSets(f) {
			if other, twice := seen[id.Name()]; twice {
				t.Errorf("%v and %v are both called %s", id, other, id.Name())
			}
			seen[id.Name()] = id
			if got, known := SetNamed(f, id.Name()); !known || got != id {
				t.Errorf("the set called %s is %v (%t), want %v", id.Name(), got, known, id)
			}
			if !identifier.MatchString(id.Name()) {
				t.Errorf("nft cannot read the name %q", id.Name())
			}
		}
	}
}

// otherNames are names of chains and sets that are not ours, though like ours.
var otherNames = []string{
	"", "-", "lb", "lb-", "lb-x", "lb-03", "lb-+3", "lb--3", "lb-3-3", "lb-4294967296", " lb-3", "LB-3",
	"reject-chain-0", "service-check-0", "cluster", "nat", "nat-prerouting-1", "unknown-1",
	"local-nat-prerouting", "node-port-reject-chain", "local-node-port-lb-3", "local-local-lb-3", "lb-lb-3", "cluster-lb-3",
	"rr-rr-3", "cluster-", "sticky-", "sticky-x", "sticky-ep", "sticky-endpoint-1", "sticky-s", "node-port-", "local-", "-3", "(not ours)",
	"sticky-3", "sticky-3-", "sticky-3-s", "sticky-3-60", "sticky-3-060s", "sticky-3-+60s", "sticky-3-4294967296s",
	"sticky-3-60s-60s", "sticky-60s", "lb-3-60s", "ep-3-60s", "cluster-3-0s", "60s", "-60s", "-3-60s",
	"sticky-3600s-tcp-10.1.0.7-80", "local-sticky-3600s-tcp-10.1.0.7-80", "sticky-found", "sticky-ep-1", "sticky-pick", "sticky-client-1", // of older versions
	"", "endpoints", "endpoints-", "endpoints-x", "endpoints-01", "endpoints-+1", "endpoints-255", "endpoints-many-1",
	"services-0", "service", "Services", "local-endpoints", "local-endpoints-255", "local-local-endpoints-1", "local-",
	"local-cluster-ips", "local-hairpin", "affinity-0", "sticky-endpoints-0", "sticky-endpoints-many", "sticky-numbers-1",
	"xendpoints-1", "x-endpoints-1", "allowed-sources", "allowed-sources-0", "allowed-sources-33", "local-allowed-sources-8",
}

func TestNamesOfOthersAreNotOurs(t *testing.T) {
	for _, f := range model.Families {
		for _, name := range otherNames {
			if id := ChainNamed(f, name); id.Kind != ChainUnknown && id.Name() != name {
				t.Errorf("the chain called %q is %s", name, id.Name())
			}
			if id, known := SetNamed(f, name); known && id.Name() != name {
				t.Errorf("the set called %q is %s", name, id.Name())
			}
		}
	}
}

func TestEveryChainHasAMeaning(t *testing.T) {
	for kind := range chainKinds {
		if (ChainID{Kind: kind}).Means() == "" {
			t.Errorf("chains %q have none", chainWord(kind, 0))
		}
	}
	if got := ChainNamed(model.IPv4, "KUBE-SERVICES").Means(); got != "" {
		t.Errorf("a chain of another program means %q", got)
	}
}
