package simulator

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/nft/simulate"
)

func TestAgesOfARecentAddress(t *testing.T) {
	now := clock{ticks: 10_000, perSecond: 100}
	for text, want := range map[string][]time.Duration{
		"src=10.0.0.1 ttl: 64 last_seen: 9900 oldest_pkt: 2 9000, 9900": {10 * time.Second, time.Second},
		"src=10.0.0.1 ttl: 64 last_seen: 10001 oldest_pkt: 1 10001":     {0}, // a tick later
		"src=10.0.0.1 ttl: 64": nil,
		"":                     nil,
	} {
		if got := now.ages(strings.Fields(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestDecodeSocketWithoutOptionsIsUndecided(t *testing.T) {
	message := make([]byte, diagMessageSize)
	option := []byte{6, 0, diagSocketOption, 0, transparentBit, 0, 0, 0}
	if got, err := decodeSocket(slices.Concat(message, option)); err != nil || got != (simulate.Socket{Found: true, Wildcard: true, Transparent: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, b := range [][]byte{nil, message, slices.Concat(message, []byte{9})} {
		if got, err := decodeSocket(b); err == nil {
			t.Errorf("%d bytes: %+v", len(b), got)
		}
	}
}

// FuzzLines proves that no line of a file makes a reader panic.
func FuzzLines(f *testing.F) {
	f.Add("src=10.0.0.1 ttl: 64 last_seen: 9900 oldest_pkt: 2 9000, 9900\n 0: 0100007F:1F90")
	f.Fuzz(func(_ *testing.T, text string) {
		_ = eachLine(strings.NewReader(text), func(fields []string) bool {
			clock{ticks: 1, perSecond: 1}.ages(fields)
			return true
		})
	})
}

func TestNodeWithoutFilesHasNothing(t *testing.T) {
	s := &state{}
	for _, list := range []string{"no-such-list", "../tcp"} {
		if ages, err := s.RecentAges(list, netip.MustParseAddr("10.0.0.1")); err != nil || ages != nil {
			t.Errorf("%s: %v, %v", list, ages, err)
		}
	}
}
