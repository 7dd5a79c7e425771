// Command bench measures what kube-vmap costs on a node of a real cluster: etcd
// and kube-apiserver in a network namespace, 10,000 Services with 10 endpoints
// each and then, in another cluster, 20,000 with 5, and the built program on a node
// without any other work.
//
//	          informers            kube-vmap
//	start     exec to synced       exec to the first commit; again with all in place
//	change    API write to         API write to the commit, seen by the kernel's
//	          handler called       generation in the node's namespace
//
// Both wait for the same API server, which takes most of the time on a small machine. So
// figures are compared with a floor of the same run: informers of client-go in a process
// of their own that do nothing with the objects (see integration/cluster/informers). They
// and kube-vmap start in turns, and a ratio is the median of the ratios of all rounds. If a
// promise or a mark does not hold at the end, the exit code is 1.
//
// The comparison is fair: both are built with the same flags, take the same objects by the
// same selectors in the same encoding (protobuf, lists streamed), and run with the same
// settings of Go's runtime. CPU is the processor time of the process. It includes the
// kernel's work on its batches, but not what the kernel frees afterwards in the background.
// The memory is VmHWM of /proc/PID/status, and VmRSS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := measure(ctx, readFlags())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// standard is the number of Services from which on the marks of a start hold.
const standard = 10_000

// A size is a number of Services, and of endpoints of each.
type size struct{ services, endpoints int }

// options are the command's options.
type options struct {
	sizes           []size // starts are measured at each, the rest at the first
	rounds, changes int
	rate            float64 // changes a second
	comparing       bool
}

func readFlags() *options {
	o := &options{sizes: []size{{standard, 10}, {20_000, 5}}}
	quick := flag.Bool("quick", false, "1,000 Services and fewer repetitions: about a minute, without marks of the start")
	flag.IntVar(&o.rounds, "rounds", 9, "`number` of times that each program starts")
	flag.IntVar(&o.changes, "changes", 200, "`number` of changes of each kind, on as many Services")
	flag.Float64Var(&o.rate, "rate", 5, "changes a second (`number`)")
	flag.BoolVar(&o.comparing, "kube-proxy", false, "measure kube-proxy in mode nftables, too (takes nft, and minutes)")
	flag.Parse()
	if *quick {
		o.sizes, o.rounds, o.changes, o.rate = []size{{1_000, 10}}, 3, 50, 10
	}
	return o
}

// bench is one run.
type bench struct {
	report.Report
	*options
	*world
}

// measure runs the bench and prints the report.
func measure(ctx context.Context, o *options) error {
	if o.changes < 1 || o.rounds < 1 || o.rate <= 0 {
		return errors.New("-changes, -rounds and -rate must be positive")
	}
	if (o.changes+compared)*2 > o.sizes[0].services {
		return fmt.Errorf("%d changes of each kind on other Services each are too many for %d Services", o.changes, o.sizes[0].services)
	}
	if err := lab.Missing(); err != nil {
		return err
	}
	b := &bench{options: o}
	b.Hint = "where time goes: kube-vmap --profiling, and /debug/pprof of its metrics"
	var err error
	for i, s := range o.sizes {
		if err = b.at(ctx, s, i == 0); err != nil {
			break
		}
	}
	return b.Print(err)
}

// at runs the parts that are measured at a size, of which only starts is measured at all.
func (b *bench) at(ctx context.Context, s size, all bool) (err error) {
	if b.world, err = newWorld(ctx, s); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.world.close()) }()
	if !all {
		return b.starts(ctx)
	}
	return b.run(ctx)
}

// run runs all parts until one fails.
func (b *bench) run(ctx context.Context) error {
	parts := []func(context.Context) error{b.starts, b.change}
	if b.comparing {
		parts = append(parts, b.compare)
	}
	for _, part := range parts {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}
