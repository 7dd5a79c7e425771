package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// Options are the flags of the command.
type Options struct {
	From, To  string
	Interface string // on which the packet arrives
	Output    string // text, json, yaml
	Namespace string // of a Service that To names
	// Observe is how long to observe whether endpoints respond.
	Observe time.Duration
	// Probe asks endpoints by a connect.
	Probe bool
}

// Packet returns the packet of the options.
func (o Options) Packet() (p simulate.Packet, err error) {
	if o.From == "" || o.To == "" {
		return p, errors.New("--from and --to: both must be given, for instance --from 10.244.1.7 --to 10.96.0.10:53/udp")
	}
	if p.From, p.FromPort, err = parseFrom(o.From); err != nil {
		return p, fmt.Errorf("--from: %w", err)
	}
	if p.To, p.Protocol, err = parseTo(o.To); err != nil {
		return p, fmt.Errorf("--to: %w", err)
	}
	if model.FamilyOf(p.From) != p.Family() {
		return p, fmt.Errorf("--from and --to: %s is %s, %s is %s; they must be of one family",
			p.From, model.FamilyOf(p.From), p.To.Addr(), p.Family())
	}
	return p, nil
}

// parseFrom reads "10.244.1.7", "10.244.1.7:40000", "fd00::7", "[fd00::7]:40000".
func parseFrom(text string) (netip.Addr, uint16, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return plain(a)(0)
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}, 0, fmt.Errorf("%q is not an address: write 10.244.1.7, 10.244.1.7:40000 or [fd00::7]:40000; "+
			"kubectl get pod -o wide shows that of a pod", text)
	}
	return plain(a.Addr())(a.Port())
}

// plain refuses addresses with a zone.
func plain(a netip.Addr) func(port uint16) (netip.Addr, uint16, error) {
	return func(port uint16) (netip.Addr, uint16, error) {
		if a.Zone() != "" {
			return a, port, fmt.Errorf("%s is a link-local address, which no Service has", a)
		}
		return a.Unmap(), port, nil
	}
}

// parseTo reads "10.96.0.10:53/udp" and "[fd00::a]:53/udp"; without a protocol it is
// TCP.
func parseTo(text string) (to netip.AddrPort, p model.Protocol, err error) {
	where, protocol, named := strings.Cut(text, "/")
	if p = model.TCP; named {
		if p, err = parseProtocol(protocol); err != nil {
			return to, p, err
		}
	}
	if to, err = netip.ParseAddrPort(where); err == nil && to.Port() != 0 {
		a, _, err := plain(to.Addr())(0)
		return netip.AddrPortFrom(a, to.Port()), p, err
	}
	rest := ""
	if named {
		rest = "/" + p.String()
	}
	if with, is := bracketed(where); is {
		return to, p, fmt.Errorf("%q is ambiguous: write %s%s", text, with, rest)
	}
	if a, err := netip.ParseAddr(strings.Trim(where, "[]")); err == nil {
		return to, p, fmt.Errorf("%q has no port: write %s%s", text, netip.AddrPortFrom(a, 80), rest)
	}
	if host, _, ok := strings.Cut(where, ":"); ok && host != "" && !strings.ContainsAny(host, ".[") && !isNumber(host) {
		return to, p, fmt.Errorf("%q is a name: write svc/%s, or the address, which kubectl get service shows", host, where)
	}
	return to, p, fmt.Errorf("%q is not an address with a port: write 10.96.0.10:53/udp or [fd00::a]:53/udp", text)
}

// bracketed reads an IPv6 address and port without brackets: "fd00::1:80" may mean
// "[fd00::1]:80".
func bracketed(text string) (at netip.AddrPort, is bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return at, false
	}
	a, err := netip.ParseAddr(text[:i])
	port, bad := strconv.ParseUint(text[i+1:], 10, 16)
	return netip.AddrPortFrom(a, uint16(port)), err == nil && bad == nil && a.Is6() && port != 0
}

func isNumber(s string) bool { _, err := strconv.ParseUint(s, 16, 64); return err == nil }

func parseProtocol(text string) (model.Protocol, error) {
	for _, p := range model.Protocols {
		if strings.EqualFold(p.String(), text) {
			return p, nil
		}
	}
	return 0, fmt.Errorf("%q is not a protocol of Services: write tcp, udp or sctp", text)
}
