package wire

import (
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

func TestIntervalsBecomePrefixes(t *testing.T) {
	id := nft.SetID{Family: model.IPv4, Kind: nft.SetServiceCIDRs}
	mark := func(text string) nft.Element { // "10.0.0.0" begins an interval, "-10.0.0.0" ends one
		addr, ends := strings.CutPrefix(text, "-")
		el := nft.Element{Key: nft.Key{Addr: netip.MustParseAddr(addr), Bits: startMark}}
		if ends {
			el.Key.Bits = endMark
		}
		return el
	}
	for name, tt := range map[string]struct{ marks, want string }{
		"a prefix":                      {"10.96.0.0 -10.97.0.0", "10.96.0.0/16"},
		"in any order":                  {"-10.97.0.0 10.96.0.0", "10.96.0.0/16"},
		"an address":                    {"10.96.0.0 -10.96.0.1", "10.96.0.0/32"},
		"neighbours":                    {"10.96.0.0 -10.97.0.0 10.97.0.0 -10.98.0.0", "10.96.0.0/16 10.97.0.0/16"},
		"to the last address":           {"255.255.255.0", "255.255.255.0/24"},
		"the last address":              {"255.255.255.255", "255.255.255.255/32"},
		"everything":                    {"0.0.0.0", "0.0.0.0/0"},
		"a range that is none":          {"10.0.0.1 -10.0.0.6", "none"},
		"a range that is none and one":  {"10.0.0.1 -10.0.0.6 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
		"an end with no beginning":      {"-10.0.0.6", ""},
		"a beginning without its end":   {"10.0.0.0 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
		"a beginning twice, of a clash": {"10.96.0.0 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			var list []nft.Element
			for _, m := range strings.Fields(tt.marks) {
				list = append(list, mark(m))
			}
			var got []string
			for _, el := range SortElements(id, list) {
				if el.Key == (nft.Key{}) {
					got = append(got, "none")
					continue
				}
				got = append(got, el.Key.Prefix().String())
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s is read as %v, want %s", tt.marks, got, tt.want)
			}
		})
	}
}
