package model

import (
	"net/netip"
	"testing"
)

func TestLastAddress(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.96.0.0/16":       "10.96.255.255",
		"10.96.0.0/12":       "10.111.255.255",
		"192.0.2.7/32":       "192.0.2.7",
		"192.0.2.6/31":       "192.0.2.7",
		"0.0.0.0/0":          "255.255.255.255",
		"255.255.255.255/32": "255.255.255.255",
		"fd00:10:96::/112":   "fd00:10:96::ffff",
		"::/0":               "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
		"2001:db8::/65":      "2001:db8::7fff:ffff:ffff:ffff",
	} {
		if got := LastAddr(netip.MustParsePrefix(prefix)); got != netip.MustParseAddr(want) {
			t.Errorf("the last address of %s is %v, want %s", prefix, got, want)
		}
	}
}
