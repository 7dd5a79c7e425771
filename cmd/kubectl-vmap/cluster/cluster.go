// Package cluster runs commands of kube-vmap on the nodes of a cluster, through the API
// server: by "exec" in the pods of kube-vmap's DaemonSet, as kubectl exec does.
//
//	Flags --> Nodes: Cluster, List --nodes.Each, Answers--> Run, Document, JSON
//	kubectl's                        bounded                one exec each
//
// No port of a node is needed, and nothing but /kube-vmap runs there. What it prints is the
// answer. Errors name what is missing: a permission, kube-vmap, a pod, a command that an
// older version does not have. A node that does not answer costs its time-out, and no other
// node waits for it.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// DefaultNamespace is the usual namespace of kube-vmap's pods.
const DefaultNamespace = "kube-system"

// Config is where a cluster is, and how it is asked.
type Config struct {
	REST *rest.Config
	// Namespace is the namespace of kube-vmap's pods.
	Namespace string
	// Timeout is how long a node may be silent, before its answer and within it.
	Timeout time.Duration
	// Concurrency is how many nodes are asked at a time.
	Concurrency int
}

// Cluster asks the nodes of a cluster.
type Cluster struct {
	config   Config
	core     core.CoreV1Interface
	metadata metadata.Interface
	slots    chan struct{} // has an item for each command that runs
}

// New returns the cluster of a configuration. It sends nothing.
func New(c Config) (*Cluster, error) {
	switch {
	case c.Timeout <= 0:
		return nil, fmt.Errorf("--node-timeout: %s is not more than 0", c.Timeout)
	case c.Concurrency <= 0:
		return nil, fmt.Errorf("--node-concurrency: %d is not more than 0", c.Concurrency)
	}
	c.REST = rest.CopyConfig(c.REST)
	c.REST.QPS = -1 // there are few requests, and the API server limits them
	pods, err := core.NewForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	objects, err := metadata.NewForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	return &Cluster{c, pods, objects, make(chan struct{}, c.Concurrency)}, nil
}

// REST returns the configuration of clients for the API server.
func (c *Cluster) REST() *rest.Config { return rest.CopyConfig(c.config.REST) }

// maxPatience is how long a node may work in silence: it observes for ten seconds at most.
const maxPatience = time.Minute

// Patient returns the same cluster whose nodes may be silent for longer.
func (c *Cluster) Patient(longer time.Duration) *Cluster {
	out := *c
	out.config.Timeout += min(longer, maxPatience)
	return &out
}

// Flags are kubectl's flags for a cluster, and those for kube-vmap in it.
type Flags struct {
	clientcmd.ClientConfig // by the flags and the kubeconfig

	rules       *clientcmd.ClientConfigLoadingRules
	overrides   *clientcmd.ConfigOverrides
	namespace   string // of kube-vmap's pods
	proxyName   string
	timeout     time.Duration
	concurrency int
}

// NewFlags returns flags with kubectl's defaults.
func NewFlags() *Flags {
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	return &Flags{
		ClientConfig: clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides),
		rules:        rules, overrides: overrides,
	}
}

