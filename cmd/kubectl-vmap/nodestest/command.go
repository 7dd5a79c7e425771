package nodestest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

// Command runs a command of the plugin with the server's kubeconfig, and returns what it
// prints, its error as the last line of stderr, and its exit code.
func (s *Server) Command(t testing.TB, newCommand func(*cluster.Flags) *cobra.Command, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	f := cluster.NewFlags()
	cmd := newCommand(f)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	f.AddFlags(cmd.PersistentFlags())
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append([]string{"--kubeconfig", s.Kubeconfig(t)}, args...))
	err := cmd.ExecuteContext(t.Context())
	if err != nil && err.Error() != "" {
		_, _ = fmt.Fprintln(&errs, err)
	}
	return out.String(), errs.String(), exit.Code(err)
}
