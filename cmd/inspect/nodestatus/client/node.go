package client

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

// ThisNode is the node of the running process; it implements [nodes.Nodes].
type ThisNode struct {
	Client
	namespace string
}

// AddFlags adds the flags for the socket and the namespace.
func (n *ThisNode) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&n.namespace, "namespace", "n", "", "`namespace` of the Services")
	AddSocketFlag(cmd.Flags(), &n.Socket)
}

// Namespace returns the namespace of the flag, and that or kubectl's default one.
func (n *ThisNode) Namespace() (given, current string, err error) {
	return n.namespace, cmp.Or(n.namespace, "default"), nil
}

// Find returns this node.
func (n *ThisNode) Find(context.Context) (nodes.List, error) {
	return nodes.List{Nodes: []nodes.Node{{}}, Chosen: true, Limit: 1}, nil
}

// Document returns the document of the process.
func (n *ThisNode) Document(ctx context.Context, _ nodes.Node, q nodestatus.Query) (*nodestatus.Document, error) {
	return n.Get(ctx, q)
}
