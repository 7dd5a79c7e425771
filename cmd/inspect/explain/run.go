package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

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
	if o.Output != "" && !slices.Contains(outputs, o.Output) {
		return nil, fmt.Errorf("--output: %q is not text, json or yaml", o.Output)
	}
	result, err := simulatePacket(ctx, p, o.Interface)
	if err != nil {
		return nil, err
	}
	a := newAnswer(result)
	a.locate(result, a.addHints(ctx, ask, p))
	return a, a.print(stdout, o.Output)
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

// outputs are the values of --output.
var outputs = []string{"text", "json", "yaml"}

// print prints the answer in an output format; empty is text.
func (a *Answer) print(w io.Writer, output string) (err error) {
	text := []byte(a.text())
	switch output {
	case "json":
		text, err = json.MarshalIndent(a, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(a)
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}
