package simulate

import (
	"errors"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft"
)

const tableName = nft.TableName

// way is one way of a packet through the hooks.
type way struct {
	*memo
	*choices
	packet Packet
	in     Link  // that the packet comes in by; none if the node sends it
	flow   *Flow // that the packet belongs to, or nil
	frame  frame
	conn   connection

	regs    registers
	place   place
	reason  reason
	entered map[entry]Element
	nextHop netip.Addr
	record  record
}

// errStopped tells that the packet goes no further; the record says why.
var errStopped = errors.New("stopped")

// run goes the whole way.
func (w *way) run() error {
	w.entered = map[entry]Element{}
	w.frame = frame{
		family: w.packet.Family(), protocol: w.packet.Protocol, in: w.in, sent: w.in == Link{},
		network: network(w.packet), transport: transport(w.packet),
	}
	walk := w.comesIn
	if w.frame.sent {
		walk = w.isSent
	}
	return w.all(walk)
}

// comesIn is the way of a packet from elsewhere.
func (w *way) comesIn() error {
	if err := w.hook(Ingress); err != nil {
		return err
	}
	if err := w.hook(Prerouting); err != nil {
		return err
	}
	r, err := w.routed()
	if err != nil {
		return err
	}
	if r.Local {
		return w.hook(Input)
	}
	w.frame.out = r.Out
	return w.hook(Forward, Postrouting)
}

// isSent is the way of a packet that a program of the node sends.
func (w *way) isSent() error {
	if w.packet.Protocol != model.UDP {
		if err := w.reaches(); err != nil {
			return err
		}
	}
	r, err := w.routed()
	if err != nil {
		return err
	}
	w.frame.out = r.Out
	to, mark := w.frame.destination(), w.frame.mark
	if err := w.hook(Output); err != nil {
		return err
	}
	if w.frame.destination() != to || w.frame.mark != mark {
		if r, err = w.routed(); err != nil {
			return err
		}
		w.frame.out = r.Out
	}
	if err := w.hook(Postrouting); err != nil || !r.Local {
		return err
	}
	// The loopback interface gives it back, with the connection that it has.
	w.frame.in, w.frame.out, w.frame.sent = w.frame.out, Link{}, false
	return w.hook(Ingress, Prerouting, Input)
}

// routed asks where the packet goes now.
func (w *way) routed() (Route, error) {
	way := Way{To: w.frame.destination().Addr(), From: w.frame.source().Addr(), In: w.frame.in, Mark: w.frame.mark}
	r, err := w.route(way)
	if errors.Is(err, ErrNoRoute) {
		w.unreachable(err)
		return r, errStopped
	}
	if err != nil {
		return r, err
	}
	w.nextHop = r.Via
	return r, nil
}

// via is the next hop towards an address.
func (w *way) via(a netip.Addr) netip.Addr {
	if w.nextHop.IsValid() {
		return w.nextHop
	}
	return a
}

// hook passes hooks one after the other.
func (w *way) hook(hooks ...Hook) error {
	for _, h := range hooks {
		if err := w.passes(h); err != nil {
			return err
		}
	}
	return nil
}

// passes lets the packet through the base chains of one hook.
func (w *way) passes(h Hook) error {
	list, err := w.at(h)
	if err != nil {
		return err
	}
	w.record.hook = h
	natted := false
	for _, b := range list {
		if !b.sees(w.frame.in) {
			continue
		}
		if b.priority() >= conntrackPriority && h != Ingress {
			w.track()
		}
		if natted && b.Type != natType {
			w.bind(h)
			natted = false
		}
		if b.Type == natType {
			natted = true
			if !w.conn.known || w.conn.status&h.done() != 0 {
				continue // nat is asked once for a connection
			}
		}
		if accepted, err := w.base(b); err != nil {
			return err
		} else if !accepted {
			return errStopped
		}
	}
	if h != Ingress {
		w.track()
	}
	if natted {
		w.bind(h)
	}
	return nil
}

// bind ends the work of nat at a hook: what no chain decided stays as it is, and the
// packet becomes what was decided.
func (w *way) bind(h Hook) {
	if w.conn.known {
		w.conn.status |= h.done()
		w.rewrite(h)
	}
}
