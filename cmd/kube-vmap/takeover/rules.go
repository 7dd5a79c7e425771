package takeover

import (
	"context"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/components"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/sync"
)

// A system is the node that is taken over, with the state that is stored in its kernel.
type system interface { //nolint:interfacebloat // a node, real or in a test; no part is used alone
	// other returns why another proxy seems to run; empty if none does.
	other(ports []uint16) string
	// legacy returns where kube-proxy's rules of iptables-legacy are; empty if there are none.
	legacy() string
	// find returns kube-proxy's rules.
	find() (rules, error)
	// suspend suspends rules, and stores the end of the probation; resume undoes that.
	suspend(rules, time.Time) error
	resume() error
	// remove removes kube-proxy's rules and the stored state, and returns what it removed.
	remove(marker bool) ([]string, error)
	readState() (storedState, error)
	// storeStarts stores the end of a probation and a number of starts, if a state is stored.
	storeStarts(until time.Time, starts int) error
}

// rules are kube-proxy's rules in nf_tables, and the families in which iptables-legacy has some:
// a take-over waits until there are none.
type rules struct {
	nft    *kubeproxy.Found
	legacy []model.Family
}

// awake returns the names of what translates packets.
func (r rules) awake() []string { return names(r.nft.Awake()) }

// suspended returns the names of what is suspended.
func (r rules) suspended() []string { return names(r.nft.Suspended()) }

// isEmpty reports whether there is nothing to suspend or resume.
func (r rules) isEmpty() bool { return len(r.awake())+len(r.suspended()) == 0 }

// serve reports whether there are rules of Services, of which a kubelet before 1.28 has none:
// it only writes KUBE-POSTROUTING.
func (r rules) serve() bool {
	return len(r.legacy) > 0 || r.nft.HasTables() || slices.ContainsFunc(append(r.awake(), r.suspended()...),
		func(name string) bool {
			return strings.Contains(name, "KUBE-SERVICES")
		})
}

func (r rules) families() (out [len(model.Families)]bool) {
	for _, p := range r.nft.Parts {
		out[p.Family] = true
	}
	for _, f := range r.legacy {
		out[f] = true
	}
	return out
}

func names(parts []kubeproxy.Part) (out []string) {
	for _, p := range parts {
		out = append(out, p.String())
	}
	return out
}

// node is the system of the calling thread's network namespace.
type node struct {
	Config
	unknown int // the process that was last logged as unknown
}

func (n *node) find() (rules, error) { return findRules() }

func findRules() (r rules, err error) {
	if r.nft, err = kubeproxy.Find(0); err != nil {
		return r, err
	}
	r.legacy, err = kubeproxy.FindLegacy(0)
	return r, err
}

func (n *node) suspend(r rules, until time.Time) error {
	_, err := n.Kernel.Apply(slices.Concat(r.nft.Suspend(), storeProbation(until, 0)))
	return err
}

// remove takes a transaction for each family, so it stores that it has begun.
func (n *node) remove(marker bool) ([]string, error) {
	if err := n.replaceState(storeRemoval()); err != nil {
		return nil, err
	}
	removed, err := kubeproxy.Remove(kubeproxy.Config{ExcludeCIDRs: n.ExcludeCIDRs, Marker: marker})
	if err == nil {
		err = n.replaceState(kubeproxy.DeleteTakeoverState())
	}
	return removed, err
}

func (n *node) resume() error {
	_, err := restore(n.Kernel, nil, kubeproxy.DeleteTakeoverState())
	return err
}

func (n *node) readState() (storedState, error) {
	text, err := kubeproxy.ReadTakeoverState(0)
	return parseState(text), err
}

func (n *node) storeStarts(until time.Time, starts int) error {
	return n.replaceState(storeProbation(until, starts))
}

func (n *node) replaceState(b nft.Batch) error {
	text, err := kubeproxy.ReadTakeoverState(0)
	if err != nil || text == "" {
		return err
	}
	_, err = n.Kernel.Apply(b)
	return err
}

// A Marker selects the nodes with the marker: tables with the name of kube-proxy's, for
// programs that look for them. Calico's Felix restarts in iptables mode when the last
// chain in them is gone, and in nftables mode when the first one comes, so that a marker
// must not be where kube-proxy was in another mode.
type Marker struct {
	Always, Never bool
	// NFTables is whether kube-proxy's mode is nftables by the configuration.
	NFTables bool
}

// wanted reports whether the marker is to be there when these rules are removed.
func (m Marker) wanted(r rules) bool {
	switch {
	case m.Always || m.Never:
		return m.Always
	case m.NFTables || r.nft.HasTables() || len(r.nft.Markers) > 0:
		return components.Has(components.Find(components.Read(components.Config{})), components.Calico)
	}
	return false
}

func missingMarkers(found *kubeproxy.Found) (b nft.Batch) {
	for _, f := range model.Families {
		if !found.HasMarker(f) && !found.HasTables() {
			b = append(b, kubeproxy.AddMarker(f)...)
		}
	}
	return b
}

// watch returns when kube-proxy has rules again, or ctx has ended. It adds the marker if that
// is wanted later: Calico may come at any time. Without rules of kube-proxy, to look for them
// takes a few requests.
func (t *Takeover) watch(ctx context.Context) {
	nextMarker := time.Now().Add(markerPeriod)
	for sync.Sleep(ctx, pollPeriod) {
		r, err := t.system.find()
		switch {
		case err != nil:
			t.Log.Debug("cannot read kube-proxy's rules", "err", err)
			continue
		case r.serve():
			t.awakeUntil = time.Now().Add(awakePeriod)
			return
		}
		if time.Now().Before(nextMarker) {
			continue
		}
		nextMarker = time.Now().Add(markerPeriod)
		if len(r.nft.Markers) < len(model.Families) && t.Marker.wanted(r) {
			if _, err := t.Kernel.Apply(missingMarkers(r.nft)); err != nil {
				t.Log.Warn("cannot add the marker for programs that look for kube-proxy's tables", "err", err)
			}
		}
	}
}
