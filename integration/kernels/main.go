// Command kernels runs tests on Linux kernels other than the one of this machine:
// it boots each in a virtual machine without network and disk, and prints the output of
// the tests, as `go test -v` does.
//
//	.ci/kernels 6.1 6.12         fetches kernels into .cache/kernels
//	kernels 6.1 6.12             boots them, one after the other
//	kernels -suites matrix 6.1   runs only some of the tests
//	kernels -bench sticky 6.1    runs a part of the bench instead
//	kernels -arch arm64 6.12     emulates another processor
//	kernels -flags --fast-path   tests kube-vmap with this flag
//
//	    here                                  in the machine
//	    suites, kube-vmap, nft, ip  --cpio--> guest, the first process
//	    output of the tests       <--serial-- runs each suite in its folder
//	    printed after a failure   <--serial-- the kernel's messages
//
// The machine's clock counts executed instructions: slow emulation does not make
// anything late, and idle time is skipped. So tests have the same timeouts as on real
// machines, and a benchmark's nanoseconds are instructions.
//
// The command fails if a suite fails, if a machine does not finish its suites in time,
// or if its kernel reports a bug or warning.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

// options are the command line options.
type options struct {
	suites, tests *regexp.Regexp
	limit         time.Duration
	cache, bench  string
	arch, program string
	flags         string
}

func run() int {
	var o options
	suites := flag.String("suites", "", "only suites whose package matches this `regexp`")
	tests := flag.String("run", "", "only tests whose name matches this `regexp`")
	flag.StringVar(&o.bench, "bench", "", "instead of tests, the parts of integration/bench whose name matches this `regexp`")
	flag.DurationVar(&o.limit, "limit", 90*time.Minute, "how long a machine may take")
	flag.StringVar(&o.cache, "kernels", ".cache/kernels", "the `folder` of kernels")
	flag.StringVar(&o.arch, "arch", "amd64", "the machines' `architecture`, amd64 or arm64")
	flag.StringVar(&o.program, "program", "", "the kube-vmap `file` to test, instead of one that is built with a version that tests expect")
	flag.StringVar(&o.flags, "flags", "", "more `flags` for every kube-vmap that tests start, such as --fast-path --fast-path-after=1")
	flag.Parse()
	var err error
	if o.suites, err = regexp.Compile(*suites); err == nil {
		o.tests, err = regexp.Compile(*tests)
	}
	if _, known := platforms[o.arch]; err == nil && !known {
		err = fmt.Errorf("unknown architecture %q", o.arch)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := bootAll(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		return 1
	}
	return 0
}

// bootAll builds the programs, and boots a machine for each kernel.
func bootAll(ctx context.Context, o options, kernels []string) (err error) {
	dir, err := os.MkdirTemp("", "kernels-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	chosen, err := build(ctx, dir, o)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range kernels {
		fmt.Printf("# Linux %s\n", name)
		began := time.Now()
		m := machine{platform: platforms[o.arch], kernel: filepath.Join(o.cache, name+platforms[o.arch].suffix), dir: dir, flags: o.flags}
		err := m.run(ctx, chosen, o)
		fmt.Printf("Linux %s: %d suites, in %.0f s\n", name, len(chosen), time.Since(began).Seconds())
		if err != nil {
			errs = append(errs, fmt.Errorf("on Linux %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
