package explain

import (
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is how long an answer may take on a busy machine.
	answer = 5 * time.Second
	// silence is how long to wait for what must not come.
	silence = 200 * time.Millisecond
	// ports are how many ports each server serves, from [daemon.TargetPort] on.
	ports = 3
)

// rig is a lab with the proxy's node, servers, and somebody who explains.
type rig struct {
	*lab.Lab
	t       *testing.T
	folder  *daemon.Folder
	servers []*lab.Host
	walker  *simulator.Simulator
	asked   atomic.Uint32
}

func newRig(t *testing.T) *rig {
	t.Helper()
	l := labtest.New(t, lab.Options{Pods: 4, RemotePods: 2})
	r := &rig{Lab: l, t: t, folder: daemon.NewFolder(t, l)}
	daemon.AddClients(t, l)
	daemon.RouteServices(t, l, l.Node)
	for _, pod := range append(slices.Clone(l.Pods[:3]), l.RemotePods...) {
		for n := range uint16(ports) {
			r.must(pod.ServeAll(daemon.TargetPort + n))
		}
		r.servers = append(r.servers, pod.Host)
	}
	var err error
	r.walker, err = simulator.Open(simulator.Config{NetNS: l.Node.FD()})
	r.must(err)
	t.Cleanup(func() { r.must(r.walker.Close()) })
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// explain explains a packet.
func (r *rig) explain(p simulate.Packet) simulate.Result {
	r.t.Helper()
	w, err := r.walker.Run(p, "")
	if err != nil {
		r.t.Fatalf("%s: %v", p, err)
	}
	return w
}

// port is one that nobody asked from before: to connection tracking that would be the
// connection from before.
func (r *rig) port() uint16 { return uint16(11000 + r.asked.Add(1)%50000) }

// nft runs the nft program on the node.
func (r *rig) nft(commands string) {
	r.t.Helper()
	out, err := r.Node.Command(r.t.Context(), "nft", commands).CombinedOutput()
	if err != nil {
		r.t.Fatalf("nft %s: %v\n%s", commands, err, out)
	}
}

// server is the name of the host that has the address.
func (r *rig) server(a netip.Addr) string {
	for _, h := range r.Hosts() {
		if h.Addr(model.FamilyOf(a)) == a {
			return h.Name
		}
	}
	return a.String()
}

// single is the only outcome of a walk.
func single(t *testing.T, w simulate.Result) simulate.Outcome {
	t.Helper()
	if len(w.Outcomes) != 1 {
		t.Fatalf("%s: %d outcomes, want one: %+v", w.Packet, len(w.Outcomes), w.Outcomes)
	}
	return w.Outcomes[0]
}
