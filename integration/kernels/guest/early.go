package main

import (
	"regexp"
)

// early are the modules that are there before the first test: what rules, flows
// and the networks of tests are made of. If the kernel asked for each when a rule
// first needs it, the first program to load a rule set would wait for all of them,
// which takes an emulated processor longer than a test waits. Helpers that look
// into the data of flows are not among them, nor what bridges give to netfilter:
// that changes what happens to packets.
var early = regexp.MustCompile(`^kernel/(` +
	`net/(netfilter|ipv[46]/netfilter)/(nf_tables|nft_\w+|nf_conntrack|nf_conntrack_netlink|nf_nat|nf_reject_\w+)` +
	`|net/packet/af_packet|drivers/net/(dummy|veth))\.ko$`)

// loadEarly loads them. What a kernel does not have, or has built in, is not
// missed.
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
