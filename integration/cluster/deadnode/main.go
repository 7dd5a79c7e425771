// Command deadnode measures how many connections fail when a node dies: with kube-proxy,
// and with kube-vmap, one after the other, each in a new cluster.
//
//	cd integration/cluster && go run ./deadnode
//
//	client on node-1 --> proxy --> 20 Services, each with a pod --> node-1, node-2
//	client on node-2 --> proxy -/  on every node                \-> node-3: the fault
//
// The clients open 200 TCP connections a second, of both IP families in turns, and ask one
// question over each. After five seconds comes the fault, and -duration is measured. A connection
// has failed if it has no answer within two seconds of its beginning. The table has how many,
// and how long after the fault the last of them began; then the same for those without a
// handshake, which is all that a proxy sees, and how long after the first of a node's clients at
// one endpoint the last one began: where the other node lives, a proxy cannot notice before that;
// and by how much a connection was late, at most: with more than some tenths of a second the
// machine was too busy to trust the figures.
//
// The control plane is the real one, with the default times of the node controller: it gives
// up a node whose kubelet has not renewed its lease for 50 s. Only then are endpoints
// there not ready any more. The leases are renewed by this program. Pods have no readiness
// probes: if a fault leaves the kubelet alive, the endpoints stay ready to the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/daemon/built"
)

// options are the command's options.
type options struct {
	fault    string
	duration time.Duration
	ours     []string // more arguments of kube-vmap
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == answer {
		exit(serve(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, readFlags())
	stop()
	built.Remove()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "deadnode:", err)
		os.Exit(1)
	}
}

func readFlags() *options {
	o := &options{}
	names := strings.Join(slices.Sorted(maps.Keys(faults)), ", ")
	flag.StringVar(&o.fault, "fault", "link", "what happens to node-3: `one` of "+names)
	flag.DurationVar(&o.duration, "duration", time.Minute, "how `long` to measure after the fault")
	ours := flag.String("kube-vmap-args", "--passive-health-checks=avoid", "more `arguments` of kube-vmap, separated by spaces")
	flag.Parse()
	o.ours = strings.Fields(*ours)
	return o
}

func run(ctx context.Context, o *options) error {
	if faults[o.fault] == nil || o.duration < interval {
		return fmt.Errorf("no fault %q, or nothing to measure in %s", o.fault, o.duration)
	}
	fmt.Printf("fault: %s, measured for %s\n\n%s\n", o.fault, o.duration, header)
	for _, p := range []proxy{kubeProxy, {"kube-vmap", clustertest.Program, o.ours}} {
		err := clustertest.AsTest(ctx, "deadnode", func(t testing.TB) error {
			r := newRig(t)
			r.start(p)
			all, err := r.load(o)
			if err == nil {
				fmt.Println(row(p.name, all))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}
