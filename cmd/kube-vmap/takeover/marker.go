package takeover

import (
	"context"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/programs"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/sync"
)

// A Marker selects the nodes with the marker: tables with the name of kube-proxy's, for
// programs that look for them. Calico's Felix restarts in iptables mode when the last
// chain in them is gone, and in nftables mode when the first one is added: a marker
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
		return programs.Has(programs.Find(programs.Read(programs.Config{})), programs.Calico)
	}
	return false
}

// remove removes what kube-proxy left.
func (t *Takeover) remove(ctx context.Context, _ Proxy) (signal, error) {
	if t.findOther() { // it may have started meanwhile
		return signalOther, nil
	}
	var removed []string
	r, err := t.system.find()
	if err == nil {
		t.Marker.NFTables = t.Marker.NFTables || r.nft.HasTables() // Calico may come later
		t.stored.removing = true
		removed, err = t.system.remove(t.Marker.wanted(r))
	}
	if len(removed) > 0 {
		t.Log.Info("removed what kube-proxy left", "removed", strings.Join(removed, ", "))
	}
	if err != nil {
		return t.retry(ctx, retryPeriod, err)
	}
	t.stored, t.sample = storedState{}, nil
	t.changes.watch(nil)
	t.publish(nodestatus.TakeoverDone, "", "")
	return signalRemoved, nil
}

// watch watches until kube-proxy has rules again. It adds the marker if that is wanted later:
// Calico may come at any time. Without rules of kube-proxy, to look for them takes a few requests.
func (t *Takeover) watch(ctx context.Context, _ Proxy) (signal, error) {
	nextMarker := time.Now().Add(markerPeriod)
	for sync.Sleep(ctx, pollPeriod) {
		r, err := t.system.find()
		switch {
		case err != nil:
			t.Log.Debug("cannot read kube-proxy's rules", "err", err)
			continue
		case r.serve():
			t.awakeUntil = time.Now().Add(awakePeriod)
			t.findOther()
			return signalOther, nil
		}
		if time.Now().Before(nextMarker) {
			continue
		}
		nextMarker = time.Now().Add(markerPeriod)
		if len(r.nft.Markers) < len(model.Families) && t.Marker.wanted(r) {
			both := slices.Concat(kubeproxy.AddMarker(model.IPv4), kubeproxy.AddMarker(model.IPv6))
			if _, err := t.Kernel.Apply(both); err != nil {
				t.Log.Warn("cannot add the marker for programs that look for kube-proxy's tables", "err", err)
			}
		}
	}
	return signalNone, nil
}
