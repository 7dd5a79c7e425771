package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	utilexec "k8s.io/utils/exec"

	"kube-vmap/integration/lab"
)

// Run runs a command in a container. For an exit code other than 0 it returns a
// [utilexec.CodeExitError].
type Run func(ctx context.Context, command []string, stdout, stderr io.Writer) error

// Exit returns the error of a program that ended with an exit code.
func Exit(code int) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
}

// Program returns a container in the network namespace of a host that has one program:
// the file at path, as name.
func Program(host *lab.Host, name, path string) Run {
	return func(ctx context.Context, command []string, stdout, stderr io.Writer) error {
		if len(command) == 0 || command[0] != name {
			return NoProgram(command)
		}
		cmd := host.Command(ctx, path, command[1:]...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		cmd.Env, cmd.Dir = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Exited() {
			return Exit(exit.ExitCode())
		}
		return err
	}
}

// NoProgram returns the error of containerd and runc for a program that the container
// does not have.
func NoProgram(command []string) error {
	name := ""
	if len(command) > 0 {
		name = command[0]
	}
	return fmt.Errorf("failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "+
		"unable to start container process: exec: %q: executable file not found in $PATH", name)
}
