package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	interval = 5 * time.Millisecond // between the beginnings of two connections
	before   = 5 * time.Second      // the fault
	after    = time.Minute
	timeout  = 2 * time.Second // of a client
)

type attempt struct {
	way   int           // the client, the Service and the family: one endpoint of node-3
	began time.Duration // after the fault; negative is before it
	late  time.Duration // how long after it was due
	// connected is whether the handshake was completed, answered whether there was an answer.
	connected, answered bool
}

// BenchmarkDeadNode measures how many connections fail when a node dies: for each fault with
// kube-proxy, and with kube-vmap, each in a new cluster.
//
//	client on node-1 --> proxy --> 20 Services, each with a pod --> node-1, node-2
//	client on node-2 --> proxy -/  on every node                \-> node-3: the fault
//
// The clients open 200 TCP connections a second, of both IP families in turns, and ask one
// question over each. After five seconds comes the fault, and a minute is measured. A connection
// has failed if it has no answer within two seconds of its beginning. A line has how many, and how
// long after the fault the last of them began; then how long after it the last one without a
// handshake began, which is all that a proxy sees, and how long after the first of a node's clients
// at one endpoint: where the other node lives, a proxy cannot notice before that; and by how much a
// connection was late, at most: with more than some tenths of a second the machine was too busy to
// trust the figures.
//
// The control plane is the real one, with the default times of the node controller: it gives
// up a node whose kubelet has not renewed its lease for 50 s. Only then are endpoints
// there not ready any more. The leases are renewed by the benchmark. Pods have no readiness
// probes: if a fault leaves the kubelet alive, the endpoints stay ready to the end.
func BenchmarkDeadNode(b *testing.B) {
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		for name, p := range map[string]proxy{"kube-proxy": kubeProxy, "kube-vmap": avoiding} {
			b.Run(fault+"/"+name, func(b *testing.B) {
				r := newRig(b)
				r.start(p)
				all, err := r.load(faults[fault])
				if err != nil {
					b.Fatal(err)
				}
				report.Line(b, "failed", figures(all)...)
			})
		}
	}
}

// load opens connections, has the fault happen meanwhile, and returns those since then.
func (r *rig) load(fault func(*rig) error) ([]attempt, error) {
	first := int(before / interval)
	all := make([]attempt, first+int(after/interval))
	zero := time.Now().Add(before)
	var group errgroup.Group
	for i := range all {
		if i == first {
			if err := fault(r); err != nil {
				return nil, err
			}
			zero = time.Now()
		}
		fault, due := zero, time.Duration(i-first)*interval
		<-time.After(time.Until(fault.Add(due)))
		began := time.Since(fault)
		group.Go(func() (err error) {
			all[i], err = r.connect(i)
			all[i].began, all[i].late = began, began-due
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, a := range all[:first] {
		if !a.answered && a.began < -timeout {
			return nil, fmt.Errorf("a connection failed that began %s before the fault", -a.began)
		}
	}
	return all[first:], nil
}

// connect opens the i-th connection: by turns over each family, from each client, to each Service.
func (r *rig) connect(i int) (attempt, error) {
	ways := traffic.Over(model.TCP)
	a := attempt{way: i % (len(ways) * len(r.clients) * len(r.targets))}
	w, i := ways[i%len(ways)], i/len(ways)
	c, i := r.clients[i%len(r.clients)], i/len(r.clients)
	target := r.targets[i%len(r.targets)]
	answer, err := c.AskWithin(w, target.At(w.Family), timeout)
	a.connected, a.answered = answer.Local.IsValid(), answer.Outcome == lab.Answered
	return a, err
}

func figures(all []attempt) []report.Figure {
	failed := 0
	var lastFailed, lastUnconnected, longest, late time.Duration
	first := map[int]time.Duration{} // failed handshake of a way
	for _, a := range all {
		late = max(late, a.late)
		if !a.answered {
			failed, lastFailed = failed+1, max(lastFailed, a.began)
		}
		if !a.connected {
			lastUnconnected = max(lastUnconnected, a.began)
			if _, failedBefore := first[a.way]; !failedBefore {
				first[a.way] = a.began
			}
			longest = max(longest, a.began-first[a.way])
		}
	}
	return []report.Figure{
		report.Number("%-failed", 100*float64(failed)/float64(len(all)), 0),
		report.Time("ms-last-began", lastFailed, 0),
		report.Time("ms-last-without-handshake", lastUnconnected, 0),
		report.Time("ms-of-one-endpoint", longest, 0), report.Time("ms-late", late, 0),
	}
}

// faults are what can happen to node-3.
var faults = map[string]func(*rig) error{
	"link":    (*rig).cutLink,
	"stop":    (*rig).stopPods,
	"backlog": (*rig).fillBacklogs,
	"route":   (*rig).loseWay,
}

// cutLink takes the node away from all others, and its kubelet from the API server.
func (r *rig) cutLink() error {
	if err := r.silence(); err != nil {
		return err
	}
	return command(r.Lab.Third.Host, "ip", "link", "set", "eth0", "down")
}

// stopPods stops the process of the pods: the kernel goes on with handshakes.
func (r *rig) stopPods() error { return r.server.Process.Signal(syscall.SIGSTOP) }

// fillBacklogs is stopPods at the time when the kernel has no room for more connections that
// no one accepts.
func (r *rig) fillBacklogs() error {
	if err := r.stopPods(); err != nil {
		return err
	}
	for _, b := range r.backlogs {
		if err := b.Shrink(); err != nil {
			return err
		}
	}
	return nil
}

// loseWay drops packets between node-1 and node-3 on the bridge between the nodes.
func (r *rig) loseWay() error {
	for _, n := range []*lab.Node{r.Lab.Node, r.Lab.Third} { // isolated ports do not reach each other
		if err := command(r.Lab.Outside, "bridge", "link", "set", "dev", n.Name, "isolated", "on"); err != nil {
			return err
		}
	}
	return nil
}

func command(on *lab.Host, name string, args ...string) error {
	out, err := on.Command(context.Background(), name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}
