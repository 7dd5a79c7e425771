package answer

import (
	"net/netip"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// TestProblemsOfOtherAddressesAreNoHints has conflicts about the address, and one of which it is a prefix.
func TestProblemsOfOtherAddressesAreNoHints(t *testing.T) {
	for _, f := range model.Families {
		to := netip.MustParseAddrPort(map[model.Family]string{model.IPv4: "10.96.0.1:80", model.IPv6: "[fd00::1]:80"}[f])
		for held, want := range map[string]bool{
			to.String() + "/tcp": true, netip.AddrPortFrom(to.Addr(), 9).String() + "/udp": true,
			netip.AddrPortFrom(to.Addr().Next(), 80).String() + "/tcp": false, "*:30080/tcp": false,
		} {
			p := nodestatus.Problem{Reason: model.ProblemConflict, Args: nodestatus.Args{Names: []string{held}}}
			if got := concerns(&p, to.Addr()); got != want {
				t.Errorf("%s concerns %s: %t", held, to.Addr(), got)
			}
		}
	}
}

// TestEndpointNodeIsThatOfALivePort has an address whose former port has no node.
func TestEndpointNodeIsThatOfALivePort(t *testing.T) {
	for _, f := range model.Families {
		live := nodestatus.Endpoint{Address: map[model.Family]string{model.IPv4: "10.244.1.2", model.IPv6: "fd00:10:244::2"}[f], Port: 8080, Node: "node-1"}
		d := &nodestatus.Document{Services: []nodestatus.Service{{Ports: []nodestatus.Port{{}}}}}
		list := &d.Services[0].Ports[0].Endpoints
		gone := live
		gone.Node = ""
		for _, all := range [][]nodestatus.Endpoint{{gone, live}, {live, gone}} {
			*list = all
			if n := endpointNodes(d)[live.Address]; n != live.Node || n == "" {
				t.Errorf("%s is on %q, want %q", live.Address, n, live.Node)
			}
		}
	}
}
