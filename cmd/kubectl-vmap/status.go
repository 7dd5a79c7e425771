package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"kube-vmap/cmd/inspect/explain/reference"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/problems"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/sync/source/cluster/selectors"
)

// A node lags if the API server had objects, before the node was asked, that are newer than
// what the node has seen. Resource versions of a resource are comparable (KEP-5504).

// followed are the kinds of objects that change the rules of every node, as kube-vmap lists
// them.
var followed = []struct {
	kind     string
	resource schema.GroupVersionResource
	options  func() metav1.ListOptions // after flags are parsed
}{
	{
		"Service", corev1.SchemeGroupVersion.WithResource("services"),
		func() metav1.ListOptions {
			return metav1.ListOptions{LabelSelector: selectors.ServiceLabels(), FieldSelector: selectors.ServiceFields}
		},
	},
	{
		"EndpointSlice", discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
		func() metav1.ListOptions { return metav1.ListOptions{LabelSelector: selectors.SliceLabels} },
	},
}

// objectVersions are the resource versions of the API server's objects at one moment, by
// kind, sorted.
type objectVersions map[string][]string

func statusCommand(f *cluster.Flags) *cobra.Command {
	n := f.Nodes("all if there is none")
	return status.NewCommand(n, func(ctx context.Context) (func(*nodestatus.Health) (*status.Lag, error), error) {
		api, err := readVersions(ctx, n.REST())
		if err != nil {
			return nil, err
		}
		return api.lag, nil
	})
}

// readVersions lists all followed objects, without their content.
func readVersions(ctx context.Context, config *rest.Config) (objectVersions, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	out := objectVersions{}
	for _, f := range followed {
		list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(f.resource).List(ctx, o)
		})
		err := list.EachListItem(ctx, f.options(), func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err == nil {
				_, err = resourceversion.CompareResourceVersion(m.GetResourceVersion(), m.GetResourceVersion())
			}
			if err == nil {
				out[f.kind] = append(out[f.kind], m.GetResourceVersion())
			}
			return err
		})
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("no permission to list %s, which the ClusterRole in deploy/kubectl gives: %w",
				f.resource.Resource, err)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", f.resource.Resource, err)
		}
		slices.SortFunc(out[f.kind], mustCompare)
	}
	return out, nil
}

func mustCompare(a, b string) int { n, _ := resourceversion.CompareResourceVersion(a, b); return n }

// lag returns how far a node is behind the objects; nil if it does not follow the API server. An
// object that the node has not listed yet is newer than anything.
func (o objectVersions) lag(h *nodestatus.Health) (*status.Lag, error) {
	newer := map[string]int{}
	for _, f := range followed {
		if !slices.ContainsFunc(h.Positions, func(p nodestatus.Position) bool { return p.Kind == f.kind }) {
			return nil, nil
		}
		seen := h.Position(f.kind)
		if newer[f.kind] = len(o[f.kind]); seen == "" {
			continue
		}
		if _, err := resourceversion.CompareResourceVersion(seen, seen); err != nil {
			return nil, err
		}
		older, found := slices.BinarySearchFunc(o[f.kind], seen, mustCompare)
		if found {
			older++
		}
		newer[f.kind] -= older
	}
	return &status.Lag{Services: newer["Service"], EndpointSlices: newer["EndpointSlice"]}, nil
}

const (
	// maxServices is of how many Services pods are read, the worst first.
	maxServices = 100
	// maxReads is of how many at the same time.
	maxReads = 16
)

// clusterProblems implements [problems.Cluster].
type clusterProblems struct{ *cluster.Nodes }

func problemsCommand(f *cluster.Flags) *cobra.Command {
	n := f.Nodes("all if there is none")
	return problems.NewCommand(n, "kubectl vmap", clusterProblems{n})
}

// Findings requests what a node has found.
func (c clusterProblems) Findings(ctx context.Context, n nodes.Node, o problems.Options) (l findings.List, err error) {
	args := []string{"problems", "-o", "json", "--observe", o.Observe.String()}
	if o.Namespace != "" {
		args = append(args, "--namespace", o.Namespace)
	}
	return l, c.Patient(o.Observe).JSON(ctx, n, findings.Schema, &l, append(args, o.Names...)...)
}

// Name adds pods and values of fields.
func (c clusterProblems) Name(ctx context.Context, list []findings.Merged) error {
	api, err := kubernetes.NewForConfig(c.REST())
	if err != nil {
		return fmt.Errorf("configure the client: %w", err)
	}
	return namer{&resolve.Resolver{API: api}}.add(ctx, list)
}

