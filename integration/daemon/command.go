package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/lab"
)

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
