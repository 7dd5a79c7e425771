// Package predict compares what `kube-vmap explain` predicts for packets with what happens to
// them.
package predict

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

const (
	// answer is how long an answer may take on a busy machine.
	answer = 5 * time.Second
	// silence is how long to wait for an answer that must not come.
	silence = 200 * time.Millisecond
	// Packets that are dropped are sent many at a time, because each takes its timeout.
	atATime, silentAtATime = 16, 256
)

// A Prediction is a packet, its sender, and the result of the simulation.
type Prediction struct {
	simulate.Packet
	Host   *lab.Host
	Result simulate.Result
}

// mayBeSilent reports whether that may be, by the endpoint that is picked.
func (p Prediction) mayBeSilent() bool {
	dropped := func(o path.Outcome) bool {
		return o.Verdict == path.VerdictDropped || o.Verdict == path.VerdictUnreachable
	}
	return p.LosesReply() || slices.ContainsFunc(p.Result.Outcomes, dropped)
}

// LosesReply reports whether the packet may arrive at an endpoint whose reply the client does
// not get.
func (p Prediction) LosesReply() bool {
	return slices.ContainsFunc(p.Result.Outcomes, func(o path.Outcome) bool {
		return slices.ContainsFunc(o.Endpoints, func(e path.Endpoint) bool { return !getsReply(e) })
	})
}

func getsReply(e path.Endpoint) bool { return e.Reply.Verdict == path.VerdictDelivered }

// A Comparer sends packets in a lab.
type Comparer struct {
	*lab.Lab
	// Serves reports whether a host has a server at a port.
	Serves func(h *lab.Host, port uint16) bool
}

// isSilent reports whether nothing may come back, because no host has a server there, or the
// packet or its reply is dropped.
func (c Comparer) isSilent(p Prediction) bool {
	return !slices.ContainsFunc(p.Result.Outcomes, func(o path.Outcome) bool {
		unserved := o.Verdict == path.VerdictNotService && !c.serves(p.To)
		return o.Verdict == path.VerdictRefused || !unserved && slices.ContainsFunc(o.Endpoints, getsReply)
	})
}

// Wrong sends the packets, those that are not answered last, and returns an error for each one of
// which the prediction is wrong.
func (c Comparer) Wrong(batch []Prediction) []error {
	var loud, silent []Prediction
	for _, p := range batch {
		if c.isSilent(p) {
			silent = append(silent, p)
		} else {
			loud = append(loud, p)
		}
	}
	return append(c.send(loud, atATime), c.send(silent, silentAtATime)...)
}

// send sends packets, some at a time, and returns errors for wrong predictions.
func (c Comparer) send(batch []Prediction, limit int) []error {
	errs := make([]error, len(batch))
	var group errgroup.Group
	group.SetLimit(limit)
	for i, p := range batch {
		group.Go(func() error { errs[i] = c.check(p); return nil })
	}
	_ = group.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// check sends a packet and compares the answer with the prediction.
func (c Comparer) check(p Prediction) error {
	wait := answer
	if p.mayBeSilent() || c.isSilent(p) {
		wait = silence
	}
	got, err := p.Host.AskTwice(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, wait)
	if err != nil {
		return err
	}
	for _, o := range p.Result.Outcomes {
		if c.matches(o, p, got) {
			return nil
		}
	}
	return fmt.Errorf("%s by %s: %s, predicted %+v, doubts %q", p.Packet, p.Host, got, p.Result.Outcomes, p.Result.Doubts)
}

func (c Comparer) matches(o path.Outcome, p Prediction, got lab.Answer) bool {
	switch o.Verdict {
	case path.VerdictRefused:
		prohibited := o.How == simulate.HowError && got.Outcome == lab.Unreachable
		return got.Outcome == lab.Refused || prohibited
	case path.VerdictDropped:
		return got.Outcome == lab.TimedOut
	case path.VerdictUnreachable:
		return got.Outcome == lab.TimedOut || got.Outcome == lab.Unreachable
	case path.VerdictNotService:
		if got.Outcome != lab.Answered {
			return !c.serves(p.To) || !slices.ContainsFunc(o.Endpoints, getsReply)
		}
		h := c.host(p.To.Addr())
		return h != nil && got.By == h.Name && slices.ContainsFunc(o.Endpoints, func(e path.Endpoint) bool {
			return getsReply(e) && e.Sees == got.Seen.Addr()
		})
	case path.VerdictDelivered:
		return slices.ContainsFunc(o.Endpoints, func(e path.Endpoint) bool { return c.isFrom(e, o.Masquerade, p, got) })
	}
	return false
}

func (c Comparer) isFrom(e path.Endpoint, masquerade bool, p Prediction, got lab.Answer) bool {
	if !getsReply(e) {
		return got.Outcome != lab.Answered
	}
	// A rule of iptables redirects to the node, which does not serve all ports, or returns the
	// packet to its sender, which does not take it.
	if (e.Node || e.Address == e.Sees) && got.Outcome != lab.Answered {
		return true
	}
	// The source port may differ: another masqueraded connection may use it.
	anyPort := masquerade || p.Host == c.Node.Host
	h := c.host(e.Address)
	if e.Node {
		h = c.Node.Host
	}
	return e.Probability > 0 && got.Outcome == lab.Answered && h != nil && h.Name == got.By &&
		e.Sees == got.Seen.Addr() && (anyPort || e.Sees != p.From || got.Seen == got.Local)
}

// serves reports whether a host has a server at an address.
func (c Comparer) serves(a netip.AddrPort) bool {
	h := c.host(a.Addr())
	return h != nil && c.Serves(h, a.Port())
}

// host returns the host that has the address; nil if there is none.
func (c Comparer) host(a netip.Addr) *lab.Host {
	for _, h := range c.Hosts() {
		if h.Addr(model.FamilyOf(a)) == a {
			return h
		}
	}
	return nil
}
