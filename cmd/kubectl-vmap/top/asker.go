package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// An asker asks the chosen nodes, which are listed again each time, since nodes come and go.
// Of nodes that do not answer, no query waits more than once: they are asked again in the
// background, at longer and longer intervals, and belong to the next query after an answer.
type asker struct {
	cluster    *nodes.Cluster
	chosen     nodes.Selection
	interval   time.Duration
	background context.Context //nolint:containedctx // of questions that no query waits for

	mu      sync.Mutex
	failing map[string]*failure // by node
}

// A failure is that of a node that does not answer.
type failure struct {
	pod      string
	err      error
	since    time.Time
	failures int
	next     time.Time // when it is asked again
	asking   bool
}

func newAsker(ctx context.Context, c *nodes.Cluster, chosen nodes.Selection, interval time.Duration) *asker {
	return &asker{cluster: c, chosen: chosen, interval: interval, background: ctx, failing: map[string]*failure{}}
}

// query is a [top.Source]. It is an error if no node answers.
func (a *asker) query(ctx context.Context, q status.Query) (out top.Answer, err error) {
	list, err := a.chosen.Select(ctx, a.cluster)
	if err != nil {
		return out, err
	}
	var failed []error
	nodes.Ask(ctx, a.cluster, a.due(list, q), func(ctx context.Context, n nodes.Node) (*status.Document, error) {
		return a.cluster.Document(ctx, n, q)
	}, func(n nodes.Node, d *status.Document, err error) {
		switch {
		case err != nil && n.Missing:
			failed = append(failed, fmt.Errorf("%s: %w", n.Name, err))
		case err != nil:
			a.fail(n, err)
		default:
			d.Node = n.Name
			out.Documents = append(out.Documents, d)
		}
	})
	failed = append(failed, a.failures()...)
	if len(out.Documents) == 0 && len(failed) > 0 {
		return out, fmt.Errorf("no node answers; the first of %d errors is %w", len(failed), failed[0])
	} else if len(out.Documents) == 0 {
		return out, errors.New("the cluster has no nodes")
	}
	slices.SortFunc(out.Documents, func(x, y *status.Document) int { return cmp.Compare(x.Node, y.Node) })
	for _, err := range failed {
		out.Failed = append(out.Failed, err.Error())
	}
	slices.Sort(out.Failed)
	return out, nil
}

// due returns the nodes to wait for, and asks those again whose turn it is.
func (a *asker) due(list []nodes.Node, q status.Query) (due []nodes.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, listed := time.Now(), map[string]bool{}
	for _, n := range list {
		f := a.failing[n.Name]
		if f == nil || n.Missing || f.pod != n.Pod { // another process, of which nothing is known
			due = append(due, n)
			continue
		}
		listed[n.Name] = true
		if !f.asking && !now.Before(f.next) {
			f.asking = true
			go a.retry(n, q)
		}
	}
	for name := range a.failing {
		if !listed[name] {
			delete(a.failing, name)
		}
	}
	return due
}

// retry asks a node again. The next query asks it again if it answers, for newer numbers.
func (a *asker) retry(n nodes.Node, q status.Query) {
	_, err := a.cluster.Document(a.background, n, q)
	if err != nil {
		a.fail(n, err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failing, n.Name)
}

// fail notes that a node did not answer.
func (a *asker) fail(n nodes.Node, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	f := a.failing[n.Name]
	if f == nil || f.pod != n.Pod {
		f = &failure{pod: n.Pod, since: now}
		a.failing[n.Name] = f
	}
	f.failures++
	f.err, f.asking, f.next = err, false, now.Add(nodes.Backoff(a.interval, f.failures))
}

// failures returns why nodes do not answer, and since when.
func (a *asker) failures() (out []error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, f := range a.failing {
		if age := time.Since(f.since).Round(time.Second); age > 0 {
			out = append(out, fmt.Errorf("%s: not answering for %s: %w", name, age, f.err))
		} else {
			out = append(out, fmt.Errorf("%s: %w", name, f.err))
		}
	}
	slices.SortFunc(out, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return out
}
