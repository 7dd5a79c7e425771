package flows_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/flows"
)

func TestFlowsToRemovedEndpointsAreDeleted(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		before := []string{"vip:53/udp ep1:5353 ep2:5353", "lb:53/udp ep1:5353 ep2:5353", "*:30053/udp ep1:5353 ep2:5353"}
		after := []string{"vip:53/udp ep1:5353 ep3:5353", "lb:53/udp ep1:5353 ep3:5353", "*:30053/udp ep1:5353 ep3:5353"}
		r.full(before...)
		var stay []string
		for _, to := range []string{"vip:53", "lb:53", "node:30053"} {
			stay = append(stay,
				to+"/udp ep1:5353",                                     // current
				to+"/udp ep3:5353",                                     // current, new
				to+"/tcp ep2:5353", to+"/sctp ep2:5353", to+"/tcp "+to, // other protocols
			)
			r.kernel.entries = append(r.kernel.entries, r.entries(
				to+"/udp ep2:5353", // removed
				to+"/udp ep1:5354", // has another port
				to+"/udp "+to,      // was never translated
			)...)
		}
		stay = append(stay,
			"vip:54/udp ep2:5353",        // another port
			"other:53/udp ep2:5353",      // another address, and the same port
			"remote:30053/udp ep2:5353",  // the same port of another host
			"remote:30053/udp remote:53", // the same
			"ep2:5353/udp vip:53",        // flows from a service address
			"node:53/udp ep2:5353",       // an address of ours with an unused port
			"vip:30053/udp ep2:5353",     // the other way round
		)
		r.kernel.entries = append(r.kernel.entries, r.entries(stay...)...)
		r.change(after...)
		r.expect("after a change", stay...)
		r.kernel.entries = append(r.kernel.entries, r.entries("vip:53/udp other:5353", "lb:53/udp lb:53")...) // never an endpoint
		r.change("vip:53/udp ep1:5353 ep2:5353 ep3:5353", "lb:53/udp ep1:5353 ep2:5353 ep3:5353")
		r.expect("with more endpoints", stay...)
		r.change("vip:53/udp")
		stay = slices.DeleteFunc(stay, func(line string) bool { return strings.HasPrefix(line, "vip:53/udp ") })
		r.expect("without endpoints", stay...)
	})
}

func TestEndpointMayHaveTheServiceAddress(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.kernel.entries = r.entries("node:53/udp node:53")
		r.full("node:53/udp node:53", "*:30053/udp node:53")
		r.change("node:53/udp ep1:53 node:53")
		r.expect("with an endpoint on the node's network", "node:53/udp node:53")
	})
}

func TestNodePortFlowsMatchNodeAddressesOnly(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("*:30053/udp ep1:53")
		all := []string{"node:30053/udp ep2:53", "node-2:30053/udp ep2:53", "remote:30053/udp ep2:53"}
		r.kernel.entries = r.entries(all...)
		r.follow(sync.Committed{NodeAddrs: r.nodeAddrs("node", "node-2")})
		r.expect("with a new address", "remote:30053/udp ep2:53")
		r.kernel.entries = r.entries(all...)
		r.follow(sync.Committed{NodeAddrs: r.nodeAddrs("node-2")})
		r.expect("with an address that is removed", all...)
		r.change("*:30053/udp ep3:53")
		r.expect("with a change and other addresses", "node-2:30053/udp ep2:53", "remote:30053/udp ep2:53")
	})
}

func TestAddressFrontendWinsOverNodePort(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("*:30053/udp ep1:53", "node:30053/udp ep2:53")
		r.kernel.entries = r.entries("node:30053/udp ep1:53", "node:30053/udp ep2:53")
		r.change("*:30053/udp ep3:53", "node:30053/udp ep2:53")
		r.expect("while there are both", "node:30053/udp ep2:53")
		r.kernel.entries = r.entries("node:30053/udp ep2:53", "node:30053/udp ep3:53")
		r.change("-node:30053/udp")
		r.expect("with the node port alone", "node:30053/udp ep3:53")
		r.kernel.entries = r.entries("node:30053/udp ep2:53", "node:30053/udp ep3:53")
		r.change("node:30053/udp ep2:53")
		r.change("-*:30053/udp")
		r.expect("with the address alone", "node:30053/udp ep2:53")
	})
}

