package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"

	command "kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate/path"
)

func TestExplainEndsWhenCanceled(t *testing.T) {
	r, web := newServing(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := r.packet(daemon.Transports()[0], web)
	o := command.Options{From: p.From.String(), To: fmt.Sprintf("%s/%s", p.To, p.Protocol)}
	ask := func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		return nil, client.ErrNotRunning
	}
	run := func() error { _, err := command.Run(ctx, o, ask, io.Discard); return err }
	if err := r.Node.Do(run); !errors.Is(err, context.Canceled) {
		t.Errorf("%s: %v, want %v", p, err, context.Canceled)
	}
}

// TestSourcesTranslatedByOtherPrograms has another program's rule that changes the client's
// address to one of the node, or to one that no host has.
func TestSourcesTranslatedByOtherPrograms(t *testing.T) {
	r, web := newServing(t, 1)
	for _, virtual := range []bool{false, true} {
		for _, w := range transports() {
			source := r.Node.Addr(w.Family)
			text := "this node is seen as the client"
			if virtual {
				source = daemon.ClientAddr(w.Family, 250)
				text = source.String() + " is seen as the client"
			}
			r.nft(fmt.Sprintf("table %s egress { chain post { type nat hook postrouting priority 90; ct status dnat snat to %s; }; }", nft.FamilyName(w.Family), source))
			p := r.packet(w, web)
			o := single(t, r.explain(p))
			e := o.Endpoints[0]
			if e.Sees != source || o.Masquerade == virtual || e.Reply.Verdict != path.VerdictDelivered {
				t.Errorf("%s: %+v", p, o)
			}
			r.expect(0, []string{text + " (table " + nft.FamilyName(w.Family) + " egress, chain post", ", which answers " + p.From.String() + "; the client gets the reply"},
				"--from="+p.From.String(), to(p.To, p.Protocol))
			got, err := r.Pods[3].AskFrom(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, answer)
			if err != nil || got.Outcome != lab.Answered || got.Seen.Addr() != source {
				t.Errorf("%s: %s, %v, want it seen from %s", p, got, err, source)
			}
			r.nft("delete table " + nft.FamilyName(w.Family) + " egress")
		}
	}
}

// TestDestinationsTranslatedToAClusterIP has another program's rule that translates an address to
// a ClusterIP and port that exist, before our chains could translate it to an endpoint.
func TestDestinationsTranslatedToAClusterIP(t *testing.T) {
	r, web := newServing(t, 1)
	for _, w := range transports() {
		p := r.packet(w, web)
		clusterIP := p.To
		p.To = netip.AddrPortFrom(daemon.ClientAddr(w.Family, 251), p.To.Port())
		r.nft(fmt.Sprintf("table %s early { chain pre { type nat hook prerouting priority -110; %s daddr %s dnat to %s; }; }",
			nft.FamilyName(w.Family), nft.FamilyName(w.Family), p.To.Addr(), clusterIP.Addr()))
		o := single(t, r.explain(p))
		if o.Verdict != path.VerdictRefused || o.Reason != path.ReasonTranslated {
			t.Errorf("%s: %+v", p, o)
		}
		got, err := r.Pods[3].AskFrom(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, answer)
		if err != nil || got.Outcome != lab.Refused {
			t.Errorf("%s: %s, %v, want a refusal", p, got, err)
		}
		r.nft("delete table " + nft.FamilyName(w.Family) + " early")
	}
}
