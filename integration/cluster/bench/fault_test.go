package bench

import (
	"context"
	"fmt"
	"syscall"

	"kube-vmap/integration/lab"
)

// faults are what can happen to node-3.
var faults = map[string]func(*rig) error{
	"link":    (*rig).cutLink,
	"stop":    (*rig).stopPods,
	"backlog": (*rig).fillBacklogs,
	"route":   (*rig).loseWay,
}

// cutLink takes the node away from all others, and its kubelet from the API server.
func (r *rig) cutLink() error {
	if err := r.silence(); err != nil {
		return err
	}
	return command(r.Lab.Third.Host, "ip", "link", "set", "eth0", "down")
}

// stopPods stops the process of the pods: the kernel goes on with handshakes.
func (r *rig) stopPods() error { return r.server.Process.Signal(syscall.SIGSTOP) }

// fillBacklogs is stopPods at the time when the kernel has no room for more connections that
// no one accepts.
func (r *rig) fillBacklogs() error {
	if err := r.stopPods(); err != nil {
		return err
	}
	for _, b := range r.backlogs {
		if err := b.Shrink(); err != nil {
			return err
		}
	}
	return nil
}

// loseWay drops packets between node-1 and node-3 on the bridge between the nodes.
func (r *rig) loseWay() error {
	for _, n := range []*lab.Node{r.Lab.Node, r.Lab.Third} { // isolated ports do not reach each other
		if err := command(r.Lab.Outside, "bridge", "link", "set", "dev", n.Name, "isolated", "on"); err != nil {
			return err
		}
	}
	return nil
}

func command(on *lab.Host, name string, args ...string) error {
	out, err := on.Command(context.Background(), name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}
