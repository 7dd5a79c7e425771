package flows

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// Ports of the Service in the matrix, and of its endpoints.
const (
	servicePort, nodePort, otherPort = 53, 30053, 54
	targetPort, oldTargetPort        = 5353, 5300
)

// matrix are entries of everything that there can be with a Service: of both
// families, all protocols, all kinds of addresses, the Service's port and another,
// to all endpoints at their port and at a former one, and never translated. Ep1 and
// ep2 are endpoints now, ep3 was one.
func matrix() (stay, end []flow) {
	port := uint16(10000)
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for _, to := range []struct {
				name string
				port uint16
				ours bool
			}{
				{"vip", servicePort, true},
				{"external", servicePort, true},
				{"lb", servicePort, true},
				{"node", nodePort, true},
				{"vip", otherPort, false},
				{"external", otherPort, false},
				{"lb", otherPort, false},
				{"node", otherPort, false},
				{"node", servicePort, false},
				{"vip", nodePort, false},
				{"remote", nodePort, false},
				{"other", servicePort, false},
			} {
				add := func(by string, target uint16, stale bool) {
					port++
					e := flow{protocol: p, client: at(f, "client", port), to: at(f, to.name, to.port), by: at(f, by, target)}
					if stale && to.ours && p == model.UDP {
						end = append(end, e)
					} else {
						stay = append(stay, e)
					}
				}
				add("ep1", targetPort, false)
				add("ep2", targetPort, false)
				add("ep3", targetPort, true)
				add("ep1", oldTargetPort, true)
				add("ep2", oldTargetPort, true)
				add("ep3", oldTargetPort, true)
				add(to.name, to.port, true)
			}
			// The other way round: what a service address sends is no flow to it.
			port++
			stay = append(stay, flow{protocol: p, client: at(f, "vip", servicePort), to: at(f, "client", port), by: at(f, "client", port)})
		}
	}
	return stay, end
}

// matrixFrontends are the Service's, with its endpoints.
func matrixFrontends(endpoints ...string) (all []model.Frontend) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			pool := frontend(f, p, "vip", servicePort)
			for _, name := range endpoints {
				pool.Pool.FlowEndpoints = append(pool.Pool.FlowEndpoints, at(f, name, targetPort))
			}
			all = append(all, pool, frontend(f, p, "external", servicePort, pool.Pool.FlowEndpoints...),
				frontend(f, p, "lb", servicePort, pool.Pool.FlowEndpoints...), frontend(f, p, "", nodePort, pool.Pool.FlowEndpoints...))
		}
	}
	return all
}

func TestExactlyTheStaleUDPFlowsEnd(t *testing.T) {
	for _, unfiltered := range []bool{false, true} {
		kernel := func(x *table) *conntrack.Conntrack {
			return conntrack.New(conntrack.Config{NetNS: x.host.FD(), Unfiltered: unfiltered})
		}
		t.Run(fmt.Sprintf("without filters %t", unfiltered), func(t *testing.T) {
			t.Parallel()
			t.Run("at the start", func(t *testing.T) {
				t.Parallel()
				stay, end := matrix()
				x := newTable(t)
				x.add(slices.Concat(stay, end)...)
				x.check(x.follow(kernel(x)).tell(sync.Committed{Full: true, Set: matrixFrontends("ep1", "ep2")}, 2), stay, end)
			})
			t.Run("after a change", func(t *testing.T) {
				t.Parallel()
				stay, end := matrix()
				x := newTable(t)
				f := x.follow(kernel(x))
				f.tell(sync.Committed{Full: true, Set: matrixFrontends("ep1", "ep3")}, 2)
				x.add(slices.Concat(stay, end)...)
				x.check(f.tell(sync.Committed{Set: matrixFrontends("ep1", "ep2")}, 2), stay, end)
			})
			t.Run("with a new Service", func(t *testing.T) {
				t.Parallel()
				stay, end := matrix()
				x := newTable(t)
				f := x.follow(kernel(x))
				x.add(slices.Concat(stay, end)...)
				x.check(f.tell(sync.Committed{Set: matrixFrontends("ep1", "ep2")}, 2), stay, end)
			})
			t.Run("without endpoints, and gone", func(t *testing.T) {
				t.Parallel()
				stay, end := matrix()
				stay, more := split(stay)
				for _, gone := range []bool{false, true} {
					x := newTable(t)
					f := x.follow(kernel(x))
					f.tell(sync.Committed{Full: true, Set: matrixFrontends("ep1", "ep2")}, 2)
					x.add(slices.Concat(stay, end, more)...)
					taken := sync.Committed{Set: matrixFrontends()}
					if gone {
						taken = sync.Committed{}
						for _, old := range matrixFrontends() {
							taken.Gone = append(taken.Gone, old.Match)
						}
					}
					x.check(f.tell(taken, 2), stay, slices.Concat(end, more))
				}
			})
		})
	}
}

// split takes those UDP flows out that are to the Service and current.
func split(all []flow) (rest, current []flow) {
	var ours []model.Match
	for _, f := range matrixFrontends() {
		ours = append(ours, f.Match)
	}
	for _, e := range all {
		m := model.Match{Family: model.FamilyOf(e.to.Addr()), Addr: e.to.Addr(), Protocol: e.protocol, Port: e.to.Port()}
		if slices.Contains(nodeAddrs, m.Addr) {
			m.Addr = netip.Addr{} // as a node port
		}
		if e.protocol == model.UDP && slices.Contains(ours, m) {
			current = append(current, e)
		} else {
			rest = append(rest, e)
		}
	}
	return rest, current
}

// check compares what is left, and how many were told to have ended.
func (x *table) check(deleted int, stay, end []flow) {
	x.t.Helper()
	if len(end) == 0 || deleted != len(end) {
		x.t.Errorf("%d flows were ended, want %d", deleted, len(end))
	}
	x.expect(stay)
}
