package model

import (
	"slices"
	"testing"
	"time"
)

func TestAServiceThatWeighsTooMuchIsNotServedUntilItWeighsLess(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		heavy, light := player("heavy", f, p), player("light", f, p)
		m := NewServiceMap(Options{Most: 10}, thisNode)
		slice := func(s Service, name string, endpoints int) Slice {
			out := Slice{Name: SliceName{s.Name.Namespace, name}, Service: s.Name, Family: f}
			out.Ports = []SlicePort{{Name: s.Ports[0].Name, Protocol: p, Port: 8080}}
			for k := range endpoints {
				e := ready(k).on(there).Endpoint
				e.Addr = podIP(f, k)
				out.Endpoints = append(out.Endpoints, e)
			}
			return out
		}
		served := func() (names []string) {
			for _, fe := range m.Frontends() {
				names = append(names, fe.Service.Name)
			}
			return slices.Compact(slices.Sorted(slices.Values(names)))
		}
		expect := func(when string, weight int, want ...string) {
			t.Helper()
			excesses := m.Changes().Excesses
			if told := len(excesses) == 1 && excesses[0] == (Excess{heavy.Name, weight}); !told && weight >= 0 || len(excesses) > 1 {
				t.Errorf("%s: told %v, want a weight of %d", when, excesses, weight)
			}
			if weight < 0 && len(excesses) > 0 {
				t.Errorf("%s: told %v", when, excesses)
			}
			if got := served(); !slices.Equal(got, want) {
				t.Errorf("%s: served are %q, want %q", when, got, want)
			}
		}
		m.SetService(heavy)
		m.SetService(light)
		m.SetSlice(slice(heavy, "one", 6))
		m.SetSlice(slice(light, "other", 10))
		expect("with as much as may be", -1, "heavy", "light")
		m.SetSlice(slice(heavy, "two", 5))
		expect("with more, over two slices", 11, "light")
		m.SetSlice(slice(heavy, "two", 6))
		expect("with still more", -1, "light")
		m.DeleteSlice(SliceName{heavy.Name.Namespace, "one"})
		expect("with less", 0, "heavy", "light")
		sticky := heavy
		sticky.Affinity = time.Hour
		m.SetService(sticky)
		expect("with clients to remember", 6*StickyWeight, "light")
		m.DeleteService(heavy.Name)
		expect("gone", 0, "light")
	})
}
