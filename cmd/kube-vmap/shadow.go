package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/shadow"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/logring"
	"kube-vmap/cmd/kube-vmap/serve"
	"kube-vmap/sync/cluster"
)

// shadowOptions are the flags of kube-vmap shadow itself.
type shadowOptions struct {
	once, all    bool
	output       string
	period       time.Duration
	serveAddress string
}

// shadowCommand returns kube-vmap shadow.
func shadowCommand() *cobra.Command {
	flags := config.NewFlags()
	var o shadowOptions
	cmd := &cobra.Command{
		Use:   "shadow [--once] [--manifests DIR] [FLAGS]",
		Short: "Compare what kube-vmap would do with the rules of kube-proxy",
		Long: `Follow the API as the proxy does, program nothing, and compare for every address and port
of a Service what kube-vmap would do with what the rules of kube-proxy in the kernel do:
endpoints and their shares, masquerade, who is refused or dropped, source ranges, session
affinity. Give the flags or the configuration file of kube-proxy. Simulated packets of a
pod, the node and a client outside take the path through both rule sets. Nothing is sent
or changed. Rules of a dormant table are compared as if it were awake.

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
			err := runShadow(cmd.Context(), flags, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			var coded *exit.Error
			if err == nil || errors.As(err, &coded) {
				return err
			}
			return &exit.Error{Code: exit.Trouble, Err: err}
		},
	}
	exit.TroubleOnUsage(cmd)
	flags.AddToCommand(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "compare once, print the result and exit")
	f.BoolVar(&o.all, "all", false, "list intended differences, too")
	f.StringVarP(&o.output, "output", "o", "table", "output `format` of --once: table or json")
	f.DurationVar(&o.period, "period", 30*time.Second, "least `time` between two rounds")
	f.StringVar(&o.serveAddress, "serve-address", "127.0.0.1:10349",
		"`address` and port of /metrics, /readyz and /livez, which must not be those of kube-proxy; empty serves nothing")
	return cmd
}

// runShadow compares once, or until ctx ends.
func runShadow(ctx context.Context, flags *config.Flags, o shadowOptions, stdout, stderr io.Writer) error {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("--output: %q is neither table nor json", o.output)
	}
	c, err := diff.ReadOnlyConfig(flags)
	if err != nil {
		return err
	}
	log, level := newLogger(c, stderr, &logring.Log{})
	if o.once && c.Verbosity() == 0 {
		level.Set(slog.LevelWarn)
	}
	cluster.RouteKlog(log, c.Verbosity())
	p := &proxy{config: c, log: log}
	if p.loop, err = c.Loop(); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	settings := shadow.Config{
		Loop: p.loop, Source: p.source, NodePortsDefault: c.NodePorts().Primary, Period: o.period, Log: log,
	}
	if o.once {
		return shadowOnce(ctx, shadow.New(settings), o, stdout)
	}
	monitor := shadow.NewMonitor(log)
	settings.OnRound = monitor.OnRound
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return shadow.New(settings).Run(ctx) })
	server := serve.New(serve.Config{Name: "shadow", Address: o.serveAddress, Handler: monitor.Handler(), Log: log})
	group.Go(func() error { return server.Run(ctx) })
	return group.Wait()
}

// shadowOnce compares once and prints the result.
func shadowOnce(ctx context.Context, s *shadow.Shadow, o shadowOptions, stdout io.Writer) error {
	round, confirmed, pending, err := s.Once(ctx)
	if err != nil {
		return err
	}
	r := shadow.NewReport(round, confirmed, pending, o.all)
	write := r.WriteText
	if o.output == "json" {
		write = r.WriteJSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if code := r.ExitCode(); code != 0 {
		return &exit.Error{Code: code}
	}
	return nil
}
