package model

import (
	"net/netip"
	"slices"
	"testing"
)

// sourceRange returns a range of addresses of nodes and clients: 0/25 contains the
// nodes, 128/25 contains none; with 96 bits more in IPv6.
func sourceRange(f Family, k, bits int) netip.Prefix {
	return netip.PrefixFrom(nodeIP(f, k), nodeIP(f, k).BitLen()-32+bits)
}

// halves are two ranges that together contain all addresses.
func halves(f, _ Family) []netip.Prefix {
	if f == IPv4 {
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}
	}
	return []netip.Prefix{netip.MustParsePrefix("::/1"), netip.MustParsePrefix("8000::/1")}
}

func TestSourceRangesRestrictLoadBalancerIPs(t *testing.T) {
	// Prefixes are of the family tried; other is the other one.
	type ranges = func(f, other Family) []netip.Prefix
	none := func(Family, Family) []netip.Prefix { return nil }
	tests := map[string]struct {
		ranges ranges
		strict bool
		noNode bool
		// restricted and want are for the family; open means that the other one is not
		// restricted.
		restricted bool
		want       ranges
		open       bool
	}{
		"not without any": {ranges: none, want: none, open: true},
		"not without any, though strict": {
			ranges: none, want: none, strict: true, open: true,
		},
		"to the ranges of their family": {
			ranges: func(f, other Family) []netip.Prefix {
				return []netip.Prefix{sourceRange(f, 128, 25), sourceRange(other, 192, 26), sourceRange(f, 64, 26)}
			},
			restricted: true,
			want: func(f, _ Family) []netip.Prefix {
				return []netip.Prefix{sourceRange(f, 128, 25), sourceRange(f, 64, 26)}
			},
		},
		"without the bits that a range does not count": {
			ranges:     func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 137, 25)} },
			restricted: true,
			want:       func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 128, 25)} },
			open:       true,
		},
		"and leave the other family open": {
			ranges:     func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 128, 25)} },
			restricted: true,
			want:       func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 128, 25)} },
			open:       true,
		},
		"and close the other family, if strict": {
			ranges:     func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 128, 25)} },
			strict:     true,
			restricted: true,
			want:       func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 128, 25)} },
		},
		"not if one contains all addresses": {
			ranges: func(f, _ Family) []netip.Prefix {
				return []netip.Prefix{sourceRange(f, 128, 25), netip.PrefixFrom(nodeIP(f, 7), 0), sourceRange(f, 64, 26)}
			},
			want: none, open: true,
		},
		"of the family that has no range of all addresses": {
			ranges: func(f, other Family) []netip.Prefix {
				return []netip.Prefix{netip.PrefixFrom(nodeIP(other, 0), 0), sourceRange(f, 128, 25)}
			},
			strict: true, restricted: true,
			want: func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 128, 25)} },
			open: true,
		},
		"not of the other family, though strict, if one family has a range of all addresses": {
			ranges: func(f, _ Family) []netip.Prefix { return []netip.Prefix{netip.PrefixFrom(nodeIP(f, 0), 0)} },
			strict: true, want: none, open: true,
		},
		"to two halves that contain all addresses": {
			ranges: halves, noNode: true, restricted: true, want: halves, open: true,
		},
		// The node may connect, and if the load balancer IP is its own, then that is the source.
		"and if the node may, then each of these IPs": {
			ranges: func(f, other Family) []netip.Prefix {
				return []netip.Prefix{sourceRange(f, 0, 25), sourceRange(other, 128, 25)}
			},
			restricted: true,
			want: func(f, _ Family) []netip.Prefix {
				full := nodeIP(f, 0).BitLen()
				return []netip.Prefix{
					sourceRange(f, 0, 25), netip.PrefixFrom(externalIP(f, 1), full), netip.PrefixFrom(externalIP(f, 3), full),
				}
			},
		},
		"but not if the node has no address": {
			ranges: func(f, other Family) []netip.Prefix {
				return []netip.Prefix{sourceRange(f, 0, 25), sourceRange(other, 0, 25)}
			},
			noNode:     true,
			restricted: true,
			want:       func(f, _ Family) []netip.Prefix { return []netip.Prefix{sourceRange(f, 0, 25)} },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, f Family, p Protocol) {
				other := IPv4 + IPv6 - f
				node := thisNode
				if test.noNode {
					node.Addrs = Node{}.Addrs
				}
				s := webAllKinds(p, Families[:]...)
				s.LoadBalancerIPs = append(s.LoadBalancerIPs, externalIP(IPv6, 3), externalIP(IPv4, 3))
				s.SourceRanges = test.ranges(f, other)
				seen := 0
				for _, fe := range (Options{StrictSourceRanges: test.strict}).frontendsOf(&s, both(p, ready(1)), node) {
					switch {
					case fe.Kind != KindLoadBalancerIP:
						if fe.Restricted || fe.Sources != nil {
							t.Errorf("%s %s: restricted %v to %v", fe.Kind, fe.Match, fe.Restricted, fe.Sources)
						}
						continue
					case fe.Match.Family == f:
						if fe.Restricted != test.restricted || !slices.Equal(fe.Sources, test.want(f, other)) {
							t.Errorf("%s: restricted %v to %v, want %v", fe.Match, fe.Restricted, fe.Sources, test.want(f, other))
						}
					case fe.Restricted == test.open:
						t.Errorf("%s: restricted %v to %v", fe.Match, fe.Restricted, fe.Sources)
					}
					seen++
				}
				if seen != 2*len(Families) {
					t.Errorf("%d load balancer IPs", seen)
				}
			})
		})
	}
}

func TestSourceRangesDoNotDependOnEndpoints(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := webAllKinds(p, f)
		s.SourceRanges = []netip.Prefix{sourceRange(f, 128, 25)}
		got := byKind(t, Options{}.frontendsOf(&s, nil, thisNode))
		if fe := got[KindLoadBalancerIP]; fe.Verdict != VerdictReject || !fe.Restricted || !slices.Equal(fe.Sources, s.SourceRanges) {
			t.Errorf("got\n%s", frontendLines([]Frontend{*fe}))
		}
	})
}
