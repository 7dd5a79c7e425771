package recorder

import (
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// TestMasqueradeHasAReason has a mark, and a label in its place, as after a rule of the VPC CNI.
func TestMasqueradeHasAReason(t *testing.T) {
	for _, f := range model.Families {
		from := [...]string{model.IPv4: "192.0.2.9", model.IPv6: "2001:db8::9"}[f]
		p := simulate.Packet{From: netip.MustParseAddr(from), To: netip.AddrPortFrom(netip.MustParseAddr(from), 80)}
		jump := simulate.Event{Step: path.Step{Kind: path.StepJump, Chain: "nat-postrouting"}, Own: true, Target: "source-port"}
		masquerade := simulate.Event{Step: path.Step{Kind: path.StepMasquerade, Chain: "source-port", Text: "masquerade"}, Own: true}
		for want, load := range map[string]any{
			"it is marked: masquerade": &expr.Meta{Key: expr.MetaKeyMARK},
			"its connection is labelled, and another program has overwritten the mark: masquerade": &expr.Ct{Key: expr.CtKeyLABELS},
		} {
			jump.Expressions = []any{load}
			n, err := Recorder{}.Note(p, []simulate.Event{jump, masquerade})
			if err != nil || len(n.Steps) != 1 || n.Steps[0].Text != want || n.Steps[0].Means != string(nft.MeansMasquerades) {
				t.Errorf("%s: %+v, %v, want %q", f, n.Steps, err, want)
			}
		}
	}
}
