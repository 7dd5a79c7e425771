package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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

	// only are the tests of a suite that runs only if options choose it.
	only   string
	module string   // the folder of the package's Go module, unless it is the top one
	unused []string // other programs that the package provides, which these tests do not run

	// sample are the tests that run on other architectures than amd64, as a regular
	// expression, unless options choose others. With none the suite does not run there.
	sample string
	tests  string // the chosen tests, as a regular expression; empty for all
}

// everything is the sample of a suite that runs on all architectures.
const everything = "."

// suites run on every kernel, in this order.
var suites = []suite{
	{name: "integration/demo", sample: everything},
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
	{name: "integration/flows", sample: "^TestStaleFlowsOfAllZones"},
	{name: "integration/fastpath"},
	{name: "integration/invalid"},
	{name: "integration/affinity", sample: "^TestThousandClients"},
	{name: "integration/schedulers"},
	{name: "integration/proxy", sample: "^TestSourcePort"},
	{name: "integration/passivehealth"},
	{name: "integration/drift"},
	{name: "integration/hold"},
	{name: "integration/retry"},
	{name: "integration/clock"},
	{name: "integration/explain"},
	// These machines lack programs to run commands in another way.
	{name: "integration/diagnosis", skip: "^TestBundle(HasNoCredentials|OnBadFileSystems)"},
	{name: "integration/takeover", sample: "^Test(OnlyKubeProxyIsRemoved|ResumeUndoesSuspend|IPVSLeftovers)"},
	{name: "integration/upgrade"}, // without the way back, for which git builds a version
	// These machines have no setpriv.
	{
		name: "integration/programs", reads: []string{"integration/takeover/testdata"}, skip: "^TestPreflightNeedsOnlyNetAdmin$",
		sample: "^Test(ComponentsAreFound|SurveyReports)",
	},
	{name: "integration/security"},
	{name: "integration/crash", flags: []string{"-kills=24"}, skip: "^Test(ChangesToOneService|MapsGrowUnderTraffic)"},
	{name: "integration/matrix", sample: "^TestMatrix$/^pods_detected_by_addresses$|^Test(PortsAreIndependent|OverwrittenMarks)"},
	{
		name: "integration/cluster", only: "^TestMoveInAndOutLosesNoPacket$/^ipvs$",
		module: "integration/cluster", unused: []string{"scaler", "triggertest"},
		reads: []string{
			"deploy/base", "deploy/site", ".cache/cluster/stamp", ".cache/cluster/etcd", ".cache/cluster/kube-apiserver",
			".cache/cluster/kube-controller-manager", ".cache/cluster/kube-proxy", ".cache/cluster/kubectl",
		},
	},
}

// chosen returns the suites that the options choose, with the tests to run.
func (o options) chosen() []suite {
	if o.bench != "" {
		flags := []string{"-test.short", "-test.benchtime=1x", "-test.bench=" + o.bench}
		return []suite{{name: "integration/bench", tests: "^$", flags: flags}}
	}
	sample := o.arch != "amd64" && o.suites.String() == "" && o.tests.String() == ""
	var chosen []suite
	for _, s := range suites {
		if s.tests = o.tests.String(); sample {
			s.tests = s.sample
		} else if s.tests == "" {
			s.tests = s.only
		}
		if s.only != "" && o.suites.String() == "" {
			continue
		}
		if o.suites.MatchString(s.name) && !(sample && s.sample == "") {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

func (s suite) args() []string {
	args := []string{"-test.v", "-test.timeout=30m"}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	if s.tests != "" {
		args = append(args, "-test.run="+s.tests)
	}
	return append(args, s.flags...)
}

// build builds the programs of the chosen suites on the disk, each in its folder, and kube-vmap.
func (d disk) build(ctx context.Context, chosen []suite, o options) error {
	const module = "kube-vmap/"
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, s := range chosen {
		group.Go(func() error {
			path := d.path(filepath.Join(s.name, "suite.test"))
			return compile(ctx, o.arch, s.module, path, "test", "-c", "-ldflags", "-s -w", module+s.name)
		})
	}
	group.Go(func() error {
		if o.program != "" {
			return d.useProgram(o.program)
		}
		const flags = "-w -X main.version=of-the-tests" // which tests expect
		return compile(ctx, o.arch, "", d.path(program), "build", "-ldflags", flags, module+"cmd/kube-vmap")
	})
	return group.Wait()
}

// useProgram adds a kube-vmap that exists, and prints its checksum.
func (d disk) useProgram(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the program to test: %w", err)
	}
	fmt.Printf("# %x  %s\n", sha256.Sum256(content), path)
	return d.write(program, string(content))
}

// compile runs a go command in a folder that writes a statically linked program.
func compile(ctx context.Context, arch, dir, path, command string, args ...string) error {
	// Build: before the machine starts; ctx has no limit of time.
	cmd := exec.CommandContext(ctx, "go", append([]string{command, "-o", path}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strconv.Quote(cmd.String()), err, out)
	}
	return nil
}

// programs are the programs of this machine that tests run, and that the wrappers of
// other versions of nft need.
var programs = []string{
	"nft", "ip", "sysctl", "sh", "readlink", "dirname", "true", "sleep", "ipvsadm", "ipset",
	"mount", "modprobe", "ln", "uname", // of init
	"iptables-nft", "iptables-nft-save", "iptables-nft-restore",
	"ip6tables-nft", "ip6tables-nft-save", "ip6tables-nft-restore",
	"iptables-legacy", "iptables-legacy-save", "iptables-legacy-restore",
	"ip6tables-legacy", "ip6tables-legacy-save", "ip6tables-legacy-restore",
	"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore", // of kube-proxy
}

// extensions are the folders of iptables' extensions, on any architecture.
const extensions = "/usr/lib/*/xtables/*.so"

// settings are files that these programs read, and nfts other versions of nft that tests expect.
// They may be missing.
var (
	settings = []string{
		"/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/iproute2",
	}
	nfts = []string{".cache/nft/trixie", ".cache/nft/forky"}
)

// addPrograms adds programs to the disk, and files that they read. For another
// architecture they are beside the kernel.
func (d disk) addPrograms(kernel string) error {
	for _, dir := range []string{"dev", "proc", "sys", "tmp", "run", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"} {
		if err := os.MkdirAll(d.path(dir), 0o755); err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(dir, "usr/"); ok {
			if err := os.Symlink(dir, d.path(name)); err != nil {
				return err
			}
		}
	}
	paths := slices.DeleteFunc(slices.Clone(settings), missing)
	if fetched := filepath.Join(kernel, "programs"); !missing(fetched) {
		return errors.Join(d.copy("/", fetched, "usr", "etc", ".cache"), d.copy("/", ".", paths...))
	}
	loaded, err := filepath.Glob(extensions)
	if err != nil {
		return err
	}
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("tests need %s: %w", name, err)
		}
		loaded = append(loaded, path)
	}
	libraries, err := librariesOf(loaded...)
	if err != nil {
		return err
	}
	paths = append(paths, slices.DeleteFunc(slices.Clone(nfts), missing)...)
	return d.copy("/", ".", slices.Concat(paths, loaded, libraries)...)
}

var library = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

func librariesOf(programs ...string) ([]string, error) {
	out, err := exec.Command("ldd", programs...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of %v: %w", programs, err)
	}
	var paths []string
	for _, match := range library.FindAllStringSubmatch(string(out), -1) {
		paths = append(paths, filepath.Clean(match[1]))
	}
	return paths, nil
}
