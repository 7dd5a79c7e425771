package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// checkLinks notes what may stop a packet on its links, which is not simulated: tables of bridges
// and of ARP, and what the bridge itself does not send on.
func (w *walk) checkLinks(bridged bool) error {
	hasBridge := false
	for i, l := range [...]Link{w.frame.in, w.frame.out} {
		ports, err := w.portsOf(l)
		if err != nil {
			return err
		}
		if hasBridge = hasBridge || len(ports) > 0; i == 0 && bridged {
			w.checkPorts(l, ports)
		}
	}
	for _, b := range w.linkChains {
		isARP := b.Table.Family == "arp"
		rules, err := w.rulesOf(b.Chain)
		stops := hasBridge && (b.Drop || len(rules.rules) > 0)
		if err == nil && isARP && b.Hook != HookForward {
			stops, err = w.stopsARP(b)
		}
		if err != nil {
			return err
		}
		if stops && (!isARP || w.frame.family == model.IPv4) {
			w.addNodeDoubt(fmt.Sprintf("table %s, chain %s, is not simulated", b.Table, b.Name))
		}
	}
	return nil
}

// stopsARP reports whether a chain of ARP may stop what the node and its neighbours send to find each
// other: where the packet comes in, and where it leaves.
func (w *walk) stopsARP(b BaseChain) (bool, error) {
	if w.frame.family != model.IPv4 {
		return false, nil
	}
	from, err := w.wayTo(w.frame.source().Addr(), w.frame.destination().Addr())
	if err != nil && !errors.Is(err, ErrNoRoute) {
		return false, err
	}
	from.Via = cmp.Or(from.Via, w.frame.source().Addr())
	for i, l := range [...]Link{w.frame.in, w.frame.out} {
		neighbour := [...]netip.Addr{from.Via, w.via(w.frame.destination().Addr())}[i]
		if l == (Link{}) || l.Name == loopback {
			continue
		}
		const sender, target = 14, 24 // the addresses of IPv4
		again := w.clone()
		again.choices, again.record = &choices{perPick: 1, walks: 1}, record{hook: b.Hook, later: true}
		again.frame = frame{network: header(unknownValue(28)), transport: header(unknownValue(4))}
		again.frame.network.set(0, []byte{0, 1, 8, 0, 6, 4, 0}) // a request or a reply
		if b.Hook == HookInput {
			again.frame.in = l
			again.frame.network.set(sender, neighbour.AsSlice())
		} else {
			again.frame.out = l
			again.frame.network.set(target, neighbour.AsSlice())
		}
		accepted, err := again.runBaseChain(b)
		if err = again.noteUnknown(err); err != nil {
			return false, err
		}
		if !accepted || len(again.record.doubts)+len(again.made) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// isPortHooked reports whether the packet passes the hooks of IP at the port of a bridge, before the
// bridge itself receives it, if it does (br_netfilter).
func (w *walk) isPortHooked() (bool, error) {
	name := [...]string{model.IPv4: "iptables", model.IPv6: "ip6tables"}[w.frame.family]
	value := w.sysctl("net/bridge/bridge-nf-call-" + name)
	ports, err := w.portsOf(w.frame.in)
	return len(ports) > 0 && value != "" && value != "0", err
}

// isBridged reports whether to assume that the client sends the packet to another port of a bridge,
// past all hooks of IP.
func (w *walk) isBridged() (bool, error) {
	ports, err := w.portsOf(w.frame.in)
	if len(ports) == 0 || w.answered != nil {
		return false, err
	}
	r, err := w.route(RouteQuery{To: w.frame.destination().Addr()})
	if r.Local || r.Out != w.frame.in || r.Via.IsValid() {
		if errors.Is(err, ErrNoRoute) {
			err = nil
		}
		return false, err // it is for the bridge itself
	}
	bridged := w.assume(Doubt{Why: "packets between ports of " + r.Out.Name + " do not pass the hooks (br_netfilter)"})
	if bridged {
		w.frame.out = r.Out
	}
	return bridged, nil
}

// mayBeUnrouted reports whether a bridge may send the packet on although it has no route. It routes
// those that are translated (br_nf_pre_routing_finish), and others are not for a port if routes show
// another way.
func (w *walk) mayBeUnrouted(noRoute error) (bool, error) {
	ports, err := w.portsOf(w.frame.in)
	if err != nil || len(ports) == 0 {
		return false, err
	}
	translated, why := uint32(statusDestNAT), unix.Errno(0)
	if w.conn.reply {
		translated = statusSourceNAT
	}
	dropped := w.conn.status&translated != 0 && errors.As(noRoute, &why) && why != unix.EHOSTUNREACH
	r, err := w.route(RouteQuery{To: w.frame.destination().Addr()})
	if errors.Is(err, ErrNoRoute) {
		return !dropped, nil
	}
	return !dropped && r.Out == w.frame.in && !r.Via.IsValid(), err
}

// passPorts passes chains at a hook of the ports of a bridge, by one of which the packet comes in or
// leaves. The doubt is that which one is not known.
func (w *walk) passPorts(h Hook, bridge *Link) error {
	ports, err := w.portsOf(*bridge)
	for _, b := range slices.Concat(w.baseChains[h]...) {
		var on []Link // none first, if other ports exist
		for _, p := range ports {
			if on = append(on, p.Link); !b.isOn(p.Link) {
				on = union([]Link{{}}, on[:len(on)-1])
			}
		}
		i := 0
		if len(on) > 1 {
			i = w.assumeOneOf(len(on), Doubt{Why: fmt.Sprintf("table %s, chain %s, sees packets of ports of %s, "+
				"and by which one they come or leave is not known", b.Table, b.Name, bridge.Name)})
		}
		if len(on) == 0 || on[i] == (Link{}) {
			continue
		}
		whole := *bridge
		w.record.hook, *bridge = h, on[i]
		accepted, err := w.runBaseChain(b)
		*bridge = whole
		switch {
		case err != nil:
			return err
		case !accepted:
			return errStopped
		}
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
