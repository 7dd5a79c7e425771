package takeover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/programs"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/sync"
)

// Texts of the event and the problem while another proxy runs, while its rules remain that
// only programs of iptables can change, and while neither can be read.
const (
	otherProxy = "another proxy seems to run; its tables are left untouched until it ends"
	legacyLeft = "kube-proxy left rules in iptables-legacy, which kube-vmap cannot remove; " +
		`run "kube-proxy --cleanup" on the node, kube-vmap waits for that`
	otherUnread = "cannot read whether another proxy runs or left rules; kube-vmap waits until it can"
)

// awakePeriod is how long another proxy counts as running after its rules were found, if nothing
// else shows it. If it does not write for so long, its rules are suspended again. Either way
// packets meet our rules first.
const awakePeriod = 2 * time.Minute

func (t *Takeover) look(context.Context, Proxy) (signal, error) {
	if t.stored.starts > 0 { // this one has reached its first sync
		t.storeStarts(0)
	}
	if t.findOther() {
		return signalOther, nil
	}
	return signalAlone, nil
}

func (t *Takeover) lookAgain(ctx context.Context, p Proxy) (signal, error) {
	if !sync.Sleep(ctx, pollPeriod) {
		return signalNone, nil
	}
	return t.look(ctx, p)
}

// running returns why another proxy seems to run; empty if none does.
func (t *Takeover) running() (string, error) {
	why, err := t.system.other(t.Ports)
	if why != "" {
		t.awakeUntil = time.Time{} // its end will be seen, too
	} else if time.Now().Before(t.awakeUntil) {
		why = "it writes rules"
	}
	return why, err
}

// findOther reports whether another proxy seems to run, or has left rules in iptables-legacy, and
// publishes changes of that.
func (t *Takeover) findOther() bool {
	what := otherProxy
	why, err := t.running()
	if why == "" && err == nil {
		what = legacyLeft
		why, err = t.system.legacy()
	}
	if why == "" && err != nil {
		what, why = otherUnread, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	was := t.State() == nodestatus.TakeoverOtherProxy
	switch {
	case why == "" && was:
		t.publish(nodestatus.TakeoverStarting, "", "")
		t.Log.Info("the wait for another proxy has ended")
	case why != "" && t.publish(nodestatus.TakeoverOtherProxy, what, what+": "+why):
		t.Log.Warn(what, "reason", why) //nolint:sloglint // one of these constants
		if t.Recorder != nil {
			t.Recorder.Warn(t.node(), reasons[nodestatus.TakeoverOtherProxy], what+": "+why)
		}
	}
	return why != ""
}

// other returns why another proxy seems to run; empty if none does.
func (n *node) other(ports []uint16) (string, error) {
	used, err := programs.ForeignPorts(ports...)
	switch {
	case len(used) == 1:
		return fmt.Sprintf("port %d is in use", used[0]), nil
	case len(used) > 1:
		return fmt.Sprintf("ports %d are in use", used), nil
	}
	all, _ := programs.ReadProcesses("/proc") // a container sees its own only
	return n.otherProcess(all), err
}

// legacy returns where kube-proxy's rules of iptables-legacy are; empty if there are none.
func (n *node) legacy() (string, error) {
	families, err := kubeproxy.FindLegacy(0)
	if len(families) > 0 {
		return fmt.Sprintf("chain KUBE-SERVICES in table nat of %v", families), nil
	}
	return "", err
}

// otherProcess returns which process is a kube-proxy of this node; empty if none is. Only one in
// our network namespace is: the machine may have more nodes.
func (n *node) otherProcess(all []programs.Process) string {
	for _, p := range all {
		switch {
		case p.Name != programs.KubeProxy || p.Elsewhere:
		case p.Here:
			return fmt.Sprintf("process %d is a kube-proxy", p.PID)
		case n.unknown != p.PID:
			n.unknown = p.PID
			n.Log.Info("a kube-proxy runs whose network namespace cannot be read; it is not counted as this node's", "process",
				p.PID)
		}
	}
	return ""
}

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
