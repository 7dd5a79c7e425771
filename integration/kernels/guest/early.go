package main

import (
	"regexp"
)

// early are the modules that are loaded before the first test: those for rules, flows
// and test networks. If the kernel loaded them on demand, the first program that loads a
// rule set would wait for all of them, which takes longer on an emulated processor than
// tests wait. Connection tracking helpers and br_netfilter are not among them: they
// change what happens to packets.
var early = regexp.MustCompile(`^kernel/(` +
	`net/(netfilter|ipv[46]/netfilter)/(nf_tables|nft_\w+|nf_conntrack|nf_conntrack_netlink|nf_nat|nf_reject_\w+)` +
	`|net/packet/af_packet|drivers/net/(dummy|veth))\.ko$`)

// loadEarly loads the modules that exist and are not built in.
func loadEarly() error {
	needs, err := readNeeds()
	if err != nil {
		return err
	}
	for file := range needs {
		if early.MatchString(file) {
			if err := needs.load(file); err != nil {
				return err
			}
		}
	}
	return nil
}
