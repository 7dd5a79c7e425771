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
	"kube-vmap/nft/kernel/kerneltest"
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
	addrs := [...]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	primary, unknown := sync.NodePortAddresses{Primary: true}, netip.Addr{}
	for _, f := range model.Families {
		onAll := fmt.Sprintf("primary address of family %s is not known: node ports answer on all", f)
		onNone := fmt.Sprintf("no address of family %s on the node", f)
		elsewhere := addrs[f].Next()
		for _, test := range []struct {
			ports    sync.NodePortAddresses
			node     netip.Addr     // its primary address
			services []model.Family // that have node ports
			want     string
		}{
			{primary, unknown, []model.Family{f}, onAll},
			{primary, elsewhere, []model.Family{f}, onNone},
			{primary, addrs[f], []model.Family{f}, ""},
			{sync.NodePortAddresses{}, unknown, model.Families[:], ""},
			{primary, unknown, nil, ""},
			{primary, elsewhere, nil, ""},
		} {
			synctest.Test(t, func(t *testing.T) {
				known := make(addressList)
				var log strings.Builder
				s := newRigOn(t, kerneltest.New(), sync.Config{Addresses: known, NodePorts: test.ports},
					slog.NewTextHandler(&log, nil))
				known <- single(addrs[:]...)
				var node sync.SetNode
				node.Node.Addrs[f] = test.node
				s.send(node, webService("inside", 100))
				for n := range byte(3) {
					s.send(exposed(webService("web", n), test.services...))
				}
				text, want := log.String(), 1
				if test.want == "" {
					want = 0
				}
				if strings.Count(text, "node ports may not answer") != want || !strings.Contains(text, test.want) {
					t.Errorf("%s, %+v: want %d warnings %q:\n%s", f, test, want, test.want, text)
				}
				s.send(sync.DeleteService{Name: webService("web", 0).Service.Name})
				if left, err := s.loop.Snapshot(t.Context()); err != nil || len(left.Problems) > 0 {
					t.Errorf("problems without a node port: %v, %v", left.Problems, err)
				}
			})
		}
	}
}
