package simulate

import (
	"fmt"
	"slices"

	"kube-vmap/model"
)

// checkLinks notes what may stop a packet on its links, which is not simulated: tables of bridges
// and of ARP, chains of the ports of a bridge, and what the bridge itself does not send on.
func (w *walk) checkLinks(bridged bool) error {
	families := map[string]bool{"arp": w.frame.family == model.IPv4}
	for i, l := range [...]Link{w.frame.in, w.frame.out} {
		ports, err := w.portsOf(l)
		if err != nil {
			return err
		}
		if len(ports) == 0 {
			continue
		}
		families["bridge"] = true
		if err := w.checkPortChains([...]Hook{HookIngress, HookEgress}[i], l, ports); err != nil {
			return err
		}
		switch {
		case i > 0 || w.frame.in != w.frame.out:
		case bridged:
			w.checkPorts(l, ports)
		case w.answered == nil && w.frame.destination() == w.packet.To:
			w.addNodeDoubt("packets between ports of " + l.Name + " do not pass the hooks (br_netfilter)")
		}
	}
	for _, b := range w.linkChains {
		if err := w.doubtChain(b, families[b.Table.Family], "is not simulated"); err != nil {
			return err
		}
	}
	return nil
}

// checkPortChains notes chains at a hook of ports, one of which the packet passes.
func (w *walk) checkPortChains(h Hook, bridge Link, ports []Port) error {
	for _, b := range slices.Concat(w.baseChains[h]...) {
		passes := slices.ContainsFunc(ports, func(p Port) bool { return b.isOn(p.Link) })
		why := "sees packets of ports of " + bridge.Name + ", and by which one they come or leave is not known"
		if err := w.doubtChain(b, passes, why); err != nil {
			return err
		}
	}
	return nil
}

// doubtChain notes a chain that may stop the packet, unless it can have no effect.
func (w *walk) doubtChain(b BaseChain, passes bool, why string) error {
	if !passes {
		return nil
	}
	rules, err := w.rulesOf(b.Chain)
	if err == nil && (b.Drop || len(withEffect(rules.rules)) > 0) {
		w.addNodeDoubt(fmt.Sprintf("table %s, chain %s, %s", b.Table, b.Name, why))
	}
	return err
}

// checkPorts notes what a bridge does not send from port to port.
func (w *walk) checkPorts(bridge Link, ports []Port) {
	same := w.packet.From == w.frame.destination().Addr() ||
		w.answered != nil && w.answered.client.Addr() == w.answered.endpoint.Addr()
	if same && slices.ContainsFunc(ports, func(p Port) bool { return !p.Hairpin }) {
		w.addNodeDoubt("ports of bridge " + bridge.Name + " send no packets back to where they came from (hairpin is off)")
	}
	isolated := 0
	for _, p := range ports {
		if p.Isolated {
			isolated++
		}
	}
	if isolated > 1 {
		w.addNodeDoubt("ports of bridge " + bridge.Name + " are isolated from each other")
	}
}

func (w *walk) portsOf(l Link) ([]Port, error) {
	if w.Host == nil || l == (Link{}) {
		return nil, nil
	}
	return w.ports.get(l, func() ([]Port, error) { return w.Host.Ports(l) })
}

// sysctl returns a setting of the node; empty if it is not known.
func (w *walk) sysctl(name string) string {
	if w.Host == nil {
		return ""
	}
	return w.Host.Sysctl(name)
}
