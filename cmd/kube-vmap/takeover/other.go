package takeover

import (
	"context"
	"fmt"
	"time"

	"kube-vmap/cmd/components"
	"kube-vmap/cmd/kube-vmap/listeners"
)

// otherProxy is the text of the event and the problem while another proxy runs.
const otherProxy = "another proxy seems to run; its tables are left untouched until it ends"

// awakePeriod is how long another proxy counts as running after its rules were found, if nothing
// else shows it. If it does not write for so long, its rules are suspended again. Either way
// packets meet our rules first.
const awakePeriod = 2 * time.Minute

// awaitAlone waits until no other proxy runs, and reports false if ctx ended first. If one
// runs, there must be none twice in a row: it may only be restarting, and meanwhile our
// servers take its ports.
func (t *Takeover) awaitAlone(ctx context.Context) bool {
	return waitUntilAlone(ctx, t.findOther)
}

func waitUntilAlone(ctx context.Context, other func() bool) bool {
	needed := 1
	for alone := 0; ; {
		if alone++; other() {
			alone, needed = 0, 2
		}
		if alone == needed {
			return true
		}
		if !sleep(ctx, pollPeriod) {
			return false
		}
	}
}

// findOther reports whether another proxy seems to run, and publishes changes of that.
func (t *Takeover) findOther() bool {
	why := t.system.other(t.Ports)
	switch {
	case why != "":
		t.seen = true
	case t.seen: // its rules are not followed up any more
		t.seen, t.awakeUntil = false, time.Time{}
	}
	if wait := time.Until(t.awakeUntil); why == "" && wait > 0 {
		why = "it writes rules"
	}
	was := t.State() == StateOtherProxy
	switch {
	case why == "" && was:
		t.publish(StateStarting, "")
		t.Log.Info("the other proxy seems to have ended")
	case why != "" && t.publish(StateOtherProxy, otherProxy+": "+why):
		t.Log.Warn(otherProxy, "reason", why)
		if t.Recorder != nil {
			t.Recorder.Warn(t.node(), reasonOther, otherProxy+": "+why)
		}
	}
	return why != ""
}

// other returns why another proxy seems to run; empty if none does.
func (n *node) other(ports []uint16) string {
	used, err := listeners.Foreign(ports...)
	switch {
	case err != nil:
		return err.Error()
	case len(used) == 1:
		return fmt.Sprintf("port %d is in use", used[0])
	case len(used) > 1:
		return fmt.Sprintf("ports %d are in use", used)
	}
	return n.otherProcess("/proc")
}

// otherProcess returns which process of a proc file system is a kube-proxy of this node; empty
// if none is. Only one in our network namespace is: the machine may have more nodes.
func (n *node) otherProcess(proc string) string {
	all, _ := components.ReadProcesses(proc) // a container sees its own only
	for _, p := range all {
		switch {
		case p.Name != components.KubeProxy || p.Elsewhere:
		case p.Here:
			return fmt.Sprintf("process %d is a kube-proxy", p.PID)
		case n.unknown != p.PID:
			n.unknown = p.PID
			n.Log.Info("a kube-proxy runs whose network namespace cannot be read; it is not counted as this node's", "process", p.PID)
		}
	}
	return ""
}
