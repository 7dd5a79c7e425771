// Package onetest is a single node for tests of commands that read nodes.
package onetest

import (
	"context"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

// Node is this node, whose document it returns; it implements [nodes.Nodes].
type Node nodestatus.Source

// AddFlags adds no flags.
func (Node) AddFlags(*cobra.Command) {}

// Namespace returns that no namespace was given.
func (Node) Namespace() (given, current string, err error) { return "", "default", nil }

// Find returns the node.
func (Node) Find(context.Context) (nodes.List, error) {
	return nodes.List{Nodes: []nodes.Node{{}}, Chosen: true, Limit: 1}, nil
}

// Document returns the document.
func (n Node) Document(ctx context.Context, _ nodes.Node, q nodestatus.Query) (*nodestatus.Document, error) {
	return n(ctx, q)
}
