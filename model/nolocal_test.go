package model

import "testing"

// noLocal is so many inside and outside in one family.
func notLocal(f Family, internal, external int) NoLocalEndpoints {
	return NoLocalEndpoints{Internal: local(f, internal), External: local(f, external)}
}

func TestNotLocalCountsPortsServedOnOtherNodesOnly(t *testing.T) {
	inside := func(s *Service) { s.InternalPolicy = PolicyLocal }
	outside := func(s *Service) { s.ExternalPolicy = PolicyLocal }
	tests := map[string]struct {
		service            func(*Service)
		internal, external int // counted while all endpoints are elsewhere
	}{
		"neither for a Cluster policy":                {anyType, 0, 0},
		"inside for that policy":                      {inside, 1, 0},
		"inside alone, without anything else":         {and(clusterIPType, inside), 1, 0},
		"outside for that policy, once for all kinds": {outside, 0, 1},
		"outside for one kind":                        {and(nodePortType, outside), 0, 1},
		"outside not if there is nothing outside":     {and(clusterIPType, outside), 0, 0},
		"both": {and(inside, outside), 1, 1},
		"both, for each port": {and(inside, outside, func(s *Service) {
			more := s.Ports[0]
			more.Port, more.NodePort = 81, 0 // it is outside by its other addresses
			s.Ports = append(s.Ports, more)
		}), 2, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, f Family, p Protocol) {
				m := NewServiceMap(Options{}, thisNode)
				service := changed(webEverywhere(p, Families[:]...), test.service)
				counted, none := notLocal(f, test.internal, test.external), NoLocalEndpoints{}
				steps := []struct {
					what string
					do   func()
					want NoLocalEndpoints
				}{
					{"no endpoint", func() { m.SetService(service) }, none},
					{"one elsewhere", func() { m.SetSlice(webSlice(f, p, ready(1).on(there))) }, counted},
					{"one more here", func() { m.SetSlice(webSlice(f, p, ready(1).on(there), ready(2).on(here))) }, none},
					{"which drains", func() { m.SetSlice(webSlice(f, p, ready(1).on(there), draining(2).on(here))) }, none},
					{"and dies", func() { m.SetSlice(webSlice(f, p, ready(1).on(there), dying(2).on(here))) }, counted},
					{"one that drains elsewhere", func() { m.SetSlice(webSlice(f, p, draining(1).on(there))) }, counted},
					{"the node is that one", func() { m.SetNode(Node{Name: there}) }, none},
					{"and this one again", func() { m.SetNode(thisNode) }, counted},
					{"none that may serve", func() { m.SetSlice(webSlice(f, p, notReady(1).on(there))) }, none},
					{"elsewhere again", func() { m.SetSlice(webSlice(f, p, ready(1).on(there))) }, counted},
					{"the Service gone", func() { m.DeleteService(service.Name) }, none},
				}
				for _, step := range steps {
					step.do()
					m.Changes()
					if got := m.NoLocalEndpoints(); got != step.want {
						t.Errorf("%s: got %v, want %v", step.what, got, step.want)
					}
				}
			})
		})
	}
}
