package explain

import (
	"cmp"
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
	b := &builder{
		Explainer: e, client: client, destination: destination, names: map[netip.Addr]resolve.Object{},
		report: &Report{
			Schema: Schema, From: client.Object, To: destination.Object,
			Notes: slices.Concat(client.Notes, destination.Notes),
		},
	}
	if err := b.enter(ctx, entries); err != nil {
		return nil, err
	}
	return b.explain(ctx)
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

	mu     sync.Mutex
	report *Report
}

func (b *builder) explain(ctx context.Context) (*Report, error) {
	ways := make([]Way, len(b.packets))
	each(len(ways), func(i int) { ways[i] = b.askClient(ctx, b.packets[i]) })
	b.report.Ways = ways
	if err := b.readService(ctx); err != nil {
		return nil, err
	}
	for i := range ways {
		if err := b.addEndpoints(ctx, &ways[i], b.packets[i]); err != nil {
			return nil, err
		}
	}
	b.follow(ctx)
	if err := b.compare(ctx); err != nil {
		return nil, err
	}
	if b.Probe {
		b.probe(ctx)
	}
	if err := b.readPods(ctx); err != nil {
		return nil, err
	}
	var arrives []string
	for i := range ways {
		b.setResponses(&ways[i])
		b.setVerdict(&ways[i])
		b.addCauses(ctx, &ways[i])
		arrives = append(arrives, ways[i].Arrives)
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

// enter sets the node where packets enter the cluster, and the packets: of several nodes, the
// one where they fare worst by its rules, since any may get them.
func (b *builder) enter(ctx context.Context, nodes []resolve.Object) (err error) {
	packets := map[string][]resolve.Packet{}
	nodes = slices.DeleteFunc(nodes, func(n resolve.Object) bool {
		list, e := resolve.Packets(b.client, b.destination, n, b.Families)
		packets[n.Node], err = list, cmp.Or(err, e)
		return e != nil
	})
	if len(nodes) == 0 {
		return err
	}
	b.first = nodes[0].Node
	if len(nodes) > 1 {
		entries := make([]Entry, len(nodes))
		each(len(nodes), func(i int) { entries[i] = b.askEntry(ctx, nodes[i].Node, packets[nodes[i].Node]) })
		slices.SortStableFunc(entries, func(x, y Entry) int { return y.rank() - x.rank() })
		b.report.Entries, b.first = entries, entries[0].Node
	}
	b.packets = packets[b.first]
	return nil
}

// rank orders entries, the worst last; first those that did not answer, which show no way.
func (e *Entry) rank() int {
	if e.silent {
		return -1
	}
	return slices.Index(arrivals, e.Arrives)
}

// askEntry asks a node whether packets arrive that enter there, by its rules.
func (b *builder) askEntry(ctx context.Context, node string, packets []resolve.Packet) Entry {
	var values []string
	silent := false
	for _, p := range packets {
		w := Way{To: p.To.String(), Client: b.ask(ctx, node, p, "--observe=0s")}
		value := answer.Unknown
		switch a := w.Client.Answer; {
		case a == nil:
			silent = true
		case b.isUntranslated(&w):
			value = answer.Never
		default:
			value = a.Arrives
		}
		values = append(values, value)
	}
	return Entry{node, either(values...), silent}
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
	if s, holder := b.destination.Service, w.serviceName(); s != nil && holder != s.Namespace+"/"+s.Name {
		w.holder = holder
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

// serviceName returns the Service that has the address, "shop/web"; empty if none has.
func (w *Way) serviceName() string {
	name, _, _ := strings.Cut(w.Service, ":")
	return name
}

// service returns the name of the Service that packets are for; empty if none.
func (b *builder) service() (namespace, name string) {
	if s := b.destination.Service; s != nil {
		return s.Namespace, s.Name
	}
	for i := range b.report.Ways {
		if namespace, name, ok := strings.Cut(b.report.Ways[i].serviceName(), "/"); ok {
			return namespace, name
		}
	}
	return "", ""
}
