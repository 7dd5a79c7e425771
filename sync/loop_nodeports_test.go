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

// exposed gives a Service node ports, in the families of its ClusterIPs.
func exposed(s sync.SetService, families ...model.Family) sync.SetService {
	s.Service.ClusterIPs = slices.DeleteFunc(slices.Clone(s.Service.ClusterIPs), func(a netip.Addr) bool {
		return !slices.Contains(families, model.FamilyOf(a))
	})
	for i := range s.Service.Ports {
		s.Service.Ports[i].NodePort = 30080
	}
	return s
}

func TestNodePortsThatAnswerElsewhereThanMeantAreLoggedOnce(t *testing.T) {
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
			{"one that no interface has", primary, only(elsewhere), []model.Family{f}, onNone},
			{"as meant", primary, only(addrs), []model.Family{f}, ""},
			{"all", sync.NodePortAddresses{}, model.Node{}, model.Families[:], ""},
			{"no primary address, and no node port", primary, model.Node{}, nil, ""},
			{"no address at all, and no node port", primary, only(elsewhere), nil, ""},
		} {
			t.Run(f.String()+" "+test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					known := make(addressList)
					var log strings.Builder
					s := newLoggedStage(t, sync.Config{Addresses: known, NodePorts: test.ports}, slog.New(slog.NewTextHandler(&log, nil)))
					known <- addrs[:]
					s.say(sync.SetNode{Node: test.node}, web("inside", 100))
					for n := range byte(3) {
						s.say(exposed(web("web", n), test.services...))
					}
					got, want := strings.Count(log.String(), "node ports may not answer"), 1
					if test.want == "" {
						want = 0
					} else if text := fmt.Sprintf(test.want, f); !strings.Contains(log.String(), text) {
						t.Errorf("the log does not say %q", text)
					}
					if got != want {
						t.Errorf("%d warnings, want %d:\n%s", got, want, log.String())
					}
				})
			})
		}
	}
}

// A node with a link-local address of the family that its cluster does not use must not
// warn all its life; and it must not be silent where it matters.
func TestTheWarningAboutNodePortsComesAndGoesWithThem(t *testing.T) {
	addrs := [...]netip.Addr{model.IPv4: netip.MustParseAddr("192.0.2.1"), model.IPv6: netip.MustParseAddr("fe80::1")}
	for _, f := range model.Families {
		other := model.IPv4 + model.IPv6 - f
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				known := make(addressList)
				s := newStage(t, sync.Config{Addresses: known, NodePorts: sync.NodePortAddresses{Primary: true}})
				known <- addrs[:]
				var node model.Node
				node.Addrs[f] = addrs[f]
				web, gone := web("web", 1), sync.DeleteService{Name: web("web", 1).Service.Name}
				for _, step := range []struct {
					what string
					say  sync.Event
					want bool
				}{
					{"a node of one family", sync.SetNode{Node: node}, false},
					{"a node port of its family", exposed(web, f), false},
					{"one of both families", exposed(web, f, other), true},
					{"one of its family again", exposed(web, f), false},
					{"one of the other family", exposed(web, other), true},
					{"none any more", gone, false},
				} {
					s.say(step.say)
					view, err := s.loop.Snapshot(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					warned := slices.ContainsFunc(view.Problems, func(p sync.Problem) bool {
						return p.Reason == sync.ReasonNodePorts && strings.Contains(p.Text, "of family "+other.String()+" is not known")
					})
					if warned != step.want || len(view.Problems) > 1 {
						t.Errorf("%s: problems %v", step.what, view.Problems)
					}
				}
			})
		})
	}
}
