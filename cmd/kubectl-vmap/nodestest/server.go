// Package nodestest is an API server for tests with nodes whose programs are functions.
// Commands run by exec over WebSocket or SPDY, as on a real one.
package nodestest

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-vmap/cmd/kubectl-vmap/cluster"
)

// Program is kube-vmap on a node: it gets the arguments, prints, and returns its exit code.
// The request ends when the client has gone.
type Program func(request *http.Request, args []string, stdout, stderr io.Writer) int

// Prints returns a program that prints a text, whatever it is asked.
func Prints(text string) Program {
	return func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		_, _ = io.WriteString(stdout, text)
		return 0
	}
}

// Server is an API server with nodes.
type Server struct {
	URL string
	// NoWebSocket makes the server refuse WebSockets, as a proxy may.
	NoWebSocket bool
	// BrokenExec is an error of the kubelet with which commands end, unless it is empty.
	BrokenExec string
	// ChangePod changes the pods that the server returns.
	ChangePod func(*corev1.Pod)

	mux      *http.ServeMux
	programs map[string]Program
	forbid   map[string]bool
}

// New starts an API server with nodes and their programs; a node without a program has no
// pod of kube-vmap.
func New(t testing.TB, programs map[string]Program) *Server {
	t.Helper()
	s := &Server{programs: programs, forbid: map[string]bool{}}
	mux := http.NewServeMux()
	s.mux = mux
	mux.HandleFunc("GET /api/v1/nodes", s.listNodes)
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.getNode)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", s.listPods)
	mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/exec", s.exec)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Forbid denies a resource: nodes, pods or pods/exec.
func (s *Server) Forbid(resource string) *Server {
	s.forbid[resource] = true
	return s
}

// Handle adds a path, by a pattern of [http.ServeMux].
func (s *Server) Handle(pattern string, handler http.HandlerFunc) *Server {
	s.mux.HandleFunc(pattern, handler)
	return s
}

// Cluster returns the cluster behind the server.
func (s *Server) Cluster(t testing.TB, c cluster.Config) *cluster.Cluster {
	t.Helper()
	c.REST, c.Namespace = &rest.Config{Host: s.URL}, cmp.Or(c.Namespace, cluster.DefaultNamespace)
	c.Timeout, c.Concurrency = cmp.Or(c.Timeout, 10*time.Second), cmp.Or(c.Concurrency, 64)
	out, err := cluster.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Nodes returns the nodes of that cluster for a command.
func (s *Server) Nodes(t testing.TB, c cluster.Config) *cluster.Nodes {
	t.Helper()
	out := cluster.NewFlags().Nodes("")
	out.Cluster = s.Cluster(t, c)
	return out
}

// Kubeconfig writes a kubeconfig for the server, and returns its path.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	c := api.NewConfig()
	c.Clusters["test"] = &api.Cluster{Server: s.URL}
	c.Contexts["test"] = &api.Context{Cluster: "test", Namespace: "shop"}
	c.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// allowed answers a request that is forbidden.
func (s *Server) allowed(w http.ResponseWriter, resource, name string) bool {
	if s.forbid[resource] {
		reply(w, http.StatusForbidden, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, nil).Status())
	}
	return !s.forbid[resource]
}

// node returns what the metadata client asks for.
func node(name string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}},
	}
}

func (s *Server) listNodes(w http.ResponseWriter, _ *http.Request) {
	if !s.allowed(w, "nodes", "") {
		return
	}
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	for name := range s.programs {
		list.Items = append(list.Items, node(name))
	}
	reply(w, http.StatusOK, list)
}

func (s *Server) getNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !s.allowed(w, "nodes", name) {
		return
	}
	if _, there := s.programs[name]; !there {
		reply(w, http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name).Status())
		return
	}
	reply(w, http.StatusOK, node(name))
}

func (s *Server) listPods(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, "pods", "") {
		return
	}
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	_, only, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
	for name, program := range s.programs {
		if program == nil || only != "" && only != name || r.PathValue("namespace") != cluster.DefaultNamespace {
			continue
		}
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "kube-vmap-" + name, Namespace: cluster.DefaultNamespace,
				Labels: map[string]string{"app.kubernetes.io/name": "kube-vmap"},
			},
			Spec: corev1.PodSpec{NodeName: name},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "kube-vmap", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}},
		}
		if s.ChangePod != nil {
			s.ChangePod(&p)
		}
		if selector, err := labels.Parse(r.URL.Query().Get("labelSelector")); err == nil && selector.Matches(labels.Set(p.Labels)) {
			list.Items = append(list.Items, p)
		}
	}
	reply(w, http.StatusOK, list)
}

func reply(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client notices
}
