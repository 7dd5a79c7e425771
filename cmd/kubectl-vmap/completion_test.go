package main

import (
	"io"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-vmap/cmd/inspect/docstest"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

// TestNoAPIServerMeansNoNames has an API server that does not exist.
func TestNoAPIServerMeansNoNames(t *testing.T) {
	f := cluster.NewFlags()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(flags)
	must(t, flags.Set("server", "https://127.0.0.1:1"))
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	c := completer{f}
	start := time.Now()
	if got, d := c.objects("node/")(cmd, nil, ""); len(got) > 0 || d != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("names %q, %v", got, d)
	}
	if took := time.Since(start); took > 2*completionTimeout {
		t.Errorf("it took %s", took)
	}
}

func TestKindsAreCompletedFirst(t *testing.T) {
	got, d := completer{cluster.NewFlags()}.objects("pod/", "deploy/", "ds/")(&cobra.Command{}, nil, "d")
	if len(got) != 2 || got[0] != "deploy/" || d&cobra.ShellCompDirectiveNoSpace == 0 {
		t.Errorf("%q, %v", got, d)
	}
	if got, _ := (completer{cluster.NewFlags()}).objects("pod/", "ds/")(&cobra.Command{}, nil, "svc/x"); got != nil {
		t.Errorf("a kind that is not one of the flag's: %q", got)
	}
}

func TestCommandsInDocumentsAreValid(t *testing.T) {
	docstest.Check(t, "../..", "kubectl vmap", 15, func() *cobra.Command { return rootCommand(io.Discard, io.Discard) })
}
