package proxy

import (
	"strings"
	"testing"
)

// neighbours are tables of others, as like ours as can be.
var neighbours = strings.Join([]string{
	"table ip kube-vmap-2 { chain nat-prerouting { type nat hook prerouting priority dstnat; counter; }; chain ep-0 { accept; }; }",
	"table inet kube-vmap { set cluster-ips { type ipv4_addr; elements = { 192.0.2.7 }; }; chain c { ip daddr @cluster-ips accept; }; }",
	"table arp kube-vmap { chain c { }; }",
	"table ip kube-proxy-other { map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }; }",
	"table ip6 filter { chain forward { type filter hook forward priority filter; policy accept; }; }",
}, "\n")

func TestCleanupRemovesOurTablesAndNoOthers(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	s := service{name: "web", address: 1, endpoints: "pod-1 pod-2"}
	f.put("web.yaml", s)
	runNFT(t, l.Node.Host, neighbours)
	before := runNFT(t, l.Node.Host, "list", "ruleset")

	d := start(t, l.Node, f.dir, podRanges)
	w.settles(f.dir, podRanges)
	s.endpoints = "pod-1"
	f.put("web.yaml", s)
	w.settles(f.dir, podRanges)
	d.stop()

	if out := run(t, l.Node.Host, "cleanup"); out.code != 0 || out.stdout != "" || out.stderr != "" {
		t.Errorf("cleanup: %v", out)
	}
	if after := runNFT(t, l.Node.Host, "list", "ruleset"); after != before {
		t.Errorf("with others' tables untouched, the rule set would be\n%s\nand is\n%s", before, after)
	}
	generation := w.generation()
	if out := run(t, l.Node.Host, "cleanup"); out.code != 0 || out.stdout != "" || out.stderr != "" {
		t.Errorf("cleanup where nothing is left: %v", out)
	}
	if w.generation() != generation {
		t.Error("cleanup wrote although nothing was left")
	}
}
