package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// A source asks the chosen nodes, which are listed again each time, since nodes come and go.
// Those that do not answer are asked less and less, so that others seldom wait for them.
type source struct {
	cluster  *nodes.Cluster
	chosen   nodes.Selection
	interval time.Duration
	failing  map[string]failure // by node
}

// A failure is that of a node that does not answer.
type failure struct {
	pod   string // another pod is another process, of which nothing is known
	err   error
	since time.Time
	count int
	next  time.Time // when it is asked again
}

// query is a [top.Source]. It is an error if no node answers.
func (s *source) query(ctx context.Context, q status.Query) (out top.Answer, err error) {
	list, err := s.chosen.Select(ctx, s.cluster)
	if err != nil {
		return out, err
	}
	var failed []error
	list = slices.DeleteFunc(list, func(n nodes.Node) bool {
		f, failing := s.failing[n.Name]
		rests := failing && f.pod == n.Pod && time.Now().Before(f.next)
		if rests {
			failed = append(failed, f.describe(n))
		}
		return rests
	})
	nodes.Ask(ctx, s.cluster, list, func(ctx context.Context, n nodes.Node) (*status.Document, error) {
		return s.cluster.Document(ctx, n, q)
	}, func(n nodes.Node, d *status.Document, err error) {
		if err != nil {
			failed = append(failed, s.fail(n, err).describe(n))
			return
		}
		delete(s.failing, n.Name)
		d.Node = n.Name
		out.Documents = append(out.Documents, d)
	})
	slices.SortFunc(failed, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	if len(out.Documents) == 0 && len(failed) > 0 {
		return out, fmt.Errorf("no node answers; the first of %d errors is %w", len(failed), failed[0])
	} else if len(out.Documents) == 0 {
		return out, errors.New("the cluster has no nodes")
	}
	slices.SortFunc(out.Documents, func(x, y *status.Document) int { return cmp.Compare(x.Node, y.Node) })
	for _, err := range failed {
		out.Failed = append(out.Failed, err.Error())
	}
	return out, nil
}

// fail notes that a node did not answer. One without kube-vmap costs nothing to ask.
func (s *source) fail(n nodes.Node, err error) failure {
	now := time.Now()
	f := s.failing[n.Name]
	if f.count == 0 || f.pod != n.Pod {
		f = failure{pod: n.Pod, since: now}
	}
	f.count++
	f.err, f.next = err, now
	if !n.Missing {
		f.next = now.Add(nodes.Backoff(s.interval, f.count))
	}
	s.failing[n.Name] = f
	return f
}

// describe returns why a node does not answer, and since when.
func (f failure) describe(n nodes.Node) error {
	if age := time.Since(f.since).Round(time.Second); age > 0 {
		return fmt.Errorf("%s: not answering for %s: %w", n.Name, age, f.err)
	}
	return fmt.Errorf("%s: %w", n.Name, f.err)
}
