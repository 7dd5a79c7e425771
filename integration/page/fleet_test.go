package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/page"
	"kube-vmap/cmd/inspect/page/live"
)

// fleet is a cluster whose nodes a test sets. Each answer is later than the one before, with
// new connections.
type fleet struct {
	mu     sync.Mutex
	nodes  []nodes.Node
	at     map[string]*nodestatus.Document
	rates  map[string]map[string]uint64 // new connections in 5 s, by node and Service
	silent map[string]string            // nodes that do not answer, with the reason
	way    any
}

func (f *fleet) Nodes(context.Context) ([]nodes.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]nodes.Node(nil), f.nodes...), nil
}

// read returns the document of a node after 5 more seconds.
func (f *fleet) read(name string) (*nodestatus.Document, error) {
	if why := f.silent[name]; why != "" {
		return nil, errors.New(why)
	}
	doc := f.at[name]
	doc.Time = time.Now()
	doc.CountedAt = doc.CountedAt.Add(5 * time.Second)
	for i := range doc.Services {
		s := &doc.Services[i]
		for j := range s.Ports {
			addConnections(&s.Ports[j], f.rates[name][s.Namespace+"/"+s.Name])
		}
	}
	return doc, nil
}

// addConnections adds new connections to a port, spread over its endpoints.
func addConnections(p *nodestatus.Port, more uint64) {
	var used []*nodestatus.Endpoint
	for k := range p.Endpoints {
		if p.Endpoints[k].Reason == "" {
			used = append(used, &p.Endpoints[k])
		}
	}
	if len(used) == 0 || more == 0 {
		return
	}
	p.Connections += more
	p.Frontends[0].Connections += more
	for k, e := range used {
		e.Connections += more / uint64(len(used))
		if uint64(k) < more%uint64(len(used)) {
			e.Connections++
		}
	}
}

func (f *fleet) Tally(_ context.Context, n nodes.Node) (*nodestatus.Tally, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	doc, err := f.read(n.Name)
	if err != nil {
		return nil, err
	}
	return doc.Tally(), nil
}

func (f *fleet) Findings(context.Context, nodes.Node) ([]findings.Finding, error) {
	return nil, nil
}

func (f *fleet) Document(_ context.Context, n nodes.Node, q nodestatus.Query) (*nodestatus.Document, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	doc, err := f.read(n.Name)
	if err != nil {
		return nil, err
	}
	out := *doc
	out.Services = nil
	for i := range doc.Services {
		if s := &doc.Services[i]; (q.Namespace == "" || s.Namespace == q.Namespace) && (q.Name == "" || s.Name == q.Name) {
			out.Services = append(out.Services, copied(s, q.Brief))
		}
	}
	return &out, nil
}

// token is that of the page under test.
const token = "secret"

// serve serves the page of the cluster, and returns its address.
func (f *fleet) serve(t *testing.T) string {
	t.Helper()
	return serve(t, f.handler(t))
}

// handler returns the handler of the page, which is kept up to date until the end of the test.
func (f *fleet) handler(t *testing.T) http.Handler {
	t.Helper()
	c := page.Config{Cluster: live.New(f), Context: "prod-eu", Path: "/" + token + "/"}
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Cluster.Run(ctx) })
	t.Cleanup(func() { end(); running.Wait() })
	c.Explain = func(_ context.Context, q page.ExplainRequest) (any, error) {
		if f.way == nil {
			return nil, fmt.Errorf("pod %q is not found", q.From)
		}
		return f.way, nil
	}
	return page.Handler(c)
}

// newFleet returns a cluster of n nodes with these Services on each, of which some have
// clients there.
func newFleet(n int, services func() []nodestatus.Service) *fleet {
	f := &fleet{at: map[string]*nodestatus.Document{}, rates: map[string]map[string]uint64{}, silent: map[string]string{}}
	start := time.Now().Add(-time.Hour)
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("node-%d", i)
		f.nodes = append(f.nodes, nodes.Node{Name: name, Pod: "kube-vmap-" + name})
		all := services()
		slices.SortFunc(all, func(a, b nodestatus.Service) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		f.at[name] = &nodestatus.Document{
			Source: nodestatus.FromDaemon, Node: name, Version: "v1.0.0", Ready: true, Counted: true, CountedAt: start, Services: all,
		}
		f.rates[name] = map[string]uint64{}
		for k, s := range all {
			f.rates[name][s.Namespace+"/"+s.Name] = uint64(k*i*37) % 101
		}
	}
	return f
}
