package nft

import (
	"testing"

	"kube-vmap/model"
)

func TestChainsAreKnownByTheirNames(t *testing.T) {
	seen := map[string]ChainID{}
	for kind := range chainKinds {
		for _, n := range []uint32{0, 1, 9, 10, 254, 255, 256, 257, 5000, 1<<32 - 1} {
			id := ChainID{Family: model.IPv6, Kind: kind, N: n}
			if kind < baseChains {
				id.N = 0
			}
			if other, twice := seen[id.Name()]; twice && other != id {
				t.Errorf("%v and %v are both called %s", id, other, id.Name())
			}
			seen[id.Name()] = id
			if got := chainNamed(model.IPv6, id.Name()); got != id {
				t.Errorf("the chain called %s is %v, want %v", id.Name(), got, id)
			}
		}
	}
}

func TestOtherNamesAreOfNoChain(t *testing.T) {
	for _, name := range []string{
		"", "-", "lb", "lb-", "lb-x", "lb-03", "lb-+3", "lb--3", "lb-3-3", "lb-4294967296", " lb-3", "LB-3",
		"reject-chain-0", "service-check-0", "cluster", "nat", "nat-prerouting-1", "unknown-1",
	} {
		if got := chainNamed(model.IPv4, name); got.Kind != unknownChain {
			t.Errorf("the chain called %q is %v, want none", name, got)
		}
	}
}

func TestSetsAreKnownByTheirNames(t *testing.T) {
	seen := map[string]SetID{}
	for kind := range setKinds {
		for slot := range uint16(MaxSlots) {
			id := SetID{Family: model.IPv6, Kind: kind, Slot: slot}
			if kind != Endpoints {
				id.Slot = 0
			}
			if other, twice := seen[id.Name()]; twice && other != id {
				t.Errorf("%v and %v are both called %s", id, other, id.Name())
			}
			seen[id.Name()] = id
			if got, known := SetNamed(model.IPv6, id.Name()); !known || got != id {
				t.Errorf("the set called %s is %v (%t), want %v", id.Name(), got, known, id)
			}
		}
	}
}

func TestOtherNamesAreOfNoSet(t *testing.T) {
	for _, name := range []string{
		"", "endpoints", "endpoints-", "endpoints-x", "endpoints-01", "endpoints-+1", "endpoints-255", "endpoints-many-1",
		"services-0", "service", "Services",
	} {
		if got, known := SetNamed(model.IPv4, name); known {
			t.Errorf("the set called %q is %v, want none", name, got)
		}
	}
}