func TestFrontendMayMoveToAnotherService(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("vip:53/udp ep1:53", "other:53/udp ep2:53", "lb:53/udp ep1:53", "*:30053/udp ep1:53")
		r.kernel.entries = r.entries("lb:53/udp ep1:53", "lb:53/udp ep2:53", "node:30053/udp ep1:53", "node:30054/udp ep2:53",
			"vip:53/udp ep1:53", "other:53/udp ep2:53", "node:30054/udp node:30054", "vip:53/tcp ep1:53", "remote:30053/udp ep1:53")
		r.change("lb:53/udp ep2:53", "*:30054/udp ep1:53", "-*:30053/udp", "-vip:53/udp")
		r.expect("after the move", "lb:53/udp ep2:53", "other:53/udp ep2:53", "vip:53/tcp ep1:53", "remote:30053/udp ep1:53")
	})
}

func TestSnapshotChecksAllFlows(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.kernel.entries = r.entries("vip:53/udp ep1:53", "vip:53/udp ep2:53", "node:30053/udp node:30053", "other:53/udp other:53")
		r.full("vip:53/udp ep1:53", "vip:80/tcp ep1:80", "*:30053/udp ep1:53")
		r.expect("at the start", "vip:53/udp ep1:53", "other:53/udp other:53")
		r.queried("at the start", "udp")
		r.kernel.entries = r.entries("vip:53/udp ep1:53", "other:53/udp other:53", "vip:53/udp vip:53", "node:30053/udp ep1:53")
		r.full("vip:53/udp ep1:53", "vip:80/tcp ep1:80")
		r.expect("after a repair", "vip:53/udp ep1:53", "other:53/udp other:53")
		r.queried("after a repair", "udp")
	})
}

// TestFlowsFromBeforeAnExternalAddressEnd has flows of each protocol to a new load balancer address,
// and to a ClusterIP. Those with a reply, or to an endpoint, stay.
func TestFlowsFromBeforeAnExternalAddressEnd(t *testing.T) {
	for _, protocol := range []string{"tcp", "sctp"} {
		run(t, flows.Config{}, func(r *rig) {
			external := r.changed("lb:80/"+protocol, "vip:80/"+protocol)
			external.Set[0].Kind = model.KindLoadBalancerIP
			works := []string{"lb:80/" + protocol + " ep1:80", "vip:80/" + protocol + " vip:80", "remote:80/" + protocol + " remote:80"}
			for _, full := range []bool{true, false} {
				if external.Full = full; !full {
					r.change("-lb:80/" + protocol)
				}
				r.kernel.entries = r.entries(append(works, "lb:80/"+protocol+" lb:80")...)
				answered := r.entries("lb:80/" + protocol + " lb:80")
				answered[0].Replied = true
				r.kernel.entries = append(r.kernel.entries, answered...)
				r.follow(external)
				r.expect(fmt.Sprint("full ", full), append(works, "lb:80/"+protocol+" lb:80")...)
			}
			r.kernel.takeQueries()
			r.change("-lb:80/"+protocol, "lb:81/"+protocol)
			r.queried("a ClusterIP, and a frontend that is removed")
			r.follow(external)
			external.Full, external.Set[0].Pool = false, r.changed("lb:80/" + protocol + " ep1:80").Set[0].Pool
			r.follow(external)
			r.kernel.takeQueries()
			external.Set[0].Pool = r.changed("lb:80/" + protocol + " ep2:80").Set[0].Pool
			r.follow(external)
			r.queried("an external address whose endpoint is replaced")
			external.Set[0].Verdict = model.VerdictReject
			r.follow(external)
			r.kernel.entries = r.entries(append(works, "lb:80/"+protocol+" lb:80")...)
			external.Set[0].Verdict = model.VerdictBalance
			r.follow(external)
			r.expect("with its first endpoint", works...)
		})
	}
}

