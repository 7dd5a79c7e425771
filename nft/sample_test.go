package nft

import (
	"testing"

	"kube-vmap/model"
)

func TestSampleHasEveryChainAndSet(t *testing.T) {
	config := sampleConfig
	kinds := map[ChainID]bool{}
	sets := map[SetID]bool{}
	for _, op := range Sample(config) {
		switch op := op.(type) {
		case AddChain:
			kinds[ChainID{Family: op.Chain.Family, Kind: op.Chain.Kind, Method: op.Chain.Method}] = true
		case AddElements:
			sets[SetID{Family: op.Set.Family, Kind: op.Set.Kind}] = true
		case AddFrontends:
			sets[SetID{Family: op.Set.Family, Kind: op.Set.Kind}] = true
		}
	}
	for _, f := range model.Families {
		for kind := range chainKinds {
			if kind != ChainBalance && kind != ChainMasquerade && !kinds[ChainID{Family: f, Kind: kind}] {
				t.Errorf("chain %s of %s is not tried", chainSchema[kind].name, families[f].name)
			}
		}
		for m := range methods {
			// Maglev is as source hash, but larger.
			if !m.isMaglev() && !kinds[ChainID{Family: f, Kind: ChainBalance, Method: m}] {
				t.Errorf("chain %s of %s is not tried", methodSchema[m].name, families[f].name)
			}
		}
		for kind := range setKinds {
			unfilled := kind == SetNoEndpointServices || kind == SetNoEndpointNodePorts || kind == SetNodeIPs || kind == SetHairpin || kind == SetAffinity || kind == SetConnections || kind == SetUncounted ||
				kind == SetHeld || kind == SetWaiting || kind == SetRetrying
			if !unfilled && !sets[SetID{Family: f, Kind: kind}] {
				t.Errorf("set %s of %s is not tried", setSchema[kind].name, families[f].name)
			}
		}
	}
}
