package converttest

import (
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
)

var (
	safeName  = regexp.MustCompile(`^[-_.A-Za-z0-9]*$`)
	safeHints = regexp.MustCompile(`^[-_.,A-Za-z0-9]*$`)
)

// CheckService checks that the result of a conversion is well formed.
func CheckService(t *testing.T, s model.Service) {
	CheckNames(t, s.Name.Namespace, s.Name.Name)
	if n := len(s.ClusterIPs); n < 1 || n > 2 || n == 2 && s.ClusterIPs[0].Is4() == s.ClusterIPs[1].Is4() {
		t.Errorf("ClusterIPs %v", s.ClusterIPs)
	}
	for _, list := range [][]netip.Addr{s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs} {
		for i, addr := range list {
			checkAddr(t, addr)
			sameFamily := func(ip netip.Addr) bool { return ip.Is4() == addr.Is4() }
			if slices.Contains(list[:i], addr) || !slices.ContainsFunc(s.ClusterIPs, sameFamily) {
				t.Errorf("%v among %v with ClusterIPs %v", addr, list, s.ClusterIPs)
			}
		}
	}
	CheckPrefixes(t, s.SourceRanges)
	CheckPrefixes(t, s.DeniedRanges)
	if s.Affinity < 0 || s.Affinity > 24*time.Hour || s.Affinity%time.Second != 0 {
		t.Errorf("affinity %v", s.Affinity)
	}
	if len(s.Ports) == 0 {
		t.Error("no ports")
	}
	for i, p := range s.Ports {
		CheckNames(t, p.Name)
		if p.Port == 0 || !slices.Contains(model.Protocols[:], p.Protocol) || p.Name == "" && i > 0 {
			t.Errorf("port %+v among %+v", p, s.Ports)
		}
		for _, o := range s.Ports[:i] {
			twice := o.Port == p.Port || o.NodePort == p.NodePort && p.NodePort != 0
			if o.Name == p.Name || o.Protocol == p.Protocol && twice {
				t.Errorf("port %+v among %+v", p, s.Ports)
			}
		}
	}
}

// CheckSlice checks that the result of a conversion is well formed.
func CheckSlice(t *testing.T, s model.EndpointSlice) {
	CheckNames(t, s.Name.Namespace, s.Name.Name, s.Service.Namespace, s.Service.Name)
	if s.Name.Namespace != s.Service.Namespace {
		t.Errorf("slice %v of Service %v", s.Name, s.Service)
	}
	for _, p := range s.Ports {
		CheckNames(t, p.Name)
		if p.Port == 0 || !slices.Contains(model.Protocols[:], p.Protocol) {
			t.Errorf("port %+v", p)
		}
	}
	for _, e := range s.Endpoints {
		checkAddr(t, e.Addr)
		CheckNames(t, e.Node)
		if model.FamilyOf(e.Addr) != s.Family || e.Addr.IsLinkLocalUnicast() {
			t.Errorf("endpoint %v in a slice of %v", e.Addr, s.Family)
		}
		for _, set := range []model.NameSet{e.ZoneHints, e.NodeHints} {
			if !safeHints.MatchString(string(set)) {
				t.Errorf("hints %q", set)
			}
		}
	}
}

func checkAddr(t *testing.T, a netip.Addr) {
	if !a.IsValid() || a.Is4In6() || a.Zone() != "" || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
		t.Errorf("address %v", a)
	}
}

// CheckPrefixes checks that prefixes are canonical.
func CheckPrefixes(t *testing.T, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
			t.Errorf("prefix %v", p)
		}
	}
}

// CheckNames checks that names are safe in an nft comment and in a log line.
func CheckNames(t *testing.T, names ...string) {
	for _, name := range names {
		if !safeName.MatchString(name) {
			t.Errorf("name %q", name)
		}
	}
}
