package explain

import (
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus/client"
)

// hintTimeout is how long to wait for the running kube-vmap, which only adds hints to the answer, in
// addition to how long it observes.
const hintTimeout = 5 * time.Second

const help = `Explain what would happen on this node to the first packet of a connection: which
elements and chains it matches, which endpoints it may go to and with what probability,
which source address they see, or what rejects or drops it and why. Then the way back:
whether the client gets the reply of each endpoint, from the address that it asked.

The kernel's rules are interpreted one by one, rules of other programs as far as they are
understood, so the answer is what a packet would meet. Nothing is sent or changed. A running
kube-vmap adds what only it knows. Fields of objects that cause what is found are in
parentheses.

Run this on the node of the client, whose rules apply first, or on the one that a client
outside the cluster connects to. If the client is elsewhere, the answer is about a packet that
arrives here unchanged, and "unknown" for a pod of another node. kubectl vmap explain finds
the node, and knows the names of pods and nodes.

--from is the client: a pod, an external client, or this node. Without a port, any port
is meant, and its open connections to the same address are listed. --to is the destination;
the protocol is tcp (default), udp or sctp. svc/NAME:PORT is the ClusterIP of that Service, as
the running kube-vmap knows it; the port may be its name, and is needed only if there are
several.

An endpoint answers if the kernel tracks a connection to it with a reply, of any client. The
running kube-vmap observes for a moment (--observe) whether endpoints respond to what clients
try: one that answers with a reset is named. With --probe, this node connects to each
endpoint over TCP, at most 32. Otherwise it is not known.

The exit code is 0 if the packet arrives whichever endpoint is picked, the client gets the
reply, and the endpoints answer; 1 if not or not always, and 2 if that is not known. In JSON
and YAML, "arrives" (by the rules) and "answers" (as observed) are always, sometimes, never or
unknown.

With packets as arguments, each FROM,TO, print the answers about all of them in JSON, as values
and without sentences, with what the running kube-vmap knows of the Service --name: kubectl vmap
explain requests this.

At most 1,024 choices of one pick are examined, and 4,096 paths in all; further endpoints are
assumed to be like those, and "unseen" is their probability.`

// NewCommand returns kube-vmap explain.
func NewCommand() *cobra.Command {
	var o Options
	var socket string
	cmd := &cobra.Command{
		Use:   "explain --from ADDRESS[:PORT] --to ADDRESS:PORT[/PROTOCOL]|svc/NAME[:PORT] | FROM,TO...",
		Short: "Explain what would happen to a packet, hook by hook",
		Long:  help,
		Example: `  kube-vmap explain --from 10.244.1.7 --to 10.96.0.10:53/udp
  kube-vmap explain --from 10.244.1.7 -n shop --to svc/web:http
  kube-vmap explain --from 192.0.2.9 --to 192.0.2.1:30080 -o json
  kube-vmap explain --from fd00:10:244::7 --to '[fd00:10:96::a]:53/udp'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			ask := client.Client{Socket: socket, Timeout: hintTimeout + o.Observe}.Get
			if o.Packets = args; len(args) > 0 {
				return RunAll(cmd.Context(), o, ask, cmd.OutOrStdout())
			}
			a, err := Run(cmd.Context(), o, ask, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return answer.ExitError(a.Arrives, a.Answers)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.From, "from", "", "`address` of the client, optionally with its port")
	f.StringVar(&o.To, "to", "", "destination `address`, port and protocol, or svc/NAME[:PORT]")
	f.StringVarP(&o.Namespace, "namespace", "n", "default", "`namespace` of the Service in --to")
	f.StringVar(&o.Name, "name", "", "with packets as arguments: the `name` of the Service that they are for")
	f.DurationVar(&o.Observe, "observe", time.Second,
		"how long to observe whether endpoints respond, at most 10s; 0 means not at all")
	f.BoolVar(&o.Probe, "probe", false, "connect to the endpoints from this node (TCP), to see whether they answer")
	f.StringVar(&o.Interface, "in-interface", "",
		"`interface` on which the packet arrives; by default the one towards the client")
	f.StringVarP(&o.Output, "output", "o", "text", "output `format`: text, json or yaml")
	client.AddSocketFlag(f, &socket)
	return exit.TroubleOnError(cmd)
}
