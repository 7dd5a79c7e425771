package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

// echo prints its arguments on stdout, an error, and ends with 3.
func echo(_ *http.Request, args []string, stdout, stderr io.Writer) int {
	_, _ = fmt.Fprint(stdout, strings.Join(args, " "))
	_, _ = fmt.Fprintln(stderr, "kube-vmap: an error")
	return 3
}

func node(t *testing.T, c *cluster.Cluster, name string) nodes.Node {
	t.Helper()
	n, err := c.Node(t.Context(), name)
	must(t, err)
	return n
}

func TestCommandsRunOverWebSocketAndSPDY(t *testing.T) {
	for _, spdy := range []bool{false, true} {
		server := nodestest.New(t, map[string]nodestest.Program{"node-1": echo})
		server.NoWebSocket = spdy
		c := server.Cluster(t, cluster.Config{})
		out, err := c.Run(t.Context(), node(t, c, "node-1"), "explain", "--to", "[fd00::a]:53/udp")
		var exit *nodes.ExitError
		if !errors.As(err, &exit) || exit.Code != 3 || exit.Error() != "an error" || string(out) != "explain --to [fd00::a]:53/udp" {
			t.Errorf("%q, %v (%+v)", out, err, exit)
		}
		long := strings.Repeat("0123456789abcdef", 1<<16)
		server = nodestest.New(t, map[string]nodestest.Program{"node-1": nodestest.Prints(long)})
		c = server.Cluster(t, cluster.Config{})
		if out, err := c.Run(t.Context(), node(t, c, "node-1")); err != nil || string(out) != long {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	}
}

func TestNodesAreListedWithWhatIsWrongWithTheirPods(t *testing.T) {
	states := map[string]corev1.ContainerState{
		"node-2": {Running: &corev1.ContainerStateRunning{}},
		"node-3": {Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		"node-7": {Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
		"node-4": {Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
	}
	server := nodestest.New(t, map[string]nodestest.Program{"node-1": echo, "node-2": echo, "node-3": echo, "node-4": echo, "node-5": echo, "node-6": nil, "node-7": echo, "node-8": echo})
	server.ChangePod = func(p *corev1.Pod) {
		if p.Spec.NodeName == "node-8" { // as a DaemonSet makes one for a node that has no place for it
			p.Status, p.Spec = corev1.PodStatus{Phase: corev1.PodPending}, corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-8"}}},
				}}},
			}}}
		}
		if state, changed := states[p.Spec.NodeName]; changed {
			p.Status.ContainerStatuses[0].State, p.Status.ContainerStatuses[0].Ready = state, false
		}
		if p.Spec.NodeName == "node-3" {
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
		}
		if p.Spec.NodeName == "node-5" {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending}
		}
		if p.Spec.NodeName == "node-7" {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
				Name: "prepare", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}},
			}}
		}
	}
	got, err := server.Cluster(t, cluster.Config{}).Nodes(t.Context())
	const namespace = cluster.DefaultNamespace
	want := []nodes.Node{
		{Name: "node-1", Pod: "kube-vmap-node-1", Namespace: namespace},
		{Name: "node-2", Pod: "kube-vmap-node-2", Namespace: namespace, Why: "pod kube-vmap-node-2 is not ready"},
		{Name: "node-3", Pod: "kube-vmap-node-3", Namespace: namespace, Missing: true, Why: "pod kube-vmap-node-3 is waiting: CrashLoopBackOff; " +
			"the container in pod kube-vmap-node-3 has ended with exit code 1"},
		{Name: "node-4", Pod: "kube-vmap-node-4", Namespace: namespace, Missing: true, Why: "the container in pod kube-vmap-node-4 has ended with exit code 3"},
		{Name: "node-5", Pod: "kube-vmap-node-5", Namespace: namespace, Missing: true, Why: "pod kube-vmap-node-5 is Pending"},
		{Name: "node-6", Namespace: namespace, Missing: true, Why: "no pod of kube-vmap is on this node", Absent: true},
		{Name: "node-7", Pod: "kube-vmap-node-7", Namespace: namespace, Missing: true, Why: "pod kube-vmap-node-7 is waiting: " +
			"its init container prepare has ended with exit code 2 (CrashLoopBackOff)"},
		{Name: "node-8", Pod: "kube-vmap-node-8", Namespace: namespace, Missing: true, Why: "pod kube-vmap-node-8 is Pending"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

func TestErrorsNameWhatIsMissing(t *testing.T) {
	one := func() map[string]nodestest.Program { return map[string]nodestest.Program{"node-1": echo} }
	list := func(s *nodestest.Server, config cluster.Config) error {
		_, err := s.Cluster(t, config).Nodes(t.Context())
		return err
	}
	run := func(s *nodestest.Server) error {
		c := s.Cluster(t, cluster.Config{})
		_, err := c.Run(t.Context(), node(t, c, "node-1"), "version")
		return err
	}
	unknown := func(s *nodestest.Server) error {
		_, err := s.Cluster(t, cluster.Config{}).Node(t.Context(), "node-9")
		return err
	}
	gone := nodestest.New(t, one())
	gone.ChangePod = func(p *corev1.Pod) { p.Spec.NodeName = "gone" }
	for want, err := range map[string]error{
		"no pods with the label app.kubernetes.io/name=kube-vmap on nodes of the cluster":                   list(gone, cluster.Config{}),
		"no permission to list nodes; the roles in deploy/kubectl give it":                                  list(nodestest.New(t, one()).Forbid("nodes"), cluster.Config{}),
		"no permission to list pods in namespace kube-system; the roles in deploy/kubectl":                  list(nodestest.New(t, one()).Forbid("pods"), cluster.Config{}),
		"no permission to run a command; the roles in deploy/kubectl":                                       run(nodestest.New(t, one()).Forbid("pods/exec")),
		"no kube-vmap found: namespace proxies has no pods with the label app.kubernetes.io/name=kube-vmap": list(nodestest.New(t, one()), cluster.Config{Namespace: "proxies"}),
		`the cluster has no node "node-9"`:                                                                  unknown(nodestest.New(t, one())),
		"connection refused":                                                                                list(&nodestest.Server{URL: "http://127.0.0.1:1"}, cluster.Config{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSilentNodeCostsItsTimeOutOnly has nodes that never answer among many that do.
func TestSilentNodeCostsItsTimeOutOnly(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second // in which a busy machine answers for the others
	silent := func(r *http.Request, _ []string, stdout, _ io.Writer) int {
		_, _ = io.WriteString(stdout, "half")
		<-r.Context().Done()
		return 0
	}
	programs := map[string]nodestest.Program{"node-10": silent, "node-30": silent, "node-99": nil}
	for i := range 50 {
		if name := fmt.Sprintf("node-%02d", i); programs[name] == nil {
			programs[name] = nodestest.Prints(name)
		}
	}
	c := nodestest.New(t, programs).Cluster(t, cluster.Config{Timeout: timeout, Concurrency: 8})
	list, err := c.Nodes(t.Context())
	must(t, err)
	start := time.Now()
	var order []string
	nodes.Each(t.Context(), nodes.List{Nodes: list, Limit: 8}, func(ctx context.Context, n nodes.Node) (string, error) {
		out, err := c.Run(ctx, n)
		return string(out), err
	}, func(n nodes.Node, answer string, err error) {
		order = append(order, n.Name)
		var late *cluster.TimeoutError
		var missing *nodes.MissingError
		switch n.Name {
		case "node-10", "node-30":
			if !errors.As(err, &late) || late.After != timeout {
				t.Errorf("%s: %v", n.Name, err)
			}
		case "node-99":
			if !errors.As(err, &missing) {
				t.Errorf("%s: %v", n.Name, err)
			}
		default:
			if err != nil || answer != n.Name {
				t.Errorf("%s: %q, %v", n.Name, answer, err)
			}
		}
	})
	if took := time.Since(start); took > 10*timeout {
		t.Errorf("all nodes took %s", took)
	}
	if len(order) != 51 || slices.Index(order, "node-10") < slices.Index(order, "node-11") {
		t.Errorf("answers come in the order %v", order)
	}
}

func TestWritingRestartsTheTimeOut(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second // much longer than a pause, also on a busy machine
	slow := func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		for range 5 {
			<-time.After(timeout / 4)
			_, _ = io.WriteString(stdout, "x")
		}
		return 0
	}
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": slow}).Cluster(t, cluster.Config{Timeout: timeout})
	if out, err := c.Run(t.Context(), node(t, c, "node-1")); err != nil || string(out) != "xxxxx" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestEndlessAnswerEnds has nodes that always send a little more.
func TestEndlessAnswerEnds(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond // in which a busy machine starts a program
	endless := func(r *http.Request, _ []string, stdout, stderr io.Writer) int {
		for r.Context().Err() == nil {
			<-time.After(timeout / 100)
			_, _ = io.WriteString(stdout, "x")
			_, _ = io.WriteString(stderr, "x")
		}
		return 0
	}
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": endless}).Cluster(t, cluster.Config{Timeout: timeout})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var late *cluster.TimeoutError
	for try := 1; late == nil || !late.Endless; try++ {
		if _, err := c.Run(ctx, node(t, c, "node-1")); !errors.As(err, &late) || !late.Endless && try == 5 { // a busy machine may be silent
			t.Fatal(err)
		}
	}
	c = nodestest.New(t, map[string]nodestest.Program{"node-1": nodestest.Prints("x")}).Cluster(t, cluster.Config{Timeout: math.MaxInt64})
	if _, err := c.Run(ctx, node(t, c, "node-1")); err != nil {
		t.Errorf("with the longest time-out: %v", err)
	}
}

func TestAnswersThatOnlyTakeMemoryAreRefused(t *testing.T) {
	program := nodestest.Prints(`{"schema":1,"services":[` + strings.Repeat("{},", 1<<20) + `{}]}`)
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": program}).Cluster(t, cluster.Config{})
	if _, err := c.Document(t.Context(), node(t, c, "node-1"), nodestatus.Query{}); err == nil || !strings.Contains(err.Error(), "not a kube-vmap response") {
		t.Errorf("%v", err)
	}
}

func TestObservingExtendsTheTimeOut(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	slow := func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		<-time.After(2 * timeout)
		_, _ = io.WriteString(stdout, `{"schema":1}`)
		return 0
	}
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": slow}).Cluster(t, cluster.Config{Timeout: timeout})
	for observe, want := range map[time.Duration]bool{0: false, 100 * timeout: true} {
		if _, err := c.Document(t.Context(), node(t, c, "node-1"), nodestatus.Query{Observe: observe}); (err == nil) != want {
			t.Errorf("observing for %s: %v", observe, err)
		}
	}
}

func TestDocumentsOfOtherVersions(t *testing.T) {
	for what, tc := range map[string]struct {
		program nodestest.Program
		want    string
	}{
		"with more fields": {nodestest.Prints(`{"source":"daemon","node":"node-1","unknown":1}`), ""},
		"of a newer version": {
			nodestest.Prints(`{"schema":99,"version":"v9.0.0","services":"changed"}`),
			"the answer of kube-vmap v9.0.0 has schema 99, and this program knows 1 at most: use a newer one",
		},
		"of a version without the command": {
			func(_ *http.Request, args []string, stdout, stderr io.Writer) int {
				if args[0] == "version" {
					_, _ = io.WriteString(stdout, "kube-vmap v0.1.0\n")
					return 0
				}
				_, _ = io.WriteString(stderr, recorded(t, 0, "status.stderr"))
				return 1
			},
			`runs kube-vmap v0.1.0, which has no "kube-vmap status -o json"`,
		},
		"broken off": {nodestest.Prints(`{"schema":1,`), "the answer broke off after 12 bytes"},
	} {
		c := nodestest.New(t, map[string]nodestest.Program{"node-1": tc.program}).Cluster(t, cluster.Config{})
		d, err := c.Document(t.Context(), node(t, c, "node-1"), nodestatus.Query{})
		if tc.want == "" && (err != nil || d.Node != "node-1") || tc.want != "" && (err == nil || err.Error() != tc.want) {
			t.Errorf("%s: %+v, %v, want %q", what, d, err, tc.want)
		}
	}
}

func TestControlCharactersOfNodesAreReplaced(t *testing.T) {
	program := nodestest.Prints(`{"schema":1,"node":"a\u001b[2Jb\u009bc\rd\be\ff\u202eg","services":[{"name":"` + "x\x7f\u0085y" + `","ports":[{"name":"é\n"}]}]}`)
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": program}).Cluster(t, cluster.Config{})
	d, err := c.Document(t.Context(), node(t, c, "node-1"), nodestatus.Query{})
	if err != nil || d.Node != "a?[2Jb?c?d?e?f?g" || d.Services[0].Name != "x??y" || d.Services[0].Ports[0].Name != "é; " {
		t.Errorf("%+v, %v", d, err)
	}
	c = nodestest.New(t, map[string]nodestest.Program{"node-1": func(_ *http.Request, _ []string, _, stderr io.Writer) int {
		_, _ = io.WriteString(stderr, "kube-vmap: \x1b]0;title\a\nnode-2: ready\u2028!\n")
		return 1
	}}).Cluster(t, cluster.Config{})
	if _, err := c.Run(t.Context(), node(t, c, "node-1")); fmt.Sprint(err) != "?]0;title?; node-2: ready?!" {
		t.Errorf("%q", err)
	}
}

// TestErrorsHaveNoControlCharactersOfNodes has errors with texts that a node has written.
func TestErrorsHaveNoControlCharactersOfNodes(t *testing.T) {
	const evil = "\x1b]0;title\a\u202e"
	one := func(text string) *nodestest.Server {
		return nodestest.New(t, map[string]nodestest.Program{"node-1": nodestest.Prints(text)})
	}
	kubelet, pod := one(""), one("")
	kubelet.BrokenExec = evil + strings.Repeat("x", 1<<20)
	pod.ChangePod = func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: evil + "\n"}}
	}
	for what, s := range map[string]*nodestest.Server{
		"a schema":                one(`{"schema":99,"version":"\u001b]0;title\u0007"}`),
		"a long schema":           one(`{"schema":` + strings.Repeat("9", 1<<20) + `}`),
		"a version":               one("kube-vmap v1\nkube-vmap v2" + evil + strings.Repeat("x", 1<<20) + "\n"),
		"the status of a command": kubelet,
		"the state of a pod":      pod,
	} {
		c := s.Cluster(t, cluster.Config{})
		_, err := c.Document(t.Context(), node(t, c, "node-1"), nodestatus.Query{})
		if what == "a version" {
			_, err = c.Version(t.Context(), node(t, c, "node-1"))
		}
		if text := fmt.Sprint(err); err == nil || len(text) > 5000 || strings.ContainsAny(text, evil[:1]+"\a\n\u202e") {
			t.Errorf("%s: %d bytes, %.200q", what, len(text), text)
		}
	}
}

// recorded returns what kube-vmap with a schema printed, for the manifests in
// sync/source/manifests/testdata/cluster: schema 0 is v0.1.0's.
func recorded(t *testing.T, schema int, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("schema-%d", schema), name))
	must(t, err)
	return string(text)
}

