package takeover

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kube-vmap/cmd/programs"
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

// waitUntilAlone waits until no other proxy runs, and reports false if ctx ended first. If one
// runs, there must be none twice in a row: it may only be restarting, and meanwhile our
// servers take its ports.
func waitUntilAlone(ctx context.Context, other func() bool) bool {
	needed := 1
	for alone := 0; ; {
		if alone++; other() {
			alone, needed = 0, 2
		}
		if alone == needed {
			return true
		}
		if !sync.Sleep(ctx, pollPeriod) {
			return false
		}
	}
}

// findOther reports whether another proxy seems to run, or has left rules in iptables-legacy, and
// publishes changes of that.
func (t *Takeover) findOther() bool {
	what := otherProxy
	why, err := t.system.other(t.Ports)
	switch {
	case err != nil:
	case why != "":
		t.seen = true
	case t.seen: // its rules are not followed up any more
		t.seen, t.awakeUntil = false, time.Time{}
	}
	if wait := time.Until(t.awakeUntil); why == "" && wait > 0 {
		why = "it writes rules"
	}
	if why == "" && err == nil {
		what = legacyLeft
		why, err = t.system.legacy()
	}
	if why == "" && err != nil {
		what, why = otherUnread, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	was := t.State() == StateOtherProxy
	switch {
	case why == "" && was:
		t.publish(StateStarting, "", "")
		t.Log.Info("the wait for another proxy has ended")
	case why != "" && t.publish(StateOtherProxy, what, what+": "+why):
		t.Log.Warn(what, "reason", why) //nolint:sloglint // one of these constants
		if t.Recorder != nil {
			t.Recorder.Warn(t.node(), reasons[StateOtherProxy], what+": "+why)
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
