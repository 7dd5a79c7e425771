package daemon

import (
	"os"
	"slices"
	"strings"
	"testing"

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
