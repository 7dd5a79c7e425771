package sync

import (
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestOpenFamily(t *testing.T) {
	const ip, ip6 = "198.51.100.2", "2001:db8::2"
	for _, test := range []struct {
		name   string
		ranges []string
		lb     []string
		want   string // in the warning; empty: no warning
	}{
		{"no ranges", nil, []string{ip, ip6}, ""},
		{"ranges of both", []string{"203.0.113.0/24", "2001:db8:1::/48"}, []string{ip, ip6}, ""},
		{"of IPv4", []string{"203.0.113.0/24", "192.0.2.0/24"}, []string{ip, ip6}, "family IPv6: anyone may use " + ip6},
		{"of IPv6", []string{"2001:db8:1::/48"}, []string{ip, ip6}, "family IPv4: anyone may use " + ip},
		{"of IPv4, and no IPv6 address", []string{"203.0.113.0/24"}, []string{ip}, ""},
		{"of IPv4, and no address", []string{"203.0.113.0/24"}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s model.Service
			for _, r := range test.ranges {
				s.SourceRanges = append(s.SourceRanges, netip.MustParsePrefix(r))
			}
			for _, a := range test.lb {
				s.LoadBalancerIPs = append(s.LoadBalancerIPs, netip.MustParseAddr(a))
			}
			err := openFamily(&s)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestOpenFamilyIsReportedOnce(t *testing.T) {
	s := model.Service{
		Name:            model.ServiceName{Namespace: "shop", Name: "web"},
		SourceRanges:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("2001:db8::2")},
	}
	for _, strict := range []bool{false, true} {
		st := newDesiredState(Config{Options: model.Options{StrictSourceRanges: strict}})
		reported := 0
		for range 3 {
			st.apply([]Event{SetService{s}})
			st.warnings.pending(func(Object, string) { reported++ })
		}
		if want := map[bool]int{false: 1, true: 0}[strict]; reported != want {
			t.Errorf("strict %v: reported %d times, want %d", strict, reported, want)
		}
		st.apply([]Event{DeleteService{s.Name}, SetService{s}})
		st.warnings.pending(func(Object, string) { reported++ })
		if want := map[bool]int{false: 2, true: 0}[strict]; reported != want {
			t.Errorf("strict %v: reported %d times after it was deleted and created again, want %d", strict, reported, want)
		}
	}
}
