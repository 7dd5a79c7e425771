package sync

import (
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestOpenFamily(t *testing.T) {
	const both = "198.51.100.2 2001:db8::2"
	for _, test := range []struct{ ranges, lb, want string }{
		{"", both, ""},
		{"203.0.113.0/24 2001:db8:1::/48", both, ""},
		{"203.0.113.0/24 192.0.2.0/24", both, "family IPv6: anyone may use"},
		{"2001:db8:1::/48", both, "family IPv4: anyone may use"},
		{"203.0.113.0/24", "198.51.100.2", ""},
		{"203.0.113.0/24", "", ""},
	} {
		var s model.Service
		for r := range strings.FieldsSeq(test.ranges) {
			s.SourceRanges = append(s.SourceRanges, netip.MustParsePrefix(r))
		}
		for a := range strings.FieldsSeq(test.lb) {
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, netip.MustParseAddr(a))
		}
		err := openFamily(&s)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: got %v", test, err)
		}
	}
	s := model.Service{
		SourceRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, RangesForAll: true,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("2001:db8::1")}, Ports: []model.ServicePort{{Port: 80}},
	}
	if err := openFamily(&s); err != nil {
		t.Errorf("without a node port: %v", err)
	}
	if s.Ports[0].NodePort = 30000; openFamily(&s) == nil {
		t.Error("no warning about node ports")
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

// TestPingsGoToAnAddressOfTheNode changes the addresses of interfaces and of the Node object.
func TestPingsGoToAnAddressOfTheNode(t *testing.T) {
	st := newDesiredState(Config{AnswerPings: true})
	for _, step := range []struct{ interfaces, node, want string }{
		{"", "192.0.2.1", ""},
		{"192.0.2.8/24 fe80::1/64", "192.0.2.1", "192.0.2.8"},
		{"192.0.2.1/24 192.0.2.8/24 2001:db8::1/64", "192.0.2.1", "192.0.2.1 2001:db8::1"},
		{"192.0.2.8/24 2001:db8::1/64", "192.0.2.1", "192.0.2.8 2001:db8::1"},
	} {
		var interfaces []netip.Prefix
		for p := range strings.FieldsSeq(step.interfaces) {
			interfaces = append(interfaces, netip.MustParsePrefix(p))
		}
		st.setInterfaces(interfaces)
		st.setNode(model.Node{Addrs: [2]netip.Addr{netip.MustParseAddr(step.node)}})
		var got []string
		for _, a := range st.config.Rules.PingTo {
			if a.IsValid() {
				got = append(got, a.String())
			}
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("%+v: pings go to %s", step, got)
		}
	}
}
