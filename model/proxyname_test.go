package model_test

import (
	"net/netip"
	"testing"

	"kube-vmap/model"
)

func TestProxyServesItsOwnServices(t *testing.T) {
	defer model.SetProxyName("")
	none, empty, edge, other := map[string]string(nil), map[string]string{model.LabelServiceProxyName: ""},
		map[string]string{model.LabelServiceProxyName: "edge"}, map[string]string{model.LabelServiceProxyName: "other"}
	for name, want := range map[string][4]bool{"": {true, false, false, false}, "edge": {false, false, true, false}} {
		model.SetProxyName(name)
		if got := [4]bool{model.Serves(none), model.Serves(empty), model.Serves(edge), model.Serves(other)}; got != want {
			t.Errorf("proxy %q serves %v, want %v", name, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	for f, text := range map[model.Family][2]string{model.IPv4: {"192.0.2.1", "192.0.2.2"}, model.IPv6: {"2001:db8::1", "2001:db8::2"}} {
		node, other := netip.MustParseAddr(text[0]), netip.MustParseAddr(text[1])
		for _, p := range model.Protocols {
			at := func(a netip.Addr, port uint16) model.Match {
				return model.Match{Family: f, Protocol: p, Addr: a, Port: port}
			}
			all := map[model.Match]string{
				at(netip.Addr{}, 1): "node port 1", at(netip.Addr{}, 2): "node port 2", at(node, 2): "external IP",
			}
			for to, want := range map[model.Match]string{
				at(node, 1): "node port 1", at(node, 2): "external IP", at(node, 3): "",
				at(other, 1): "", at(netip.Addr{}, 1): "node port 1",
			} {
				m, got, found := model.Find(all, model.NodeAddrs{node}, to)
				if got != want || found != (want != "") || found && all[m] != want {
					t.Errorf("%s: %q at %s, want %q", to, got, m, want)
				}
			}
		}
	}
}
