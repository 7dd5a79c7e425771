package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// flagsVariable is the environment variable with flags for every start, so that tests of packets
// can be repeated with another configuration.
const flagsVariable = "KUBE_VMAP_FLAGS"

// passiveHealthWarnings are expected: in many tests endpoints or packets are lost. Tests with the flag
// of the checks decide themselves.
var passiveHealthWarnings = []string{"endpoint unresponsive"}

// Launch says how to run the program, for tests that need more than [Start].
type Launch struct {
	Node   *lab.Node
	Folder *Folder
	// Path is the manifest file or folder; that of Folder if empty.
	Path  string
	Flags []string
	// NoPodRanges leaves out [PodRanges].
	NoPodRanges bool
	// Problems allows warnings and errors in the log.
	Problems bool
	// By is a program with arguments that executes the command which follows them, as
	// env does; none if empty.
	By []string
}

// Start is [Start] without waiting for anything.
func (l Launch) Start(t testing.TB) *Daemon {
	t.Helper()
	if l.Path == "" {
		l.Path = l.Folder.dir
	}
	line := append(l.By[:len(l.By):len(l.By)],
		Program(t), "--manifests", l.Path, "--hostname-override", l.Node.Name,
		"--logging-format", "json", "-v", "4",
		"--oom-score-adj", "0", // to change it takes a capability
	)
	if !l.NoPodRanges {
		line = append(line, PodRanges)
	}
	line = append(line, strings.Fields(os.Getenv(flagsVariable))...)
	line = append(line, l.Flags...)
	p, err := process.Start(t.Context(), process.Config{Program: line[0], Args: line[1:], Host: l.Node.Host})
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{Process: p, t: t, problems: l.Problems}
	if !slices.ContainsFunc(line, func(arg string) bool { return strings.HasPrefix(arg, "--passive-health-checks=") }) {
		d.ignored = slices.Clone(passiveHealthWarnings)
	}
	t.Cleanup(d.close)
	return d
}

// Main provides kube-vmap and runs a package's tests. It returns the exit code.
func Main(m *testing.M) int { return built.Main(m) }

// Program returns the path of kube-vmap.
func Program(t testing.TB) string {
	t.Helper()
	return built.KubeVMap.Path()
}

// Output is what the program printed when it was run as a command, and its exit
// code.
type Output struct {
	Stdout, Stderr string
	ExitCode       int
}

// String is for messages of tests.
func (s Output) String() string {
	return fmt.Sprintf("exit code %d, stdout %q, stderr %q", s.ExitCode, s.Stdout, s.Stderr)
}

// Run runs the program as a command on a host.
func Run(t testing.TB, host *lab.Host, args ...string) Output {
	t.Helper()
	return run(t, host, nil, nil, args)
}

// Shows checks that a command on a host prints texts, whatever the lines.
func Shows(t testing.TB, host *lab.Host, command string, texts ...string) {
	t.Helper()
	out := Run(t, host, strings.Fields(command)...)
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(out.Stdout), " "), text) {
			t.Errorf("kube-vmap %s does not say %q:\n%s", command, text, out)
		}
	}
}

// RunBy is [Run] by another program, which executes the command behind its own
// arguments.
func RunBy(t testing.TB, host *lab.Host, by []string, args ...string) Output {
	t.Helper()
	return run(t, host, nil, by, args)
}

// RunAs is [Run] with other rights.
func RunAs(t testing.TB, host *lab.Host, rights *syscall.SysProcAttr, args ...string) Output {
	t.Helper()
	return run(t, host, rights, nil, args)
}

func run(t testing.TB, host *lab.Host, rights *syscall.SysProcAttr, by, args []string) Output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	line := slices.Concat(by, []string{Program(t)}, args)
	cmd := host.Command(t.Context(), line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &stdout, &stderr, rights
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", args, err)
	}
	return Output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}