// AddFlags adds the flags.
func (f *Flags) AddFlags(to *pflag.FlagSet) {
	to.StringVar(&f.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username.LongName = "" // kubectl does not have these
	names.AuthOverrideFlags.Password.LongName = ""
	clientcmd.BindOverrideFlags(f.overrides, to, names)
	to.Func("as-user-extra", "User extras (`key=value`) to impersonate for the operation, can be repeated.",
		func(text string) error {
			key, value, ok := strings.Cut(text, "=")
			if !ok {
				return fmt.Errorf("%q is not KEY=VALUE", text)
			}
			if f.overrides.AuthInfo.ImpersonateUserExtra == nil {
				f.overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
			}
			f.overrides.AuthInfo.ImpersonateUserExtra[key] = append(f.overrides.AuthInfo.ImpersonateUserExtra[key], value)
			return nil
		})
	to.StringVar(&f.namespace, "proxy-namespace", DefaultNamespace, "`namespace` of kube-vmap's pods")
	to.StringVar(&f.proxyName, "service-proxy-name", "",
		"`name` of the kube-vmap to ask: of its flag with this name, and after kube-vmap. in the label of its pods")
	to.DurationVar(&f.timeout, "node-timeout", 10*time.Second,
		"how long a node may be silent until it counts as not answering")
	to.IntVar(&f.concurrency, "node-concurrency", 64, "`number` of nodes to ask at a time")
}

// Cluster returns the cluster that the flags and the kubeconfig choose.
func (f *Flags) Cluster() (*Cluster, error) {
	model.SetProxyName(f.proxyName)
	config, err := f.ClientConfig.ClientConfig()
	if err != nil {
		return nil, err
	}
	return New(Config{REST: config, Namespace: f.namespace, Timeout: f.timeout, Concurrency: f.concurrency})
}

// CurrentNamespace returns the namespace of -n or of the kubeconfig's context.
func (f *Flags) CurrentNamespace() (string, error) {
	namespace, _, err := f.Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace: %w", err)
	}
	return namespace, nil
}

// Context returns the name of the context of the flags or the kubeconfig; empty if there is none.
func (f *Flags) Context() string {
	config, err := f.RawConfig()
	if err != nil || f.overrides.CurrentContext != "" {
		return f.overrides.CurrentContext
	}
	return config.CurrentContext
}

// Nodes are the nodes of a cluster that a command reads; it implements [nodes.Nodes].
type Nodes struct {
	*Flags
	*Cluster // nil before Find

	whenNone string
	names    []string
	all      bool
}

// Nodes returns the nodes of the flags' cluster; whenNone describes which ones a command reads if the
// user chooses none.
func (f *Flags) Nodes(whenNone string) *Nodes { return &Nodes{Flags: f, whenNone: whenNone} }

// AddFlags adds the flags --node and --all-nodes.
func (s *Nodes) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.names, "node", nil, "`names` of nodes to ask; "+s.whenNone)
	cmd.Flags().BoolVar(&s.all, "all-nodes", false, "ask all nodes")
}

// Namespace returns the namespace of -n, and that or the one of the kubeconfig's context.
func (s *Nodes) Namespace() (given, current string, err error) {
	current, err = s.CurrentNamespace()
	return s.overrides.Context.Namespace, current, err
}

// Find returns the chosen nodes; all if neither flag was given.
func (s *Nodes) Find(ctx context.Context) (list nodes.List, err error) {
	if s.all && len(s.names) > 0 {
		return list, errors.New("--node and --all-nodes: give one of them")
	}
	if s.Cluster == nil {
		if s.Cluster, err = s.Flags.Cluster(); err != nil {
			return list, err
		}
	}
	list = nodes.List{Chosen: s.all || len(s.names) > 0, Limit: s.config.Concurrency}
	if len(s.names) == 0 {
		list.Nodes, err = s.Cluster.Nodes(ctx)
		return list, err
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.names))) { // one given twice would count twice
		n, err := s.Node(ctx, name)
		if err != nil {
			return list, err
		}
		list.Nodes = append(list.Nodes, n)
	}
	return list, nil
}

// container is kube-vmap's name in its manifests, and selector selects its pods there.
const container = "kube-vmap"

func selector() string { return "app.kubernetes.io/name=" + model.Named(container) }

// Nodes returns all nodes of the cluster, sorted by name. It is an error if no node has a
// pod of kube-vmap.
func (c *Cluster) Nodes(ctx context.Context) ([]nodes.Node, error) {
	list, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError("list nodes", err)
	}
	pods, err := c.pods(ctx, "")
	if err != nil {
		return nil, err
	}
	out := make([]nodes.Node, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		out[i] = c.node(n.Name, n.Labels, pods[n.Name])
		out[i].Absent = len(pods[n.Name]) == 0
	}
	if !slices.ContainsFunc(out, func(n nodes.Node) bool { return !n.Absent }) { // also if nodes went before their pods
		return nil, fmt.Errorf("no kube-vmap found: namespace %s has no pods with the label %s on nodes of the cluster; "+
			"--proxy-namespace names another namespace", c.config.Namespace, selector())
	}
	slices.SortFunc(out, func(a, b nodes.Node) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Node returns a node by its name.
func (c *Cluster) Node(ctx context.Context, name string) (nodes.Node, error) {
	n, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nodes.Node{}, fmt.Errorf("the cluster has no node %q", name)
	case err != nil:
		return nodes.Node{}, apiError("get node "+name, err)
	}
	pods, err := c.pods(ctx, "spec.nodeName="+name)
	if err != nil {
		return nodes.Node{}, err
	}
	return c.node(name, n.Labels, pods[name]), nil
}

