package shadow

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/kube-vmap/config"
)

// Options are the flags of kube-vmap shadow itself.
type Options struct {
	Once         bool
	All          bool          // list intended differences, too
	Output       string        // of Once: table or json
	Period       time.Duration // least time between two rounds
	Timeout      time.Duration // of Once, until the objects are loaded
	ServeAddress string        // of metrics and /readyz
}

// A RunFunc runs the command.
type RunFunc func(ctx context.Context, flags *config.Flags, o Options, stdout, stderr io.Writer) error

// NewCommand returns kube-vmap shadow. run comes from package main, because it needs parts of
// the daemon: its source of objects and its servers.
func NewCommand(run RunFunc) *cobra.Command {
	flags := config.NewFlags()
	var o Options
	cmd := &cobra.Command{
		Use:   "shadow [--once] [--manifests DIR] [FLAGS]",
		Short: "Compare what kube-vmap would do with the rules of kube-proxy",
		Long: `Follow the API as the proxy does, program nothing, and compare for every address and port
of a Service what kube-vmap would do with what the rules of kube-proxy in the kernel do:
endpoints and their shares, masquerade, who is refused or dropped, source ranges, session
affinity. Give the flags or the configuration file of kube-proxy. Simulated packets of a
pod, the node and a client outside take the path through both rule sets. Nothing is sent
or changed. Dormant or suspended rules are compared as if they were in effect.

A difference is reported if two rounds in a row have found it while the API data of the
Service did not change, since kube-proxy needs some seconds for a change. Where kube-vmap
differs on purpose (docs/usage.md, "Services"), the difference is counted by its reason;
--all lists these, too.

With --once, compare and exit: 0 if there is no difference but intended ones, 1 if there
is one, 2 if that could not be determined. Otherwise run until interrupted, log when a
difference begins or ends, and serve metrics and /readyz. Rounds take at most a twentieth
of a processor.`,
		Example: `  kube-vmap shadow --once --config /var/lib/kube-proxy/config.conf
  kube-vmap shadow --once -o json --kubeconfig FILE --cluster-cidr 10.244.0.0/16,fd00:10:244::/56`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), flags, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags.AddToCommand(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.Once, "once", false, "compare once, print the result and exit")
	f.BoolVar(&o.All, "all", false, "list intended differences, too")
	f.StringVarP(&o.Output, "output", "o", "table", "output `format` of --once: table or json")
	f.DurationVar(&o.Period, "period", 30*time.Second, "least `time` between two rounds")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "`time` that --once waits for the API server; 0 means forever")
	f.StringVar(&o.ServeAddress, "serve-address", "127.0.0.1:10349",
		"`address` and port of /metrics, /readyz and /livez, which must not be those of kube-proxy; empty serves nothing")
	return exit.TroubleOnError(cmd)
}
