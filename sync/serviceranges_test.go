package sync_test

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// TestServiceRangesExcludeHosts has ServiceCIDRs that contain networks and the address of the node,
// pods and API servers. The IPv6 range of pods contains the ServiceCIDR, and excludes nothing.
func TestServiceRangesExcludeHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addrs := make(addressList)
		var log strings.Builder
		c := sync.Config{Addresses: addrs, APIServer: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.12:6443")}}
		c.Rules.Pods = [...]netip.Prefix{model.IPv4: netip.MustParsePrefix("10.96.0.32/27"), model.IPv6: netip.MustParsePrefix("fd00::/8")}
		s := newRigOn(t, kerneltest.New(), c, slog.NewTextHandler(&log, nil))
		addrs <- prefixes("10.96.0.129/25", "10.96.0.130/25", "10.96.0.9/32", "192.0.2.1/24", "fd00:10:96::9/125")
		var node sync.SetNode
		node.Node.Addrs[model.IPv4] = netip.MustParseAddr("10.96.0.13")
		kubernetes, slice := webService("kubernetes", 1), webSlice(model.IPv6, 1)
		slice.Slice.Service, slice.Slice.Endpoints[0].Addr = kubernetes.Service.Name, netip.MustParseAddr("fd00:10:96::4")
		cidrs := sync.SetServiceCIDRs{CIDRs: prefixes("10.96.0.0/24", "fd00:10:96::/124")}
		for _, step := range []struct {
			event sync.Event
			want  []string
		}{
			{node, []string{
				"10.96.0.0/29", "10.96.0.8/30", "10.96.0.14/31", "10.96.0.16/28", "10.96.0.64/26",
				"fd00:10:96::/126", "fd00:10:96::5/128", "fd00:10:96::6/127",
			}},
			{sync.DeleteSlice{Name: slice.Slice.Name}, []string{
				"10.96.0.0/29", "10.96.0.8/30", "10.96.0.14/31", "10.96.0.16/28", "10.96.0.64/26", "fd00:10:96::/125",
			}},
			{sync.SetServiceCIDRs{CIDRs: prefixes("10.97.0.0/16")}, []string{"10.97.0.0/16"}},
		} {
			if step.event == node {
				s.send(kubernetes, slice, cidrs)
			}
			s.send(step.event)
			rules, _, err := s.loop.Ruleset(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := rules.ServiceCIDRs(); !slices.Equal(got, prefixes(step.want...)) {
				t.Errorf("ranges %v, want %s", got, step.want)
			}
		}
		text := log.String()
		for _, want := range []string{
			"ServiceCIDR 10.96.0.0/24 overlaps 10.96.0.128/25, a network of this node; ",
			"10.96.0.32/27, the range of pods; ", "10.96.0.13/32, this node's address; ",
			"10.96.0.12/32, the API server; ", "fd00:10:96::4/128, an API server",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in the log:\n%s", want, text)
			}
		}
		if v, err := s.loop.Snapshot(t.Context()); err != nil || len(v.Problems) > 0 {
			t.Errorf("problems at the end: %v, %v", v.Problems, err)
		}
	})
}

// TestAPIServerThroughAServiceIsReported has addresses that are a ClusterIP with and without the port.
func TestAPIServerThroughAServiceIsReported(t *testing.T) {
	for server, want := range map[string]string{
		"10.96.0.1:80":  "the API server is configured as 10.96.0.1:80, which is Service default/kubernetes: ",
		"[fd00::1]:80":  "the API server is configured as [fd00::1]:80, which is Service default/kubernetes: ",
		"10.96.0.1:443": "", "192.0.2.1:80": "", "198.51.100.1:80": "", // routers send these to other nodes
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			s := newRigOn(t, kerneltest.New(), sync.Config{APIServer: []netip.AddrPort{netip.MustParseAddrPort(server)}},
				slog.NewTextHandler(&log, nil))
			kubernetes := webService("kubernetes", 1)
			kubernetes.Service.LoadBalancerIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
			s.send(kubernetes)
			s.send(webService("web", 2))
			v, err := s.loop.Snapshot(t.Context())
			if err != nil || (len(v.Problems) > 0) != (want != "") || want != "" &&
				(v.Problems[0].Reason != model.ProblemAPIServer || !strings.HasPrefix(v.Problems[0].Text, want)) {
				t.Errorf("%s: %+v, %v, want %q", server, v.Problems, err, want)
			}
			if got := s.last().NodeProblems; len(got) != len(v.Problems) {
				t.Errorf("%s: the observer got %v, want %v", server, got, v.Problems)
			}
			if got := strings.Count(log.String(), "API server is reached through a Service"); got != len(v.Problems) {
				t.Errorf("%s: logged %d times:\n%s", server, got, log.String())
			}
		})
	}
}

// TestNetworksDoNotDependOnAddresses has temporary addresses, which change: that is nothing to report.
func TestNetworksDoNotDependOnAddresses(t *testing.T) {
	first, next := sync.Networks(prefixes("fd00::1/64", "fd00::7/64")), sync.Networks(prefixes("fd00::3/64", "fd00::9/128"))
	if len(first) != 1 || !slices.Equal(first, next) {
		t.Errorf("%v, then %v", first, next)
	}
}