// TestRecordedDocumentsAreRead reads a document of each schema that is supported.
func TestRecordedDocumentsAreRead(t *testing.T) {
	for schema := range nodestatus.Schema + 1 {
		text := recorded(t, schema, "status.json")
		if has := strings.Contains(text, fmt.Sprintf(`"schema":%d,`, schema)); has != (schema > 0) {
			t.Errorf("schema %d: the record has another one", schema)
		}
		c := nodestest.New(t, map[string]nodestest.Program{"worker-1": nodestest.Prints(text)}).Cluster(t, cluster.Config{})
		d, err := c.Document(t.Context(), node(t, c, "worker-1"), nodestatus.Query{})
		if err != nil {
			t.Errorf("schema %d: %v", schema, err)
			continue
		}
		if d.Schema != schema || d.Node != "worker-1" || !d.Ready || len(d.Services) != 4 {
			t.Errorf("schema %d: %+v", schema, d)
		}
		web, gateway := &d.Services[1], &d.Services[3]
		if web.State() != nodestatus.StateOK || d.EndpointText(web) != "1/1" || web.Ports[0].Endpoints[0].At() != "10.244.0.80:8080" {
			t.Errorf("schema %d: %+v is %s", schema, web, web.State())
		}
		if gateway.State() != nodestatus.ReasonNoEndpoints || gateway.Ports[0].Frontends[1].At(gateway.Ports[0].Protocol) != "*:30977/sctp" {
			t.Errorf("schema %d: %+v is %s", schema, gateway, gateway.State())
		}
	}
}

// TestFlagsAreThoseOfKubectl has one of each kind, and those that this program adds itself.
func TestFlagsAreThoseOfKubectl(t *testing.T) {
	f := cluster.NewFlags()
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(set)
	line := "-s https://192.0.2.1 -n ns/shop --as jane --as-group a --as-group b --as-user-extra team=x --as-user-extra team=y " +
		"--token t --insecure-skip-tls-verify --request-timeout 3s"
	must(t, set.Parse(strings.Fields(line)))
	t.Setenv("KUBECONFIG", "/dev/null")
	c, err := f.ClientConfig.ClientConfig()
	must(t, err)
	as := rest.ImpersonationConfig{UserName: "jane", Groups: []string{"a", "b"}, Extra: map[string][]string{"team": {"x", "y"}}}
	if namespace, _ := f.CurrentNamespace(); c.Host != "https://192.0.2.1" || namespace != "shop" || !reflect.DeepEqual(c.Impersonate, as) ||
		c.BearerToken != "t" || !c.Insecure || c.Timeout != 3*time.Second {
		t.Errorf("%q, %+v", namespace, c)
	}
	if err := set.Parse([]string{"--as-user-extra=team"}); err == nil {
		t.Error("a user extra without a value")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
