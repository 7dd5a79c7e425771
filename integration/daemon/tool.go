package daemon

import (
	"bytes"
	"errors"
	"os/exec"
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
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	cmd := host.Command(t.Context(), path, args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", args, err)
	}
	return Said{out.String(), problems.String(), cmd.ProcessState.ExitCode()}
}
