package main

import (
	"io"
	"testing"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/docstest"
)

func TestCommandsInDocumentsAreValid(t *testing.T) {
	docstest.Check(t, "../..", "kube-vmap", 30, func() *cobra.Command { return rootCommand(io.Discard, io.Discard) })
}
