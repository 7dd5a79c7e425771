package build_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodes/onetest"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/source/manifests"
)

var update = flag.Bool("update", false, "rewrite the golden documents")

// golden compares a text with a file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func cluster(t *testing.T) []sync.Event {
	t.Helper()
	events, problems := manifests.Load("../../../../sync/source/manifests/testdata/cluster", "worker-1")
	if len(problems) > 0 {
		t.Log(problems) // some files of the folder are not manifests
	}
	return events
}

// TestDocumentGolden compares with a readable document, of the first port of each Service.
func TestDocumentGolden(t *testing.T) {
	d, _ := both(t, cluster(t))
	for i := range d.Services {
		d.Services[i].Ports = d.Services[i].Ports[:1]
	}
	got, err := json.MarshalIndent(d, "", "\t")
	must(t, err)
	golden(t, "testdata/daemon.json", append(got, '\n'))
}

// TestKernelDocumentGolden has what kube-vmap get prints of the tables, with a Service that uses the
// endpoint of this node only, and two source ranges.
func TestKernelDocumentGolden(t *testing.T) {
	local, _, _ := one(model.IPv6, model.SCTP, 2)
	web, slice := local[0].(sync.SetService), local[1].(sync.SetSlice)
	web.Service.InternalPolicy, slice.Slice.Endpoints[1].Node = model.PolicyLocal, "worker-1"
	web.Service.LoadBalancerIPs = []netip.Addr{address(model.IPv6, 97, 1)}
	web.Service.SourceRanges = []netip.Prefix{netip.MustParsePrefix("2001:db8:2::/48"), netip.MustParsePrefix("2001:db8:1::/48")}
	_, d := both(t, append(cluster(t), web, slice))
	node := onetest.Node(func(context.Context, nodestatus.Query) (*nodestatus.Document, error) { return d, nil })
	var got bytes.Buffer
	for _, resource := range []string{"services", "frontends", "endpoints"} {
		o := get.Options{Args: []string{resource}, AllNamespaces: true, Output: "wide"}
		must(t, get.Run(t.Context(), o, node, &got, &got))
	}
	golden(t, "testdata/kernel.txt", got.Bytes())
}

func address(f model.Family, net byte, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, net, byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 3: net, 14: byte(n >> 8), 15: byte(n)})
}

func TestQuerySelectsServices(t *testing.T) {
	v := loop(t, cluster(t))
	whole := build.FromSnapshot(&v, nodestatus.Query{}, then)
	for _, tc := range []struct {
		query nodestatus.Query
		want  int
	}{
		{nodestatus.Query{}, 4},
		{nodestatus.Query{Namespace: "default"}, 2},
		{nodestatus.Query{Namespace: "other"}, 0},
		{nodestatus.Query{Name: "web"}, 1},
		{nodestatus.Query{Namespace: "default", Name: "web"}, 1},
		{nodestatus.Query{Namespace: "other", Name: "web"}, 0},
	} {
		got := build.FromSnapshot(&v, tc.query, then)
		if len(got.Services) != tc.want {
			t.Errorf("%+v: %d Services, want %d", tc.query, len(got.Services), tc.want)
		}
		for _, s := range got.Services {
			i := slices.IndexFunc(whole.Services, func(o nodestatus.Service) bool { return o.Name == s.Name })
			if diff := cmp.Diff(whole.Services[i], s); diff != "" {
				t.Errorf("%+v: -whole +asked\n%s", tc.query, diff)
			}
		}
	}
	for i, s := range build.FromSnapshot(&v, nodestatus.Query{Brief: true}, then).Services {
		if want := whole.Services[i].EndpointCount(); s.Addresses == nil || s.EndpointCount() != want {
			t.Errorf("in brief, %s has %+v, want %+v", s.Name, s.Addresses, want)
		}
		if got, want := s.State(), whole.Services[i].State(); got != want || !cmp.Equal(s.Problems, whole.Services[i].Problems) {
			t.Errorf("in brief, %s is %s, want %s, with %v and %v", s.Name, got, want, s.Problems, whole.Services[i].Problems)
		}
		for _, p := range s.Ports {
			if len(p.Endpoints) > 0 || len(p.Frontends) == 0 {
				t.Errorf("in brief, %s has %d endpoints and %d frontends", s.Name, len(p.Endpoints), len(p.Frontends))
			}
		}
	}
}

// TestTablesThatNoPacketReachesProgramNothing has the kernel's tables as another program left them.
func TestTablesThatNoPacketReachesProgramNothing(t *testing.T) {
	for _, f := range model.Families {
		events, _, _ := one(f, model.TCP, 2)
		for name, damage := range map[string]func(*nft.Table){
			"none":     func(*nft.Table) {},
			"flushed":  func(table *nft.Table) { table.Chains["dispatch"] = nft.ChainState{} },
			"disabled": func(table *nft.Table) { table.Dormant = true },
		} {
			k := kerneltest.New()
			statustest.Snapshot(t, config, k, events, nil)
			tables, err := k.Read()
			must(t, err)
			damage(tables[f])
			want := nodestatus.ReasonNotProgrammed
			if name == "none" {
				want = nodestatus.StateProgrammed
			}
			d := build.FromTables(tables, nodestatus.Query{}, then)
			if len(d.Services) != 1 || d.StateOf(&d.Services[0]) != want {
				t.Errorf("%s, %s: %+v, want %s", f, name, d.Services, want)
			}
		}
	}
}
