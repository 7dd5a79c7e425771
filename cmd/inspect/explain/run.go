package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
)

// Run explains the packet and prints the answer, which it returns for the exit code.
func Run(ctx context.Context, o Options, ask Ask, stdout io.Writer) (*Answer, error) {
	p, err := o.Packet()
	if err != nil {
		return nil, err
	}
	write, err := printer(o.Output)
	if err != nil {
		return nil, err
	}
	result, err := simulatePacket(ctx, p, o.Interface)
	if err != nil {
		return nil, err
	}
	a := newAnswer(result)
	a.locate(result, a.addHints(ctx, ask, p))
	return a, write(a, stdout)
}

// simulatePacket simulates the packet with the kernel's rules.
func simulatePacket(ctx context.Context, p simulate.Packet, in string) (result simulate.Result, err error) {
	w, err := simulator.Open(simulator.Config{Interrupted: ctx.Err})
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

// printer returns the function that prints the answer.
func printer(output string) (func(*Answer, io.Writer) error, error) {
	switch output {
	case "", "text":
		return (*Answer).text, nil
	case "json":
		return func(a *Answer, w io.Writer) error { return write(json.MarshalIndent, a, w) }, nil
	case "yaml":
		return func(a *Answer, w io.Writer) error {
			return write(func(v any, _, _ string) ([]byte, error) { return yaml.Marshal(v) }, a, w)
		}, nil
	}
	return nil, fmt.Errorf("--output: %q is not text, json or yaml", output)
}

func write(marshal func(v any, prefix, indent string) ([]byte, error), a *Answer, w io.Writer) error {
	b, err := marshal(a, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if b[len(b)-1] != '\n' {
		b = append(b, '\n')
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}
