package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/lab"
)

// Output is the result of a command.
type Output struct {
	Command        string
	Stdout, Stderr string
	Code           int
}

// String returns all of it, for messages.
func (o Output) String() string {
	return fmt.Sprintf("$ %s\n%s%s(exit code %d)", o.Command, o.Stdout, o.Stderr, o.Code)
}

// Kubectl runs kubectl as an administrator at the machine of a user, which is the host outside.
func (c *Cluster) Kubectl(t testing.TB, args ...string) Output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	out := Output{Command: "kubectl " + strings.Join(args, " ")}
	cmd := c.Command(clustertest.Context(t), t, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", out.Command, err)
	}
	out.Stdout, out.Stderr = stdout.String(), stderr.String()
	if exit != nil {
		out.Code = exit.ExitCode()
	}
	return out
}

// Command returns kubectl at the machine of a user with its plugins, not started yet, for tests that
// read its output meanwhile.
func (c *Cluster) Command(ctx context.Context, t testing.TB, args ...string) *lab.Cmd {
	t.Helper()
	kubectl, err := plane.Program("kubectl")
	clustertest.Must(t, err)
	cmd := c.Lab.Outside.Command(ctx, kubectl, args...)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+c.AdminKubeconfig(), "PATH="+c.plugins+":"+filepath.Dir(kubectl)+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	return cmd
}
