package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/explain/reference"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// readService reads the Service of the packets and the names of its endpoints.
func (b *builder) readService(ctx context.Context) error {
	for _, o := range []resolve.Object{b.client.Object, b.destination.Object} {
		for _, a := range o.Addresses {
			b.names[a] = o
		}
	}
	namespace, name := b.service()
	if name == "" {
		return nil
	}
	if b.destination.Service == nil {
		s, err := b.Resolver.API.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			b.destination.Service = s
		case apierrors.IsNotFound(err):
			b.report.Differences = append(b.report.Differences, Difference{
				Node: b.first, Text: fmt.Sprintf("has Service %s/%s, which the API server does not have", namespace, name),
			})
		default:
			return err
		}
	}
	return b.readSlices(ctx)
}

func (b *builder) readSlices(ctx context.Context) (err error) {
	namespace, name := b.service()
	b.slices, err = b.Resolver.Slices(ctx, namespace, name)
	maps.Copy(b.names, resolve.EndpointObjects(b.slices))
	return err
}

func (b *builder) addEndpoints(ctx context.Context, w *Way, p resolve.Packet) error {
	a := w.Client.Answer
	if a == nil {
		return nil
	}
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if !o.Arrives() {
			continue
		}
		for _, e := range o.Endpoints {
			w.addEndpoint(Endpoint{Endpoint: e, masquerade: o.Masquerade})
		}
		if len(o.Endpoints) == 0 {
			w.addEndpoint(Endpoint{Endpoint: path.Endpoint{
				Address: p.To.Addr(), Port: p.To.Port(), Probability: o.Probability, Sees: p.From,
			}})
		}
	}
	slices.SortStableFunc(w.Endpoints, func(a, b Endpoint) int { return cmp.Compare(b.Probability, a.Probability) })
	for i := range w.Endpoints {
		if err := b.locate(ctx, &w.Endpoints[i], i < maxFollowed); err != nil {
			return err
		}
	}
	return nil
}

// addEndpoint adds an endpoint. One of several outcomes has the probability of
// all, unless its replies end differently.
func (w *Way) addEndpoint(e Endpoint) {
	i := slices.IndexFunc(w.Endpoints, func(o Endpoint) bool {
		return o.AddrPort() == e.AddrPort() && o.Sees == e.Sees &&
			answer.ReplyArrives(o.Reply) == answer.ReplyArrives(e.Reply)
	})
	if i < 0 {
		w.Endpoints = append(w.Endpoints, e)
		return
	}
	w.Endpoints[i].Probability += e.Probability
}

// locate sets the pod and node of an endpoint. Those that no EndpointSlice places on a node
// are searched, if search is set.
func (b *builder) locate(ctx context.Context, e *Endpoint, search bool) error {
	at := e.Address
	if b.names[at].Node == "" && search {
		o, err := b.Resolver.At(ctx, at)
		if err != nil {
			return err
		}
		b.names[at] = o
	}
	e.Pod, e.On = b.pod(at), b.names[at].Node
	switch {
	case !slices.Contains(b.client.Addresses, e.Sees):
		e.Client = "node " + b.first // masquerade
	case b.client.Kind != reference.KindAddress:
		e.Client = b.client.String()
	}
	return nil
}

// A request is what one node of endpoints is asked for, and where its answers go.
type request struct {
	Query
	answers []*NodeAnswer
	probed  []*Endpoint // nil for a packet that is not probed
}

func (r *request) add(p resolve.Packet, to *NodeAnswer, e *Endpoint) {
	r.Packets, r.answers, r.probed = append(r.Packets, p), append(r.answers, to), append(r.probed, e)
}