// A namer adds to findings what only the API server knows: the pods of endpoints, and the
// values of fields that match no pod.
type namer struct{ *resolve.Resolver }

// add adds to findings. The error is about a Service of which something was not read; what
// nodes describe stays.
func (n namer) add(ctx context.Context, list []findings.Merged) error {
	services := map[[2]string][]*findings.Merged{}
	for i := range list {
		m := &list[i]
		k := [2]string{m.Namespace, m.Name}
		if m.Name != "" && (len(m.Endpoints) > 0 || hasValue(m)) &&
			(services[k] != nil || len(services) < maxServices) {
			services[k] = append(services[k], m)
		}
	}
	var g errgroup.Group
	g.SetLimit(maxReads)
	for k, of := range services {
		g.Go(func() error {
			if err := n.addTo(ctx, k[0], k[1], of); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("pods of Service %s/%s and others are not named: %w", k[0], k[1], err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (n namer) addTo(ctx context.Context, namespace, name string, list []*findings.Merged) error {
	if slices.ContainsFunc(list, func(m *findings.Merged) bool { return len(m.Endpoints) > 0 }) {
		names, err := n.endpoints(ctx, namespace, name)
		if err != nil {
			return err
		}
		for _, m := range list {
			m.Each(func(f *findings.Finding) { f.NameEndpoints(names) })
		}
	}
	if !slices.ContainsFunc(list, hasValue) {
		return nil
	}
	s, err := n.API.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := resolve.SelectedPods(ctx, n.API, s)
	if err != nil {
		return err
	}
	for _, m := range list {
		switch {
		case !hasValue(m) || len(s.Spec.Selector) == 0:
		case m.Field == nodestatus.FieldSelector:
			n.addSelector(ctx, m, s, pods)
		default:
			addTargetPorts(m, s, pods)
		}
	}
	return nil
}

// endpoints returns names of the endpoints of a Service: "web-1 on node-1 (10.244.1.2:8080)".
// The addresses of one pod have the same name.
func (n namer) endpoints(ctx context.Context, namespace, name string) (func(string) string, error) {
	list, err := n.Slices(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	objects := resolve.EndpointObjects(list)
	first := map[string]string{} // address of each pod
	return func(endpoint string) string {
		at, err := netip.ParseAddrPort(endpoint)
		o := objects[at.Addr()]
		if err != nil || o.Kind != reference.KindPod {
			return ""
		}
		pod := o.Name
		if o.Node != "" {
			pod += " on " + o.Node
		}
		first[pod] = cmp.Or(first[pod], endpoint)
		return pod + " (" + first[pod] + ")"
	}, nil
}

// hasValue reports whether a field of the API's object, with a value that nodes do not know, causes
// a finding.
func hasValue(m *findings.Merged) bool {
	switch m.Reason {
	case nodestatus.ReasonNoEndpoints:
		return m.Field == nodestatus.FieldSelector
	case nodestatus.ReasonNoPort, nodestatus.ReasonRefuses, nodestatus.ReasonSilent:
		return m.Field == nodestatus.FieldTargetPort
	}
	return false
}

// addSelector adds the labels that are selected, and those that pods have.
func (n namer) addSelector(ctx context.Context, m *findings.Merged, s *corev1.Service, pods []corev1.Pod) {
	c := resolve.Selector(ctx, n.API, s)
	m.Field = c.Field
	why := c.Text
	if len(pods) > 0 {
		why = "matches " + nodestatus.Plural(len(pods), "pod") + ", none of which has an address"
	}
	if len(m.Families) == len(s.Spec.IPFamilies) {
		m.Each(func(f *findings.Finding) { f.Message = why })
	}
}

// addTargetPorts adds the target ports, and those that containers have.
func addTargetPorts(m *findings.Merged, s *corev1.Service, pods []corev1.Pod) {
	of := func(p *corev1.ServicePort) bool {
		name := strings.TrimPrefix(p.Name+"/"+string(resolve.Protocol(p.Protocol)), "/")
		return slices.Contains(m.Ports, name) || strings.HasSuffix(m.Object, ":"+p.Name) && p.Name != ""
	}
	var values, texts []string
	for _, p := range s.Spec.Ports {
		if value := p.TargetPort.String(); of(&p) && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	for _, c := range resolve.TargetPorts(s, pods, of) {
		if !slices.Contains(texts, c.Text) {
			texts = append(texts, c.Text)
		}
	}
	if len(values) == 0 || len(values) > maxValues {
		return
	}
	m.Field += ": " + strings.Join(values, ", ")
	m.Details = append(slices.Clip(m.Details), texts...)
}

// maxValues is how many values of a field are named.
const maxValues = 3
