package sync

import (
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"weak"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// TestSnapshotOutlivesTheRuleset tests that snapshots show the last installed frontends
// while the kernel is read, but the old rule set is not kept in memory.
func TestSnapshotOutlivesTheRuleset(t *testing.T) {
	l := NewLoop(Config{NodeName: "node-1"}, nil, nil, slog.New(slog.DiscardHandler))
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	change := nft.Change{NodeAddrs: &addrs}
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			key := model.Match{Family: f, Protocol: p, Addr: []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")}[f], Port: 80}
			change.Set = append(change.Set, model.Frontend{Match: key, Pool: &model.Pool{Key: key}, Verdict: model.VerdictReject})
		}
	}
	l.rules, _ = nft.Adopt(l.desired.config.Rules, nft.Tables{}, change)
	before := l.snapshot()
	removed := weak.Make(l.rules)
	l.forgetRules()
	runtime.GC()
	if removed.Value() != nil {
		t.Error("the old rule set is still in memory")
	}
	after := l.snapshot()
	if len(after.Installed) != len(before.Installed) || len(after.Installed) != len(change.Set) || !slices.Equal(after.NodeAddrs, addrs) || after.KernelKnown {
		t.Errorf("want %d frontends, got %d, at %v; kernel known: %t", len(change.Set), len(after.Installed), after.NodeAddrs, after.KernelKnown)
	}
	l.forgetRules()
	if again := l.snapshot(); len(again.Installed) != len(change.Set) {
		t.Errorf("after a second time, %d frontends", len(again.Installed))
	}
}
