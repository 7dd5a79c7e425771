package main

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/healthtest"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

// at sets what the node has seen.
func at(services, slices string) func(*nodestatus.Document, *nodestatus.Health) {
	return func(_ *nodestatus.Document, h *nodestatus.Health) {
		h.Positions = []nodestatus.Position{{Kind: "Service", ResourceVersion: services}, {Kind: "EndpointSlice", ResourceVersion: slices}}
	}
}

func TestLagComparesNumbers(t *testing.T) {
	api := objectVersions{
		"Service":       {"9", "99", "100", "1001", "123456789012345678901234567890"},
		"EndpointSlice": {"7", "8"},
	}
	for _, test := range []struct {
		services, slices string
		want             status.Lag
	}{
		{"123456789012345678901234567890", "8", status.Lag{}},
		{"123456789012345678901234567889", "8", status.Lag{Services: 1}},
		{"1000", "7", status.Lag{Services: 2, EndpointSlices: 1}},
		{"100", "6", status.Lag{Services: 2, EndpointSlices: 2}},
		{"99", "1000", status.Lag{Services: 3}},
		{"10", "1000", status.Lag{Services: 4}},
		{"", "", status.Lag{Services: 5, EndpointSlices: 2}},
	} {
		got, err := api.lag(healthtest.Document(at(test.services, test.slices)).Health)
		if err != nil || *got != test.want {
			t.Errorf("at %q and %q: %+v, %v, want %+v", test.services, test.slices, got, err, test.want)
		}
	}
	if _, err := api.lag(healthtest.Document(at("1000", "abc")).Health); err == nil {
		t.Errorf("resource versions that are no numbers: %v", err)
	}
	if got, err := api.lag(&nodestatus.Health{}); got != nil || err != nil {
		t.Errorf("without positions: %+v, %v", got, err)
	}
}

// serveObjects adds a server's Services and EndpointSlices, in pages of one.
func serveObjects(t *testing.T, s *nodestest.Server, versions ...int) *nodestest.Server {
	return s.Handle("GET /api/v1/services", servePage(t, "Service", versions)).
		Handle("GET /apis/discovery.k8s.io/v1/endpointslices", servePage(t, "EndpointSlice", versions))
}

// servePage returns a handler of a list without the content of objects.
func servePage(t *testing.T, kind string, versions []int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") || q.Get("limit") == "" {
			t.Errorf("request for whole objects, or without pages: %s, %s", r.URL, r.Header.Get("Accept"))
		}
		if q.Get("labelSelector") == "" || (q.Get("fieldSelector") == "") != (kind == "EndpointSlice") {
			t.Errorf("request with other selectors: %s", r.URL)
		}
		at, _ := strconv.Atoi(q.Get("continue"))
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		list.Items = []metav1.PartialObjectMetadata{{
			TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: metav1.ObjectMeta{Name: kind, ResourceVersion: strconv.Itoa(versions[at])},
		}}
		if at+1 < len(versions) {
			list.Continue = strconv.Itoa(at + 1)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list) // the client notices
	}
}

func answer(documents ...*nodestatus.Document) nodestest.Program {
	asked := 0
	return func(_ *http.Request, args []string, stdout, _ io.Writer) int {
		d := documents[min(asked, len(documents)-1)]
		if asked++; !slices.Equal(args, []string{"status", "-o", "json", "--health"}) {
			return 9
		}
		_ = d.Write(stdout)
		return 0
	}
}

func TestNodeThatCatchesUpIsNotBehind(t *testing.T) {
	s := serveObjects(t, nodestest.New(t, map[string]nodestest.Program{
		"catches-up": answer(healthtest.Document(at("1000", "1001")), healthtest.Document(at("1003", "1004"))),
		"stays":      answer(healthtest.Document(at("1000", "1001"))),
		"well":       answer(healthtest.Document(at("1003", "1003"))),
	}), 1003, 7, 1002)
	out, errs, code := s.Command(t, statusCommand)
	for _, want := range []string{"stays        v1.2.3    True    4 ", "catches-up   v1.2.3    True    0 ", "well         v1.2.3    True    0 "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if code != 1 || errs != "" || t.Failed() {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestExitCodes(t *testing.T) {
	well := func() nodestest.Program { return answer(healthtest.Document(at("9", "9"))) }
	bad := answer(healthtest.Document(at("9", "9"), func(_ *nodestatus.Document, h *nodestatus.Health) { h.Refused.Ports = 1 }))
	for name, test := range map[string]struct {
		programs map[string]nodestest.Program
		forbid   string
		args     []string
		code     int
		contains string
	}{
		"well":            {map[string]nodestest.Program{"a": well(), "b": well()}, "", nil, 0, "2 nodes: 0 not known, 0 with problems"},
		"problem":         {map[string]nodestest.Program{"a": well(), "b": bad}, "", nil, 1, "the kernel refuses 1 Service port"},
		"no pod":          {map[string]nodestest.Program{"a": well(), "b": nil}, "", nil, 0, "1 node without kube-vmap: b\n"},
		"no pod of its":   {map[string]nodestest.Program{"a": well(), "b": nil}, "", []string{"--node", "a,b"}, 1, "no pod of kube-vmap is on this node"},
		"one node":        {map[string]nodestest.Program{"a": well(), "b": bad}, "", []string{"--node", "a"}, 0, "a: kube-vmap v1.2.3, healthy\n  LAG "},
		"bad node":        {map[string]nodestest.Program{"a": well(), "b": bad}, "", []string{"--node", "b"}, 1, "  PROBLEM       the kernel refuses 1 Service port\n"},
		"old":             {map[string]nodestest.Program{"a": well(), "b": nodestest.Prints(`{"node":"b","version":"v0.1.0"}`)}, "", nil, 2, "runs kube-vmap v0.1.0, which does not report its health"},
		"exec forbidden":  {map[string]nodestest.Program{"a": well()}, "pods/exec", nil, 2, "no permission"},
		"nodes forbidden": {map[string]nodestest.Program{"a": well()}, "nodes", nil, 2, "no permission to list nodes"},
		"no such format":  {map[string]nodestest.Program{"a": well()}, "", []string{"-o", "xml"}, 2, "-o xml: use wide, json or yaml"},
		"no such flag":    {map[string]nodestest.Program{"a": well()}, "", []string{"--no-such"}, 2, "unknown flag"},
	} {
		s := serveObjects(t, nodestest.New(t, test.programs), 8, 9)
		if test.forbid != "" {
			s.Forbid(test.forbid)
		}
		out, errs, code := s.Command(t, statusCommand, test.args...)
		if code != test.code || !strings.Contains(out+errs, test.contains) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", name, code, test.code, out, errs)
		}
	}
}

func TestLagNeedsPermission(t *testing.T) {
	forbidden := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", nil).Status())
	}
	s := nodestest.New(t, map[string]nodestest.Program{"a": answer(healthtest.Document())}).Handle("GET /api/v1/services", forbidden)
	out, errs, code := s.Command(t, statusCommand)
	if code != exit.Trouble || !strings.Contains(errs, "LAG is not known: no permission to list services, which the ClusterRole in deploy/kubectl gives") ||
		!strings.Contains(out, "a      v1.2.3    True    -     0") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
