package explain

import (
	"fmt"
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// TestAddressWithoutNodePortsIsReported sends to a node port at an address of the node that
// does not serve node ports.
func TestAddressWithoutNodePortsIsReported(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Kinds: []model.Kind{model.KindNodePort}, Endpoints: r.servers}
	r.folder.Put("services", web)
	daemon.Start(t, r.Node, r.folder, "--nodeport-addresses", "primary")
	for f, other := range map[model.Family]string{model.IPv4: "10.244.1.1", model.IPv6: "fd00:10:244:1::1"} {
		at := web.AddrPort(r.Node, f, model.KindNodePort, 0)
		for _, p := range model.Protocols {
			want := fmt.Sprintf("%d/%s is the node port of default/web, and is served at %s; %s serves no node ports\n", at.Port(), p, at.Addr(), other)
			asked := netip.AddrPortFrom(netip.MustParseAddr(other), at.Port())
			r.expect(0, []string{"From the running kube-vmap:\n  " + want}, "--from="+r.Pods[3].Addr(f).String(), to(asked, p))
		}
	}
}
