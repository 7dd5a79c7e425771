package forward

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"text/template"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// options are the parts of the trial's rules that a test can add or leave out.
type options struct {
	remember  bool // the node of each connection
	fragments bool // remember the node of each fragmented packet
	errors    bool // forward ICMP errors by the packet that they report
	trusting  bool // also forward what another node has forwarded
}

// seed is any number that all nodes share. Numbers of slots begin above those of nodes,
// because a mark is one or the other.
const (
	seed      = 0x6b766d70
	firstSlot = 256
)

// rules are the trial's rules for a node, without those in the chains remember-ip and so on,
// which nft 1.0.6 cannot parse or encode: remember_test.go adds them.
var rules = template.Must(template.New("").Parse(`
table netdev forward {
	set node-links { type ether_addr; }
	chain ingress {
		type filter hook ingress devices = { eth0 } priority 0; policy accept;
		meta pkttype != host accept
		{{if not .Options.trusting}}ether saddr @node-links accept{{end}}
		meta protocol ip goto pick-ip
		meta protocol ip6 goto pick-ip6
	}
{{range $f := .Families}}{{with $ip := $f.Name}}
	set frontends-{{$ip}} { typeof {{$ip}} daddr . meta l4proto . th dport; }
	map slots-{{$ip}} { typeof {{$ip}} daddr . meta l4proto . th dport . meta mark : meta mark; }
	map errors-{{$ip}} { typeof {{$f.Inner}} . meta mark : meta mark; }
	map nodes-{{$ip}} { type mark : {{$f.Type}}; }
	map connections-{{$ip}} {
		typeof {{$ip}} saddr . th sport . {{$ip}} daddr . meta l4proto . th dport : meta mark
		flags dynamic,timeout; size 65536; timeout 1m;
	}
	map fragments-{{$ip}} {
		typeof {{$ip}} saddr . {{$ip}} daddr . {{$f.ID}} : meta mark
		flags dynamic,timeout; size 65536; timeout 2s;
	}
	chain remember-{{$ip}} { }
	chain remember-fragment-{{$ip}} { }
	chain find-fragment-{{$ip}} { }
	chain pick-{{$ip}} {
		{{if $.Options.fragments}}{{$f.Later}} jump find-fragment-{{$ip}}
		{{$f.Later}} goto send-{{$ip}}{{end}}
		{{if $.Options.errors}}{{$f.TooBig}} goto error-{{$ip}}{{end}}
		{{$ip}} daddr . meta l4proto . th dport != @frontends-{{$ip}} accept
		{{if $.Options.remember}}meta mark set {{$ip}} saddr . th sport . {{$ip}} daddr . meta l4proto . th dport map @connections-{{$ip}}{{end}}
		meta mark 0 jump hash-{{$ip}}
		{{if $.Options.remember}}jump remember-{{$ip}}{{end}}
		{{if $.Options.fragments}}{{$f.First}} jump remember-fragment-{{$ip}}{{end}}
		goto send-{{$ip}}
	}
	chain hash-{{$ip}} {
		meta mark set jhash {{$ip}} saddr . th sport mod {{$.Slots}} seed {{$.Seed}} offset {{$.FirstSlot}}
		meta mark set {{$ip}} daddr . meta l4proto . th dport . meta mark map @slots-{{$ip}}
	}
	chain error-{{$ip}} {
		meta mark set jhash {{$f.Client}} mod {{$.Slots}} seed {{$.Seed}} offset {{$.FirstSlot}}
		meta mark set {{$f.Inner}} . meta mark map @errors-{{$ip}}
		goto send-{{$ip}}
	}
	chain send-{{$ip}} {
		fwd {{$ip}} to meta mark map @nodes-{{$ip}} device eth0
		meta mark set 0
	}
{{end}}{{end}}
}
`))

// family is what differs between families in the rules.
type family struct {
	Name, Type string
	// ID identifies a fragmented packet. First and Later match its fragments.
	ID, First, Later string
	// TooBig matches an ICMP error. Inner are the frontend's address, protocol and port in
	// the packet that it reports, which has no options, and Client are the client's address
	// and port.
	TooBig, Inner, Client string
}

var families = [2]family{
	{
		Name: "ip", Type: "ipv4_addr",
		ID: "ip id", First: "ip frag-off & 0x3fff == 0x2000", Later: "ip frag-off & 0x1fff != 0",
		TooBig: "icmp type destination-unreachable",
		Inner:  "@th,160,32 . @th,136,8 . @th,224,16", Client: "@th,192,32 . @th,240,16",
	},
	{
		Name: "ip6", Type: "ipv6_addr",
		ID: "frag id", First: "frag frag-off 0", Later: "frag frag-off != 0",
		TooBig: "icmpv6 type packet-too-big",
		Inner:  "@th,128,128 . @th,112,8 . @th,384,16", Client: "@th,256,128 . @th,400,16",
	},
}

