// Package explain is kubectl vmap explain: what would happen to a packet on its whole way
// through the cluster, there and back.
//
//	--from, --to --> resolve --> Packets --+--> explain on the client's node ----+
//	                                       |        its endpoints                |
//	                                       |        v                            +--> Report
//	                                       +--> explain on the endpoints' nodes -+
//	API server: Service, EndpointSlices, pods --> names, differences, causes ----+
//
// Each node answers for its own rules, by kube-vmap explain. The report joins the answers:
// a packet arrives if it does on every node of its way, and so does the reply. It names
// pods and Services next to addresses, and the field of an object that causes what is found.
// A node that does not answer is named, and the rest is still reported.
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

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// Nodes requests what kube-vmap on nodes knows, each by one command there.
type Nodes interface {
	Explain(ctx context.Context, node string, q Query) (*answer.Response, error)
	Document(ctx context.Context, node string, q nodestatus.Query) (*nodestatus.Document, error)
}

// A Query has the packets that a node explains, and the Service that they are for, if it is known.
type Query struct {
	Packets         []resolve.Packet
	Namespace, Name string
	Observe         time.Duration
	Probe           bool
}

// maxFollowed is to how many nodes of endpoints a packet is followed.
const maxFollowed = 10

// An Explainer explains what happens to packets.
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
	entries, notes := []resolve.Object{client.Object}, []string(nil)
	if client.Outside() {
		if entries, notes, err = e.Resolver.Entries(ctx, destination, e.Node); err != nil {
			return nil, fmt.Errorf("--node: %w", err)
		}
	}
	b := &builder{
		Explainer: e, client: client, destination: destination, names: map[netip.Addr]resolve.Object{},
		documents: map[string]*nodestatus.Document{},
		report: &Report{
			Schema: Schema, From: client.Object, To: destination.Object,
			Notes: slices.Concat(client.Notes, destination.Notes, notes),
		},
	}
	if err := b.enter(ctx, entries); err != nil {
		return nil, err
	}
	return b.explain(ctx)
}

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
	if err := b.readService(ctx); err != nil {
		return nil, err
	}
	ways := b.report.Ways
	for i := range ways {
		if err := b.addEndpoints(ctx, &ways[i], b.packets[i]); err != nil {
			return nil, err
		}
	}
	b.follow(ctx)
	if err := b.compare(ctx); err != nil {
		return nil, err
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
	b.report.Arrives = answer.Either(arrives...)
	for _, e := range b.report.Entries {
		b.report.Arrives = answer.InTurn(b.report.Arrives, e.Arrives)
	}
	b.report.Answers = b.report.responses().Answers()
	return b.report, nil
}

// each calls do for 0 to n-1 at the same time. [Nodes] limits the number of commands.
func each(n int, do func(i int)) {
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { do(i) })
	}
	running.Wait()
}

// enter sets the node where packets enter the cluster, the packets, and the answers of that node:
// of several nodes, the one where they fare worst by its rules, since any may get them.
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
	ways, entries := make([][]Way, len(nodes)), make([]Entry, len(nodes))
	each(len(nodes), func(i int) { entries[i], ways[i] = b.askEntry(ctx, nodes[i].Node, packets[nodes[i].Node]) })
	worst := 0
	for i := range entries {
		if entries[i].rank() > entries[worst].rank() {
			worst = i
		}
	}
	b.first, b.report.Ways = nodes[worst].Node, ways[worst]
	b.packets = packets[b.first]
	if len(nodes) > 1 {
		slices.SortStableFunc(entries, func(x, y Entry) int { return y.rank() - x.rank() })
		b.report.Entries = entries
	}
	return nil
}

// rank orders entries, the worst last; first those that did not answer, which show no path.
func (e *Entry) rank() int {
	if e.silent {
		return -1
	}
	return answer.Badness(e.Arrives)
}

// askEntry returns how packets fare that enter at a node, by its rules.
func (b *builder) askEntry(ctx context.Context, node string, packets []resolve.Packet) (e Entry, ways []Way) {
	q := Query{Packets: packets, Observe: b.Observe}
	q.Namespace, q.Name = b.service()
	list := b.ask(ctx, node, q)
	var values []string
	e.Node = node
	for i, p := range packets {
		w := Way{
			Family: p.Family().String(), Protocol: p.Protocol.String(), From: p.Source(), To: p.To.String(),
			Client: list[i],
		}
		value := answer.Unknown
		if a := w.Client.Answer; a == nil {
			e.silent = true
		} else {
			w.Service, w.Kind, value = a.Service, a.Kind, a.Arrives
			if b.isUntranslated(&w) {
				value = answer.Never
			}
		}
		if s, holder := b.destination.Service, w.serviceName(); s != nil && holder != s.Namespace+"/"+s.Name {
			w.holder = holder
		}
		values, ways = append(values, value), append(ways, w)
	}
	e.Arrives = answer.Either(values...)
	return e, ways
}

// ask requests the answers of a node about packets, and keeps its document.
func (b *builder) ask(ctx context.Context, node string, q Query) []NodeAnswer {
	out := make([]NodeAnswer, len(q.Packets))
	for i := range out {
		out[i].Node = node
	}
	r, err := b.Nodes.Explain(ctx, node, q)
	if err == nil && len(r.Answers) != len(q.Packets) {
		err = fmt.Errorf("the response has %d answers about %d packets", len(r.Answers), len(q.Packets))
	}
	if err != nil {
		b.silent(node, err.Error())
		return out
	}
	for i := range out {
		a := &r.Answers[i]
		if a.Error != "" {
			b.silent(node, a.Error)
			continue
		}
		a.Interpret(r, node)
		out[i].Answer = a
	}
	if r.Document == nil {
		b.silent(node, r.Process)
		return out
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.documents[node] == nil { // a probe does not observe
		b.documents[node] = r.Document
	}
	return out
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
