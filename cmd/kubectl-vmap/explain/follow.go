package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
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

// readSlices reads the EndpointSlices of the Service.
func (b *builder) readSlices(ctx context.Context) (err error) {
	namespace, name := b.service()
	b.slices, err = b.Resolver.Slices(ctx, namespace, name)
	maps.Copy(b.names, resolve.EndpointObjects(b.slices))
	return err
}

// addEndpoints adds the endpoints to which the client's node sends a packet.
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
		for k := range o.Endpoints {
			e := &o.Endpoints[k]
			to := Endpoint{
				Address: e.At(), Probability: e.Probability, Sees: e.Sees, Reply: e.Reply, Response: e.Response,
			}
			if e.Reply != nil {
				to.back = w.Client.named(e.ReplyText(a, o.Masquerade))
			}
			w.addEndpoint(to)
		}
		if len(o.Endpoints) == 0 {
			w.addEndpoint(Endpoint{Address: p.To.String(), Probability: o.Probability, Sees: p.From.String()})
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

func addr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

func addrPort(text string) netip.AddrPort {
	a, _ := netip.ParseAddrPort(text)
	return a
}

// addEndpoint adds an endpoint. One that several outcomes lead to has the probability of
// all, unless its replies end differently.
func (w *Way) addEndpoint(e Endpoint) {
	i := slices.IndexFunc(w.Endpoints, func(o Endpoint) bool {
		return o.Address == e.Address && o.Sees == e.Sees && o.replyArrives() == e.replyArrives()
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
	at := addrPort(e.Address).Addr()
	if b.names[at].Node == "" && search {
		o, err := b.Resolver.At(ctx, at)
		if err != nil {
			return err
		}
		b.names[at] = o
	}
	e.Pod, e.Node = b.pod(at), b.names[at].Node
	switch {
	case !slices.Contains(b.client.Addresses, addr(e.Sees)):
		e.Client = "node " + b.first // masquerade
	case b.client.Kind != resolve.KindAddress:
		e.Client = b.client.String()
	}
	return nil
}

// follow asks the nodes of endpoints about packets as they arrive there, once each, and all
// asked nodes what they know about the Service.
func (b *builder) follow(ctx context.Context) {
	b.documents = map[string]*nodestatus.Document{}
	tasks := []func(){func() { b.readDocument(ctx, b.first, b.Observe) }}
	nodes, skipped := map[string]bool{b.first: true}, map[string]bool{}
	for i := range b.report.Ways {
		followed := map[string]*Endpoint{}
		for k := range b.report.Ways[i].Endpoints {
			e := &b.report.Ways[i].Endpoints[k]
			first := followed[e.Node]
			switch {
			case e.Node == b.first, e.Node == "":
			case first != nil:
				e.Like, e.node = first.Address, first.node
			case len(followed) == maxFollowed:
				skipped[e.Node] = true
			default:
				followed[e.Node], e.There = e, &NodeAnswer{}
				e.node = e.There
				tasks = append(tasks, func() { *e.There = b.askEndpoint(ctx, e, b.packets[i]) })
				if !nodes[e.Node] {
					nodes[e.Node] = true
					tasks = append(tasks, func() { b.readDocument(ctx, e.Node, 0) })
				}
			}
		}
	}
	if len(skipped) > 0 {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf(
			"%d nodes of endpoints were not asked, and are assumed to treat packets as the others do", len(skipped)))
	}
	each(len(tasks), func(i int) { tasks[i]() })
}

// askEndpoint asks the node of an endpoint about the packet as it arrives there.
func (b *builder) askEndpoint(ctx context.Context, e *Endpoint, p resolve.Packet) NodeAnswer {
	p.To = addrPort(e.Address)
	if seen := addr(e.Sees); seen != p.From {
		p.From, p.FromPort = seen, 0 // masquerade may change the port
	}
	return b.ask(ctx, e.Node, p)
}

// readDocument reads what a node knows about the Service, and may observe.
func (b *builder) readDocument(ctx context.Context, node string, observe time.Duration) {
	q := nodestatus.Query{Observe: observe}
	if q.Namespace, q.Name = b.service(); q.Name == "" {
		return
	}
	d, err := b.Nodes.Document(ctx, node, q)
	if err != nil {
		b.silent(node, err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.documents[node] = d
}

// maxProbed is how many endpoints of a way are asked, each by its node.
const maxProbed = 32

// probe lets the nodes of endpoints connect to them. Those outside the cluster are asked by the
// client's node.
func (b *builder) probe(ctx context.Context) {
	var tasks []func()
	others := false
	for i := range b.report.Ways {
		w := &b.report.Ways[i]
		if b.packets[i].Protocol != model.TCP {
			others = true
			continue
		}
		for k := range w.Endpoints[:min(len(w.Endpoints), maxProbed)] {
			e := &w.Endpoints[k]
			p := resolve.Packet{From: addr(e.Sees), To: addrPort(e.Address), Protocol: model.TCP}
			tasks = append(tasks, func() {
				asked := b.ask(ctx, cmp.Or(e.Node, b.first), p, "--observe=0s", "--probe")
				e.Response = cmp.Or(asked.response(e.Address), e.Response)
			})
		}
	}
	each(len(tasks), func(i int) { tasks[i]() })
	if others {
		b.report.Notes = append(b.report.Notes, "--probe asks over TCP only: over UDP and SCTP, endpoints were not asked")
	}
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

// named returns a text of a node for readers elsewhere.
func (n *NodeAnswer) named(text string) string { return strings.ReplaceAll(text, "this node", n.Node) }

// setResponses sets how endpoints respond: what their nodes and the client's have seen. An
// endpoint that refuses connections is known to do so by one of them, unless it was asked.
func (b *builder) setResponses(w *Way) {
	observed := answer.Observed(b.documents[b.first], w.Protocol)
	probed := b.Probe && w.Protocol == model.TCP.String()
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		seen := []string{e.Response, e.There.response(e.Address), observed[e.Address]}
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

// title returns an address and port with the pod that has it.
func (b *builder) title(address string) string {
	return (&Endpoint{Address: address, Pod: b.pod(addrPort(address).Addr())}).title()
}

// pod returns the pod that has an address, "shop/web-1"; empty if none has.
func (b *builder) pod(a netip.Addr) string {
	if o := b.names[a]; o.Kind == resolve.KindPod {
		return o.Namespace + "/" + o.Name
	}
	return ""
}
