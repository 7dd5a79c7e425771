package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
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
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			b.destination.Service = s
		} else {
			b.report.Differences = append(b.report.Differences,
				Difference{Node: b.first, Text: fmt.Sprintf("has Service %s/%s, which the API server does not have", namespace,
					name)})
		}
	}
	return b.readSlices(ctx)
}

// readSlices reads the EndpointSlices of the Service.
func (b *builder) readSlices(ctx context.Context) (err error) {
	namespace, name := b.service()
	if b.slices, err = b.Resolver.Slices(ctx, namespace, name); err != nil {
		return err
	}
	maps.Copy(b.names, resolve.EndpointObjects(b.slices))
	return nil
}

// addEndpoints adds the endpoints to which the client's node sends a packet.
func (b *builder) addEndpoints(ctx context.Context, w *Way, p resolve.Packet) error {
	if w.Client.Answer == nil {
		return nil
	}
	for i := range w.Client.Answer.Outcomes {
		o := &w.Client.Answer.Outcomes[i]
		if !o.Arrives() {
			continue
		}
		for _, e := range o.Endpoints {
			at := netip.AddrPortFrom(addr(e.Address), e.Port)
			w.addEndpoint(Endpoint{
				Address: at.String(), Probability: e.Probability, Sees: e.Sees, Reply: e.Reply,
				Response: e.Response,
			})
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

// addEndpoint adds an endpoint. One that several outcomes lead to has the probability of
// all, unless its replies end differently.
func (w *Way) addEndpoint(e Endpoint) {
	i := slices.IndexFunc(w.Endpoints, func(o Endpoint) bool {
		return o.Address == e.Address && o.Sees == e.Sees &&
			o.back() == e.back()
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
	at, _ := netip.ParseAddrPort(e.Address)
	if b.names[at.Addr()].Node == "" && search {
		o, err := b.Resolver.At(ctx, at.Addr())
		if err != nil {
			return err
		}
		b.names[at.Addr()] = o
	}
	e.Pod, e.Node = b.pod(at.Addr()), b.names[at.Addr()].Node
	switch sees := addr(e.Sees); {
	case !slices.Contains(b.client.Addresses, sees):
		e.Client = "node " + b.first // masquerade
	case b.client.Kind != resolve.KindAddress:
		e.Client = b.client.String()
	}
	return nil
}

// follow asks the nodes of endpoints about packets as they arrive there, and all asked nodes
// what they know about the Service.
func (b *builder) follow(ctx context.Context) error {
	nodes := []string{b.first}
	var tasks []func()
	left := map[string]bool{}
	for i := range b.report.Ways {
		w := &b.report.Ways[i]
		followed := map[string]*Endpoint{b.first: nil, "": nil}
		for k := range w.Endpoints {
			e := &w.Endpoints[k]
			if first, done := followed[e.Node]; done {
				if first != nil {
					e.Like = first.Address
				}
				continue
			}
			if len(followed) == maxFollowed+2 {
				left[e.Node] = true
				continue
			}
			followed[e.Node] = e
			nodes = append(nodes, e.Node)
			tasks = append(tasks, func() { b.askEndpoint(ctx, e, b.packets[i]) })
		}
	}
	if len(left) > 0 {
		b.report.Notes = append(b.report.Notes,
			fmt.Sprintf("%d nodes of endpoints were not asked, and are assumed to treat packets as the others do", len(left)))
	}
	slices.Sort(nodes)
	b.documents = map[string]*nodestatus.Document{}
	for _, node := range slices.Compact(nodes) {
		observe := time.Duration(0)
		if node == b.first {
			observe = b.Observe
		}
		tasks = append(tasks, func() { b.readDocument(ctx, node, observe) })
	}
	each(len(tasks), func(i int) { tasks[i]() })
	b.observed = b.documents[b.first]
	return b.compare(ctx)
}

// askEndpoint asks the node of an endpoint about the packet as it arrives there.
func (b *builder) askEndpoint(ctx context.Context, e *Endpoint, p resolve.Packet) {
	at, _ := netip.ParseAddrPort(e.Address)
	p.To = at
	if seen := addr(e.Sees); seen != p.From {
		p.From, p.FromPort = seen, 0 // masquerade may change the port
	}
	a := b.ask(ctx, e.Node, p)
	e.There = &a
}

// readDocument reads what a node knows about the Service.
func (b *builder) readDocument(ctx context.Context, node string, observe time.Duration) {
	namespace, name := b.service()
	if name == "" {
		return
	}
	d, err := b.Nodes.Document(ctx, node, nodestatus.Query{Namespace: namespace, Name: name, Observe: observe})
	if err != nil {
		b.silent(node, err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.documents[node] = d
}

// title returns an address with the pod that has it.
func (b *builder) title(address string) string {
	host := addr(address)
	if at, err := netip.ParseAddrPort(address); err == nil {
		host = at.Addr()
	}
	return (&Endpoint{Address: address, Pod: b.pod(host)}).title()
}

// pod returns the pod that has an address, "shop/web-1"; empty if none has.
func (b *builder) pod(a netip.Addr) string {
	if o := b.names[a]; o.Kind == resolve.KindPod {
		return o.Namespace + "/" + o.Name
	}
	return ""
}
