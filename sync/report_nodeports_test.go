package sync_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// exposed returns the Service with node ports and ClusterIPs of these families.
func exposed(s sync.SetService, families ...model.Family) sync.SetService {
	s.Service.ClusterIPs = slices.DeleteFunc(slices.Clone(s.Service.ClusterIPs), func(a netip.Addr) bool {
		return !slices.Contains(families, model.FamilyOf(a))
	})
	for i := range s.Service.Ports {
		s.Service.Ports[i].NodePort = 30080
	}
	return s
}

func TestNodePortAddressProblemsAreLoggedOnce(t *testing.T) {
	const (
		onAll  = "primary address of family %s is not known: node ports answer on all"
		onNone = "no address of family %s on the node"
	)
	addrs := [...]netip.Addr{model.IPv4: netip.MustParseAddr("192.0.2.1"), model.IPv6: netip.MustParseAddr("2001:db8::1")}
	elsewhere := [...]netip.Addr{model.IPv4: netip.MustParseAddr("192.0.2.9"), model.IPv6: netip.MustParseAddr("2001:db8::9")}
	primary := sync.NodePortAddresses{Primary: true}
	for _, f := range model.Families {
		only := func(a [len(model.Families)]netip.Addr) (n model.Node) {
			n.Addrs[f] = a[f]
			return n
		}
		for _, test := range []struct {
			name     string
			ports    sync.NodePortAddresses
			node     model.Node
			services []model.Family // that have node ports
			want     string
		}{
			{"no primary address", primary, model.Node{}, []model.Family{f}, onAll},
			{"primary address that no interface has", primary, only(elsewhere), []model.Family{f}, onNone},
			{"primary address", primary, only(addrs), []model.Family{f}, ""},
			{"all addresses", sync.NodePortAddresses{}, model.Node{}, model.Families[:], ""},
			{"no primary address, no node port", primary, model.Node{}, nil, ""},
			{"no address, no node port", primary, only(elsewhere), nil, ""},
		} {
			t.Run(f.String()+" "+test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					known := make(addressList)
					var log strings.Builder
					s := newLoggedRig(t, sync.Config{Addresses: known, NodePorts: test.ports}, slog.New(slog.NewTextHandler(&log, nil)))
					known <- addrs[:]
					s.send(sync.SetNode{Node: test.node}, webService("inside", 100))
					for n := range byte(3) {
						s.send(exposed(webService("web", n), test.services...))
					}
					got, want := strings.Count(log.String(), "node ports may not answer"), 1
					if test.want == "" {
						want = 0
					} else if text := fmt.Sprintf(test.want, f); !strings.Contains(log.String(), text) {
						t.Errorf("not logged: %q", text)
					}
					if got != want {
						t.Errorf("%d warnings, want %d:\n%s", got, want, log.String())
					}
					for n := range byte(3) {
						s.send(sync.DeleteService{Name: webService("web", n).Service.Name})
					}
					if left, err := s.loop.Snapshot(t.Context()); err != nil || len(left.Problems) > 0 {
						t.Errorf("problems without a node port: %v, %v", left.Problems, err)
					}
				})
			})
		}
	}
}
