package daemon

import (
	"strings"
	"testing"

	"kube-vmap/model"
)

// Transport is a protocol over an IP family. Every packet test runs over all of
// them.
type Transport struct {
	Protocol model.Protocol
	Family   model.Family
}

// String returns, for example, "UDP-over-IPv6".
func (w Transport) String() string {
	return strings.ToUpper(w.Protocol.String()) + "-over-" + w.Family.String()
}

// Transports returns all combinations.
func Transports() []Transport {
	var all []Transport
	for _, p := range model.Protocols {
		for _, f := range model.Families {
			all = append(all, Transport{p, f})
		}
	}
	return all
}

// ForEachTransport runs a subtest for every transport, all in parallel, and waits
// for all of them.
func ForEachTransport(t *testing.T, test func(*testing.T, Transport)) {
	t.Helper()
	t.Run("all", func(t *testing.T) {
		for _, w := range Transports() {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
	})
}
