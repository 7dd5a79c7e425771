package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

// retryPeriod is how long a node that did not answer is left alone, since others wait for it.
const retryPeriod = 30 * time.Second

// A reader reads the chosen nodes, which are listed again each time, since nodes come and go.
type reader struct {
	nodes   nodes.Nodes
	failing map[string]failure // by node
}

type failure struct {
	pod string // another pod is another process, of which nothing is known
	err error
	at  time.Time
}

type answer struct {
	documents []*nodestatus.Document
	failed    []string // a line for each node that did not answer
}

// read returns the answer to a query. It is an error if no node answers.
func (r *reader) read(ctx context.Context, q nodestatus.Query) (out answer, err error) {
	list, err := r.nodes.Find(ctx)
	if err != nil {
		return out, err
	}
	ask, absent, failed := r.split(list.Nodes)
	list.Nodes = ask
	nodes.ReadyFirst(list.Nodes)
	nodes.Each(ctx, list, func(ctx context.Context, n nodes.Node) (*nodestatus.Document, error) {
		return r.nodes.Document(ctx, n, q)
	}, func(n nodes.Node, d *nodestatus.Document, err error) {
		delete(r.failing, n.Name)
		switch {
		case err == nil:
			d.Node = cmp.Or(n.Name, d.Node)
			out.documents = append(out.documents, d)
			return
		case n.Name != "":
			err = fmt.Errorf("%s: %w", n.Name, err)
		}
		failed = append(failed, err)
		if !n.Missing && ctx.Err() == nil { // which costs nothing to ask, or was not asked to the end
			r.failing[n.Name] = failure{n.Pod, err, time.Now()}
		}
	})
	slices.SortFunc(failed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	switch {
	case len(out.documents) > 0:
	case len(failed) == 1:
		return out, failed[0]
	case len(failed) > 0:
		return out, fmt.Errorf("no node answers; the first of %d errors is %w", len(failed), failed[0])
	default:
		return out, errors.New("no node of the cluster has kube-vmap")
	}
	slices.SortFunc(out.documents, func(x, y *nodestatus.Document) int { return cmp.Compare(x.Node, y.Node) })
	if text := nodes.AbsentText(absent); text != "" {
		out.failed = append(out.failed, text)
	}
	for _, err := range failed {
		out.failed = append(out.failed, err.Error())
	}
	return out, nil
}

// split returns the nodes to ask, the names of those without kube-vmap, and the errors of those
// that rest, unless there are no others.
func (r *reader) split(list []nodes.Node) (ask []nodes.Node, absent []string, failed []error) {
	rests := func(n nodes.Node) bool {
		f := r.failing[n.Name]
		return f.pod == n.Pod && time.Since(f.at) < retryPeriod
	}
	others := slices.ContainsFunc(list, func(n nodes.Node) bool { return !n.Missing && !rests(n) }) // which would wait
	for _, n := range list {
		switch {
		case n.Absent: // in one line, which leaves room for the others
			absent = append(absent, n.Name)
		case others && rests(n):
			failed = append(failed, r.failing[n.Name].err)
		default:
			ask = append(ask, n)
		}
	}
	return ask, absent, failed
}
