package takeover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
	"kube-vmap/nft/simulate/path"
	"kube-vmap/sync"
)

// errAgain ends the process so that the next one tries again.
var errAgain = errors.New("the mark of the failed take-over was removed: starting again takes over")

// AskAgain returns whether the addresses that failed answer through kube-proxy's rules, after
// [Return], and if one does not, which rule stops its packets: that is not one of ours then, and
// kube-proxy has the same fault. It is empty if no address failed, or ctx has ended.
func (t *Takeover) AskAgain(ctx context.Context, f *FailedError) string {
	if len(f.failed) == 0 {
		return ""
	}
	var all []target
	for _, f := range f.failed {
		all = append(all, f.target)
	}
	still := failures(ctx, all, func(s target) error {
		return repeated(func() error { return t.dial(ctx, s.at) })
	})
	switch {
	case ctx.Err() != nil:
		return ""
	case len(still) == 0:
		return "through kube-proxy's rules they answer now"
	}
	first := still[0]
	text := first.service.String() + " at " + first.at.String() +
		" does not answer through kube-proxy's rules either (" + first.err.Error() + ")"
	if why := t.blame(ctx, first.at); why != "" {
		text += ": " + why
	}
	return text
}

// Stay reports that the node was returned, and what kube-proxy does, until ctx ends. It calls yield
// when kube-proxy seems to run, which wants our ports. The error is that "kube-vmap cleanup" has
// allowed another attempt. Call it after Run or Start has returned the failure.
func (t *Takeover) Stay(ctx context.Context, failure *FailedError, yield func()) error {
	t.starts = 0 // so that Stopped keeps the stored state
	var before rules
	for ctx.Err() == nil {
		if s, err := t.system.readState(); err == nil && s.returned == "" {
			return errAgain
		}
		start := time.Now()
		now, err := t.system.find()
		why := t.system.other(t.Ports)
		if why == "" && err == nil && before.nft != nil && before.nft.Content != now.nft.Content {
			why = "it writes rules"
		}
		text := failure.Error() + "; " + whatKubeProxyDoes(now, why, err) + `. "kube-vmap cleanup" allows another attempt`
		if t.publish(StateReturned, "this node was returned to kube-proxy", text) {
			t.Log.Warn("kube-vmap does nothing on this node", "reason", text)
		}
		if why != "" {
			yield()
		}
		if before.nft == nil && err == nil {
			before = now
		}
		sync.Sleep(ctx, max(pollPeriod, min(readShare*time.Since(start), maxReadPeriod)))
	}
	return nil
}

// whatKubeProxyDoes returns that, by its rules, and why it seems to run; empty if it does not.
func whatKubeProxyDoes(r rules, running string, err error) string {
	switch {
	case err != nil:
		return "kube-proxy's rules cannot be read: " + err.Error()
	case !r.serve():
		return "kube-proxy has no rules here, so that Services do not work"
	case running != "":
		return "kube-proxy's rules are in effect, and it seems to run: " + running
	}
	return "kube-proxy's rules are in effect, and follow no changes until it runs"
}

// blame returns which rule stops connections of this node to an address, or their replies, by a
// simulation as in "kube-vmap explain"; empty if none does.
func blame(ctx context.Context, to netip.AddrPort) string {
	r, err := simulateFromHere(ctx, to)
	if err != nil {
		return "which rule is the reason is not known: " + err.Error()
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		switch {
		case !o.Verdict.Arrives() && o.By != (path.RuleRef{}):
			return fmt.Sprintf("%s by %s", o.Verdict, ruleText(o.By))
		case !o.Verdict.Arrives():
			return fmt.Sprintf("%s: %s", o.Verdict, o.How)
		}
		for _, e := range o.Endpoints {
			if !e.Reply.Verdict.Arrives() && e.Reply.By != (path.RuleRef{}) {
				return fmt.Sprintf("replies of %s are %s by %s", e.Address, e.Reply.Verdict, ruleText(e.Reply.By))
			}
		}
	}
	return "no rule on this node stops it"
}

// simulateFromHere simulates a connection of this node, whose rules need not have ours.
func simulateFromHere(ctx context.Context, to netip.AddrPort) (r simulate.Result, err error) {
	from, err := source(ctx, to)
	if err != nil {
		return r, err
	}
	s, err := simulator.Open(simulator.Config{Interrupted: ctx.Err, WithoutOurs: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Run(simulate.Packet{From: from, To: to, Protocol: model.TCP}, "")
}

// source returns the address from which this node connects to another one. It sends nothing.
func source(ctx context.Context, to netip.AddrPort) (netip.Addr, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", to.String())
	if err != nil {
		return netip.Addr{}, err
	}
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), c.Close()
}

// ruleText returns a rule, or the policy of a chain, with the text that nft shows.
func ruleText(by path.RuleRef) string {
	text := "table " + by.Table + ", chain " + by.Chain
	switch {
	case by.Rule == 0:
		return text + ", its policy"
	case by.Text != "":
		return text + ": " + by.Text
	}
	return fmt.Sprintf("%s, rule handle %d", text, by.Rule)
}
