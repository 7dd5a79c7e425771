package lab_test

import (
	"net/netip"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// virtual is an address that the node translates to pod-1, and refused a port of it
// that the node rejects.
var virtual = [2]netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:10:96::a")}

const refused = port + 1

// TestClientsFollowNAT proves that connection tracking accepts the packets of clients
// and servers, including this package's SCTP: invalid packets are not translated.
func TestClientsFollowNAT(t *testing.T) {
	eachLink(t, func(t *testing.T, bridge bool) {
		l := labtest.New(t, lab.Options{Pods: 2, RemotePods: 1, Bridge: bridge})
		translate(t, l.Node, l.Pods[0].Host)
		serveAll(t, l.Pods[0].Host)
		forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
			for _, from := range []*lab.Host{l.Pods[1].Host, l.Node.Host, l.Outside} {
				a := must(t, from, p, netip.AddrPortFrom(virtual[f], port), patience)
				if a.Outcome != lab.Answered || a.By != "pod-1" || a.Seen != a.Local {
					t.Errorf("%s: %s after %s, from %s", from, a, a.Took, a.Local)
				}
			}
		})
	})
}

func TestPodReachesItselfThroughTheNode(t *testing.T) {
	eachLink(t, func(t *testing.T, bridge bool) {
		l := labtest.New(t, lab.Options{Pods: 1, Bridge: bridge})
		pod := l.Pods[0].Host
		translate(t, l.Node, pod)
		serveAll(t, pod)
		forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
			a := must(t, pod, p, netip.AddrPortFrom(virtual[f], port), patience)
			if a.Outcome != lab.Answered || a.By != pod.Name || a.Seen.Addr() != l.Node.Gateway(f) {
				t.Errorf("%s after %s, from %s", a, a.Took, a.Local)
			}
		})
	})
}

func TestRejectedPortIsRefusedImmediately(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	translate(t, l.Node, l.Pods[0].Host)
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host, l.Outside} {
			for range 20 { // more than the kernel's default rate limit for ICMP allows
				a := must(t, from, p, netip.AddrPortFrom(virtual[f], refused), patience)
				if a.Outcome != lab.Refused || a.Took > soon {
					t.Fatalf("%s: %s after %s", from, a, a.Took)
				}
			}
		}
	})
}

// translate adds rules to the node, for all protocols: packets to port at the virtual
// addresses go to the pod, masqueraded if the pod itself asks. Packets to refused are
// rejected.
func translate(t *testing.T, node *lab.Node, pod *lab.Host) {
	t.Helper()
	err := node.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		for _, f := range model.Families {
			addRules(c, f, pod.Addr(f))
		}
		return c.Flush()
	})
	if err != nil {
		t.Fatalf("add rules to %s: %v", node, err)
	}
}

func addRules(c *nftables.Conn, f model.Family, pod netip.Addr) {
	family := [2]nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}[f]
	table := c.AddTable(&nftables.Table{Family: family, Name: "lab"})
	add := func(chain *nftables.Chain, exprs ...[]expr.Any) {
		r := &nftables.Rule{Table: table, Chain: chain}
		for _, e := range exprs {
			r.Exprs = append(r.Exprs, e...)
		}
		c.AddRule(r)
	}
	base := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Table: table, Name: name, Type: kind, Hooknum: hook, Priority: priority})
	}
	nat, filter := nftables.ChainTypeNAT, nftables.ChainTypeFilter
	prerouting := base("prerouting", nat, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	output := base("output", nat, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	postrouting := base("postrouting", nat, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	forward := base("forward", filter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	local := base("filter-output", filter, nftables.ChainHookOutput, nftables.ChainPriorityFilter)

	for _, chain := range []*nftables.Chain{prerouting, output} {
		add(chain, destination(virtual[f]), toPort(port), dnat(family, pod))
	}
	add(postrouting, source4or6(pod), destination(pod), []expr.Any{&expr.Masq{}})
	for _, chain := range []*nftables.Chain{forward, local} {
		add(chain, destination(virtual[f]), toPort(refused), reject(family))
	}
}

// destination is "ip daddr" or "ip6 daddr".
func destination(a netip.Addr) []expr.Any { return address(a, 16, 24) }

// source4or6 is "ip saddr" or "ip6 saddr".
func source4or6(a netip.Addr) []expr.Any { return address(a, 12, 8) }

func address(a netip.Addr, offset4, offset6 uint32) []expr.Any {
	offset := offset6
	if a.Is4() {
		offset = offset4
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(a.AsSlice()))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: a.AsSlice()},
	}
}

// toPort is "th dport", which has the same offset in all protocols here; ICMP errors
// have another number there.
func toPort(p uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(p)},
	}
}

func dnat(family nftables.TableFamily, to netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1},
	}
}

// reject is "reject", with port unreachable for every protocol.
func reject(family nftables.TableFamily) []expr.Any {
	code := uint8(3)
	if family == nftables.TableFamilyIPv6 {
		code = 4
	}
	return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: code}}
}
