package takeover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
	"kube-vmap/nft/simulate/path"
)

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
