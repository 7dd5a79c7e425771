package trace

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/trace"
	"kube-vmap/nft/kernel"
)

const (
	// timeout is for what must happen, and is never reached.
	timeout = time.Minute
	// noAnswer is how long a client waits that gets no answer.
	noAnswer = 300 * time.Millisecond

	servicePort = 80
	emptyPort   = 81 // of a Service without endpoints
	targetPort  = 8080
)

var clusterIPs = [...]netip.Addr{
	model.IPv4: netip.MustParseAddr("10.96.0.10"), model.IPv6: netip.MustParseAddr("fd00:10:96::a"),
}

// A scene is a node with our tables, and pods: pod-1 and pod-2 serve, pod-3 is the client.
type scene struct {
	*lab.Lab
	t      *testing.T
	kernel *kernel.Kernel
	client *lab.Host
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneIn(t, links)
}

// links is a lab whose pods are on links of their own, bridge one whose pods are on a bridge.
var links, bridge = lab.Options{Pods: 3}, lab.Options{Pods: 3, RemotePods: 1, Bridge: true}

// newSceneIn is newScene in a lab with at least 3 pods.
func newSceneIn(t *testing.T, o lab.Options) *scene {
	t.Helper()
	t.Parallel() // most of the time is spent waiting for answers that do not come
	s := &scene{Lab: labtest.New(t, o), t: t}
	s.client = s.Pods[2].Host
	for _, p := range slices.Concat(s.Pods, s.RemotePods) {
		s.must(p.ServeAll(targetPort))
	}
	s.must(s.Node.ServeAll(targetPort))
	s.kernel = labtest.Kernel(t, s.Node.Host)
	protect, err := s.kernel.SupportsOwner()
	s.must(err)
	var frontends []model.Frontend
	for _, w := range daemon.Transports() {
		frontends = append(frontends, s.frontend(w, servicePort, s.Pods[0].Host, s.Pods[1].Host), s.frontend(w, emptyPort))
		frontends = append(frontends, s.frontend(w, nodePort, s.Node.Host), s.frontend(w, ownPort, s.client))
		if s.Remote != nil {
			frontends = append(frontends, s.frontend(w, remotePort, s.RemotePods[0].Host))
		}
	}
	c := nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Protect: protect}
	for _, f := range model.Families {
		c.Pods[f] = s.Node.PodRange(f)
	}
	cidrs := lab.ServiceRanges[:]
	have, err := s.kernel.Read()
	s.must(err)
	_, batch := nft.Adopt(c, have, nft.Change{Set: frontends, ServiceCIDRs: &cidrs})
	_, err = s.kernel.Apply(batch)
	s.must(err)
	return s
}

// Ports of Services with one endpoint.
const (
	nodePort   = 82 // the node itself
	ownPort    = 83 // the client itself
	remotePort = 84 // a pod of node-2
)

func (s *scene) frontend(w daemon.Transport, port uint16, endpoints ...*lab.Host) model.Frontend {
	m := model.Match{Family: w.Family, Addr: clusterIPs[w.Family], Protocol: w.Protocol, Port: port}
	pool := &model.Pool{Key: m}
	for _, h := range endpoints {
		pool.Cluster = append(pool.Cluster, h.AddrPort(w.Family, targetPort))
		pool.Hairpin = append(pool.Hairpin, h.Addr(w.Family))
	}
	f := model.Frontend{Match: m, Pool: pool, Masquerade: model.MasqueradeOffPod}
	if len(endpoints) == 0 {
		f.Verdict = model.VerdictReject
	}
	return f
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) run(name string, args ...string) {
	s.t.Helper()
	labtest.Run(s.t, s.Node.Host, "", name, args...)
}

func (s *scene) nft(script string) string {
	s.t.Helper()
	return labtest.Run(s.t, s.Node.Host, script, "nft", "-a", "-f", "-")
}

func (s *scene) packet(w daemon.Transport, port uint16) simulate.Packet {
	return simulate.Packet{
		From: s.client.Addr(w.Family), To: netip.AddrPortFrom(clusterIPs[w.Family], port), Protocol: w.Protocol,
	}
}

func (s *scene) open(c trace.Config) *trace.Tracer {
	s.t.Helper()
	c.NetNS = s.Node.FD()
	tracer, err := trace.Open(c)
	s.must(err)
	s.t.Cleanup(func() { tracer.Close() })
	return tracer
}

// ask sends a packet and returns the answer if there is one soon.
func (s *scene) ask(from *lab.Host, w daemon.Transport, port uint16) lab.Answer {
	s.t.Helper()
	a, err := from.Ask(w.Protocol, netip.AddrPortFrom(clusterIPs[w.Family], port), noAnswer)
	s.must(err)
	return a
}

// answered sends a packet to the Service and returns the answer.
func (s *scene) answered(w daemon.Transport) lab.Answer {
	s.t.Helper()
	a, err := s.client.Ask(w.Protocol, s.packet(w, servicePort).To, timeout)
	s.must(err)
	if a.Outcome != lab.Answered {
		s.t.Fatalf("%s: %s", w, a)
	}
	return a
}

func (s *scene) path(t *trace.Tracer) *trace.Path {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), timeout)
	defer cancel()
	w, err := t.NextPath(ctx)
	s.must(err)
	return w
}

// expectNoMore fails if another packet was followed.
func (s *scene) expectNoMore(t *trace.Tracer) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), noAnswer)
	defer cancel()
	if w, err := t.NextPath(ctx); !errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("one more packet: %+v, %v", w, err)
	}
}
