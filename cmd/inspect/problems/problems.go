// Package problems is the command that lists Services of a node whose traffic is not spread over all
// their ready endpoints. Package findings decides which these are.
package problems

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/output"
)

// Options are what problems is asked for.
type Options struct {
	Namespace string   // empty for all
	Names     []string // of Services; none for all
	Output    string   // empty for text, or json
	Observe   time.Duration
}

// defaultObserve is long enough for clients that try again each second.
const defaultObserve = 3 * time.Second

// NewCommand returns kube-vmap problems.
func NewCommand() *cobra.Command {
	var o Options
	var socket string
	cmd := &cobra.Command{
		Use:   "problems [SERVICE...]",
		Short: "List Services whose traffic is not spread over all ready endpoints, and why",
		Long: `List the Services whose connections are not balanced over all ready endpoints on this
node, or fail, each with the reason and the Kubernetes field that causes it. A Service
that is not listed sends each new connection to any of its ready endpoints, whoever the
client is. Problems of other objects and of kube-vmap itself are listed, too.

` + findings.ReasonsHelp() + `
Whether endpoints respond is observed for a moment (--observe), without sending
anything: what clients try meanwhile is seen, so let them try. Resets are found only if
connections are counted. See docs/usage.md for what the evidence is.

The exit code is 0 if there are no problems, 1 if there are some, and 2 if that is not
known, because no kube-vmap answers, it has not programmed everything yet, or connections
are not counted (NotCounted).`,
		Example: `  kube-vmap problems
  kube-vmap problems -n shop web --observe 10s
  kube-vmap problems -o json | jq '.findings[] | select(.severity == "Problem")'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Names = args; o.Observe > 0 {
				output.Progress(cmd.ErrOrStderr(),
					fmt.Sprintf("observing for %s whether endpoints respond ...", o.Observe))
			}
			return o.Run(cmd.Context(), client.Client{Socket: socket}.Get, cmd.OutOrStdout())
		},
	}
	exit.TroubleOnUsage(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.Namespace, "namespace", "n", "", "only the Services of that `namespace`")
	output.JSON.AddFlag(cmd, &o.Output)
	f.DurationVar(&o.Observe, "observe", defaultObserve,
		"how long to observe whether endpoints respond, at most 10s; 0 means not at all")
	client.AddSocketFlag(f, &socket)
	return cmd
}

// Run prints the findings. The error has the exit code of the command.
func (o Options) Run(ctx context.Context, ask nodestatus.Source, w io.Writer) error {
	if err := cmp.Or(output.JSON.Check(o.Output), nodestatus.CheckObserve(o.Observe),
		nodestatus.CheckNamespace(o.Namespace),
		nodestatus.CheckNames(o.Names)); err != nil {
		return exit.TroubleError(err)
	}
	q := nodestatus.Query{Namespace: o.Namespace, Observe: o.Observe}
	if len(o.Names) == 1 {
		q.Name = o.Names[0]
	}
	d, err := ask(ctx, q)
	if err != nil {
		return exit.TroubleError(err)
	}
	if o.Namespace != "" && len(d.Services) == 0 && d.Ready {
		return exit.TroubleError(fmt.Errorf("kube-vmap serves no Service in namespace %s", o.Namespace))
	}
	l, err := o.list(d)
	if err != nil {
		return err
	}
	if err := o.print(w, &l); err != nil {
		return exit.TroubleError(fmt.Errorf("print the problems: %w", err))
	}
	// If kube-proxy serves the node, kube-vmap will program nothing.
	returned := slices.ContainsFunc(d.Problems, func(p nodestatus.Problem) bool {
		return p.Reason == nodestatus.ReasonReturned
	})
	switch {
	case !d.Ready && !returned:
		return exit.TroubleError(errors.New("kube-vmap has not programmed everything yet"))
	case l.NotCounted():
		return exit.TroubleError(findings.ErrNotCounted)
	case l.Problems():
		return &exit.Error{Code: 1}
	}
	return nil
}

func (o Options) list(d *nodestatus.Document) (findings.List, error) {
	if len(o.Names) == 0 {
		return findings.ListOf(d), nil
	}
	where := strings.TrimSuffix(" in namespace "+o.Namespace, " in namespace ")
	for _, name := range o.Names {
		if !slices.ContainsFunc(d.Services, func(s nodestatus.Service) bool { return s.Name == name }) {
			return findings.List{}, exit.TroubleError(fmt.Errorf("kube-vmap serves no Service %s%s", name, where))
		}
	}
	d.Services = slices.DeleteFunc(d.Services, func(s nodestatus.Service) bool {
		return !slices.Contains(o.Names, s.Name)
	})
	l := findings.ListOf(d)
	l.Findings = slices.DeleteFunc(l.Findings, func(f findings.Finding) bool {
		return f.Name == "" && !strings.HasPrefix(f.Object, "Node ")
	})
	return l, nil
}

func (o Options) print(w io.Writer, l *findings.List) error {
	if o.Output == "" {
		return l.Write(w)
	}
	l.Findings = findings.WithTexts(l.Findings)
	return output.Write(w, o.Output, l)
}
