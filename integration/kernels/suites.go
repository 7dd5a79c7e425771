package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// suite is a package with tests that use the kernel.
type suite struct {
	name  string   // the package, from the top of the tree
	skip  string   // tests of the source tree or the build, or not for such machines
	reads []string // files of the tree that the others read, besides their testdata
	flags []string // additional flags

	command bool // a command instead of tests
}

// suites run on every kernel, in this order.
var suites = []suite{
	{name: "nft/kernel/conntrack"},
	{name: "integration/lab"},
	{name: "integration/addresses"},
	// Only one new history: the recorded ones run elsewhere, and each takes minutes on an
	// emulated processor.
	{name: "integration/ruleset", flags: []string{fmt.Sprintf("-seed=%d", rand.Uint64()|1)}},
	// Only the scripts: the fake behaves like current kernels, which change the size of a
	// set that is declared again.
	{name: "integration/fake", reads: []string{"sync/testdata/scripts"}, skip: "^TestFake"},
	{name: "integration/flows"},
	{name: "integration/invalid"},
	{name: "integration/affinity"},
	{name: "integration/schedulers"},
	{name: "integration/proxy"},
	{name: "integration/counters"},
	{name: "integration/drift"},
	{name: "integration/clock"},
	{name: "integration/faults"},
	{name: "integration/explain"},
	{name: "integration/trace"},
	{name: "integration/status", skip: "^TestTenThousandServices"},
	// These machines lack programs to run commands as another user.
	{name: "integration/inspect", skip: "^TestBundle(HasNoCredentials|OnFullFileSystem)"},
	{name: "integration/takeover"},
	{name: "integration/upgrade"}, // without the way back, for which git builds a version
	// These machines have no setpriv.
	{name: "integration/components", reads: []string{"integration/takeover/testdata"}, skip: "^TestPreflightNeedsOnlyNetAdmin$"},
	{name: "integration/security"},
	// Without tests that exhaust memory (the kernel prints traces), need several
	// processors, or load 100,000 endpoints.
	{name: "integration/crash", flags: []string{"-kills=24"}, skip: "^Test(OutOfMemory|BusyMachine|RestartWithManyServices)"},
	{name: "integration/matrix"},
}

// chosen returns the suites that the options choose.
func (o options) chosen() []suite {
	if o.bench != "" {
		return []suite{{name: "integration/bench", flags: []string{"-quick", "-run=" + o.bench}, command: true}}
	}
	return slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return !o.suites.MatchString(s.name) })
}

// args returns the flags of a suite's program.
func (s suite) args(tests *regexp.Regexp) []string {
	if s.command {
		return s.flags
	}
	args := []string{"-test.v", "-test.timeout=30m"}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	if tests.String() != "" {
		args = append(args, "-test.run="+tests.String())
	}
	return append(args, s.flags...)
}

// program returns the name of the suite's program.
func (s suite) program() string { return strings.ReplaceAll(s.name, "/", "-") }

const (
	module = "kube-vmap/"
	// proxy and guest are the other programs that are built.
	proxy, guest = "kube-vmap", "guest"
)

// build builds the programs of the chosen suites in dir, and returns the suites.
func build(ctx context.Context, dir string, o options) ([]suite, error) {
	chosen := o.chosen()
	jobs := map[string][]string{
		// Tests expect this version.
		proxy: {"build", "-ldflags", "-w -X main.version=of-the-tests", module + "cmd/kube-vmap"},
		guest: {"build", "-ldflags", "-s -w", module + "integration/kernels/guest"},
	}
	for _, s := range chosen {
		how := []string{"test", "-c"}
		if s.command {
			how = []string{"build"}
		}
		jobs[s.program()] = append(how, "-ldflags", "-s -w", module+s.name)
	}
	if len(chosen) == 0 {
		return nil, errors.New("no suite has this name")
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for name, args := range jobs {
		group.Go(func() error { return compile(ctx, filepath.Join(dir, name), args) })
	}
	return chosen, group.Wait()
}

// compile runs a go command that writes a statically linked program.
func compile(ctx context.Context, path string, args []string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{args[0], "-o", path}, args[1:]...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strconv.Quote(cmd.String()), err, out)
	}
	return nil
}
