// Command bench measures what kube-vmap costs on a node of a real cluster: etcd
// and kube-apiserver in a network namespace, 10,000 Services with 10 endpoints
// each, and the built program on a node without any other work.
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
// promise does not hold at the end, the exit code is 1.
//
// CPU is the processor time of the process. It includes the kernel's work on its batches,
// but not what the kernel frees afterwards in the background.
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

// standard is the number of Services for which all promises are made.
const standard = 10_000

// options are the command's options.
type options struct {
	services, endpoints int
	dual                bool
	rounds, changes     int
	rate                float64 // changes a second
	program             string  // kube-vmap, built if empty
	comparing           bool
	profiles            string // folder, none if empty
}

func readFlags() *options {
	o := &options{}
	quick := flag.Bool("quick", false, "1,000 Services and fewer repetitions: about a minute, and nothing is promised of the memory")
	flag.IntVar(&o.services, "services", standard, "`number` of Services")
	flag.IntVar(&o.endpoints, "endpoints", 10, "`number` of endpoints of each")
	flag.BoolVar(&o.dual, "dual", false, "Services of both IP families, with as many endpoints in each")
	flag.IntVar(&o.rounds, "rounds", 9, "`number` of times that each program starts")
	flag.IntVar(&o.changes, "changes", 200, "`number` of changes of each kind, on as many Services")
	flag.Float64Var(&o.rate, "rate", 5, "changes a second (`number`)")
	flag.StringVar(&o.program, "program", "", "kube-vmap to measure (`file`); built from this tree if empty")
	flag.BoolVar(&o.comparing, "kube-proxy", false, "measure kube-proxy in mode nftables, too (takes nft, and minutes)")
	flag.StringVar(&o.profiles, "profiles", "", "write profiles of one more start to this `folder`")
	flag.Parse()
	if *quick {
		o.services, o.rounds, o.changes, o.rate = 1_000, 3, 50, 10
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
	if (o.changes+compared)*2 > o.services {
		return fmt.Errorf("%d changes of each kind on other Services each are too many for %d Services", o.changes, o.services)
	}
	if err := lab.Missing(); err != nil {
		return err
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	b := &bench{options: o, world: w}
	err = b.run(ctx)
	return b.Print(errors.Join(err, w.close()))
}

// run runs all parts until one fails.
func (b *bench) run(ctx context.Context) error {
	parts := []func(context.Context) error{b.starts, b.change}
	if b.comparing {
		parts = append(parts, b.compare)
	}
	if b.profiles != "" {
		parts = append(parts, b.profile)
	}
	for _, part := range parts {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}
