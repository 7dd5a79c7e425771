package proxy

import (
	"fmt"
	"net/netip"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/desired"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// state is the rule set that manifests and flags lead to.
type state struct {
	config nft.Config
	change nft.Change
}

// stateOf computes the state for the folder's present manifests.
func stateOf(t testing.TB, f *daemon.Folder, flags ...string) state {
	t.Helper()
	config, change := desired.Rules(t, f.Dir(), flags...)
	return state{config, change}
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
	netip.Addr{}, netip.AddrPort{}, unique.Handle[netip.Prefix]{})

// unchanged checks that the tables are the same as before.
func (w *watcher) unchanged(before nft.Tables) {
	w.t.Helper()
	if diff := cmp.Diff(before, w.read(), addresses); diff != "" {
		w.t.Errorf("the tables changed (-before +after):\n%s", diff)
	}
}
