package preflight

import (
	"github.com/spf13/cobra"

	"kube-vmap/cmd/components"
	"kube-vmap/cmd/inspect/exit"
)

// NewCommand returns kube-vmap preflight.
func NewCommand() *cobra.Command {
	var c Config
	var format string
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check whether this node is ready for kube-vmap",
		Long: `Check a node before kube-vmap runs there: what the kernel supports, which proxy runs in
which mode, and which CNI plugin, policy engine, firewall, service mesh or load balancer
is there. Nothing is changed.

  fine       nothing has to be done; DETAIL may be worth reading
  needs      DETAIL is what has to be done
  conflict   not on the same node as kube-vmap
  unknown    not visible: run it as root, on the node, or with hostNetwork and hostPID

EVIDENCE is what was found, all of it with -o wide. SEE is the part of the
documentation, for components their row in docs/compatibility.md.

The exit code is 0 if everything is fine, 1 if something is needed or conflicts, and 2 if
something could not be checked. deploy/preflight runs this on every node.`,
		Example: `  kube-vmap preflight
  kube-vmap preflight -o json --kubeconfig /etc/kubernetes/kubelet.conf`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := formats.Check(format); err != nil {
				return exit.TroubleError(err)
			}
			r := Run(cmd.Context(), c)
			if err := r.Print(cmd.OutOrStdout(), format); err != nil {
				return exit.TroubleError(err)
			}
			return r.exit()
		},
	}
	exit.TroubleOnUsage(cmd)
	f := cmd.Flags()
	formats.AddFlag(cmd, &format)
	f.StringVar(&c.Kubeconfig, "kubeconfig", "",
		"`file` with the address of the API server, to check that this node reaches it")
	f.StringVar(&c.Node.CNIConfig, "cni-config", "/etc/cni/net.d", "`directory` with the configuration of CNI plugins")
	return cmd
}

func (r *Report) exit() error {
	switch r.Verdict {
	case components.Fine:
		return nil
	case Unknown:
		return &exit.Error{Code: exit.Trouble}
	}
	return &exit.Error{Code: 1}
}
