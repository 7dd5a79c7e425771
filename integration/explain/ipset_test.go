package explain

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// sets returns the sets of a family, as `ipset restore` reads them, and matches of them. Members
// are pods 1 and 2, their ports and ranges.
func (r *rig) sets(f model.Family) (text string, matches []string) {
	family, bits := [...]string{"inet", "inet6"}[f], [...]int{32, 128}[f]
	a, b := r.servers[0].Addr(f), r.servers[1].Addr(f)
	all := r.Node.PodRange(f)
	half := netip.PrefixFrom(a, bits-1).Masked()
	var out strings.Builder
	add := func(name, kind string, members ...string) {
		name += [...]string{"-4", "-6"}[f]
		if kind != "list:set" && !strings.HasPrefix(kind, "bitmap:") {
			kind += " family " + family
		}
		fmt.Fprintf(&out, "create %s %s\n", name, kind)
		for _, m := range members {
			fmt.Fprintf(&out, "add %s %s\n", name, m)
		}
		matches = append(matches, name)
	}
	port := daemon.TargetPort
	add("ip", "hash:ip", a.String(), b.String())
	add("ip-timeout", "hash:ip timeout 600", a.String()+" timeout 300", b.String()+" timeout 0") // 0 is for ever
	add("ip-counters", "hash:ip counters comment", a.String()+" comment \"a b\"")
	add("ip-masked", fmt.Sprintf("hash:ip netmask %d", bits-1), a.String())
	add("net", "hash:net", all.String(), half.String()+" nomatch", b.String())
	add("net-empty", "hash:net")
	add("ip-port", "hash:ip,port", fmt.Sprintf("%s,tcp:%d", a, port), fmt.Sprintf("%s,udp:%d", b, port+1), fmt.Sprintf("%s,sctp:%d", b, port))
	add("ip-port-ip", "hash:ip,port,ip", fmt.Sprintf("%s,tcp:%d,%s", a, port, b), fmt.Sprintf("%s,udp:%d,%s", b, port, a))
	add("net-port", "hash:net,port", fmt.Sprintf("%s,tcp:%d", all, port), fmt.Sprintf("%s,udp:%d", half, port+1))
	add("ip-port-net", "hash:ip,port,net", fmt.Sprintf("%s,tcp:%d,%s", a, port, all), fmt.Sprintf("%s,sctp:%d,%s", b, port, half))
	add("net-iface", "hash:net,iface", fmt.Sprintf("%s,eth0", all), fmt.Sprintf("%s,%s", half, r.Pods[0].Link))
	if f == model.IPv4 {
		add("bitmap", "bitmap:ip range "+all.String(), a.String())
		add("bitmap-port", fmt.Sprintf("bitmap:port range %d-%d", port, port+1), fmt.Sprint(port))
	}
	suffix := [...]string{"-4", "-6"}[f]
	add("list", "list:set", "ip-masked"+suffix, "ip-port"+suffix, "net-empty"+suffix)
	return out.String(), matches
}

// directions are the parts of keys, of which a match may have more than its set.
var directions = []string{"src", "dst", "src,dst", "dst,dst", "dst,src", "dst,dst,src", "src,dst,dst"}

// TestExplainAgreesWithIPSets has sets of each kind, and is certain of all of them.
func TestExplainAgreesWithIPSets(t *testing.T) {
	r := newBareRig(t)
	random := rand.New(rand.NewPCG(16, 5))
	verdicts := map[string]int{}
	for _, f := range model.Families {
		text, names := r.sets(f)
		labtest.Run(t, r.Node.Host, text, "ipset", "restore")
		for _, name := range names {
			for _, direction := range directions {
				match := fmt.Sprintf("-m set %s--match-set %s %s", pick(random, []string{"", "", "! "}), name, direction)
				if strings.HasPrefix(name, "net-") && random.IntN(2) == 0 || strings.HasPrefix(name, "net-4") {
					match += pick(random, []string{" --return-nomatch", ""})
				}
				r.load(f, refusing(f, hooked{"filter", "FORWARD"}, match))
				if doubts := r.sendsDirect(random, f, 10, verdicts); len(doubts) > 0 {
					t.Fatalf("%s: not certain: %q", match, doubts)
				}
				if t.Failed() {
					t.Fatal(match)
				}
			}
		}
	}
	t.Log(verdicts)
	if verdicts[path.VerdictRefused] < 150 {
		t.Error("too few packets are in a set")
	}
}
