package sync

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
)

// safeName is what may stand in an nft comment without a thought.
var safeName = regexp.MustCompile(`^[-_.A-Za-z0-9]*$`)

// FuzzManifest reads any bytes as a file. Whatever they are, nothing panics, and
// what comes out is what the rest of the program relies on.
func FuzzManifest(f *testing.F) {
	for _, pattern := range []string{"testdata/cluster/*", "testdata/garbled/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal("no seeds", err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for _, text := range []string{
		"kind: ServiceList\napiVersion: v1\nitems:\n- metadata: {name: a}\n- {metadata: {name: b}, kind: Node}\n- 1\n- []\n",
		"kind: List\napiVersion: v1\nitems: {a: b}\n---\nkind: List\napiVersion: v1\nitems:\n- {kind: List, apiVersion: v1, items: []}\n",
		"---\n---\n# nothing\n--- !!map {}\n...\n---\n\"a\n",
		strings.Repeat("[", 2000),
		strings.Repeat("{a: ", 500) + strings.Repeat("}", 500),
		strings.Repeat("- ", 500) + "a",
		"kind: Service\napiVersion: v1\nmetadata: &m {name: &n web}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80, name: *n}]}\nx: [*m, *m, *n]\n",
		"a: &a " + strings.Repeat("x", 1000) + "\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: [" + strings.Repeat("*b,", 100) + "]\n",
		"a: &a [*a]\n",
		"<<: &a {kind: Service, apiVersion: v1}\nmetadata: {<<: *a, name: web}\n",
	} {
		f.Add([]byte(text))
	}
	p := newParser("worker-1")
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed := p.parse("file", text)
		for _, problem := range parsed.problems {
			if problem.Error() == "" || problem.Document == 0 {
				t.Errorf("an error without a place: %v", problem)
			}
		}
		now, _ := keep(nil, parsed)
		for _, event := range changes(nil, now, "worker-1") {
			checkEvent(t, event)
		}
		if events := changes(now, now, "worker-1"); len(events) > 0 {
			t.Errorf("differs from itself: %v", events)
		}
		kept, _ := keep(now, p.parse("file", []byte("garbage: [")))
		for _, event := range changes(now, kept, "worker-1") {
			if set, ok := event.(SetService); !ok || set.Service.Created != math.MaxInt64 {
				t.Errorf("garbage changed something: %v", event)
			}
		}
		for _, event := range changes(now, objects{}, "worker-1") {
			switch event.(type) {
			case SetService, SetSlice:
				t.Errorf("without files, still there: %v", event)
			}
		}
	})
}

func checkEvent(t *testing.T, event Event) {
	switch e := event.(type) {
	case SetService:
		checkService(t, e.Service)
	case SetSlice:
		checkSlice(t, e.Slice)
	case SetNode:
		checkNames(t, e.Node.Name, e.Node.Zone)
	case SetServiceCIDRs:
		checkPrefixes(t, e.CIDRs)
	default:
		t.Errorf("%T in a first burst", event)
	}
}

func checkService(t *testing.T, s model.Service) {
	checkNames(t, s.Name.Namespace, s.Name.Name)
	if n := len(s.ClusterIPs); n < 1 || n > 2 || n == 2 && s.ClusterIPs[0].Is4() == s.ClusterIPs[1].Is4() {
		t.Errorf("ClusterIPs %v", s.ClusterIPs)
	}
	for _, list := range [][]netip.Addr{s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs} {
		for i, addr := range list {
			checkAddr(t, addr)
			if slices.Contains(list[:i], addr) || !hasFamilyOf(s.ClusterIPs, addr) {
				t.Errorf("%v among %v with ClusterIPs %v", addr, list, s.ClusterIPs)
			}
		}
	}
	checkPrefixes(t, s.SourceRanges)
	if s.Affinity < 0 || s.Affinity > 24*time.Hour || s.Affinity%time.Second != 0 {
		t.Errorf("affinity %v", s.Affinity)
	}
	if len(s.Ports) == 0 {
		t.Error("no ports")
	}
	taken := takenPorts{}
	for _, p := range s.Ports {
		checkNames(t, p.Name)
		if p.Port == 0 || !slices.Contains(model.Protocols[:], p.Protocol) || p.Name == "" && len(s.Ports) > 1 && len(taken) > 0 {
			t.Errorf("port %+v among %+v", p, s.Ports)
		}
		if err := taken.take(nil, p); err != nil {
			t.Errorf("port %+v among %+v", p, s.Ports)
		}
	}
}

func checkSlice(t *testing.T, s model.Slice) {
	checkNames(t, s.Name.Namespace, s.Name.Name, s.Service.Namespace, s.Service.Name)
	if s.Name.Namespace != s.Service.Namespace {
		t.Errorf("slice %v of Service %v", s.Name, s.Service)
	}
	for _, p := range s.Ports {
		checkNames(t, p.Name)
		if p.Port == 0 || !slices.Contains(model.Protocols[:], p.Protocol) {
			t.Errorf("port %+v", p)
		}
	}
	for _, e := range s.Endpoints {
		checkAddr(t, e.Addr)
		checkNames(t, e.Node)
		if model.FamilyOf(e.Addr) != s.Family || e.Addr.IsLinkLocalUnicast() {
			t.Errorf("endpoint %v in a slice of %v", e.Addr, s.Family)
		}
		for _, set := range []model.NameSet{e.ZoneHints, e.NodeHints} {
			if !regexp.MustCompile(`^[-_.,A-Za-z0-9]*$`).MatchString(string(set)) {
				t.Errorf("hints %q", set)
			}
		}
	}
}

func checkAddr(t *testing.T, a netip.Addr) {
	if !a.IsValid() || a.Is4In6() || a.Zone() != "" || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
		t.Errorf("address %v", a)
	}
}

func checkPrefixes(t *testing.T, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
			t.Errorf("prefix %v", p)
		}
	}
}

func checkNames(t *testing.T, names ...string) {
	for _, name := range names {
		if !safeName.MatchString(name) {
			t.Errorf("name %q", name)
		}
	}
}
