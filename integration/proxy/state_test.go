package proxy

import (
	"fmt"
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/desired"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

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

// settles waits until the kernel has the rules for the folder's manifests. Addresses that serve
// node ports are not compared: integration/matrix tests them.
func (w *watcher) settles(f *daemon.Folder, flags ...string) {
	w.t.Helper()
	config, change := desired.Rules(w.t, f.Dir(), flags...)
	eventually.Succeeds(w.t, "the kernel has the rules for the manifests", func() error {
		have := w.read()
		nodeAddrs := []netip.Addr{}
		for f, t := range have {
			if t == nil {
				continue
			}
			for _, e := range t.Sets[nft.SetID{Family: model.Family(f), Kind: nft.SetNodeIPs}.Name()].Elements {
				nodeAddrs = append(nodeAddrs, e.Key.Addr)
			}
		}
		change.NodeAddrs = &nodeAddrs
		if _, b := nft.Adopt(config, have, change); len(b) > 0 {
			return fmt.Errorf("the kernel still needs:\n%s", b)
		}
		return nil
	})
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
