// Package explain is the command that explains what would happen to a packet.
//
//	--from, --to --> Packets --> simulation of the kernel's rules --+
//	                                                                +--> Response
//	status socket --> what only the running process knows ----------+       |
//	                                     text, JSON, YAML <-- Interpret <---+
//
// The kernel alone decides the answer. The process, if it answers, adds hints that the
// kernel does not have: why endpoints are not used, problems of objects, and which ports
// an address has. For kubectl vmap explain, a node answers about many packets in one command,
// and package answer interprets the response there.
package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/follow/passivehealth"
)

// Run explains the packet and prints the answer, which it returns for the exit code.
func Run(ctx context.Context, o Options, ask nodestatus.Source, stdout io.Writer) (*answer.Answer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.resolve(ctx, ask); err != nil {
		return nil, err
	}
	p, err := o.Packet()
	if err != nil {
		return nil, err
	}
	if err := answer.Outputs.Check(o.Output); err != nil {
		return nil, err
	}
	r, err := o.respond(ctx, ask, []simulate.Packet{p})
	if err != nil {
		return nil, err
	}
	a := &r.Answers[0]
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	a.Interpret(r, "")
	if o.Probe && p.Protocol != model.TCP {
		a.Hints = append(a.Hints, "--probe asked no endpoint: only over TCP is it certain what an answer or its absence "+
			"means")
	}
	return a, a.Print(stdout, o.Output)
}

// RunAll prints a response about the packets of the arguments, in JSON: values only.
func RunAll(ctx context.Context, o Options, ask nodestatus.Source, stdout io.Writer) error {
	packets, err := o.packets()
	if err != nil {
		return err
	}
	r, err := o.respond(ctx, ask, packets)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(r)
}

// respond simulates packets, and adds what the running process knows of their Services, and how
// endpoints respond.
func (o *Options) respond(
	ctx context.Context, ask nodestatus.Source, packets []simulate.Packet,
) (*answer.Response, error) {
	r := &answer.Response{Schema: answer.Schema, Answers: make([]answer.Answer, len(packets))}
	if err := o.simulate(ctx, r, packets); err != nil {
		return nil, err
	}
	d, err := o.document(ctx, ask, r)
	if r.Document, r.Process = d, "answers"; err != nil {
		r.Process = err.Error() + ". So this is what the kernel's tables hold, and nothing of the " +
			"objects behind them; kube-vmap diff --manifests compares both"
	}
	if err := observe(r, packets); err != nil {
		return nil, err
	}
	if o.Probe {
		probe(ctx, r, packets)
	}
	return r, nil
}

// document returns what the running process knows of the Services of the packets. It may observe
// once how endpoints respond, if a packet goes to one.
func (o *Options) document(
	ctx context.Context, ask nodestatus.Source, r *answer.Response,
) (d *nodestatus.Document, err error) {
	queries, delivers := o.queries(r)
	if len(queries) == 0 { // an address of no Service that the tables have
		if d, err = ask(ctx, nodestatus.Query{Brief: true}); err != nil {
			return nil, err
		}
		for i := range r.Answers {
			if s := r.Answers[i].ServiceAt(d); s != nil && len(queries) == 0 {
				queries = append(queries, nodestatus.Query{Namespace: s.Namespace, Name: s.Name})
			}
		}
		d.Services = slices.DeleteFunc(d.Services, func(s nodestatus.Service) bool {
			return !slices.ContainsFunc(r.Answers, func(a answer.Answer) bool { return a.Concerns(d, &s) })
		})
	}
	for i, q := range queries {
		if delivers && i == 0 {
			q.Observe = o.Observe
		}
		more, err := ask(ctx, q)
		switch {
		case err != nil:
			return nil, err
		case i == 0:
			d = more
		default:
			d.Services = append(d.Services, more.Services...)
		}
	}
	return d, nil
}

