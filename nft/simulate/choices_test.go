package simulate

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// draws is a rule's beginning: numgen random mod n < 1.
func draws(n uint32, rest ...any) []any {
	return append([]any{
		&expr.Numgen{Register: unix.NFT_REG_1, Modulus: n, Type: unix.NFT_NG_RANDOM},
		&expr.Cmp{Op: expr.CmpOpLt, Register: unix.NFT_REG_1, Data: native(1)},
	}, rest...)
}

func explained(t *testing.T, f *fake) Walk {
	t.Helper()
	w, err := Explain(f.sources(), sample, Link{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// whole is the probability of all that was looked at, and of the rest.
func whole(w Walk) float64 {
	p := w.Unseen.Probability
	for _, o := range w.Outcomes {
		p += o.Probability
	}
	return p
}

func TestPicksByWhichNothingIsDecidedAreNotExplored(t *testing.T) {
	f := node()
	f.chain(otherTable, "forward", "filter", Forward, 0,
		[]any{draws(100)[0], Unknown{"byteorder"}, draws(100)[1], Unknown{"limit"}, Unknown{"xt match comment"}, &expr.Log{}},
		draws(100, &expr.Log{}), draws(100, &expr.Counter{}, &expr.Log{}), draws(1000, &expr.Meta{Key: expr.MetaKeyNFTRACE, SourceRegister: true, Register: unix.NFT_REG_1}))
	w := explained(t, f)
	if f.ways != 1 || w.Unseen != (Unseen{}) || len(w.Outcomes) != 1 || w.Outcomes[0].Probability != 1 || len(w.Doubts) > 0 {
		t.Errorf("%d ways, not looked at %+v, doubts %q, %+v", f.ways, w.Unseen, w.Doubts, w.Outcomes)
	}
}

// TestPicksBeforeWhatIsNotUnderstoodAreNotExplored has what nft makes of "numgen random
// mod 100 < 1 drop".
func TestPicksBeforeWhatIsNotUnderstoodAreNotExplored(t *testing.T) {
	f := node()
	drops := []any{draws(100)[0], Unknown{"byteorder"}, draws(100)[1], verdictOf(expr.VerdictDrop, "")}
	f.chain(otherTable, "forward", "filter", Forward, 0, drops, drops, drops)
	w := explained(t, f)
	if f.ways != 1 || len(w.Doubts) != 1 || !strings.HasSuffix(w.Doubts[0], "rule handle 1 of forward has byteorder") || w.Outcomes[0].Verdict != NotService {
		t.Errorf("%d ways, doubts %q, %+v", f.ways, w.Doubts, w.Outcomes)
	}
}

// TestARuleThatEntersIntoAMapMatters has one rule fill a map by which the next decides.
func TestARuleThatEntersIntoAMapMatters(t *testing.T) {
	f := node()
	f.shape["filled"] = &Set{KeyType: uint32(kindMark), KeyLen: 4, DataType: uint32(kindMark), IsMap: true}
	seven := func(register uint32) any { return &expr.Immediate{Register: register, Data: native(7)} }
	f.chain(otherTable, "forward", "filter", Forward, 0,
		[]any{seven(unix.NFT_REG_1), seven(unix.NFT_REG_2), &expr.Dynset{SetName: "filled", SrcRegKey: unix.NFT_REG_1, SrcRegData: unix.NFT_REG_2}},
		[]any{seven(unix.NFT_REG_1), &expr.Lookup{SetName: "filled", SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_2, IsDestRegSet: true}, verdictOf(expr.VerdictDrop, "")})
	if w := explained(t, f); w.Outcomes[0].Verdict != Dropped {
		t.Errorf("%+v", w.Outcomes)
	}
}

func TestWaysAreBounded(t *testing.T) {
	f := node()
	drops := func() []any { return draws(100, verdictOf(expr.VerdictDrop, "")) }
	f.chain(otherTable, "forward", "filter", Forward, 0, drops(), drops(), drops(), drops())
	w := explained(t, f)
	if f.ways > mostWays || f.ways < 100 {
		t.Errorf("%d ways, want no more than %d", f.ways, mostWays)
	}
	if !w.Unseen.Others || w.Unseen.Endpoints != 0 || w.Unseen.Probability <= 0 || math.Abs(whole(w)-1) > 1e-9 {
		t.Errorf("not looked at %+v, all together %v", w.Unseen, whole(w))
	}
}

// TestWaysInAllAreBounded has picks that differ from way to way.
func TestWaysInAllAreBounded(t *testing.T) {
	c, ways, all := &choices{}, 0, 0.0
	for more := true; more; more = c.advance() {
		for n := c.choose(300, true); n > 0 && len(c.made) < 9; n /= 2 {
			c.choose(n+1, false)
		}
		ways++
		all += c.probability()
	}
	if ways > mostWays || all <= 0 || all > 1 {
		t.Errorf("%d ways with a probability of %v", ways, all)
	}
}

func TestAllEndpointsAreSeenBeforeAllThatComesOfOne(t *testing.T) {
	f := node()
	f.shape["picks"] = &Set{KeyType: uint32(kindMark), KeyLen: 4, Anonymous: true}
	f.sets["picks"] = map[string]Element{}
	f.add(Chain{oursTable, "ep"}, to(endpoint))
	for n := range uint32(1000) {
		f.sets["picks"][string(native(n))] = Element{Verdict: verdictOf(expr.VerdictGoto, "ep")}
	}
	f.chain(oursTable, "nat-prerouting", "nat", Prerouting, -100, []any{
		&expr.Numgen{Register: unix.NFT_REG_1, Modulus: 1000, Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: unix.NFT_REG_1, DestRegister: 0, IsDestRegSet: true, SetName: "picks"},
	})
	w := explained(t, f)
	if want := (Unseen{Endpoints: 744, Probability: w.Unseen.Probability}); w.Unseen != want || math.Abs(w.Unseen.Probability-0.744) > 1e-9 {
		t.Errorf("a large Service: not looked at %+v", w.Unseen)
	}
	f.ways = 0
	f.chain(otherTable, "forward", "filter", Forward, 0, draws(100, verdictOf(expr.VerdictDrop, "")))
	if w = explained(t, f); f.ways != mostWays || w.Unseen.Endpoints != 744 || !w.Unseen.Others || math.Abs(whole(w)-1) > 1e-9 {
		t.Errorf("with a rule of others: %d ways, not looked at %+v, all together %v", f.ways, w.Unseen, whole(w))
	}
}

func TestAnExplanationThatNobodyWaitsForEnds(t *testing.T) {
	f := node()
	f.chain(otherTable, "forward", "filter", Forward, 0, draws(100, verdictOf(expr.VerdictDrop, "")))
	f.givesUp = 3
	if _, err := Explain(f.sources(), sample, Link{}); !errors.Is(err, errGivenUp) || f.ways != 3 {
		t.Errorf("%v after %d ways, want %v after 3", err, f.ways, errGivenUp)
	}
}

func TestStepsAreToldOnceForEachSort(t *testing.T) {
	f := node()
	f.chain(oursTable, "filter-forward", "filter", Forward, 0, draws(3, verdictOf(expr.VerdictDrop, "")))
	w := explained(t, f)
	// "Picks one of 3" is on all ways; one drops, and two go on.
	if len(w.Steps) != 2 || w.Steps[0].For != "" || w.Steps[1].Text != "dropped" || w.Steps[1].Alike != 0 {
		t.Errorf("%+v", w.Steps)
	}
	f = node()
	f.chain(oursTable, "nat-prerouting", "nat", Prerouting, -100, draws(3, to(endpoint)...), to(service))
	w = explained(t, f)
	if len(w.Steps) != 3 || w.Steps[1].For != endpoint.String() || w.Steps[1].Alike != 0 && w.Steps[1].Alike != 2 {
		t.Errorf("%+v", w.Steps)
	}
}

// TestIngressIsThatOfTheInterface has a chain that drops all that comes by eth1, eth2.
func TestIngressIsThatOfTheInterface(t *testing.T) {
	for _, tc := range []struct {
		devices []string
		from    Packet
		in      Link
		want    Verdict
	}{
		{[]string{"eth1"}, sample, eth0, NotService},
		{[]string{"eth1", "eth0"}, sample, eth0, Dropped},
		{[]string{"eth1", "eth0"}, sample, Link{Index: 9, Name: "eth00"}, NotService},
		{[]string{"eth*"}, sample, eth0, Dropped},
		{[]string{"veth*"}, sample, eth0, NotService},
		{nil, sample, eth0, NotService},
		// What the node sends itself comes in by the interface that it was sent by.
		{[]string{"eth0"}, Packet{From: nodeIP, To: netip.AddrPortFrom(nodeIP, 80), Protocol: sample.Protocol}, Link{}, Dropped},
		{[]string{"eth0"}, Packet{From: nodeIP, To: service, Protocol: sample.Protocol}, Link{}, NotService},
	} {
		f := node()
		f.chain(Table{"netdev", "guard"}, "ingress", "filter", Ingress, 0, []any{verdictOf(expr.VerdictDrop, "")})
		f.bases[len(f.bases)-1].Devices = tc.devices
		w, err := Explain(f.sources(), tc.from, tc.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Outcomes[0].Verdict; got != tc.want {
			t.Errorf("%s by %q, ingress of %q: %s, want %s", tc.from, tc.in.Name, tc.devices, got, tc.want)
		}
	}
}
