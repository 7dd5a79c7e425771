package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
)

// forwardingSettings are the sysctls of all interfaces and of one. An IPv4 packet is forwarded by
// that of the interface that it comes in by (ip_route_input_slow), an IPv6 packet by that of all,
// or since Linux 6.17 by that of the interface (ip6_forward).
var forwardingSettings = [...]struct{ all, one string }{
	model.IPv4: {"net.ipv4.ip_forward", "net.ipv4.conf.%s.forwarding"},
	model.IPv6: {"net.ipv6.conf.all.forwarding", "net.ipv6.conf.%s.force_forwarding"},
}

// Forwarding returns whether the node forwards packets of a family: "on", "off" or "not known".
func Forwarding(proc string, f model.Family) string {
	switch all, err := readSysctl(proc, forwardingSettings[f].all); {
	case err != nil:
		return "not known"
	case all == "0":
		return "off"
	}
	return "on"
}

// NotForwarding returns the interfaces from which the node forwards no packets of a family, each
// with the sysctl that is 0. A kernel without the family has none.
func NotForwarding(proc string, f model.Family) map[string]string {
	s, off := forwardingSettings[f], map[string]string{}
	all, err := readSysctl(proc, s.all)
	if err != nil || f == model.IPv6 && all != "0" {
		return nil
	}
	dir := filepath.Join(proc, "sys/net", strings.ToLower(f.String()), "conf")
	interfaces, _ := os.ReadDir(dir) // exists with the setting
	for _, i := range interfaces {
		name := fmt.Sprintf(s.one, strings.ReplaceAll(i.Name(), ".", "/"))
		one, err := readSysctl(proc, name)
		if one != "0" && one != "" || err != nil && f == model.IPv4 { // it has just gone
			continue
		}
		if all == "0" {
			name = s.all
		}
		off[i.Name()] = name
	}
	return off
}

// readSysctl returns the value of a sysctl. As in sysctl(8), a slash in its name is a dot in that
// of an interface.
func readSysctl(proc, name string) (string, error) {
	path := strings.NewReplacer(".", "/", "/", ".").Replace(name)
	text, err := os.ReadFile(filepath.Join(proc, "sys", path))
	return strings.TrimSpace(string(text)), err
}

// A DropPolicy is a base chain of nf_tables that drops what no rule accepts.
type DropPolicy struct {
	*dump.Table
	Chain      string
	Rules      bool   // it has rules
	AcceptedBy string // what in it may accept the traffic of pods
}

func (p *DropPolicy) String() string {
	return fmt.Sprintf("policy drop in chain %s of table %s", p.Chain, p.Table)
}

// ForwardPolicies returns those at the hook forward where nothing may accept the traffic of pods.
func ForwardPolicies() (list []DropPolicy, err error) {
	tables, err := dump.Tables(0)
	if err != nil {
		return nil, err
	}
	r, err := dump.Open(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	list, err = dropPolicies(tables, r, simulate.HookForward)
	return slices.DeleteFunc(list, func(p DropPolicy) bool { return p.AcceptedBy != "" }), err
}

func dropPolicies(tables []dump.Table, r *dump.Reader, hook simulate.Hook) (list []DropPolicy, err error) {
	for i := range tables {
		for _, c := range tables[i].Chains {
			if tables[i].Dormant || c.Hook != hook || !c.Drop {
				continue
			}
			rules, err := r.Rules(tables[i].Chain(c.Name))
			if err != nil {
				return nil, err
			}
			list = append(list, DropPolicy{&tables[i], c.Name, len(rules) > 0, acceptedBy(rules)})
		}
	}
	return list, nil
}
