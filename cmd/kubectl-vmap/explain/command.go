package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// settle is how long a node may take to program a change.
const settle = 2 * time.Second

// defaultObserve is how long to observe whether endpoints respond.
const defaultObserve = 2 * time.Second

// working is how long a node observes or probes for an answer, and is silent.
const working = 3 * time.Second

// NewCommand returns kubectl vmap explain.
func NewCommand(f *cluster.Flags) *cobra.Command {
	var from, to, family, node, output string
	var steps, probe bool
	var observe time.Duration
	cmd := &cobra.Command{
		Use:   "explain --from CLIENT --to DESTINATION",
		Short: "Explain what would happen to a packet on its whole path, there and back",
		Long: `Explain what would happen to the first packet of a connection, and to its reply, on every
node that they pass: the client's, and the nodes of the endpoints. The nodes interpret the
kernel's rules; nothing is changed, and nothing is sent without --probe.

The verdict comes first, with the fields of the objects that cause it. Then follows what
nodes know otherwise about the Service than the API server, and the path from node to node.

--from is a pod/NAME, deploy/NAME, sts/NAME or ds/NAME (one of its pods, a ready one if there
is one), node/NAME, or ADDRESS[:PORT]; --to is a svc/NAME, or one of these, with :PORT by
number or name. Names may be NAMESPACE/NAME; otherwise -n applies. Without a port, all ports
of a Service are explained, at most 4. Of a Service, clients in the cluster use the cluster
IP, others a load balancer IP, an external IP or the node port.

A packet is followed to at most 10 nodes of endpoints, to one endpoint on each. One of a
client outside the cluster may enter it at any node: of at most 10, or the one of --node,
the worst answer counts. Each node runs one command, whatever the number of packets.

Rules do not show whether an endpoint answers. It does if one of these nodes tracks a
connection to it with a reply, or if clients were seen to try meanwhile (--observe). With
--probe, its node connects to it over TCP: any answer is one, a reset means that it refuses.

The exit code is 0 if the packet arrives whichever endpoint is picked, and the endpoints
answer; 1 if it does not or not always; and 2 if that is not known: it was not observed
whether endpoints answer, or a node does not answer.`,
		Example: `  kubectl vmap explain --from pod/shop/cart-7f9 --to svc/shop/web
  kubectl vmap explain -n shop --from deploy/cart --to svc/web:http --family ipv6
  kubectl vmap explain --from node/node-1 --to svc/kube-system/kube-dns:53/udp
  kubectl vmap explain --from 203.0.113.9 --to svc/shop/web --node node-2 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case from == "" || to == "":
				return errors.New("--from and --to: both must be given, for instance --from pod/cart-7f9 --to svc/web")
			case !slices.Contains(answer.Outputs, output):
				return fmt.Errorf("--output: %q is not text, json or yaml", output)
			}
			if err := nodestatus.CheckObserve(observe); err != nil {
				return err
			}
			e, err := New(f, family)
			if err != nil {
				return err
			}
			e.Node, e.Observe, e.Probe = node, observe, probe
			r, err := e.Explain(cmd.Context(), from, to)
			if err == nil {
				err = r.Print(cmd.OutOrStdout(), output, steps)
			}
			if err != nil {
				return err
			}
			return answer.ExitError(r.Arrives, r.Answers)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "`client`: pod/NAME, deploy/NAME, node/NAME, ADDRESS[:PORT]")
	flags.StringVar(&to, "to", "", "`destination`: svc/NAME[:PORT], pod/NAME:PORT, ADDRESS:PORT[/PROTOCOL]")
	flags.StringVar(&family, "family", "", "IP `family`: ipv4 or ipv6; by default all that both have")
	flags.StringVar(&node, "node", "",
		"`node` at which packets of a client outside the cluster arrive; by default the worst of at most 10")
	flags.StringVarP(&output, "output", "o", "text", "output `format`: text, json or yaml")
	flags.DurationVar(&observe, "observe", defaultObserve,
		"how long to observe whether endpoints respond to connections, at most 10s; 0 means not at all")
	flags.BoolVar(&probe, "probe", false, "let the nodes of endpoints connect to them (TCP), to see whether they answer")
	flags.BoolVar(&steps, "steps", false, "print the rules that the packet meets on each node, too")
	return exit.TroubleOnError(cmd)
}

func parseFamilies(text string) ([]model.Family, error) {
	if text == "" {
		return model.Families[:], nil
	}
	for _, f := range model.Families {
		if strings.EqualFold(f.String(), text) {
			return []model.Family{f}, nil
		}
	}
	return nil, fmt.Errorf("--family: %q is not ipv4 or ipv6", text)
}

// New returns an explainer for the cluster of the flags, and for an IP family, or both if that is
// empty.
func New(f *cluster.Flags, family string) (*Explainer, error) {
	families, err := parseFamilies(family)
	if err != nil {
		return nil, err
	}
	cluster, err := f.Cluster()
	if err != nil {
		return nil, err
	}
	namespace, err := f.CurrentNamespace()
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(cluster.REST())
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	return &Explainer{
		Resolver: &resolve.Resolver{API: api, Namespace: namespace}, Nodes: &clusterNodes{Cluster: cluster},
		Families: families, Settle: settle,
	}, nil
}

// clusterNodes implements [Nodes].
type clusterNodes struct {
	*cluster.Cluster
	found sync.Map // a function that finds a node, once, by name
}

func (c *clusterNodes) node(ctx context.Context, name string) (nodes.Node, error) {
	find, _ := c.found.LoadOrStore(name, sync.OnceValues(func() (nodes.Node, error) { return c.Node(ctx, name) }))
	return find.(func() (nodes.Node, error))()
}

// Explain implements [Nodes].
func (c *clusterNodes) Explain(ctx context.Context, node string, q Query) (*answer.Response, error) {
	n, err := c.node(ctx, node)
	if err != nil {
		return nil, err
	}
	r := &answer.Response{}
	err = c.Patient(working+q.Observe).JSON(ctx, n, answer.Schema, r, q.args()...)
	if old := (*nodes.VersionError)(nil); errors.As(err, &old) {
		return c.explainBefore(ctx, n, q)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// args returns the arguments of kube-vmap, in the form that deploy/kubectl permits.
func (q Query) args() []string {
	args := append([]string{"explain"}, q.flags()...)
	if q.Name != "" {
		args = append(args, "--namespace="+q.Namespace, "--name="+q.Name)
	}
	for _, p := range q.Packets {
		args = append(args, p.String())
	}
	return args
}

func (q Query) flags() []string {
	flags := []string{"--observe=" + q.Observe.String()}
	if q.Probe {
		flags = append(flags, "--probe")
	}
	return flags
}

// explainBefore is [clusterNodes.Explain] of nodes with schema 1, which answer about one packet at
// a time, and without their document. It goes with the next release.
func (c *clusterNodes) explainBefore(ctx context.Context, n nodes.Node, q Query) (*answer.Response, error) {
	r := &answer.Response{Answers: make([]answer.Answer, len(q.Packets)), Process: "answers"}
	once := q
	once.Observe = 0
	each(len(q.Packets), func(i int) {
		from, to, _ := strings.Cut(q.Packets[i].String(), ",")
		args := append([]string{"explain", "--output=json", "--from=" + from, "--to=" + to}, once.flags()...)
		if err := c.Patient(working).JSON(ctx, n, answer.Schema, &r.Answers[i], args...); err != nil {
			r.Answers[i].Error = err.Error()
		}
	})
	if q.Name == "" && len(q.Packets) > 0 {
		service, rest, _ := strings.Cut(r.Answers[0].Service, "/")
		q.Namespace = service
		q.Name, _, _ = strings.Cut(rest, ":")
	}
	if q.Name == "" {
		r.Document = &nodestatus.Document{Source: nodestatus.FromDaemon, Ready: true}
		return r, nil
	}
	d, err := c.Cluster.Document(ctx, n, nodestatus.Query{Namespace: q.Namespace, Name: q.Name, Observe: q.Observe})
	if r.Document = d; err != nil {
		r.Process = err.Error()
	}
	return r, nil
}

// Document implements [Nodes].
func (c *clusterNodes) Document(ctx context.Context, node string, q nodestatus.Query) (*nodestatus.Document, error) {
	n, err := c.node(ctx, node)
	if err != nil {
		return nil, err
	}
	return c.Cluster.Document(ctx, n, q)
}
