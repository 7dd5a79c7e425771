package explain

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

func (r *rig) plainMatches(random *rand.Rand, f model.Family) []string {
	not := func() string { return pick(random, []string{"", "! "}) }
	pod := pick(random, r.servers).Addr(f)
	return []string{
		not() + "-s " + pod.String(), not() + "-d " + pod.String(), not() + "-s " + r.Node.PodRange(f).String(),
		"-m comment --comment \"a b\"",
		"-m mark " + not() + "--mark 0x1/0x1", "-m connmark " + not() + "--mark 0x1/0x1",
		"-m conntrack " + not() + "--ctstate NEW,UNTRACKED", "-m conntrack --ctstate INVALID,DNAT", "-m conntrack " + not() + "--ctstate SNAT",
		"-m conntrack " + not() + "--ctorigdst " + pod.String(), "-m conntrack --ctorigsrc " + r.Node.PodRange(f).String(),
		"-m conntrack " + not() + "--ctreplsrc " + pod.String(), "-m conntrack --ctstate NEW --ctproto udp",
		fmt.Sprintf("-m conntrack --ctorigdstport %d:%d", daemon.TargetPort, daemon.TargetPort+1),
		"-m conntrack --ctdir ORIGINAL", "-m conntrack " + not() + "--ctstatus SEEN_REPLY", "-m conntrack " + not() + "--ctstatus NONE",
		"-m state --state NEW",
		"-m addrtype " + not() + "--src-type LOCAL", "-m addrtype " + not() + "--dst-type LOCAL", "-m addrtype " + not() + "--dst-type UNICAST",
		fmt.Sprintf("-m iprange %s--src-range %s-%s", not(), r.Node.PodRange(f).Addr(), pod),
		fmt.Sprintf("-m iprange --dst-range %s-%s", r.Node.PodRange(f).Addr(), pod),
		"-m statistic --mode random --probability 0.4", "-m statistic --mode nth --every 3 --packet 1",
		"-m limit --limit 5/sec", "-m hashlimit --hashlimit-upto 5/sec --hashlimit-mode srcip --hashlimit-name h",
		"-m recent --name some --set",
		"-m u32 --u32 \"0&0xF0=0x30\"", "-m length --length 0:65535", "-m pkttype --pkt-type unicast",
		"-m pkttype " + not() + "--pkt-type broadcast", "-m helper --helper ftp",
		[...]string{"-m helper ! --helper ftp", "-m rt --rt-type 0"}[f], [...]string{"-m recent --name some --rcheck", "-m frag --fragid 1"}[f],
	}
}

func (r *rig) portMatches(random *rand.Rand) []string {
	not := pick(random, []string{"", "! "})
	port := daemon.TargetPort + random.IntN(ports)
	return []string{
		fmt.Sprintf("-p tcp -m tcp %s--dport %d", not, port), fmt.Sprintf("-p tcp -m tcp %s--sport 20000:40000", not),
		fmt.Sprintf("-p tcp -m tcp %s--tcp-flags SYN,ACK,FIN,RST SYN", not), "-p tcp -m tcp " + not + "--syn",
		fmt.Sprintf("-p udp -m udp %s--dport %d:%d", not, daemon.TargetPort, port), fmt.Sprintf("-p udp -m udp %s--sport 0:30000", not),
		fmt.Sprintf("-p sctp -m sctp %s--dport %d", not, port), "-p sctp -m sctp --chunk-types any INIT,DATA",
		"-p sctp -m sctp --chunk-types all INIT,DATA", "-p sctp -m sctp --chunk-types only INIT", "-p sctp -m sctp " + not + "--sport 20000:40000",
		fmt.Sprintf("-p tcp -m multiport %s--dports %d,%d:%d", not, port, port+5, port+7), fmt.Sprintf("-p udp -m multiport %s--ports 1:1000,%d", not, port),
		fmt.Sprintf("-p sctp -m multiport %s--sports 11000:20000", not), not + "-p tcp", not + "-p udp",
	}
}

// hookMatches are matches for some chains only.
func (r *rig) hookMatches(h hooked) (out []string) {
	incoming := h.chain == "PREROUTING" || h.chain == "INPUT" || h.chain == "FORWARD"
	if incoming {
		out = append(out, "-i eth0", "! -i eth0", "-i eth+", "! -i eth+", "-m mac --mac-source 02:00:00:00:00:01")
	} else {
		out = append(out, "-o eth0", "! -o eth+", "-m owner ! --socket-exists", "-m owner --socket-exists", "-m owner --uid-owner 0")
	}
	if h.chain == "FORWARD" {
		out = append(out, "-o eth0", "-m physdev ! --physdev-is-bridged", "-m physdev --physdev-is-bridged", "-m physdev --physdev-is-in")
	}
	if h.chain == "PREROUTING" && h.table != "nat" {
		out = append(out, "-m rpfilter", "-m rpfilter --invert", "-m rpfilter --loose --validmark")
	}
	if h.chain == "PREROUTING" && h.table == "mangle" {
		out = append(out, "-m socket", "-m socket --transparent")
	}
	return out
}

// targets are the targets for a chain, after the matches that they need.
func (r *rig) targets(random *rand.Rand, f model.Family, h hooked) []string {
	pod := pick(random, r.servers[:3]).Addr(f) // others answer the host outside by another way
	reject := pick(random, [][]string{
		{"REJECT --reject-with icmp-port-unreachable", "-p tcp|REJECT --reject-with tcp-reset"}, {"REJECT --reject-with icmp6-port-unreachable", "-p tcp|REJECT --reject-with tcp-reset"},
	}[f])
	out := []string{"ACCEPT", "RETURN", "SUB-" + h.table, "SUB-" + h.table, "NFLOG --nflog-group 5", "LOG"}
	switch {
	case h.table == "raw":
		return append(out, "CT --zone 0") // before connection tracking, answers could be dropped, too
	case h.table == "mangle":
		out = append(out, "MARK --set-xmark 0x1/0x1", "MARK --and-mark 0xfffffffe", "MARK --xor-mark 0x3", "CONNMARK --set-xmark 0x1/0x1",
			"CONNMARK --save-mark --nfmask 0x3 --ctmask 0x3", "CONNMARK --restore-mark", "DSCP --set-dscp 1")
		if h.chain == "FORWARD" {
			out = append(out, "-p tcp --tcp-flags SYN,RST SYN|TCPMSS --clamp-mss-to-pmtu", "CLASSIFY --set-class 1:1")
		}
	case h.table == "nat" && h.chain == "POSTROUTING":
		out = append(out, "MASQUERADE", "MASQUERADE", "SNAT --to-source "+r.Node.Addr(f).String())
	case h.table == "nat":
		ends := [...]string{"%s:%d-%d", "[%s]:%d-%d"}[f]
		out = append(out, "-p udp|DNAT --to-destination "+fmt.Sprintf(ends, pod, daemon.TargetPort+1, daemon.TargetPort+2),
			"DNAT --to-destination "+pod.String(), pick(random, []string{"-p tcp", "-p udp", "-p sctp"})+"|DNAT --to-destination "+netip.AddrPortFrom(pod, daemon.TargetPort+2).String())
		if h.chain == "PREROUTING" {
			out = append(out, fmt.Sprintf("-p tcp|REDIRECT --to-ports %d", daemon.TargetPort), fmt.Sprintf("-p udp|REDIRECT --to-ports %d-%d", daemon.TargetPort+1, daemon.TargetPort+2))
		}
	default:
		out = append(out, "DROP", reject, "REJECT")
	}
	return out
}