// program adds the trial's rules to all nodes.
func (s *scene) program(o options) {
	s.t.Helper()
	var text bytes.Buffer
	err := rules.Execute(&text, map[string]any{
		"Families": families, "Slots": model.MaglevTableSize, "Seed": seed, "FirstSlot": firstSlot,
		"Options": map[string]bool{"remember": o.remember, "fragments": o.fragments, "errors": o.errors, "trusting": o.trusting},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	var links []string
	for _, n := range s.lab.Nodes() {
		links = append(links, linkAddress(s.t, n))
	}
	fmt.Fprintf(&text, "add element netdev forward node-links { %s }\n", strings.Join(links, ", "))
	for i, n := range s.lab.Nodes() {
		nft(s.t, n.Host, "add table netdev forward\ndelete table netdev forward\n"+text.String())
		s.must(addRemember(n))
		for _, f := range model.Families {
			for j, other := range s.lab.Nodes() {
				if i != j {
					nft(s.t, n.Host, fmt.Sprintf("add element netdev forward nodes-%s { %d : %s }", families[f].Name, 1+j, other.Addr(f)))
				}
			}
		}
	}
}

// pick replaces the table of the frontend on some nodes. An element leads from a slot to
// the number of the node of its endpoint.
func (s *scene) pick(nodes []*lab.Node, endpoints ...*lab.Pod) {
	s.t.Helper()
	for _, f := range model.Families {
		var frontends, slots, errors []string
		for _, to := range s.frontends(f) {
			frontends = append(frontends, to.key())
			for k, node := range s.slots(f, endpoints) {
				slots = append(slots, fmt.Sprintf("%s . %d : %d", to.key(), firstSlot+k, node))
				errors = append(errors, fmt.Sprintf("%s . %d : %d", to.rawKey(), firstSlot+k, node))
			}
		}
		text := ""
		for name, elements := range map[string][]string{"frontends": frontends, "slots": slots, "errors": errors} {
			kind := "map"
			if name == "frontends" {
				kind = "set"
			}
			name = "netdev forward " + name + "-" + families[f].Name
			text += fmt.Sprintf("flush %s %s\nadd element %s { %s }\n", kind, name, name, strings.Join(elements, ", "))
		}
		for _, n := range nodes {
			nft(s.t, n.Host, text)
		}
	}
}

// frontend is an address and port of the Service.
type frontend struct {
	netip.AddrPort
	protocol model.Protocol
}

func (f frontend) key() string { return fmt.Sprintf("%s . %s . %d", f.Addr(), f.protocol, f.Port()) }

// rawKey is the same key for nft if the expressions before the map have no type.
func (f frontend) rawKey() string {
	return fmt.Sprintf("0x%x . %d . %d", f.Addr().AsSlice(), f.protocol, f.Port())
}

// frontends returns both ports of the Service over every protocol.
func (s *scene) frontends(f model.Family) (all []frontend) {
	for _, p := range model.Protocols {
		for n := range servicePorts {
			at := s.service.AddrPort(nil, f, model.KindLoadBalancerIP, n)
			if s.at[f].IsValid() {
				at = netip.AddrPortFrom(s.at[f], at.Port())
			}
			all = append(all, frontend{at, p})
		}
	}
	return all
}

// slots returns the number of the node for each slot of Maglev's table.
func (s *scene) slots(f model.Family, endpoints []*lab.Pod) []int {
	addrs := make([]netip.AddrPort, len(endpoints))
	for i, e := range endpoints {
		addrs[i] = e.AddrPort(f, daemon.TargetPort)
	}
	slots := make([]int, model.MaglevTableSize)
	for k, e := range maglev(addrs) {
		for i, n := range s.lab.Nodes() {
			if n.PodRange(f).Contains(e.Addr()) {
				slots[k] = 1 + i
			}
		}
	}
	return slots
}

// linkAddress returns the link-layer address of a node.
func linkAddress(t testing.TB, n *lab.Node) string {
	t.Helper()
	address := ""
	err := n.Do(func() error {
		eth0, err := net.InterfaceByName("eth0")
		if err == nil {
			address = eth0.HardwareAddr.String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// nft runs a script on a host.
func nft(t testing.TB, h *lab.Host, script string) string {
	t.Helper()
	cmd := h.Command(t.Context(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nft on %s: %v\n%s", h, err, out)
	}
	return string(out)
}
