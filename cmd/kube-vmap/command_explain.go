package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/status"
	command "kube-vmap/cmd/inspect/trace"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/nft/kernel/trace"
)

func explainCommand(stdout, _ io.Writer) *cobra.Command {
	var o explain.Options
	var live command.Options
	var follow bool
	cmd := &cobra.Command{
		Use:   "explain --from ADDRESS[:PORT] --to ADDRESS:PORT[/PROTOCOL]",
		Short: "Say what would happen to a packet, hook by hook",
		Long: `Say what would happen on this node to the first packet of a connection: which
elements and chains it meets, which endpoints it may go to and how probably, whose
address they see, or who refuses or drops it and why.

What the kernel holds is interpreted rule by rule, so the answer is what a packet
would meet, also where the tables are not as they should be, and in tables of
other programs as far as their rules are understood. Nothing is sent or changed.
A kube-vmap that runs here adds what only it knows.

Ask on the node of the client, for each node translates what its own pods and programs
ask for; of a client outside of the cluster, on the node that it sends to. If the client
is not on this node, the answer says so, and where to ask. It holds for a packet that
comes here unchanged, and is "unknown" for a pod that is known to be of another node.

--from is the client: a pod, somebody outside, or this node. Without its port any
is meant, and all its connections to the same address are listed. --to is what it
asks for; the protocol is tcp, udp or sctp, and tcp if not given.

With --trace it waits for such packets instead, and says of each what nf_tables did with
it, in the tables of all programs, until it is interrupted. For that it adds a table of
its own, which goes with it.

The exit code is 0 if the packet arrives whichever endpoint is picked, 1 if it does
not or not always, and 2 if that cannot be said, for instance without permission. In
JSON and YAML, "arrives" is always, sometimes, never or unknown. With --trace it is 0
if this node sent or delivered every packet shown, 1 if it dropped, refused or lost one
or if none came before --timeout, and 2 if that is not certain or if it was interrupted
before one came. Other nodes may still drop what this one sent.

At most 256 choices of one pick are looked at, and 4,096 ways in all. Further endpoints
of a large Service are taken to be like those looked at; "unseen" says how probable they
are. Where a rule of another program has more choices than that, what becomes of the
packet cannot be said, unless it arrives by some of those looked at and not by others.`,
		Example: `  kube-vmap explain --from 10.244.1.7 --to 10.96.0.10:53/udp
  kube-vmap explain --from 192.0.2.9 --to 192.0.2.1:30080 -o json
  kube-vmap explain --from fd00:10:244::7 --to '[fd00:10:96::a]:53/udp'
  kube-vmap explain --from 10.244.1.7 --to 10.96.0.10:53/udp --trace --count 1`,
		Args: troubleArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if follow {
				return traced(cmd.Context(), o, live, stdout)
			}
			answer, err := explain.Run(cmd.Context(), o, status.Client{Socket: o.Socket, Sign: signForHints}.Get, stdout)
			return explained(answer, err)
		},
	}
	cmd.SetFlagErrorFunc(troubleFlags)
	f := cmd.Flags()
	f.StringVar(&o.From, "from", "", "`address` of the client, with its port if that is known")
	f.StringVar(&o.To, "to", "", "`address`, port and protocol that it asks for")
	f.StringVar(&o.Interface, "in-interface", "", "`interface` that the packet comes in by; by default the one towards the client")
	f.StringVarP(&o.Output, "output", "o", "text", "`form`: text, json or yaml")
	f.StringVar(&o.Socket, "status-socket", config.StatusSocket, "`socket` of the kube-vmap to ask")
	f.BoolVar(&follow, "trace", false, "follow live packets instead, as they come")
	live.AddTo(f)
	return cmd
}

// signForHints is how long it is waited for a sign of the process that adds hints: the
// answer stands without them.
const signForHints = 3 * time.Second

// traced follows live packets.
func traced(ctx context.Context, o explain.Options, live command.Options, stdout io.Writer) error {
	p, err := o.Packet()
	switch {
	case err != nil:
		return &exitError{exitTrouble, err}
	case o.Output != "text":
		return &exitError{exitTrouble, errors.New("--trace: packets are told of in text only; leave out --output")}
	}
	switch arrival, err := command.Follow(ctx, p, live, stdout); {
	case errors.Is(err, command.ErrNone):
		return &exitError{1, err}
	case err != nil:
		return &exitError{exitTrouble, err}
	case arrival == trace.ArrivalNo:
		return &exitError{code: 1}
	case arrival != trace.ArrivalYes:
		return &exitError{code: exitTrouble}
	}
	return nil
}

// explained makes the exit code of an answer.
func explained(a *explain.Answer, err error) error {
	switch {
	case err != nil:
		return &exitError{exitTrouble, err}
	case a.Arrives == explain.Unknown:
		return &exitError{code: exitTrouble}
	case a.Arrives != explain.Always:
		return &exitError{code: 1}
	}
	return nil
}