// queries returns those for the Service of the options and for the Services that have the packets,
// and whether a packet goes to an endpoint.
func (o *Options) queries(r *answer.Response) (list []nodestatus.Query, delivers bool) {
	add := func(namespace, name string) {
		if q := (nodestatus.Query{Namespace: namespace, Name: name}); name != "" && !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	add(o.Namespace, o.Name)
	for i := range r.Answers {
		a := &r.Answers[i]
		namespace, rest, _ := strings.Cut(a.Service, "/")
		name, _, _ := strings.Cut(rest, ":")
		add(namespace, name)
		delivers = delivers || slices.ContainsFunc(a.Outcomes, func(o path.Outcome) bool {
			return o.Verdict == path.VerdictDelivered
		})
	}
	return list, delivers
}

// simulate simulates the packets with the kernel's rules. Without a table of ours that is an error
// of a packet, unless the node was returned to kube-proxy.
func (o *Options) simulate(ctx context.Context, r *answer.Response, packets []simulate.Packet) (err error) {
	state, err := kubeproxy.ReadTakeoverState(0)
	if err != nil {
		return err
	}
	node, err := livenode.Open(livenode.Config{
		Interrupted: ctx.Err,
		WithoutOurs: strings.HasPrefix(state, kubeproxy.StateReturned),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	for i, p := range packets {
		result, err := node.Run(p, o.Interface)
		switch {
		case ctx.Err() != nil, len(packets) == 1 && err != nil:
			return explainError(err, p)
		case err != nil:
			r.Answers[i] = answer.Answer{Error: explainError(err, p).Error()}
		default:
			r.Answers[i] = NewAnswer(result)
		}
	}
	return nil
}

func explainError(err error, p simulate.Packet) error {
	if errors.Is(err, livenode.ErrNoTable) {
		return fmt.Errorf("%w %s of %s in this network namespace: is kube-vmap running here? "+
			"Run this on the node (nsenter --net=/proc/1/ns/net), or in the pod of kube-vmap", err, nft.TableName(), p.Family())
	}
	return err
}

// NewAnswer returns the values of a simulation.
func NewAnswer(w simulate.Result) answer.Answer {
	p := w.Packet
	a := answer.Answer{
		From: p.Source(), To: p.To.String(), Protocol: p.Protocol.String(), Interface: w.In, ToNode: w.ToNode,
		Service: w.Service, Kind: w.Kind, Steps: w.Steps, Unseen: w.Unexplored, Faults: w.Faults,
		NotFollowed: w.NotFollowed,
		Affinity:    w.Affinity, Outcomes: w.Outcomes, Otherwise: w.IfNew, OtherwiseUnseen: w.IfNewUnexplored,
	}
	if w.ClientVia.IsValid() {
		a.Via = w.ClientVia.String()
	}
	if w.Flow != nil {
		c := connection(*w.Flow)
		a.Connection = &c
	}
	for _, d := range w.Doubts {
		a.Doubts = append(a.Doubts, d.String())
	}
	for _, f := range w.Flows {
		a.Connections = append(a.Connections, connection(f))
	}
	return a
}

func connection(f simulate.Flow) answer.Connection {
	c := answer.Connection{
		FromPort: f.Client.Port(), Endpoint: f.Endpoint.String(), Sees: f.SeenSource.String(), State: f.State,
		ExpiresSeconds: int(f.Expires / time.Second), FastPath: f.IsOffloaded(), Stale: f.Left,
	}
	if !f.Started.IsZero() {
		c.Since = &f.Started
	}
	return c
}

// eachDestination calls fn for the endpoints that the packet may reach.
func eachDestination(a *answer.Answer, fn func(e *path.Endpoint)) {
	for i := range a.Outcomes {
		if !a.Outcomes[i].Arrives() {
			continue
		}
		for k := range a.Outcomes[i].Endpoints {
			fn(&a.Outcomes[i].Endpoints[k])
		}
	}
}

// observe sets how endpoints respond, by what the kernel tracks now and by what the running
// process observed.
func observe(r *answer.Response, packets []simulate.Packet) error {
	for _, protocol := range model.Protocols {
		if !slices.ContainsFunc(packets, func(p simulate.Packet) bool { return p.Protocol == protocol }) {
			continue
		}
		answered, err := conntrack.New(conntrack.Config{}).Answering(protocol)
		if err != nil {
			return err
		}
		observed := answer.Observed(r.Document, protocol.String())
		for i := range packets {
			if packets[i].Protocol != protocol {
				continue
			}
			eachDestination(&r.Answers[i], func(e *path.Endpoint) {
				e.Response = response(observed[e.At()], answered[e.AddrPort()])
			})
		}
	}
	return nil
}

// response returns how an endpoint responds that may have answered a connection which is still
// tracked. That may be long ago: a refusal is newer, and if nothing is observed both are possible.
func response(observed string, answered bool) string {
	switch {
	case !answered || observed == answer.Refuses:
		return observed
	case observed == answer.Silent:
		return ""
	}
	return answer.Responds
}

const (
	// probeTimeout is long enough for a first packet that is sent again once.
	probeTimeout = 3 * time.Second
	// maxProbed is how many endpoints of a packet are asked.
	maxProbed = 32
)

// probe tries endpoints from this node, each by half of a TCP handshake.
func probe(ctx context.Context, r *answer.Response, packets []simulate.Packet) {
	var g errgroup.Group
	g.SetLimit(maxProbed)
	for i := range packets {
		asked := 0
		eachDestination(&r.Answers[i], func(e *path.Endpoint) {
			if asked++; asked <= maxProbed && packets[i].Protocol == model.TCP {
				g.Go(func() error { e.Response = connect(ctx, e.AddrPort()); return nil })
			}
		})
	}
	_ = g.Wait() // the functions return no errors
}

func connect(ctx context.Context, at netip.AddrPort) string {
	c, err := (&net.Dialer{Timeout: probeTimeout, Control: passivehealth.HalfOpen}).DialContext(ctx, "tcp", at.String())
	switch {
	case err == nil:
		_ = c.Close() // it has answered
		return answer.Responds
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return answer.Refuses
	case ctx.Err() != nil, errors.Is(err, syscall.EMFILE):
		return "" // it was not asked to the end
	}
	return answer.Silent
}
