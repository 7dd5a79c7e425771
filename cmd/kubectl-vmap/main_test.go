package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
	"kube-vmap/model"
)

// proxy is kube-vmap v0.2.0 on a node with these Services in namespace shop.
func proxy(node string, services ...string) nodestest.Program {
	return func(_ *http.Request, args []string, stdout, stderr io.Writer) int {
		switch args[0] {
		case "version":
			_, _ = io.WriteString(stdout, "kube-vmap v0.2.0\n")
		case "status":
			d := &nodestatus.Document{Schema: nodestatus.Schema, Source: nodestatus.FromDaemon, Node: node, Version: "v0.2.0", Ready: true}
			for _, name := range services {
				if asks(args, "shop", name) {
					d.Services = append(d.Services, nodestatus.Service{Namespace: "shop", Name: name, Ports: []nodestatus.Port{{
						Protocol: "TCP", Family: "IPv4", Scheduler: "random",
						Frontends: []nodestatus.Frontend{{Address: "10.96.0.1", Port: 80, Kind: "ClusterIP", Policy: "Cluster", Verdict: "Balance"}},
					}}})
				}
			}
			_ = d.Write(stdout)
		default:
			_, _ = io.WriteString(stderr, "kube-vmap: unknown command\n")
			return 1
		}
		return 0
	}
}

// asks reports whether the arguments of kube-vmap status include a Service.
func asks(args []string, namespace, service string) bool {
	for _, a := range args {
		flag, value, _ := strings.Cut(a, "=")
		if flag == "--namespace" && value != namespace || flag == "--name" && value != service {
			return false
		}
	}
	return true
}

// old is kube-vmap v0.1.0, as recorded.
func old(_ *http.Request, args []string, stdout, stderr io.Writer) int {
	if args[0] == "version" {
		_, _ = io.WriteString(stdout, "kube-vmap v0.1.0\n")
		return 0
	}
	_, _ = io.WriteString(stderr, "kube-vmap: unknown shorthand flag: 'o' in -o\n")
	return 1
}

// prints is a program that prints to stdout and stderr, and has an exit code.
func prints(stdout, stderr string, code int) nodestest.Program {
	return func(_ *http.Request, _ []string, o, e io.Writer) int {
		_, _ = io.WriteString(o, stdout)
		_, _ = io.WriteString(e, stderr)
		return code
	}
}

// vmap runs a command line on a cluster.
func vmap(t *testing.T, s *nodestest.Server, line ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append(line, "--kubeconfig", s.Kubeconfig(t)), &out, &errs)
	return out.String(), errs.String(), code
}

func TestGetAsksOneNodeAndNamesIt(t *testing.T) {
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": nil, "node-2": old, "node-3": proxy("node-3", "web", "api")})
	stdout, stderr, code := vmap(t, s, "get", "svc")
	want := "NAME   KINDS       CLUSTER-IP   EXTERNAL-IP   PORT(S)   ENDPOINTS   CONNECTIONS   ACTIVE   STATUS\n"
	if code != 0 || !strings.HasPrefix(stdout, want) || strings.Count(stdout, "\n") != 3 || !strings.Contains(stdout, "\nweb ") {
		t.Errorf("%d, %s", code, stdout)
	}
	for _, says := range []string{
		`node-2: runs kube-vmap v0.1.0, which has no "kube-vmap status -o json --namespace=shop"` + "\n",
		"Of node node-3; --all-nodes shows all 3, --node another one.\n",
	} {
		if !strings.Contains(stderr, says) {
			t.Errorf("%q does not say %q", stderr, says)
		}
	}
	if stdout, stderr, code := vmap(t, s, "get", "svc", "web", "--node=node-3"); code != 0 || stderr != "" || strings.Count(stdout, "\n") != 2 {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	if _, stderr, code := vmap(t, s, "get", "svc", "-n", "other", "--node=node-3"); code != 0 || stderr != "No resources found in other namespace.\n" {
		t.Errorf("%d, %q", code, stderr)
	}
	if stdout, stderr, code := vmap(t, s, "get", "svc", "--node=node-1"); code != 1 || stdout != "" || stderr != "error: node-1: no pod of kube-vmap is on this node\n" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	s.ChangePod = func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }
	if _, stderr, code := vmap(t, s, "get", "svc"); code != 1 || !strings.HasPrefix(stderr, "error: no node of 3 runs kube-vmap, for instance node-1: ") {
		t.Errorf("%d, %q", code, stderr)
	}
}

