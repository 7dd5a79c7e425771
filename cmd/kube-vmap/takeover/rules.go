package takeover

import (
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/sync"
)

// A system is the node that is taken over, with the state that is stored in its kernel.
type system interface { //nolint:interfacebloat // a node, real or in a test; no part is used alone
	// other returns why another proxy seems to run; empty if none does.
	other(ports []uint16) (string, error)
	// legacy returns where kube-proxy's rules of iptables-legacy are; empty if there are none.
	legacy() (string, error)
	// find returns kube-proxy's rules.
	find() (rules, error)
	// lost returns which packets are lost that these rules delivered before; empty if none are.
	lost(sync.Snapshot, rules) (string, error)
	// suspend suspends rules, and stores a state; resume undoes that.
	suspend(rules, storedState) error
	resume() error
	// remove removes kube-proxy's rules and the stored state, and returns what it removed.
	remove(marker bool) ([]string, error)
	readState() (storedState, error)
	// store stores a state in place of another one.
	store(storedState) error
}

// rules are kube-proxy's rules in nf_tables, and the families in which iptables-legacy has some:
// a take-over waits until there are none.
type rules struct {
	nft    *kubeproxy.Found
	legacy []model.Family
}

// serve reports whether there are rules of Services, of which a kubelet before 1.28 has none:
// it only writes KUBE-POSTROUTING.
func (r rules) serve() bool {
	isService := func(p kubeproxy.Part) bool { return strings.Contains(p.Chain, "KUBE-SERVICES") }
	return len(r.legacy) > 0 || r.nft.HasTables() || slices.ContainsFunc(r.nft.Parts, isService)
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

func (*node) find() (r rules, err error) {
	if r.nft, err = kubeproxy.Find(0); err != nil {
		return r, err
	}
	r.legacy, err = kubeproxy.FindLegacy(0)
	return r, err
}

// lost simulates check packets, and those that are lost with kube-proxy's rules, too, which may have
// accepted them. So what other programs change makes no difference.
func (n *node) lost(v sync.Snapshot, r rules) (string, error) {
	targets := pathcheck.Targets(v.Installed, v.NodeAddrs)
	lost, err := pathcheck.Simulate(livenode.Config{}, func(n *livenode.Network) []pathcheck.Packet {
		return pathcheck.Choose(n, targets, nil)
	})
	lost = slices.DeleteFunc(lost, func(r pathcheck.Result) bool { return r.State != pathcheck.Lost })
	if err != nil || len(lost) == 0 {
		return "", err
	}
	then, err := pathcheck.Simulate(before(r, nil), func(*livenode.Network) (list []pathcheck.Packet) {
		for i := range lost {
			list = append(list, lost[i].Packet)
		}
		return list
	})
	for i := range then {
		// An author of Services may have changed the endpoints since kube-proxy ended.
		if then[i].State == pathcheck.Delivered && slices.Equal(then[i].Endpoints, lost[i].Endpoints) {
			return lost[i].Text, err
		}
	}
	return "", err
}

// before simulates packets as they passed kube-proxy's rules before the take-over.
func before(r rules, interrupted func() error) livenode.Config {
	view := func(_ simulate.Packet, kernel simulate.Rules) simulate.Rules {
		return kubeproxy.View{Kernel: kernel, Found: r.nft, Before: true}
	}
	return livenode.Config{WithoutOurs: true, Interrupted: interrupted, View: view}
}

func (n *node) suspend(r rules, s storedState) error {
	_, err := n.Kernel.Apply(suspension(r, s))
	return err
}

// remove takes a transaction for each family, so it stores that it has begun.
func (n *node) remove(marker bool) ([]string, error) {
	if err := n.store(storedState{removing: true}); err != nil {
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

func (n *node) store(s storedState) error { return n.replaceState(s.store()) }

func (n *node) replaceState(b nft.Batch) error {
	text, err := kubeproxy.ReadTakeoverState(0)
	if err != nil || text == "" {
		return err
	}
	_, err = n.Kernel.Apply(b)
	return err
}
