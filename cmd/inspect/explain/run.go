// Package explain is the command that explains what would happen to a packet.
//
//	--from, --to --> Packet --> simulation of the kernel's rules --+
//	                                                               +--> Answer --> text, JSON, YAML
//	status socket --> what only the running process knows ---------+
//
// The kernel alone decides the answer. The process, if it answers, adds hints that the
// kernel does not have: why endpoints are not used, problems of objects, and which ports
// an address has.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
)

// Run explains the packet and prints the answer, which it returns for the exit code.
func Run(ctx context.Context, o Options, ask Ask, stdout io.Writer) (*answer.Answer, error) {
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
	result, err := simulatePacket(ctx, p, o.Interface)
	if err != nil {
		return nil, err
	}
	a := newAnswer(result)
	d := addHints(ctx, a, ask, p, o.Observe)
	locate(a, result, d)
	if err := observe(a, p.Protocol, d); err != nil {
		return nil, err
	}
	if o.Probe {
		probe(ctx, a, p)
	}
	a.Answers = a.Count().Answers()
	return a, a.Print(stdout, o.Output)
}

// simulatePacket simulates the packet with the kernel's rules. Without a table of ours that is an
// error, unless the node was returned to kube-proxy.
func simulatePacket(ctx context.Context, p simulate.Packet, in string) (result simulate.Result, err error) {
	state, err := kubeproxy.ReadTakeoverState(0)
	if err != nil {
		return result, err
	}
	w, err := livenode.Open(livenode.Config{
		Interrupted: ctx.Err,
		WithoutOurs: strings.HasPrefix(state, kubeproxy.StateReturned),
	})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	result, err = w.Run(p, in)
	switch {
	case errors.Is(err, simulate.ErrNoTable):
		return result, fmt.Errorf("%w of %s in this network namespace: is kube-vmap running here? "+
			"Run this on the node (nsenter --net=/proc/1/ns/net), or in the pod of kube-vmap", err, p.Family())
	case errors.Is(err, simulate.ErrNoRoute) && in == "":
		return result, fmt.Errorf("%w; give the interface on which the packet arrives with --in-interface", err)
	}
	return result, err
}

func newAnswer(w simulate.Result) *answer.Answer {
	p := w.Packet
	a := &answer.Answer{
		Schema: answer.Schema,
		From:   p.Source(), To: p.To.String(), Protocol: p.Protocol.String(), Interface: w.In,
		Service: w.Service, Kind: w.Kind, Steps: w.Steps, Unseen: w.Unexplored, Faults: w.Faults,
		NotFollowed: w.NotFollowed,
		Outcomes:    outcomes(w.Outcomes, w), Otherwise: outcomes(w.IfNew, w), OtherwiseUnseen: w.IfNewUnexplored,
	}
	if w.Affinity != nil {
		a.Affinity = &answer.Affinity{
			Endpoint:       w.Affinity.Endpoint.String(),
			ExpiresSeconds: int(w.Affinity.Expires / time.Second),
		}
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
	a.Arrives = a.Arrival()
	return a
}

func outcomes(list []simulate.Outcome, w simulate.Result) (out []answer.Outcome) {
	for _, o := range list {
		n := answer.Outcome{
			Verdict: o.Verdict.String(), Probability: o.Probability, Masquerade: o.Masquerade, Why: o.Why,
			How: o.How, By: o.By, Reason: string(o.Because.Reason),
			Because: answer.BecauseText(string(o.Because.Reason), o.Because.Fault),
			Field:   becauseField(o.Because.Reason, w.Kind),
		}
		for _, e := range o.Endpoints {
			n.Endpoints = append(n.Endpoints, answer.Endpoint{
				Address: e.Address.Addr().String(), Port: e.Address.Port(), Probability: e.Probability,
				Sees: e.Source.String(), Node: e.Local, Reply: reply(e.Reply, w.Packet),
			})
		}
		out = append(out, n)
	}
	return out
}

func becauseField(r simulate.Reason, kind string) string {
	switch r {
	case simulate.ReasonNoLocalEndpoint:
		return localField(kind)
	case simulate.ReasonSourceRanges:
		return findings.FieldSourceRanges
	}
	return ""
}

func reply(r simulate.Reply, p simulate.Packet) *answer.Reply {
	if r == (simulate.Reply{}) {
		return nil
	}
	out := &answer.Reply{
		Verdict: r.Verdict.String(), From: r.From.String(), To: r.To.String(), Bypasses: r.Bypasses, How: r.How,
		By: r.By, Reason: string(r.Because.Reason),
		Because: answer.BecauseText(string(r.Because.Reason), r.Because.Fault),
	}
	if r.Verdict.Arrives() && !r.ReachesClient(p) {
		out.Verdict = answer.ReplyNotAccepted
	}
	return out
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