func TestNamedProxyIsAsked(t *testing.T) {
	defer model.SetProxyName("")
	var asked []string
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": func(r *http.Request, args []string, stdout, stderr io.Writer) int {
		asked = args
		return proxy("node-1", "web")(r, args, stdout, stderr)
	}})
	s.ChangePod = func(p *corev1.Pod) { p.Labels["app.kubernetes.io/name"] = "kube-vmap.edge" }
	if _, stderr, code := vmap(t, s, "get", "svc", "-A", "--service-proxy-name=edge"); code != 0 || !slices.Contains(asked, "--service-proxy-name=edge") {
		t.Errorf("%d, %q; the node gets %q", code, stderr, asked)
	}
	if _, stderr, code := vmap(t, s, "get", "svc", "-A"); code != 1 || !strings.Contains(stderr, "no kube-vmap found") {
		t.Errorf("%d, %q", code, stderr)
	}
}

func TestGetOfAllNodesHasAColumnForThem(t *testing.T) {
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": proxy("node-1", "web"), "node-2": proxy("node-2", "web", "a-longer-name"), "node-3": old})
	stdout, stderr, code := vmap(t, s, "get", "svc", "-A", "--all-nodes")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 1 || len(lines) != 4 || !strings.HasPrefix(lines[0], "NODE     NAMESPACE   NAME") {
		t.Errorf("%d, %s", code, stdout)
	}
	slices.Sort(lines)
	for i, prefix := range []string{"NODE ", "node-1   shop        web ", "node-2   shop        a-longer-name ", "node-2   shop        web "} {
		if len(lines) == 4 && !strings.HasPrefix(lines[i], prefix) {
			t.Errorf("%q, want a line with %q", lines[i], prefix)
		}
	}
	if want := "node-3: runs kube-vmap v0.1.0"; !strings.Contains(stderr, want) || !strings.Contains(stderr, "error: 1 of 3 nodes did not answer\n") {
		t.Errorf("%q, want %q", stderr, want)
	}
	_, stderr, code = vmap(t, s, "get", "svc", "web", "none", "a-longer-name", "none", "--node=node-1,node-2")
	if code != 1 || !strings.Contains(stderr, "service a-longer-name: not on node-1\n") || !strings.Contains(stderr, `services not found in namespace "shop"`) ||
		!strings.Contains(stderr, ": none\n") {
		t.Errorf("%d, %q", code, stderr)
	}
}

// TestUncountedConnectionsOfOneNodeAreTrouble has one node of two that counts no connections of a
// Service.
func TestUncountedConnectionsOfOneNodeAreTrouble(t *testing.T) {
	uncounted := prints(`{"schema":1,"counted":true,"services":[{"namespace":"shop","name":"web","ports":[{"uncounted":true}]}]}`, "", 0)
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": proxy("node-1", "web"), "node-2": uncounted})
	for args, want := range map[string]int{"--node=node-1": 0, "--node=node-2": exit.Trouble, "--all-nodes": exit.Trouble} {
		if stdout, stderr, code := vmap(t, s, "get", "svc", args); code != want {
			t.Errorf("%s: %d, %s%s", args, code, stdout, stderr)
		}
	}
}

