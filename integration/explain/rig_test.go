package explain

import (
	"net/netip"
	"os"
	"slices"
	stdsync "sync"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is how long an answer may take on a busy machine.
	answer = 5 * time.Second
	// silence is how long to wait for an answer that must not come.
	silence = 200 * time.Millisecond
	// ports is the number of ports that each server serves, from [daemon.TargetPort].
	ports = 3
)

// A rig is a lab with the proxy's node, servers, and what simulates packets on it.
type rig struct {
	*lab.Lab
	t       *testing.T
	folder  *daemon.Folder
	servers []*lab.Host
	live    *livenode.Node
	mu      stdsync.Mutex // for live, where packets are explained concurrently
}

// transports are protocols over families: all in the long form, and each protocol once in the
// short one.
func transports() []daemon.Transport {
	all := daemon.Transports()
	if !testing.Short() {
		return all
	}
	return slices.DeleteFunc(all, func(w daemon.Transport) bool {
		return (w.Protocol == model.UDP) != (w.Family == model.IPv6)
	})
}

// shortened returns a number of repetitions, or a tenth of it in the short form.
func shortened(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigWith(t, lab.Options{Pods: 4, RemotePods: 2})
}

func newRigWith(t *testing.T, o lab.Options) *rig {
	t.Helper()
	t.Parallel() // tests wait most of the time
	l := labtest.New(t, o)
	r := &rig{Lab: l, t: t, folder: daemon.NewFolder(t, l)}
	daemon.AddClients(t, l)
	daemon.RouteServices(t, l, l.Node)
	r.servers = daemon.Serve(t, ports, append(slices.Clone(l.Pods[:3]), l.RemotePods...)...)
	r.open()
	t.Cleanup(func() { r.must(r.live.Close()) })
	return r
}

// newBareRig returns a rig whose tables by our name, without which explain explains nothing, do
// nothing.
func newBareRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	for _, f := range []string{"ip", "ip6"} {
		r.nft("table " + f + " kube-vmap { chain nothing { type filter hook input priority 0; counter; }; }")
	}
	return r
}

func newServing(t *testing.T, endpoints int) (*rig, daemon.Service) {
	t.Helper()
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: r.servers[:endpoints]}
	r.serve(web)
	return r, web
}

// serve starts kube-vmap with Services.
func (r *rig) serve(list ...daemon.Service) *daemon.Daemon {
	r.t.Helper()
	r.folder.Put("services", list...)
	return daemon.Start(r.t, r.Node, r.folder)
}

// open opens what simulates packets.
func (r *rig) open() {
	r.t.Helper()
	var err error
	r.live, err = livenode.Open(livenode.Config{NetNS: r.Node.FD()})
	r.must(err)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) explain(p simulate.Packet) simulate.Result {
	r.t.Helper()
	w, err := r.live.Run(p, "")
	if err != nil {
		r.t.Fatalf("%s: %v", p, err)
	}
	return w
}

// port returns a source port that was not used before, which would belong to a tracked
// connection.
func (r *rig) port() uint16 { return r.Pods[3].FreshPort() }

// nft runs the nft program on the node.
func (r *rig) nft(commands string) {
	r.t.Helper()
	labtest.Run(r.t, r.Node.Host, commands, "nft", "-f", "-")
}

// server returns the name of the host that has the address.
func (r *rig) server(a netip.Addr) string {
	for _, h := range r.Hosts() {
		if h.Addr(model.FamilyOf(a)) == a {
			return h.Name
		}
	}
	return a.String()
}

func single(t *testing.T, w simulate.Result) path.Outcome {
	t.Helper()
	if len(w.Outcomes) != 1 {
		t.Fatalf("%s: %d outcomes, want one: %+v", w.Packet, len(w.Outcomes), w.Outcomes)
	}
	return w.Outcomes[0]
}
