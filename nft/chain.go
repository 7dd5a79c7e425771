package nft

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// ChainKind is one of the kinds of chains of the rule set.
type ChainKind uint8

// The kinds of chains, in the order in which they are declared.
const (
	NATPrerouting ChainKind = iota
	NATOutput
	FilterInput
	FilterForward
	FilterOutput
	NATPostrouting
	ServiceCheck
	RejectChain
	Endpoint   // ep-K: translates to the endpoint in slot K
	Balance    // lb-N: picks one of N endpoints
	Cluster    // cluster-N: marks for masquerade what is not from a pod, then lb-N
	Masquerade // masquerade-N: marks everything for masquerade, then lb-N
	chainKinds
	unknownChain
)

// MaxSlots is the highest number of endpoints that are spread over slots. A
// Service with more keeps them all in one map: the kernel finds maps by walking
// a list, so there must not be thousands. Kubernetes itself supports 250.
const MaxSlots = 255

// hook is where and when a base chain sees packets.
type hook struct {
	chainType string
	number    uint32
	name      string
	priority  int32
	// priorityName is how nft lists the priority.
	priorityName string
}

// Hooks and priorities are kube-proxy's: other components of a cluster rely on
// translation at dstnat and srcnat and on refusal at filter.
var chainSchema = [chainKinds]struct {
	name string
	hook *hook
}{
	NATPrerouting:  {"nat-prerouting", &hook{"nat", unix.NF_INET_PRE_ROUTING, "prerouting", -100, "dstnat"}},
	NATOutput:      {"nat-output", &hook{"nat", unix.NF_INET_LOCAL_OUT, "output", -100, "-100"}},
	FilterInput:    {"filter-input", &hook{"filter", unix.NF_INET_LOCAL_IN, "input", 0, "filter"}},
	FilterForward:  {"filter-forward", &hook{"filter", unix.NF_INET_FORWARD, "forward", 0, "filter"}},
	FilterOutput:   {"filter-output", &hook{"filter", unix.NF_INET_LOCAL_OUT, "output", 0, "filter"}},
	NATPostrouting: {"nat-postrouting", &hook{"nat", unix.NF_INET_POST_ROUTING, "postrouting", 100, "srcnat"}},
	ServiceCheck:   {"service-check", nil},
	RejectChain:    {"reject-chain", nil},
	Endpoint:       {"ep", nil},
	Balance:        {"lb", nil},
	Cluster:        {"cluster", nil},
	Masquerade:     {"masquerade", nil},
}

// baseChains are the chains every table has; the others come with use.
const baseChains = RejectChain + 1

// ChainID refers to a chain of the rule set. N is the slot or the number of
// endpoints of those kinds that have one.
type ChainID struct {
	Family model.Family
	Kind   ChainKind
	N      uint32
}

// Name is the chain's name in the table. One that was read and is none of ours
// has no name here, and is never written.
func (id ChainID) Name() string {
	switch {
	case id.Kind >= chainKinds:
		return "(not ours)"
	case id.Kind < baseChains:
		return chainSchema[id.Kind].name
	case id.N < uint32(len(slotNames)):
		return slotNames[id.N].chain[id.Kind]
	}
	return chainSchema[id.Kind].name + "-" + strconv.FormatUint(uint64(id.N), 10)
}

// chainNamed finds the chain that has the name; of unknown kind if it is none
// of ours.
func chainNamed(f model.Family, name string) ChainID {
	for kind := range baseChains {
		if chainSchema[kind].name == name {
			return ChainID{Family: f, Kind: kind}
		}
	}
	if prefix, number, ok := strings.Cut(name, "-"); ok {
		n, err := strconv.ParseUint(number, 10, 32)
		for kind := baseChains; err == nil && kind < chainKinds; kind++ {
			if id := (ChainID{f, kind, uint32(n)}); chainSchema[kind].name == prefix && id.Name() == name {
				return id
			}
		}
	}
	return ChainID{Family: f, Kind: unknownChain}
}

// slotName names what there is of a number of endpoints, or of a slot.
type slotName struct {
	chain [chainKinds]string
	set   string
}

// slotNames spares building the names again for every element.
var slotNames = func() (names [MaxSlots + 1]slotName) {
	for i := range names {
		n := "-" + strconv.Itoa(i)
		for kind := baseChains; kind < chainKinds; kind++ {
			names[i].chain[kind] = chainSchema[kind].name + n
		}
		names[i].set = setSchema[Endpoints].name + n
	}
	return names
}()

// object is anything in a table that elements or rules refer to, so that what a
// state needs can be followed from what its elements say.
type object struct {
	chain ChainID
	set   SetID
	isSet bool
}

// needs lists the chains and sets the rules of the chain refer to.
func (id ChainID) needs() []object {
	chain := func(kind ChainKind, n uint32) object { return object{chain: ChainID{id.Family, kind, n}} }
	set := func(kind SetKind, slot uint16) object { return object{set: SetID{id.Family, kind, slot}, isSet: true} }
	switch id.Kind {
	case Cluster, Masquerade:
		return []object{chain(Balance, id.N)}
	case Balance:
		if id.N > MaxSlots {
			return []object{set(EndpointsMany, 0)}
		}
		slots := make([]object, id.N)
		for k := range id.N {
			slots[k] = chain(Endpoint, k)
		}
		return slots
	case Endpoint:
		return []object{set(Endpoints, uint16(id.N))}
	}
	return nil
}