func TestDiffNamesTheNodesThatDiffer(t *testing.T) {
	same, other := prints(`{"schema":1,"lines":[]}`, "", 0), prints(`{"schema":1,"lines":["+ element a"]}`, "", 1)
	broken := prints("", "kube-vmap: no kube-vmap answers\n", exit.Trouble)
	for _, tc := range []struct {
		nodes          map[string]nodestest.Program
		code           int
		stdout, stderr string
	}{
		{map[string]nodestest.Program{"node-1": same, "node-2": same}, 0, "", "0 of 2 nodes differ.\n"},
		{map[string]nodestest.Program{"node-1": same, "node-2": other}, 1, "node-2:\n  + element a\n", "1 of 2 nodes differ.\n"},
		{map[string]nodestest.Program{"node-1": same, "node-2": broken}, exit.Trouble, "", "node-2: no kube-vmap answers\n0 of 1 nodes differ.\nerror: 1 of 2 nodes answered with an error\n"},
		{map[string]nodestest.Program{"node-1": other, "node-2": broken}, 1, "node-1:\n  + element a\n", "node-2: no kube-vmap answers\n1 of 1 nodes differ.\nerror: 1 of 2 nodes answered with an error\n"},
	} {
		stdout, stderr, code := vmap(t, nodestest.New(t, tc.nodes), "diff")
		if stdout != tc.stdout || stderr != tc.stderr || code != tc.code {
			t.Errorf("%d, %q, %q; want %d, %q, %q", code, stdout, stderr, tc.code, tc.stdout, tc.stderr)
		}
	}
	if _, _, code := vmap(t, nodestest.New(t, nil), "diff", "--foo"); code != exit.Trouble {
		t.Errorf("an unknown flag ends with %d", code)
	}
}

// TestNodeCannotFakeRows has a node whose names have line breaks and control characters.
func TestNodeCannotFakeRows(t *testing.T) {
	const fake = "x\nnode-2 y\r\x1b[2Kz\u2028"
	finding, _ := json.Marshal(findings.List{Schema: findings.Schema, Services: 1, Findings: []findings.Finding{{
		Severity: nodestatus.SeverityProblem, Object: "Service shop/" + fake, Reason: fake, Field: fake, Text: fake, Ports: []string{fake},
	}}})
	lines, _ := json.Marshal([]string{"+ element " + fake, "node-2:", "- element"})
	shop := proxy("node-1", fake)
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": func(r *http.Request, args []string, stdout, stderr io.Writer) int {
		switch args[0] {
		case "problems":
			_, _ = stdout.Write(finding)
			return 1
		case "diff":
			_, _ = fmt.Fprintf(stdout, `{"schema":1,"lines":%s}`, lines)
			return 1
		}
		return shop(r, args, stdout, stderr)
	}})
	for command, rows := range map[string]int{"get svc": 2, "get svc --all-nodes": 2, "problems": 4, "diff": 4} {
		stdout, stderr, _ := vmap(t, s, strings.Fields(command)...)
		if strings.Count(stdout, "\n") != rows || strings.Contains(stdout, "\nnode-2") || strings.ContainsAny(stdout, "\r\x1b\u2028") || !strings.Contains(stdout, "x; node-2 y") {
			t.Errorf("%s: %q, %q", command, stdout, stderr)
		}
	}
}

// packed returns a node's archive.
func packed(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for name, text := range files {
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	must(t, errors.Join(w.Close(), packed.Close()))
	return out.String()
}

func TestBundleHasAFolderForEachNode(t *testing.T) {
	one := packed(t, map[string]string{
		"kube-vmap-bundle/status.json": "{}", "kube-vmap-bundle/drift.txt": "", "../escape": "x", "kube-vmap-bundle/../x": "x",
		`kube-vmap-bundle/..\..\x.txt`: "x", "kube-vmap-bundle/..": "x", "kube-vmap-bundle/\x1b[2J.txt": "x", "kube-vmap-bundle/x:y.txt": "x",
	})
	s := nodestest.New(t, map[string]nodestest.Program{
		"node-1": prints(one, "", 0), "node-2": prints(one, "kube-vmap: skipped: drift.txt\n", 1), "node-3": prints("", "kube-vmap: broken\n", 1), "node-4": nil,
	})
	path := filepath.Join(t.TempDir(), "all.tar.gz")
	stdout, stderr, code := vmap(t, s, "bundle", "-o", path)
	if code != 1 || stdout != path+"\n" || !strings.HasSuffix(stderr, "error: 2 of 3 nodes answered with an error\n") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	got := map[string]string{}
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	packed, err := gzip.NewReader(file)
	must(t, err)
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		text, _ := io.ReadAll(r)
		got[strings.TrimPrefix(h.Name, "kube-vmap-bundle/")] = string(text)
	}
	failed := strings.Split(strings.TrimSpace(got["failed.txt"]), "\n")
	slices.Sort(failed)
	delete(got, "failed.txt")
	want := map[string]string{
		"version.txt": "kubectl-vmap unknown\n", "node-1/status.json": "{}", "node-1/drift.txt": "", "node-2/status.json": "{}", "node-2/drift.txt": "",
	}
	if !maps.Equal(got, want) {
		t.Errorf("the archive has %q, want %q", got, want)
	}
	if !slices.Equal(failed, []string{"node-2: skipped: drift.txt", "node-3: broken", "node-4: no pod of kube-vmap is on this node"}) {
		t.Errorf("failed.txt has %q", failed)
	}
	if _, stderr, code := vmap(t, s, "bundle", "-o", path); code != 1 || !strings.Contains(stderr, "file exists") {
		t.Errorf("an existing file: %d, %q", code, stderr)
	}
}

