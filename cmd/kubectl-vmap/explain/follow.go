package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// readService reads the Service of the packets and the names of its endpoints.
func (j *journey) readService(ctx context.Context) error {
	for _, o := range []resolve.Object{j.client.Object, j.destination.Object} {
		for _, a := range o.Addresses {
			j.names[a.String()] = place{pod: podName(o), node: o.Node}
		}
	}
	namespace, name := j.service()
	if name == "" {
		return nil
	}
	if j.destination.Service == nil {
		s, err := j.Resolver.API.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			j.destination.Service = s
		} else {
			j.report.Differences = append(j.report.Differences,
				Difference{Node: j.first, Text: fmt.Sprintf("has Service %s/%s, which the API server does not have", namespace, name)})
		}
	}
	return j.readSlices(ctx)
}

func podName(o resolve.Object) string {
	if o.Kind == resolve.KindPod {
		return o.Namespace + "/" + o.Name
	}
	return ""
}

// readSlices reads the EndpointSlices of the Service.
func (j *journey) readSlices(ctx context.Context) (err error) {
	namespace, name := j.service()
	if j.slices, err = j.Resolver.Slices(ctx, namespace, name); err != nil {
		return err
	}
	for _, s := range j.slices {
		for _, e := range s.Endpoints {
			p := place{}
			if e.NodeName != nil {
				p.node = *e.NodeName
			}
			if t := e.TargetRef; t != nil && t.Kind == "Pod" {
				p.pod = t.Namespace + "/" + t.Name
			}
			for _, a := range e.Addresses {
				j.names[addr(a).String()] = p
			}
		}
	}
	return nil
}

// addEndpoints adds the endpoints to which the client's node sends a packet.
func (j *journey) addEndpoints(ctx context.Context, w *Way, p resolve.Packet) error {
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
			w.addEndpoint(Endpoint{Address: at.String(), Probability: e.Probability, Sees: e.Sees, Reply: e.Reply})
		}
		if len(o.Endpoints) == 0 {
			w.addEndpoint(Endpoint{Address: p.To.String(), Probability: o.Probability, Sees: p.From.String()})
		}
	}
	slices.SortStableFunc(w.Endpoints, func(a, b Endpoint) int { return compareDown(a.Probability, b.Probability) })
	for i := range w.Endpoints {
		if err := j.locate(ctx, &w.Endpoints[i], i < maxFollowed); err != nil {
			return err
		}
	}
	return nil
}

func compareDown(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

func addr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

// addEndpoint adds an endpoint. One that several outcomes lead to has the probability of
// all.
func (w *Way) addEndpoint(e Endpoint) {
	i := slices.IndexFunc(w.Endpoints, func(o Endpoint) bool { return o.Address == e.Address && o.Sees == e.Sees })
	if i < 0 {
		w.Endpoints = append(w.Endpoints, e)
		return
	}
	w.Endpoints[i].Probability += e.Probability
}

// locate sets the pod and node of an endpoint. Those that no EndpointSlice places on a node
// are searched, if search is set.
func (j *journey) locate(ctx context.Context, e *Endpoint, search bool) error {
	at, _ := netip.ParseAddrPort(e.Address)
	p := j.names[at.Addr().String()]
	if p.node == "" && search {
		o, err := j.Resolver.At(ctx, at.Addr())
		if err != nil {
			return err
		}
		p = place{pod: podName(o), node: o.Node}
		j.names[at.Addr().String()] = p
	}
	e.Pod, e.Node = p.pod, p.node
	switch sees := addr(e.Sees); {
	case !slices.Contains(j.client.Addresses, sees):
		e.Client = "node " + j.first // masquerade
	case j.client.Kind != resolve.KindAddress:
		e.Client = j.client.String()
	}
	return nil
}

// follow asks the nodes of endpoints about packets as they arrive there, and all asked nodes
// what they know about the Service.
func (j *journey) follow(ctx context.Context) error {
	nodes := []string{j.first}
	var tasks []func()
	left := map[string]bool{}
	for i := range j.report.Ways {
		w := &j.report.Ways[i]
		followed := map[string]*Endpoint{j.first: nil, "": nil}
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
			tasks = append(tasks, func() { j.arrive(ctx, e, j.packets[i]) })
		}
	}
	if len(left) > 0 {
		j.report.Notes = append(j.report.Notes, fmt.Sprintf("%d nodes of endpoints were not asked, and are assumed to treat packets as the others do", len(left)))
	}
	slices.Sort(nodes)
	j.documents = map[string]*status.Document{}
	for _, node := range slices.Compact(nodes) {
		observe := time.Duration(0)
		if node == j.first {
			observe = j.Observe
		}
		tasks = append(tasks, func() { j.readDocument(ctx, node, observe) })
	}
	each(len(tasks), func(i int) { tasks[i]() })
	j.observed = j.documents[j.first]
	return j.compare(ctx)
}

// arrive asks the node of an endpoint about the packet as it arrives there.
func (j *journey) arrive(ctx context.Context, e *Endpoint, p resolve.Packet) {
	at, _ := netip.ParseAddrPort(e.Address)
	p.To = at
	if seen := addr(e.Sees); seen != p.From {
		p.From, p.FromPort = seen, 0 // masquerade may change the port
	}
	leg := j.ask(ctx, e.Node, p)
	e.There = &leg
}

// readDocument reads what a node knows about the Service.
func (j *journey) readDocument(ctx context.Context, node string, observe time.Duration) {
	namespace, name := j.service()
	if name == "" {
		return
	}
	d, err := j.Nodes.Document(ctx, node, status.Query{Namespace: namespace, Name: name, Observe: observe})
	if err != nil {
		j.silent(node, err.Error())
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.documents[node] = d
}

// title returns an address with the pod that has it.
func (j *journey) title(address string) string {
	host := address
	if at, err := netip.ParseAddrPort(address); err == nil {
		host = at.Addr().String()
	}
	if p := j.names[host]; p.pod != "" {
		return address + " (pod " + p.pod + ")"
	}
	return address
}
