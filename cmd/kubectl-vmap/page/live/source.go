package live

import (
	"context"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// Source asks the nodes of a cluster, as [nodes.Cluster] does.
type Source interface {
	Nodes(ctx context.Context) ([]nodes.Node, error)
	Document(ctx context.Context, n nodes.Node, q status.Query) (*status.Document, error)
	// JSON runs a command on a node and decodes what it prints.
	JSON(ctx context.Context, n nodes.Node, known int, into any, args ...string) error
}
