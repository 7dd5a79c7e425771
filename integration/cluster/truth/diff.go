package truth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
	"kube-vmap/sync/source/convert"
)

// PodRanges hold the pods of all nodes of a lab, as flags say it.
const PodRanges = "10.244.0.0/16,fd00:10:244::/48"

// Config returns the configuration of a proxy on the node with --cluster-cidr=PodRanges and
// no other flags.
func Config(node string) sync.Config {
	c := sync.Config{
		NodeName:  node,
		Rules:     nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, CountConnections: true, PassiveHealth: true},
		NodePorts: sync.NodePortAddresses{Primary: true}, AnswerPings: true,
	}
	for i, p := range strings.Split(PodRanges, ",") {
		c.Rules.Pods[model.Families[i]] = netip.MustParsePrefix(p)
	}
	return c
}

// Truth compares a node's rule set with the one for the objects in the API.
type Truth struct {
	// Client may list everything.
	Client kubernetes.Interface
	// Config is the proxy's configuration.
	Config sync.Config
	// Host is the node.
	Host *lab.Host
}

// Diff returns how the tables in the node's kernel differ from the expected ones, as lines
// with - for what is missing and + for what is too much; empty if they do not.
func (t *Truth) Diff(ctx context.Context) (string, error) {
	events, err := Events(ctx, t.Client, t.Config.NodeName)
	if err != nil {
		return "", err
	}
	have, err := Read(t.Host)
	if err != nil {
		return "", err
	}
	rules, _ := sync.Build(t.Config, events)
	want := rules.Tables()
	if err := t.serveNodePorts(want, events); err != nil {
		return "", err
	}
	return cmp.Diff(strings.Split(looptest.Summary(want), "\n"), strings.Split(looptest.Summary(have), "\n")), nil
}

// Await waits until there is no difference. The error, after ctx ended, has the last
// difference, or why there was none: a kernel whose rules change all the time cannot be
// read.
func (t *Truth) Await(ctx context.Context) error {
	err := eventually.Try(ctx, func() error {
		diff, err := t.Diff(context.WithoutCancel(ctx))
		if err == nil && diff != "" {
			err = errors.New(diff)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the rules of %s are not the expected ones; - is missing, + is too much: %w", t.Host, err)
	}
	return nil
}

// Read returns the tables of kube-vmap in a host's kernel.
func Read(h *lab.Host) (_ nft.Tables, err error) {
	k, err := kernel.Open(kernel.Config{NetNS: h.FD()})
	if err != nil {
		return nft.Tables{}, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return k.Read()
}

// The selectors of kube-proxy (cmd/kube-proxy/app/server.go): Services with a ClusterIP
// and without another proxy, and slices of such Services.
const (
	serviceLabels = "!service.kubernetes.io/service-proxy-name"
	serviceFields = "spec.clusterIP!=None"
	sliceLabels   = "!service.kubernetes.io/headless"
)

// Events returns the events that a proxy on the node should have processed, for the objects
// in the API now. Objects that cannot be converted at all are skipped.
func Events(ctx context.Context, client kubernetes.Interface, node string) ([]sync.Event, error) {
	var events []sync.Event
	for _, list := range []func(context.Context, kubernetes.Interface, string) ([]sync.Event, error){
		nodes, cidrs, services, slices,
	} {
		more, err := list(ctx, client, node)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	return events, nil
}

func nodes(ctx context.Context, client kubernetes.Interface, name string) ([]sync.Event, error) {
	known := sync.SetNode{Node: model.Node{Name: name}}
	n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("get Node %s: %w", name, err)
	default:
		if converted, _ := convert.Node(n); converted != nil {
			known = sync.SetNode{Node: *converted, Ineligible: convert.Ineligible(n)}
		}
	}
	return []sync.Event{known}, nil
}

func cidrs(ctx context.Context, client kubernetes.Interface, _ string) ([]sync.Event, error) {
	list, err := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	var all []netip.Prefix
	for i := range list.Items {
		converted, _ := convert.ServiceCIDR(&list.Items[i])
		all = append(all, converted...)
	}
	return []sync.Event{sync.SetServiceCIDRs{CIDRs: all}}, nil
}

func services(ctx context.Context, client kubernetes.Interface, _ string) (events []sync.Event, err error) {
	list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: serviceLabels, FieldSelector: serviceFields})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	for i := range list.Items {
		if s, _ := convert.Service(&list.Items[i]); s != nil {
			events = append(events, sync.SetService{Service: *s})
		}
	}
	return events, nil
}

func slices(ctx context.Context, client kubernetes.Interface, _ string) (events []sync.Event, err error) {
	list, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{LabelSelector: sliceLabels})
	if err != nil {
		return nil, fmt.Errorf("list EndpointSlices: %w", err)
	}
	for i := range list.Items {
		if s, _ := convert.Slice(&list.Items[i]); s != nil {
			events = append(events, sync.SetSlice{Slice: *s})
		}
	}
	return events, nil
}

// serveNodePorts puts into tables which addresses of the node serve node ports:
// [sync.Build] knows the Node object, and not what interfaces have.
func (t *Truth) serveNodePorts(tables nft.Tables, events []sync.Event) error {
	all, err := t.interfaces()
	if err != nil {
		return err
	}
	var primary [len(model.Families)]netip.Addr
	for _, e := range events {
		if node, ok := e.(sync.SetNode); ok {
			primary = node.Node.Addrs
		}
	}
	serving := map[model.Family][]nft.Element{}
	for _, a := range t.Config.NodePorts.Select(all, primary) {
		f := model.FamilyOf(a)
		serving[f] = append(serving[f], nft.Element{Key: nft.Key{Addr: a}})
	}
	for f, table := range tables {
		name := nft.SetID{Family: model.Family(f), Kind: nft.SetNodeIPs}.Name()
		set := table.Sets[name]
		set.Elements = serving[model.Family(f)]
		table.Sets[name] = set
	}
	return nil
}

func (t *Truth) interfaces() (out []netip.Addr, err error) {
	var all []net.Addr
	err = t.Host.Do(func() (err error) { all, err = net.InterfaceAddrs(); return err })
	if err != nil {
		return nil, fmt.Errorf("look up the addresses of %s: %w", t.Host, err)
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			return nil, fmt.Errorf("read an address of %s: %w", t.Host, err)
		}
		out = append(out, p.Addr())
	}
	return out, nil
}