// follow requests the answers of the nodes of endpoints about packets as they arrive there, all of
// a node by one command. With a probe, they connect to the endpoints; endpoints of the client's node and
// outside the cluster are probed by the client's node.
func (b *builder) follow(ctx context.Context) {
	requests, skipped := map[string]*request{}, map[string]bool{}
	of := func(node string) *request {
		if requests[node] == nil {
			r := &request{Query: Query{Probe: b.Probe}}
			r.Namespace, r.Name = b.service()
			requests[node] = r
		}
		return requests[node]
	}
	for i := range b.report.Ways {
		followed := map[string]*Endpoint{}
		probes := b.Probe && b.packets[i].Protocol == model.TCP
		for k := range b.report.Ways[i].Endpoints {
			e := &b.report.Ways[i].Endpoints[k]
			first, here := followed[e.On], e.On == b.first || e.On == ""
			p, probed := b.packetAt(e, b.packets[i]), probes && k < maxProbed
			switch {
			case here:
			case first != nil:
				e.Like, e.node = first.At(), first.node
			case len(followed) == maxFollowed:
				skipped[e.On] = true
			default:
				e.There = &NodeAnswer{Node: e.On}
				followed[e.On], e.node = e, e.There
				of(e.On).add(p, e.There, e)
				continue
			}
			if probed {
				of(cmp.Or(e.On, b.first)).add(p, nil, e)
			}
		}
	}
	if len(skipped) > 0 {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf(
			"%d nodes of endpoints were not asked, and are assumed to treat packets as the others do", len(skipped)))
	}
	nodes := slices.Sorted(maps.Keys(requests))
	each(len(nodes), func(i int) { b.send(ctx, nodes[i], requests[nodes[i]]) })
	if b.Probe && slices.ContainsFunc(b.packets, func(p resolve.Packet) bool { return p.Protocol != model.TCP }) {
		b.report.Notes = append(b.report.Notes, "--probe asks over TCP only: over UDP and SCTP, endpoints were not asked")
	}
}

func (b *builder) send(ctx context.Context, node string, r *request) {
	for i, n := range b.ask(ctx, node, r.Query) {
		if r.answers[i] != nil {
			*r.answers[i] = n
		}
		if e := r.probed[i]; r.Probe && r.Packets[i].Protocol == model.TCP {
			e.Response = cmp.Or(n.response(e.At()), e.Response)
		}
	}
}

// maxProbed is how many endpoints of a path are probed.
const maxProbed = 32

func (b *builder) packetAt(e *Endpoint, p resolve.Packet) resolve.Packet {
	p.To = e.AddrPort()
	if e.Sees != p.From {
		p.From, p.FromPort = e.Sees, 0 // masquerade may change the port
	}
	return p
}

// response returns how an endpoint responds, as a node observed; empty if it did not.
func (n *NodeAnswer) response(address string) string {
	if n != nil && n.Answer != nil {
		for i := range n.Answer.Outcomes {
			for _, e := range n.Answer.Outcomes[i].Endpoints {
				if e.At() == address && e.Response != "" {
					return e.Response
				}
			}
		}
	}
	return ""
}

// setResponses sets how endpoints respond: what their nodes and the client's have seen. An
// endpoint that refuses connections is known to do so by one of them, unless it was asked.
func (b *builder) setResponses(w *Way) {
	observed := answer.Observed(b.documents[b.first], w.Protocol)
	probed := b.Probe && w.Protocol == model.TCP.String()
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		seen := []string{e.Response, e.There.response(e.At()), observed[e.At()]}
		if e.Response = cmp.Or(seen...); slices.Contains(seen, answer.Refuses) && !(probed && seen[0] != "") {
			e.Response = answer.Refuses
		}
		w.responses.Add(e.Response)
	}
	w.responses.All += w.unseen()
	w.Answers = w.responses.Answers()
}

// responses returns how the endpoints of all ways respond that packets arrive at.
func (r *Report) responses() (sum answer.Responses) {
	for i := range r.Ways {
		if w := &r.Ways[i]; w.Arrives == answer.Always {
			sum.All += w.responses.All
			sum.Answer += w.responses.Answer
			sum.Refuse += w.responses.Refuse
			sum.Silent += w.responses.Silent
		}
	}
	return sum
}

func (b *builder) title(address string) string {
	return titleOf(address, b.pod(answer.AddrPort(address).Addr()))
}

func (b *builder) pod(a netip.Addr) string {
	if o := b.names[a]; o.Kind == reference.KindPod {
		return o.Namespace + "/" + o.Name
	}
	return ""
}
