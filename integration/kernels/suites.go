package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

	// sample are the tests that run on other architectures than amd64, as a regular
	// expression, unless options choose others. With none the suite does not run there.
	sample string
	tests  string // the chosen tests, as a regular expression; empty for all
}

// everything is the sample of a suite that runs on all architectures.
const everything = "."

// suites run on every kernel, in this order.
var suites = []suite{
	{name: "integration/demo", flags: []string{program}, command: true, sample: everything},
	{name: "nft/kernel/conntrack", sample: everything},
	{name: "integration/lab"},
	{name: "integration/addresses"},
	{
		name:   "integration/ruleset",
		sample: "^Test(Golden|AdoptRulesLoadedByNft|ProbeLeaves|RefusalNamesTheElement|KernelKeepsWrittenCounts|ProtectedTables)",
	},
	// The scripts and one history: the fake behaves like current kernels, which change the size of a
	// set that is declared again.
	{name: "integration/fake", reads: []string{"sync/testdata/scripts"}, flags: []string{"-seed=1"}, skip: "^TestFake"},
	{name: "integration/flows", sample: "^Test(OnlyStaleUDPFlowsAreDeleted|StaleFlowsOfAllZones)"},
	{name: "integration/fastpath"},
	{name: "integration/invalid"},
	{name: "integration/masquerade", sample: "^TestSourcePort"},
	{name: "integration/affinity", sample: "^TestThousandClients"},
	{name: "integration/schedulers"},
	{name: "integration/proxy"},
	{name: "integration/passivehealth"},
	{name: "integration/drift"},
	{name: "integration/clock"},
	{name: "integration/explain"},
	{name: "integration/trace"},
	// These machines lack programs to run commands in another way.
	{name: "integration/diagnosis", skip: "^TestBundle(HasNoCredentials|OnBadFileSystems)"},
	{name: "integration/takeover", sample: "^Test(OnlyKubeProxyIsRemoved|ResumeUndoesSuspend|IPVSLeftovers)"},
	{name: "integration/upgrade"}, // without the way back, for which git builds a version
	// These machines have no setpriv.
	{
		name: "integration/components", reads: []string{"integration/takeover/testdata"}, skip: "^TestPreflightNeedsOnlyNetAdmin$",
		sample: "^Test(ComponentsAreFound|SurveyReports)",
	},
	{name: "integration/security"},
	// Without the test that loads 100,000 endpoints.
	{name: "integration/crash", flags: []string{"-kills=24"}, skip: "^TestRestartWithManyServices"},
	{name: "integration/matrix", sample: "^TestMatrix$/^pods_detected_by_addresses$|^Test(PortsAreIndependent|OverwrittenMarks)"},
}

// chosen returns the suites that the options choose, with the tests to run.
func (o options) chosen() []suite {
	if o.bench != "" {
		return []suite{{name: "integration/bench", tests: "^$", flags: []string{"-test.short", "-test.benchtime=1x", "-test.bench=" + o.bench}}}
	}
	sample := o.arch != "amd64" && o.suites.String() == "" && o.tests.String() == ""
	var chosen []suite
	for _, s := range suites {
		if s.tests = o.tests.String(); sample {
			s.tests = s.sample
		}
		unwanted := sample && s.sample == "" || s.command && o.tests.String() != ""
		if o.suites.MatchString(s.name) && !unwanted {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// args returns the flags of a suite's program.
func (s suite) args() []string {
	if s.command {
		return s.flags
	}
	args := []string{"-test.v", "-test.timeout=30m"}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	if s.tests != "" {
		args = append(args, "-test.run="+s.tests)
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
	if o.program != "" {
		delete(jobs, proxy)
		if err := useProgram(o.program, filepath.Join(dir, proxy)); err != nil {
			return nil, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for name, args := range jobs {
		group.Go(func() error { return compile(ctx, o.arch, filepath.Join(dir, name), args) })
	}
	return chosen, group.Wait()
}

// useProgram links a kube-vmap that exists, and prints its checksum.
func useProgram(program, link string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program to test: %w", err)
	}
	fmt.Printf("# %x  %s\n", sha256.Sum256(content), program)
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	return os.Symlink(program, link)
}

// compile runs a go command that writes a statically linked program.
func compile(ctx context.Context, arch, path string, args []string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{args[0], "-o", path}, args[1:]...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strconv.Quote(cmd.String()), err, out)
	}
	return nil
}