// pods returns kube-vmap's pods that a field selector selects, by node.
func (c *Cluster) pods(ctx context.Context, fields string) (map[string][]corev1.Pod, error) {
	list, err := c.core.Pods(c.config.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: selector(), FieldSelector: fields})
	if err != nil {
		return nil, apiError("list pods in namespace "+c.config.Namespace, err)
	}
	out := map[string][]corev1.Pod{}
	for _, p := range list.Items {
		name := cmp.Or(p.Spec.NodeName, meantFor(&p))
		out[name] = append(out[name], p)
	}
	return out, nil
}

// meantFor returns the node for which a DaemonSet has made a pod, which may have no place there.
func meantFor(p *corev1.Pod) string {
	a := ptr.Deref(ptr.Deref(p.Spec.Affinity, corev1.Affinity{}).NodeAffinity, corev1.NodeAffinity{})
	required := ptr.Deref(a.RequiredDuringSchedulingIgnoredDuringExecution, corev1.NodeSelector{})
	for _, t := range required.NodeSelectorTerms {
		if len(t.MatchFields) > 0 { // its only one is the name
			return strings.Join(t.MatchFields[0].Values, "")
		}
	}
	return ""
}

// node returns a node with the best of its pods: while one replaces another, there are two.
func (c *Cluster) node(name string, labels map[string]string, pods []corev1.Pod) nodes.Node {
	out := nodes.Node{Name: name, Namespace: c.config.Namespace}
	if len(pods) == 0 {
		out.Missing, out.Why = true, "no pod of kube-vmap is on this node"
		if system := labels[corev1.LabelOSStable]; system != "" && system != "linux" {
			out.Why = "kube-vmap does not run on " + system
		}
		return out
	}
	best := slices.MinFunc(pods, func(a, b corev1.Pod) int {
		x, _ := podState(&a)
		y, _ := podState(&b)
		return cmp.Or(cmp.Compare(x, y), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
	})
	rank, why := podState(&best)
	out.Pod, out.Missing, out.Why = best.Name, rank == notRunning, output.CleanLine(why)
	return out
}

// notRunning is the worst state of a pod.
const notRunning = 3

// podState returns how well kube-vmap's container runs, zero if it is ready, and why not better.
func podState(p *corev1.Pod) (rank int, why string) {
	name := "pod " + p.Name
	ended := func(t *corev1.ContainerStateTerminated) string {
		return fmt.Sprintf("the container in %s has ended with exit code %d", name, t.ExitCode)
	}
	i := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return notRunning, name + " is " + string(cmp.Or(p.Status.Phase, corev1.PodPending))
	}
	s := p.Status.ContainerStatuses[i]
	switch last := s.LastTerminationState.Terminated; {
	case s.State.Running != nil && s.Ready && p.DeletionTimestamp == nil:
		return 0, ""
	case s.State.Running != nil && s.Ready:
		return 1, ""
	case s.State.Running != nil:
		return 2, name + " is not ready"
	case s.State.Waiting != nil && last != nil:
		return notRunning, name + " is waiting: " + cmp.Or(s.State.Waiting.Reason, "no reason given") + "; " + ended(last)
	case s.State.Waiting != nil:
		return notRunning, name + " is waiting: " + cmp.Or(resolve.InitFailure(p), s.State.Waiting.Reason, "no reason given")
	case s.State.Terminated != nil:
		return notRunning, ended(s.State.Terminated)
	}
	return notRunning, name + " has not started"
}
