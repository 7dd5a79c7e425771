package nodestate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
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

func TestParseAddrPortOfProc(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000:0035":                         "0.0.0.0:53",
		"B80D0120000000000000000001000000:0050": "[2001:db8::1]:80",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
		"rubbish":                               "invalid AddrPort",
		"0100007:1F90":                          "invalid AddrPort",
	} {
		if got := parseAddrPort(text).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// FuzzLines proves that no line of a file makes a reader panic.
func FuzzLines(f *testing.F) {
	f.Add("src=10.0.0.1 ttl: 64 last_seen: 9900 oldest_pkt: 2 9000, 9900\n 0: 0100007F:1F90")
	f.Fuzz(func(_ *testing.T, text string) {
		_ = eachLine(strings.NewReader(text), func(fields []string) bool {
			clock{ticks: 1, perSecond: 1}.ages(fields)
			for _, field := range fields {
				parseAddrPort(field)
			}
			return true
		})
	})
}

func TestNodeWithoutFilesHasNothing(t *testing.T) {
	s := New(0)
	for _, list := range []string{"no-such-list", "../tcp"} {
		if ages, err := s.RecentAges(list, netip.MustParseAddr("10.0.0.1")); err != nil || ages != nil {
			t.Errorf("%s: %v, %v", list, ages, err)
		}
	}
}
