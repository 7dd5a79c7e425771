// Command kernels runs tests on Linux kernels other than the one of this machine:
// it boots each in a virtual machine without network and disk, and prints the output of
// the tests, as `go test -v` does.
//
//	.ci/kernels 6.1 6.12         fetches kernels into .cache/kernels
//	kernels 6.1 6.12             boots them, one after the other
//	kernels -suites matrix 6.1   runs only some of the tests
//	kernels -bench Changes 6.1   runs a benchmark instead
//	kernels -arch arm64 6.12     emulates another processor
//	kernels -flags --fast-path   tests kube-vmap with this flag
//
//	    here                                  in the machine
//	    suites, kube-vmap, nft, ip  --cpio--> init, the first process
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

type options struct {
	suites, tests        *regexp.Regexp
	bench, arch, program string
	flags                string
}

func run() int {
	o := options{suites: &regexp.Regexp{}, tests: &regexp.Regexp{}}
	all := regexp.MustCompile("")
	flag.TextVar(o.suites, "suites", all, "only suites whose package matches this `regexp`")
	flag.TextVar(o.tests, "run", all, "only tests whose name matches this `regexp`")
	flag.StringVar(&o.bench, "bench", "", "benchmarks of integration/bench that match this `regexp`, instead of tests")
	flag.StringVar(&o.arch, "arch", "amd64", "the machines' `architecture`, amd64 or arm64")
	flag.StringVar(&o.program, "program", "", "the kube-vmap `file` to test, instead of one that is built")
	flag.StringVar(&o.flags, "flags", "", "more `flags` for every kube-vmap that tests start, such as --fast-path --fast-path-after=1")
	flag.Parse()
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
	chosen, platform := o.chosen(), platforms[o.arch]
	if len(chosen) == 0 || len(kernels) == 0 || platform.qemu == "" {
		return errors.New("no suite has this name, no kernel is named, or the architecture is unknown")
	}
	dir, err := os.MkdirTemp("", "kernels-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m := machine{platform: platform, dir: dir, disk: disk(filepath.Join(dir, "root")), flags: o.flags}
	folder := func(name string) string { return filepath.Join(".cache/kernels", name+m.suffix) }
	err = errors.Join(
		m.disk.addPrograms(folder(kernels[0])), m.disk.addSuites(chosen), m.disk.build(ctx, chosen, o))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range kernels {
		fmt.Printf("# Linux %s\n", name)
		began := time.Now()
		m.kernel = folder(name)
		err := m.run(ctx, chosen)
		fmt.Printf("Linux %s: %d suites, in %.0f s\n", name, len(chosen), time.Since(began).Seconds())
		if err != nil {
			errs = append(errs, fmt.Errorf("on Linux %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
