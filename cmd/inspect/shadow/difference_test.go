package shadow

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/nft/foreign/simulate"
)

// spread returns the outcome of a packet that goes to endpoints with these shares.
func spread(shares ...float64) outcome {
	o := outcome{endpoints: map[netip.AddrPort]target{}}
	o.verdicts[simulate.VerdictDelivered] = 1
	for i, p := range shares {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 1, byte(i + 1)}), 8080)
		o.endpoints[at] = target{probability: p, remembered: time.Minute, sticks: true}
	}
	return o
}

func ending(v simulate.Verdict, how string) outcome {
	o := outcome{how: how}
	o.verdicts[v] = 1
	return o
}

// edited returns an outcome of which every endpoint is changed.
func edited(o outcome, edit func(*target)) outcome {
	for e, t := range o.endpoints {
		edit(&t)
		o.endpoints[e] = t
	}
	return o
}

func TestDifferencesNameWhatDiffers(t *testing.T) {
	third := 1.0 / 3
	rounded := 0.33333333349 // as kube-proxy writes it for iptables
	unclear := ending(simulate.VerdictDelivered, "")
	unclear.unknown = "a match"
	for _, tc := range []struct {
		name         string
		ours, theirs outcome
		ranges       bool
		want         []string
	}{
		{"equal", spread(0.5, 0.5), spread(0.5, 0.5), false, nil},
		{"rounded", spread(third, third, third), spread(rounded, (1-rounded)*0.5, (1-rounded)*0.5), false, nil},
		{"shares", spread(0.5, 0.5), spread(0.6, 0.4), false, []string{KindShares}},
		{"an endpoint more", spread(third, third, third), spread(0.5, 0.5), false, []string{KindEndpoints}},
		{"dropped", spread(1), ending(simulate.VerdictDropped, ""), false, []string{KindVerdict}},
		{"dropped by the client's address", spread(1), ending(simulate.VerdictDropped, ""), true, []string{KindSourceRanges}},
		{"another answer", ending(simulate.VerdictRefused, simulate.HowReset), ending(simulate.VerdictRefused, "ICMP"), false, []string{KindVerdict}},
		{"not understood", spread(1), unclear, false, []string{KindUnknown}},
		{"masquerade", spread(1), edited(spread(1), func(t *target) { t.masquerade = true }), false, []string{KindMasquerade}},
		{"time", spread(1), edited(spread(1), func(t *target) { t.remembered *= 2 }), false, []string{KindAffinity}},
		{"several", spread(0.5, 0.5), edited(spread(0.9, 0.1), func(t *target) { t.masquerade, t.sticks = true, false }), false, []string{KindShares, KindMasquerade, KindAffinity}},
	} {
		var got []string
		for _, d := range differences(&tc.ours, &tc.theirs, tc.ranges) {
			got = append(got, d.Kind)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestDifferencesOfARoundAreLimited reports more than a round keeps.
func TestDifferencesOfARoundAreLimited(t *testing.T) {
	r := &Report{}
	const more = 7
	for i := range maxDifferences + more {
		r.add([]Difference{{Service: fmt.Sprint(i), Clients: []string{"pod"}}, {Service: fmt.Sprint(i), Clients: []string{"node"}}})
	}
	r.add([]Difference{{Service: "shop/web", Clients: []string{"pod"}, Intended: "weights"}})
	if n := len(r.Differences); n != maxDifferences || r.More != more {
		t.Errorf("%d are kept and %d more, want %d and %d", n, r.More, maxDifferences, more)
	}
	if clients := r.Differences[0].Clients; !slices.Equal(clients, []string{"pod", "node"}) {
		t.Errorf("the first one has the clients %v", clients)
	}
}
