package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
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
	if o.Output != "" && !slices.Contains(answer.Outputs, o.Output) {
		return nil, fmt.Errorf("--output: %q is not text, json or yaml", o.Output)
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
	w, err := simulator.Open(simulator.Config{
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
