package forward

import (
	"fmt"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// kept is an established connection with the endpoint that it has.
type kept struct {
	*lab.Flow
	by string
}

// connectTo opens connections over a transport until three lead to a pod, and returns
// these.
func (s *scene) connectTo(t testing.TB, w daemon.Transport, pod *lab.Pod) (all []kept) {
	t.Helper()
	for len(all) < 3 {
		if flow, by := s.connect(t, w); by == pod.Name {
			all = append(all, kept{flow, by})
		}
	}
	return all
}

// broken returns how many connections have lost their endpoint.
func broken(t testing.TB, all []kept, timeout time.Duration) (n int) {
	t.Helper()
	for _, k := range all {
		if a := again(t, k.Flow, timeout); a.Outcome != lab.Answered || a.By != k.by {
			n++
		}
	}
	return n
}

// drain takes the slots of remote-1, the only endpoint of node-2, while it terminates and
// still serves.
func (s *scene) drain() {
	s.t.Helper()
	s.service.Endpoints = nil
	s.service.EndpointSpec = "remote-1/terminating third-1 third-2"
	s.proxies[1].After(func() { s.folder.Put("web", s.service) })
	s.pick(s.lab.Nodes(), s.lab.ThirdPods...)
}

// newDraining returns a scene with the endpoints remote-1, third-1 and third-2.
func newDraining(t *testing.T, o options) *scene {
	t.Helper()
	s := newForwarding(t, o)
	s.endpoints(s.draining()...)
	return s
}

func (s *scene) draining() []*lab.Pod { return append(s.lab.RemotePods[:1:1], s.lab.ThirdPods...) }

// endpoints makes pods the endpoints, of kube-vmap and of the table.
func (s *scene) endpoints(pods ...*lab.Pod) {
	s.t.Helper()
	s.proxies[1].After(func() { s.put(pods...) })
	s.pick(s.lab.Nodes(), pods...)
}

// TestDrainNeedsMemory drains an endpoint. Its connections continue only if the first node
// remembers where it sends them, and not if the router then chooses another first node.
func TestDrainNeedsMemory(t *testing.T) {
	for _, remember := range []bool{false, true} {
		t.Run(fmt.Sprintf("remember %t", remember), func(t *testing.T) {
			s := newDraining(t, options{remember: remember})
			all := map[daemon.Transport][]kept{}
			for _, w := range daemon.Transports() {
				all[w] = s.connectTo(t, w, s.lab.RemotePods[0])
			}
			s.drain()
			timeout := short
			if remember {
				timeout = patience
			}
			for _, w := range daemon.Transports() {
				if n := broken(t, all[w], timeout); remember && n > 0 || !remember && n < len(all[w]) {
					t.Errorf("%s: %d of %d connections to the draining endpoint are broken", w, n, len(all[w]))
				}
				if _, by := s.connect(t, w); by == s.lab.RemotePods[0].Name {
					t.Errorf("%s: a new connection leads to the draining endpoint", w)
				}
			}
			if !remember {
				return
			}
			s.routeTo(s.lab.Remote)
			for _, w := range daemon.Transports() {
				// node-2 has no memory of them, but it is the node that serves them.
				if n := broken(t, all[w], short); n < len(all[w]) {
					t.Errorf("%s through another node: %d of %d connections are broken", w, n, len(all[w]))
				}
			}
		})
	}
}

// TestMemoryMustForgetRemovedEndpoints removes the only endpoint of a node. A UDP client that
// goes on with its port is still sent there until its element is removed: each packet
// extends the time-out. (TCP and SCTP connections end with their endpoint.)
func TestMemoryMustForgetRemovedEndpoints(t *testing.T) {
	s := newDraining(t, options{remember: true})
	for _, f := range model.Families {
		w := daemon.Transport{Protocol: model.UDP, Family: f}
		all := s.connectTo(t, w, s.lab.RemotePods[0])
		s.endpoints(s.lab.ThirdPods...)
		for _, k := range all {
			if a := again(t, k.Flow, short); a.Outcome == lab.Answered {
				t.Errorf("%s: %s", w, a)
			}
		}
		nft(t, s.lab.Node.Host, "flush map netdev forward connections-"+families[f].Name)
		for _, k := range all {
			if a := again(t, k.Flow, patience); a.Outcome != lab.Answered {
				t.Errorf("%s, forgotten: %s", w, a)
			}
		}
		s.endpoints(s.draining()...)
	}
}
