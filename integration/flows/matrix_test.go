package flows

import (
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Ports of the Service in the matrix, and of its endpoints.
const (
	servicePort, nodePort, otherPort = 53, 30053, 54
	targetPort, oldTargetPort        = 5353, 5300
)

// matrix returns all kinds of entries: of both families, all protocols, all kinds of addresses,
// the Service's port and another, to all endpoints at their port and at a former one, and not
// translated. Ep1 and ep2 are endpoints now, ep3 was one.
func matrix() (keep, stale []flow) {
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
				add := func(by string, target uint16, former bool) {
					port++
					e := flow{protocol: p, client: at(f, "client", port), to: at(f, to.name, to.port), by: at(f, by, target)}
					if former && to.ours && p == model.UDP {
						stale = append(stale, e)
					} else {
						keep = append(keep, e)
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
			// A flow from a Service address is no flow to it.
			port++
			keep = append(keep, flow{protocol: p, client: at(f, "vip", servicePort), to: at(f, "client", port), by: at(f, "client", port)})
		}
	}
	return keep, stale
}

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

func TestOnlyStaleUDPFlowsAreDeleted(t *testing.T) {
	t.Parallel()
	keep, stale := matrix()
	x := newTable(t)
	f := x.follow(x.open())
	f.commit(sync.Committed{Full: true, Set: matrixFrontends("ep1", "ep3")}, 2)
	x.add(slices.Concat(keep, stale)...)
	x.check(f.commit(sync.Committed{Set: matrixFrontends("ep1", "ep2")}, 2), keep, stale)
}

// check compares the remaining flows, and the number of deleted ones.
func (x *table) check(deleted int, keep, stale []flow) {
	x.t.Helper()
	if len(stale) == 0 || deleted != len(stale) {
		x.t.Errorf("deleted %d flows, want %d", deleted, len(stale))
	}
	x.remain(keep)
}
