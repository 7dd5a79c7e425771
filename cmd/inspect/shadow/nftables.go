package shadow

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net/netip"
	"regexp"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/nft/simulate"
)

// NFTables reads the rules of kube-proxy's nftables mode: the tables ip and ip6 kube-proxy. If
// kube-vmap has suspended them, or the tables are dormant, they are read as if they were in
// effect.
type NFTables struct{ Kernel *dump.Rules }

// Mode implements [ruleSource].
func (NFTables) Mode() string { return "nftables" }

// Open implements [ruleSource]. Chains of Services have a slash in their names.
func (n NFTables) Open(f model.Family) (*Rules, error) {
	name := simulate.Table{Family: nft.FamilyName(f), Name: "kube-proxy"}
	isStatic := func(chain string) bool { return !strings.Contains(chain, "/") }
	t, err := n.Kernel.Table(name, isStatic, kubeproxy.SuspendComment)
	if err != nil {
		return nil, err
	}
	frontends, err := nftablesFrontends(t, f)
	if err != nil {
		return nil, err
	}
	return &Rules{
		Rules: t, Dormant: t.Dormant, Frontends: frontends, Forget: t.Forget,
		Bounds: func() []netip.Addr { return nftablesBounds(t, f) },
	}, nil
}

// nftablesFrontends returns the keys of kube-proxy's maps. The error is [fs.ErrNotExist] if the
// table has none of them: it is only a marker for programs that look for kube-proxy.
func nftablesFrontends(t *dump.TableRules, f model.Family) ([]Frontend, error) {
	var out []Frontend
	found := false
	seen := map[model.Match]bool{}
	for _, m := range [...]string{"service-ips", "service-nodeports", "no-endpoint-services", "no-endpoint-nodeports"} {
		err := t.Keys(m, func(key []byte, e simulate.Element) {
			match, ok := matchOf(f, key)
			if ok && !seen[match] {
				seen[match] = true
				out = append(out, Frontend{match, serviceOf(e)})
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		found = found || err == nil
	}
	if !found {
		return nil, fs.ErrNotExist
	}
	return out, nil
}

// nftablesBounds returns the addresses at the bounds of source ranges, which kube-proxy
// writes as sets that belong to a rule. The end of an interval is the address after it.
func nftablesBounds(t *dump.TableRules, f model.Family) (out []netip.Addr) {
	t.Bounds(func(b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok || model.FamilyOf(a) != f {
			return
		}
		out = append(out, a)
		if before := a.Prev(); before.IsValid() {
			out = append(out, before)
		}
	})
	return out
}

// matchOf decodes a key of an address, protocol and port, or of the last two.
func matchOf(f model.Family, key []byte) (m model.Match, ok bool) {
	const fields = 8 // protocol and port, each padded to 4 bytes
	if len(key) < fields {
		return m, false
	}
	at := len(key) - fields
	m = model.Match{Family: f, Protocol: model.Protocol(key[at]), Port: binary.BigEndian.Uint16(key[at+4:])}
	if at > 0 {
		m.Addr, ok = netip.AddrFromSlice(key[:at])
		return m, ok
	}
	return m, true
}

// chainName is the name of a chain of a Service: a hash, and namespace, name, protocol and
// port, cut if it is too long.
var chainName = regexp.MustCompile(`^[a-z-]+-[A-Z2-7]{8}-([^/]+)/([^/]+)/(?:tcp|udp|sctp)/(.*)$`)

// serviceOf returns the name of an element's Service port.
func serviceOf(e simulate.Element) string {
	if e.Verdict == nil {
		return e.Comment
	}
	part := chainName.FindStringSubmatch(e.Verdict.Chain)
	switch {
	case part == nil:
		return e.Comment
	case part[3] == "":
		return part[1] + "/" + part[2]
	}
	return part[1] + "/" + part[2] + ":" + part[3]
}
