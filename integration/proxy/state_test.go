package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	settings "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/manifests"
)

// state is the rule set that manifests and flags lead to.
type state struct {
	config nft.Config
	change nft.Change
}

// stateOf computes the state for the folder's present manifests.
func stateOf(t testing.TB, f *daemon.Folder, flags ...string) state {
	t.Helper()
	events, errs := manifests.Load(f.Dir(), "node-1")
	if len(errs) > 0 {
		t.Fatalf("read %s: %v", f.Dir(), errs)
	}
	s := state{config: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, DropInvalid: settings.DistrustsOldData(), CountConnections: true}}
	for _, flag := range flags {
		switch name, value, _ := strings.Cut(flag, "="); name {
		case "--cluster-cidr":
			for i, text := range strings.Split(value, ",") {
				s.config.Pods[i] = netip.MustParsePrefix(text)
			}
		case "--pod-interface-name-prefix", "--pod-bridge-interface":
			s.config.PodInterface = nft.Interface{Name: value, Prefix: name == "--pod-interface-name-prefix"}
		case "--detect-local-mode":
			if value == "NodeCIDR" {
				s.config.Pods = lab.PodRanges
			}
		}
	}
	var options model.Options
	for _, f := range model.Families {
		options.DetectsPods[f] = s.config.DetectsPods(f)
	}
	options.MasqueradeAll = slices.Contains(flags, "--masquerade-all")
	s.change = changeOf(options, events)
	return s
}

// changeOf returns everything that the events describe.
func changeOf(o model.Options, events []sync.Event) nft.Change {
	services := model.NewServiceMap(o, model.Node{Name: "node-1"})
	cidrs := []netip.Prefix{}
	for _, e := range events {
		switch e := e.(type) {
		case sync.SetService:
			services.SetService(e.Service)
		case sync.SetSlice:
			services.SetSlice(e.Slice)
		case sync.SetNode:
			services.SetNode(e.Node)
		case sync.SetServiceCIDRs:
			cidrs = e.CIDRs
		}
	}
	services.Changes()
	return nft.Change{Set: services.Frontends(), ServiceCIDRs: &cidrs}
}

// difference returns an error if the kernel's tables differ from the state. Endpoints
// may be in any slot, but slots must be dense and each endpoint in one of them.
// Addresses that serve node ports are not compared: integration/matrix tests them.
func (s state) difference(have nft.Tables) error {
	nodeAddrs := []netip.Addr{}
	for f, t := range have {
		if t == nil {
			continue
		}
		for _, e := range t.Sets[nft.SetID{Family: model.Family(f), Kind: nft.SetNodeIPs}.Name()].Elements {
			nodeAddrs = append(nodeAddrs, e.Key.Addr)
		}
	}
	s.change.NodeAddrs = &nodeAddrs
	if _, b := nft.Adopt(s.config, have, s.change); len(b) > 0 {
		return fmt.Errorf("the kernel still needs:\n%s", b)
	}
	return nil
}

// watcher reads the tables in a host's kernel.
type watcher struct {
	t *testing.T
	k *kernel.Kernel
}

func watch(t *testing.T, h *lab.Host) *watcher {
	t.Helper()
	w := &watcher{t: t}
	err := h.Do(func() (err error) { w.k, err = kernel.Open(kernel.Config{}); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.k.Close() })
	return w
}

// settles waits until the kernel has the rules for the folder's manifests.
func (w *watcher) settles(f *daemon.Folder, flags ...string) {
	w.t.Helper()
	want := stateOf(w.t, f, flags...)
	eventually.Succeeds(w.t, "the kernel has the rules for the manifests", func() error { return want.difference(w.read()) })
}

// read returns the tables without their owner.
func (w *watcher) read() nft.Tables {
	w.t.Helper()
	tables, err := w.k.Read()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range tables {
		if t != nil {
			t.Protected, t.Owner, t.Foreign = false, 0, false
		}
	}
	return tables
}

func (w *watcher) generation() uint32 {
	w.t.Helper()
	g, err := w.k.Generation()
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// addresses lets go-cmp compare addresses.
var addresses = cmpopts.EquateComparable(
	netip.Addr{}, netip.AddrPort{}, unique.Handle[netip.Prefix]{}, unique.Handle[nft.Sticky]{})

// unchanged checks that the tables are the same as before.
func (w *watcher) unchanged(before nft.Tables) {
	w.t.Helper()
	if diff := cmp.Diff(before, w.read(), addresses); diff != "" {
		w.t.Errorf("the tables changed (-before +after):\n%s", diff)
	}
}
