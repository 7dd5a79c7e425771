package daemon

import (
	"strings"
	"testing"

	"kube-vmap/model"
)

// Way is a protocol over a family: every packet test goes all ways.
type Way struct {
	Protocol model.Protocol
	Family   model.Family
}

// String is "UDP-over-IPv6".
func (w Way) String() string {
	return strings.ToUpper(w.Protocol.String()) + "-over-" + w.Family.String()
}

// Ways are all ways.
func Ways() []Way {
	var all []Way
	for _, p := range model.Protocols {
		for _, f := range model.Families {
			all = append(all, Way{p, f})
		}
	}
	return all
}

// EachWay runs a test for every way, all at the same time, and waits for all.
func EachWay(t *testing.T, test func(*testing.T, Way)) {
	t.Helper()
	t.Run("all", func(t *testing.T) {
		for _, w := range Ways() {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
	})
}