// TestFlowsOfWhatTheKernelStillHadEnd has a Service that was deleted while no process ran.
func TestFlowsOfWhatTheKernelStillHadEnd(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.kernel.entries = r.entries("vip:53/udp ep1:53", "lb:53/udp ep1:53", "node:30053/udp ep1:53", "other:53/udp ep1:53", "remote:53/udp ep1:53", "lb:53/tcp ep1:53")
		c := r.changed("vip:53/udp ep1:53", "-lb:53/udp", "-*:30053/udp", "-lb:53/tcp")
		c.Full = true
		r.follow(c)
		r.expect("at the start", "vip:53/udp ep1:53", "other:53/udp ep1:53", "remote:53/udp ep1:53", "lb:53/tcp ep1:53")
	})
}

// TestUnrepliedFlowsOfHeldServicesAreDeleted has a Service that holds, or retries, and another one,
// which lose an endpoint.
func TestUnrepliedFlowsOfHeldServicesAreDeleted(t *testing.T) {
	for _, c := range []struct {
		p       string
		retries bool
	}{{"tcp", false}, {"sctp", false}, {"tcp", true}} {
		p := c.p
		run(t, flows.Config{}, func(r *rig) {
			frontend := func(hold time.Duration, line string) model.Frontend {
				f := r.frontend(line)
				if f.Pool.RetryRefused = c.retries && hold > 0; !c.retries {
					f.Pool.Hold = hold
				}
				return f
			}
			commit := func(full bool, endpoints string) {
				r.follow(sync.Committed{Full: full, NodeAddrs: r.nodeAddrs("node"), Set: []model.Frontend{
					frontend(time.Minute, "vip:80/"+p+endpoints), frontend(0, "other:80/"+p+endpoints),
				}})
			}
			commit(true, " ep1:80 ep2:80")
			r.kernel.entries = r.entries("vip:80/"+p+" ep1:80", "vip:80/"+p+" ep2:80", "other:80/"+p+" ep2:80", "vip:80/"+p+" ep3:80")
			r.kernel.entries[3].Replied = true
			left := []string{"vip:80/" + p + " ep1:80", "other:80/" + p + " ep2:80", "vip:80/" + p + " ep3:80"}
			commit(false, " ep1:80")
			r.expect("without an endpoint", left...)
			commit(false, " ep1:80 ep2:80")
			r.expect("with it again", left...)
			commit(false, "")
			r.expect("without any", left[1:]...)
		})
	}
}

func TestTCPFlowsAreDeletedOnlyWithEndTCP(t *testing.T) {
	for endTCP, left := range map[bool][]string{false: {"vip:80/tcp ep2:80", "other:80/tcp ep2:80"}, true: nil} {
		run(t, flows.Config{EndTCP: endTCP}, func(r *rig) {
			r.full("vip:80/tcp ep1:80 ep2:80", "vip:80/sctp ep1:80 ep2:80", "vip:80/udp ep1:80 ep2:80", "other:80/tcp ep2:80")
			for _, p := range []string{"tcp", "sctp", "udp"} {
				r.kernel.entries = append(r.kernel.entries, r.entries("vip:80/"+p+" ep1:80", "vip:80/"+p+" ep2:80", "other:80/"+p+" ep2:80")...)
			}
			r.change("vip:80/tcp ep1:80", "vip:80/sctp ep1:80", "vip:80/udp ep1:80", "-other:80/tcp")
			r.expect("after a change", append(left, "vip:80/tcp ep1:80", "vip:80/sctp ep1:80", "vip:80/sctp ep2:80",
				"vip:80/udp ep1:80", "other:80/sctp ep2:80", "other:80/udp ep2:80")...)
		})
	}
}
