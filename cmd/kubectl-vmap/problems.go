package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

func problemsCommand(f *cluster.Flags) *cobra.Command {
	var all bool
	var format string
	var observe time.Duration
	cmd := &cobra.Command{
		Use:   "problems [SERVICE...]",
		Short: "List Services whose traffic is not spread over all ready endpoints, and why",
		Long: `List the Services whose connections are not balanced over all ready endpoints, or fail,
on any node: once for each Service, reason and field that causes it, with the nodes
where it is so. Problems come before notices, which may be intended. A Service that is
not listed sends each new connection to any of its ready endpoints, whoever the client
is. Problems of other objects and of nodes are listed, too. The reasons:

` + findings.ReasonsHelp() + `
All namespaces are listed, or that of -n. A SERVICE is one of the namespace of -n or of
the kubeconfig, unless -A is given. Whether endpoints respond is observed for a moment
(--observe), without sending anything: let clients try meanwhile.

Nodes that do not answer are named on stderr. The exit code is 0 if there are no
problems, 1 if there are some, and 2 if not all nodes could be asked, or connections are
not counted (NotCounted).`,
		Example: `  kubectl vmap problems
  kubectl vmap problems -n shop web -o wide
  kubectl vmap problems --node node-1 --observe 8s`,
		Args: cobra.ArbitraryArgs,
		PreRunE: func(*cobra.Command, []string) error {
			return cmp.Or(nodestatus.CheckObserve(observe), output.Table.Check(format))
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&all, "all-namespaces", "A", false, "list all namespaces")
	output.Table.AddFlag(cmd, &format)
	flags.DurationVar(&observe, "observe", 3*time.Second,
		"how long to observe whether endpoints respond, at most 10s; 0 means not at all")
	r := f.Nodes("all if there is none")
	r.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		given, namespace, err := r.Namespace()
		if err := cmp.Or(err, nodestatus.CheckNamespace(given)); err != nil {
			return err
		}
		list, err := r.Find(cmd.Context())
		if err != nil {
			return err
		}
		args := []string{"problems", "-o", "json", "--observe", observe.String()}
		if !all && (len(names) > 0 || given != "") {
			args = append(args, "--namespace", namespace)
		}
		if r.Cluster = r.Patient(observe); observe > 0 {
			output.Progress(cmd.ErrOrStderr(), fmt.Sprintf("observing for %s whether endpoints respond ...", observe))
		}
		return listProblems(cmd, r, list, append(args, names...), format)
	}
	return exit.TroubleOnError(cmd)
}

// listProblems asks the nodes and prints what they have found.
func listProblems(cmd *cobra.Command, r *cluster.Nodes, from nodes.List, args []string, format string) error {
	var all findings.Merger
	var sum findings.Summary
	var uncounted error
	failures, _ := nodes.Answers(cmd.Context(), from, func(ctx context.Context, n nodes.Node) (l findings.List, err error) {
		return l, r.JSON(ctx, n, findings.Schema, &l, args...)
	}, func(n nodes.Node, l findings.List) error {
		all.Add(n.Name, l.Findings)
		sum.Services, sum.ObservedSeconds = max(sum.Services, l.Services), max(sum.ObservedSeconds, l.ObservedSeconds)
		if l.NotCounted() {
			uncounted = findings.ErrNotCounted
		}
		for _, what := range l.NotObserved {
			if !slices.Contains(sum.NotObserved, what) {
				sum.NotObserved = append(sum.NotObserved, what)
			}
		}
		return nil
	})
	failed := failures.Err(cmd.ErrOrStderr())
	if failures.Answered() == 0 {
		return failed
	}
	found, answered := all.Sorted(), all.Nodes()
	for i := range found {
		compareNodes(&found[i], len(answered))
	}
	api, err := kubernetes.NewForConfig(r.REST())
	if err == nil {
		err = namer{&resolve.Resolver{API: api}}.add(cmd.Context(), found)
	}
	if err != nil {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), err)
	}
	sum.Count(found)
	sum.Nodes, sum.Silent = failures.Answered()+failures.Count(), failures.Count()
	err = errors.Join(writeProblems(cmd.OutOrStdout(), format, found, sum, answered), failed, uncounted)
	if err == nil && sum.Problems > 0 {
		return &exit.Error{Code: 1}
	}
	return err
}

// compareNodes corrects a finding about the selector of a Service if only some of the nodes that
// answered have it: other nodes know endpoints, so the selector is not the cause.
func compareNodes(m *findings.Merged, answered int) {
	if m.Reason == findings.NoEndpoints && m.Field == findings.FieldSelector && len(m.Nodes) < answered {
		m.Field, m.Kind, m.Text, m.Variants = "", findings.KindBehind, "", nil
	}
}

// writeProblems writes problems in an output format. answered are the nodes that answered.
func writeProblems(w io.Writer, format string, list []findings.Merged, s findings.Summary, answered []string) error {
	if !output.IsObject(format) {
		return findings.Print(w, list, s, answered, format == "wide")
	}
	for i := range list {
		list[i].SetTexts()
	}
	return output.WriteList(w, format, list, s)
}
