package nft

import (
	"fmt"
	"net/netip"

	"kube-vmap/model"
)

// sampleConfig tells pods of both families from others.
var sampleConfig = Config{
	MasqueradeMark: DefaultMasqueradeMark,
	Pods: [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
		model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
	},
}

// sampleCIDRs has neighbours, and ranges up to the last address.
var sampleCIDRs = prefixesOf("10.96.0.0/16 10.97.0.0/16 255.255.255.0/24 fd00:10:96::/112 ffff::/16")

// sample is n Services of every kind of frontend in both families: with one to
// five endpoints, refused, dropped, and one with more endpoints than slots.
func sample(n int) Change {
	c := Change{ServiceCIDRs: &sampleCIDRs}
	for i := range n {
		for _, f := range model.Families {
			fe := model.Frontend{
				Match: model.Match{
					Family: f, Addr: sampleAddr(f, 96, i), Protocol: model.Protocols[i%3], Port: uint16(80 + i%2),
				},
				Masquerade: model.Masquerade(i % 3),
			}
			fe.Service.Namespace, fe.Service.Name, fe.Service.Port = "shop", fmt.Sprint("web-", i), "http"
			endpoints := 1 + i%5
			switch i % 11 {
			case 7:
				fe.Verdict, endpoints = model.Reject, 0
			case 8:
				fe.Verdict, endpoints = model.Drop, 0
			}
			if i == 9 {
				endpoints = MaxSlots + 1
			}
			for k := range endpoints {
				pod := sampleAddr(f, 244, i*5+k)
				fe.Endpoints = append(fe.Endpoints, netip.AddrPortFrom(pod, 8080))
				if k == 0 {
					fe.Hairpin = append(fe.Hairpin, pod)
				}
			}
			c.Set = append(c.Set, fe)
		}
	}
	return c
}

// sampleAddr is address n of a range.
func sampleAddr(f model.Family, net byte, n int) netip.Addr {
	a := netip.AddrFrom4([4]byte{10, net, byte(n >> 8), byte(n)})
	if f == model.IPv4 {
		return a
	}
	b := [16]byte{0xfd, 0, 0, net}
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b)
}

// load is the batch of a first load of n Services, and what comes of it.
func load(n int) (*Ruleset, Batch) { return Adopt(sampleConfig, Tables{}, sample(n)) }
