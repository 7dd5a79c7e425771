package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// Nodes asks kube-vmap on nodes.
type Nodes interface {
	Explain(ctx context.Context, node string, args []string) (*answer.Answer, error)
	Document(ctx context.Context, node string, q nodestatus.Query) (*nodestatus.Document, error)
}

const (
	// maxFollowed is to how many nodes of endpoints a packet is followed.
	maxFollowed = 10
	// maxAsked is how many nodes are asked at the same time.
	maxAsked = 16
)

// An Explainer answers questions about packets.
type Explainer struct {
	Resolver *resolve.Resolver
	Nodes    Nodes
	Families []model.Family
	// Node is where packets of clients outside the cluster arrive; empty to ask all nodes.
	Node string
	// Settle is how long nodes may take to follow the API server before they count as
	// different.
	Settle time.Duration
	// Observe is how long the client's node observes whether endpoints respond; zero means
	// not at all.
	Observe time.Duration
	// Probe makes the nodes of endpoints connect to them.
	Probe bool
}

// Explain answers the question of --from and --to.
func (e *Explainer) Explain(ctx context.Context, from, to string) (*Report, error) {
	client, err := e.Resolver.Client(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	destination, err := e.Resolver.Destination(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	entries := []resolve.Object{client.Object}
	if client.Outside() {
		if entries, err = e.Resolver.Entries(ctx, destination, e.Node); err != nil {
			return nil, fmt.Errorf("--node: %w", err)
		}
	}
	b := &builder{Explainer: e, client: client, destination: destination, names: map[netip.Addr]resolve.Object{}}
	b.report = &Report{
		Schema: Schema, From: party(client.Object), To: party(destination.Object),
		Notes: slices.Concat(client.Notes, destination.Notes),
	}
	if err := b.enter(ctx, entries); err != nil {
		return nil, err
	}
	return b.explain(ctx)
}

func party(o resolve.Object) Party {
	p := Party{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name, Node: o.Node, Of: o.Of}
	if o.Kind == resolve.KindAddress {
		p.Name = o.String()
	}
	return p
}

// A builder collects the report of one question.
type builder struct {
	*Explainer
	client      resolve.Client
	destination resolve.Destination
	first       string // the client's node, or where its packets enter
	packets     []resolve.Packet
	names       map[netip.Addr]resolve.Object
	slices      []discoveryv1.EndpointSlice
	pods        []corev1.Pod                    // that the Service selects
	documents   map[string]*nodestatus.Document // by node
	observed    *nodestatus.Document            // of the client's node

	mu     sync.Mutex
	report *Report
}

func (b *builder) explain(ctx context.Context) (*Report, error) {
	b.report.Ways = make([]Way, len(b.packets))
	each(len(b.packets), func(i int) { b.report.Ways[i] = b.askClient(ctx, b.packets[i]) })
	if err := b.readService(ctx); err != nil {
		return nil, err
	}
	b.addConflicts(ctx)
	for i := range b.report.Ways {
		if err := b.addEndpoints(ctx, &b.report.Ways[i], b.packets[i]); err != nil {
			return nil, err
		}
	}
	if err := b.follow(ctx); err != nil {
		return nil, err
	}
	if b.Probe {
		b.probe(ctx)
	}
	if err := b.readPods(ctx); err != nil {
		return nil, err
	}
	var arrives []string
	for i := range b.report.Ways {
		w := &b.report.Ways[i]
		b.setResponses(w)
		b.setVerdict(w)
		b.addCauses(ctx, w)
		arrives = append(arrives, w.Arrives)
	}
	b.report.Arrives = either(arrives...)
	for _, e := range b.report.Entries {
		b.report.Arrives = inTurn(b.report.Arrives, e.Arrives)
	}
	b.report.Answers = b.report.responses().Answers()
	return b.report, nil
}

// each calls do for 0 to n-1, several at a time.
func each(n int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(maxAsked)
	for i := range n {
		g.Go(func() error { do(i); return nil })
	}
	_ = g.Wait()
}

// askClient asks the client's node about a packet.
func (b *builder) askClient(ctx context.Context, p resolve.Packet) Way {
	w := Way{
		Family: p.Family().String(), Protocol: p.Protocol.String(), From: p.Source(), To: p.To.String(),
		Client: b.ask(ctx, b.first, p),
	}
	if a := w.Client.Answer; a != nil {
		w.Service, w.Kind = a.Service, a.Kind
	}
	return w
}

// ask asks a node about a packet, with further flags.
func (b *builder) ask(ctx context.Context, node string, p resolve.Packet, flags ...string) NodeAnswer {
	a, err := b.Nodes.Explain(ctx, node, append(p.Args(), flags...))
	if err != nil {
		b.silent(node, err.Error())
		return NodeAnswer{Node: node}
	}
	return NodeAnswer{Node: node, Answer: a}
}

// silent notes why a node did not answer. All commands that it does not answer have the same
// reason.
func (b *builder) silent(node, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.report.Silent, func(s Silence) bool { return s.Node == node }) {
		b.report.Silent = append(b.report.Silent, Silence{node, why})
	}
}

// service returns the name of the Service that packets are for; empty if none.
func (b *builder) service() (namespace, name string) {
	if s := b.destination.Service; s != nil {
		return s.Namespace, s.Name
	}
	for _, w := range b.report.Ways {
		if namespace, name, ok := strings.Cut(w.Service, "/"); ok {
			name, _, _ = strings.Cut(name, ":")
			return namespace, name
		}
	}
	return "", ""
}
