package nft

import (
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestEverySchedulerHasItsMethod(t *testing.T) {
	endpoints := make([]netip.AddrPort, 3)
	seen := map[method]model.Scheduler{}
	for s := model.SchedulerRandom; !strings.HasPrefix(s.String(), "Scheduler("); s++ { // all that have a name
		m := methodOf(&model.Pool{Scheduler: s, Cluster: endpoints}, len(endpoints))
		if s == model.SchedulerLeastConnections { // shares make it differ from random
			if m != pickRandom {
				t.Errorf("least connections has method %d", m)
			}
			continue
		}
		if got := methodSchema[m].scheduler; got != s {
			t.Errorf("scheduler %v is implemented as %v", s, got)
		}
		if other, twice := seen[m]; twice {
			t.Errorf("schedulers %v and %v have the same method", s, other)
		}
		seen[m] = s
	}
}

func TestEveryMethodHasNameTextAndExpression(t *testing.T) {
	for m := range methods {
		d := pick{count: 3, method: m}
		for f := range families {
			if methodSchema[m].name == "" || d.text(&families[f]) == "" || len(d.expression(&families[f], regValue, regKey)) == 0 {
				t.Errorf("method %d has no name, text or expression", m)
			}
		}
	}
}
