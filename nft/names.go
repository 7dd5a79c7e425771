package nft

import (
	"strconv"
	"strings"

	"kube-vmap/model"
)

// Prefixes of names: of chains that node ports jump to, and of chains and sets with endpoints
// of this node only.
const (
	nodePortPrefix = "node-port-"
	localPrefix    = "local-"
)

// Name returns the chain's name in the table, "node-port-external-rr-3" or
// "sticky-3-10800s" for instance. A chain of another program, of [ChainUnknown], has no name
// here and is never written.
func (id ChainID) Name() string { return string(id.AppendName(nil)) }

// AppendName appends the chain's name. Every element of a dispatch map has one, so names are
// not stored but made where they are written.
func (id ChainID) AppendName(b []byte) []byte {
	switch {
	case id.Kind >= chainKinds:
		return append(b, "(not ours)"...)
	case id.Kind < baseChains:
		return append(b, chainSchema[id.Kind].name...)
	}
	if id.NodePort {
		b = append(b, nodePortPrefix...)
	}
	if id.Local {
		b = append(b, localPrefix...)
	}
	b = append(b, chainWord(id.Kind, id.Method)...)
	if id.Kind.single() {
		return b
	}
	b = strconv.AppendUint(append(b, '-'), uint64(id.N), 10)
	if id.Method != pickSticky {
		return b
	}
	return append(strconv.AppendUint(append(b, '-'), uint64(id.Seconds), 10), 's')
}

// single reports whether at most one chain exists of a kind created on demand.
func (k ChainKind) single() bool {
	return ChainRetry <= k && k <= ChainRewrite || k >= ChainNATInput
}

// chainWord is the name of a kind of chain without number and prefixes. It has the method
// unless that is random.
func chainWord(kind ChainKind, m method) string { return chainWords[kind][m] }

var chainWords = func() (words [chainKinds][methods]string) {
	for kind := baseChains; kind < chainKinds; kind++ {
		for m := range methods {
			words[kind][m] = chainSchema[kind].name
			switch {
			case kind == ChainBalance:
				words[kind][m] = methodSchema[m].name
			case m != pickRandom:
				words[kind][m] += "-" + methodSchema[m].name
			}
		}
	}
	return words
}()

// ChainNamed returns the chain of that name. It is of kind [ChainUnknown] if it is not one of
// ours.
func ChainNamed(f model.Family, name string) ChainID {
	for kind := range baseChains {
		if chainSchema[kind].name == name {
			return ChainID{Family: f, Kind: kind}
		}
	}
	id := ChainID{Family: f}
	rest := name
	rest, id.NodePort = strings.CutPrefix(rest, nodePortPrefix)
	rest, id.Local = strings.CutPrefix(rest, localPrefix)
	for kind := baseChains; kind < chainKinds; kind++ {
		if kind.single() && rest == chainSchema[kind].name {
			id.Kind = kind
			return id.orUnknown(name)
		}
	}
	if before, ok := strings.CutSuffix(rest, "s"); ok {
		i := strings.LastIndexByte(before, '-')
		seconds, err := strconv.ParseUint(before[i+1:], 10, 32)
		if i < 0 || err != nil {
			return ChainID{Family: f, Kind: ChainUnknown}
		}
		rest, id.Seconds = before[:i], uint32(seconds)
	}
	i := strings.LastIndexByte(rest, '-')
	n, err := strconv.ParseUint(rest[i+1:], 10, 32)
	if i < 0 || err != nil {
		return ChainID{Family: f, Kind: ChainUnknown}
	}
	id.N = uint32(n)
	id.Kind, id.Method = kindNamed(rest[:i])
	return id.orUnknown(name)
}

// orUnknown returns the chain if its name is exactly that, and else ChainUnknown.
func (id ChainID) orUnknown(name string) ChainID {
	if id.Name() != name {
		return ChainID{Family: id.Family, Kind: ChainUnknown}
	}
	return id
}

// kindNamed returns the kind and method of a [chainWord].
func kindNamed(word string) (ChainKind, method) {
	for kind := baseChains; kind < chainKinds; kind++ {
		for m := range methods {
			if chainWord(kind, m) == word {
				return kind, m
			}
		}
	}
	return ChainUnknown, 0
}

// A Meaning is what happens to a packet in a chain of ours.
type Meaning string

// The meanings.
const (
	MeansDropsInvalid  Meaning = "drops-invalid"   // dropped if connection tracking calls it invalid
	MeansChecksSource  Meaning = "checks-source"   // dropped outside of the Service's source ranges
	MeansFindsService  Meaning = "finds-service"   // sent to the Service that has its destination
	MeansChecksService Meaning = "checks-service"  // stopped if the Service has no endpoint for it
	MeansRejects       Meaning = "rejects"         // rejected with a reset or an ICMP error
	MeansHolds         Meaning = "holds"           // dropped until the Service has an endpoint
	MeansRetries       Meaning = "retries"         // dropped, so the client sends again
	MeansMarks         Meaning = "marks"           // marked for masquerade
	MeansAppliesPolicy Meaning = "applies-policy"  // gets local endpoints only, by where the client is
	MeansGetsClusterIP Meaning = "gets-cluster-ip" // the ClusterIP becomes its destination
	MeansPicks         Meaning = "picks"           // an endpoint is picked for it
	MeansRemembers     Meaning = "remembers"       // gets the endpoint that the client had
	MeansTranslates    Meaning = "translates"      // the endpoint becomes its destination
	MeansCounts        Meaning = "counts"          // its connection is counted
	MeansRestores      Meaning = "restores"        // gets its destination back if nothing was translated
	MeansMasquerades   Meaning = "masquerades"     // an address of the node becomes its source
)

// Means returns what happens to a packet in the chain; nothing for one of another program.
func (id ChainID) Means() Meaning {
	if id.Kind >= chainKinds {
		return ""
	}
	return chainSchema[id.Kind].means
}