func TestVersionsOfNodesAreCounted(t *testing.T) {
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": proxy("node-1"), "node-2": proxy("node-2"), "node-3": old})
	stdout, stderr, code := vmap(t, s, "version")
	want := "kubectl-vmap unknown\nkube-vmap v0.1.0 on 1 node: node-3\nkube-vmap v0.2.0 on 2 nodes: node-1, node-2\n"
	if code != 0 || stdout != want || stderr != "" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	if stdout, _, code := vmap(t, s, "version", "--client"); code != 0 || stdout != "kubectl-vmap unknown\n" {
		t.Errorf("%d, %q", code, stdout)
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": proxy("node-1")}).Forbid("pods/exec")
	for _, line := range [][]string{{"get", "svc"}, {"get", "svc", "--all-nodes"}, {"diff"}, {"version"}, {"get"}, {"frob"}, {"get", "svc", "--node=a", "--all-nodes"}} {
		stdout, stderr, code := vmap(t, s, line...)
		if code == 0 || strings.Contains(stdout, "web") || !strings.Contains(stderr, "error: ") {
			t.Errorf("%q: %d, %q, %q", line, code, stdout, stderr)
		}
	}
	if _, stderr, _ := vmap(t, s, "get", "svc"); strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no permission to run a command; the roles in deploy/kubectl give it") {
		t.Errorf("%q", stderr)
	}
}

// TestTerminatedCommandEnds ends a command that waits for a node, as a shell or systemd would.
func TestTerminatedCommandEnds(t *testing.T) {
	started := make(chan struct{})
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": func(r *http.Request, _ []string, _, _ io.Writer) int {
		close(started)
		<-r.Context().Done()
		return 0
	}})
	go func() {
		<-started
		if this, err := os.FindProcess(os.Getpid()); err == nil {
			_ = this.Signal(syscall.SIGTERM) // or the command ends by its time-out
		}
	}()
	if _, stderr, code := vmap(t, s, "diff", "--node-timeout=20s"); code != exit.Trouble || !strings.Contains(stderr, "terminated signal received") {
		t.Errorf("%d, %q", code, stderr)
	}
}

// TestHelpOfCommandsLeavesOutFlagsOfKubectl fails if cobra has another template of usage.
func TestHelpOfCommandsLeavesOutFlagsOfKubectl(t *testing.T) {
	s := nodestest.New(t, nil)
	for command, all := range map[string]bool{"get --help": false, "--help": true} {
		out, _, code := vmap(t, s, strings.Fields(command)...)
		if code != 0 || strings.Contains(out, "--as-group") != all || strings.HasSuffix(out, "which are kubectl's.\n") == all {
			t.Errorf("%s: exit code %d, %s", command, code, out)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestServicesAreChosenByTheirLabels has a node that knows no labels.
func TestServicesAreChosenByTheirLabels(t *testing.T) {
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": proxy("node-1", "web", "api")})
	selector := ""
	s.Handle("GET /api/v1/services", func(w http.ResponseWriter, r *http.Request) {
		selector = r.URL.Query().Get("labelSelector")
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list) // the client notices
	})
	stdout, stderr, code := vmap(t, s, "get", "svc", "-l", "tier=back", "-o", "name")
	if stdout != "service/api\n" || code != 0 || selector != "tier=back" {
		t.Errorf("%d, %q, %q, selected %q", code, stdout, stderr, selector)
	}
}
