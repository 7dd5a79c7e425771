package daemon

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"testing"

	"kube-vmap/integration/lab"
)

// Said is what the program said when it was run as a command.
type Said struct {
	Out, Err string
	Code     int
}

// Run runs the program as a command on a host, as a person would who has only its
// help.
func Run(t testing.TB, host *lab.Host, args ...string) Said {
	t.Helper()
	return RunBy(t, host, nil, args...)
}

// RunBy is [Run] by another program, which takes a command behind its own arguments.
func RunBy(t testing.TB, host *lab.Host, by []string, args ...string) Said {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	line := slices.Concat(by, []string{path}, args)
	cmd := host.Command(t.Context(), line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", args, err)
	}
	return Said{out.String(), problems.String(), cmd.ProcessState.ExitCode()}
}
